// Counts down the time for which a paused task is kept, and loads the page again when it is over.
import { durationText } from "./clock.js";

const TICK_MS = 1000;
const LATE_MS = 2000; // the server ends the task first

for (const place of document.querySelectorAll("[data-countdown]")) {
  const end = performance.now() + 1000 * Number(place.dataset.countdown);
  const timer = setInterval(() => {
    const seconds = (end - performance.now()) / 1000;
    place.textContent = durationText(Math.max(0, seconds));
    if (seconds > 0) return;
    clearInterval(timer);
    setTimeout(() => location.reload(), LATE_MS);
  }, TICK_MS);
}
