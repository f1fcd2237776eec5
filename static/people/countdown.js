// Counts down the times of the task that waits, and asks every few seconds how it stands, because it may be open in another tab.
// When it has ended, the page is loaded again.
import { durationText } from "./clock.js";

const TICK_MS = 1000;
const FIRST_MS = 1000; // the page of the task that was left for this one is closed by then
const REFRESH_MS = 5000;

let place = document.querySelector("[data-waiting]");
let since = performance.now();

setInterval(() => {
  const passed = (performance.now() - since) / 1000;
  for (const time of place.querySelectorAll("[data-countdown]")) time.textContent = durationText(Math.max(0, time.dataset.countdown - passed));
}, TICK_MS);

async function refresh() {
  const answer = await fetch(location.href).catch(() => null);
  setTimeout(refresh, REFRESH_MS);
  if (!answer || answer.status >= 500) return; // no connection, or no server at the moment
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const waiting = page.querySelector("[data-waiting]");
  if (!waiting) return location.reload();
  place.replaceWith(waiting);
  place = waiting;
  since = performance.now();
}

setTimeout(refresh, FIRST_MS);
