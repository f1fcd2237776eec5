/* h and l lead to the previous and the next group of the training step. */
import { shortcutOf } from "../orsweb/keys.js";

document.addEventListener("keydown", (event) => {
  const rel = { h: "prev", l: "next" }[shortcutOf(event)];
  if (rel) document.querySelector(`.actions a[rel="${rel}"]`)?.click();
});
