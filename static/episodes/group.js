/* h and l lead to the previous and the next group of the training step. */
import { click, runShortcut } from "../orsweb/keys.js";

const KEYS = { h: () => click('.actions a[rel="prev"]'), l: () => click('.actions a[rel="next"]') };

document.addEventListener("keydown", (event) => runShortcut(event, KEYS));
