// The times of a play: since its start, until its time is over or its session closes, and the duration of each running call.
const TICK_MS = 1000;
const WARN_SECONDS = 60;

// Dispatches "soon" when the session is about to close because nothing is done, "later" when it no longer is, and "last" when the time
// for the task is nearly over.
export class Clock extends EventTarget {
  #page;
  #started = 0; // performance.now() at the beginning
  #expires = null; // …at the expiry; null: not known
  #over = null; // …when the time for the task is over; null: it is not limited
  #calls = new Map(); // task_id -> {tool, since}
  #isSoon = false;
  #isLast = false;
  #timer;

  constructor(page) {
    super();
    this.#page = page;
    this.#timer = setInterval(() => this.#draw(), TICK_MS);
  }

  set({ elapsed_seconds: elapsed, remaining_seconds: remaining, time_left_seconds: left = null }) {
    const now = performance.now();
    if (elapsed !== undefined) this.#started = now - 1000 * elapsed;
    this.#expires = now + 1000 * remaining;
    this.#over = left === null ? null : now + 1000 * left;
    this.#draw();
  }

  setCalls(calls) {
    this.#calls.clear();
    for (const call of calls) this.addCall(call);
    this.#draw();
  }

  addCall({ tool, task_id: id, elapsed_ms: elapsed }) {
    this.#calls.set(id, { tool, since: performance.now() - elapsed });
    this.#draw();
  }

  endCall(id) {
    this.#calls.delete(id);
    this.#draw();
  }

  stop() {
    clearInterval(this.#timer);
    this.#calls.clear();
    this.#draw();
    const expiry = this.#page.querySelector("[data-expiry]");
    if (expiry) expiry.textContent = "";
  }

  #draw() {
    const now = performance.now();
    if (this.#started) this.#page.querySelector("[data-clock]").textContent = durationText((now - this.#started) / 1000);
    this.#drawExpiry(now);
    this.#drawTimeLeft(now);
    const place = this.#page.querySelector("[data-running-calls]");
    place.replaceChildren(...[...this.#calls.values()].map((call) => line(call, now)));
  }

  #drawTimeLeft(now) {
    const place = this.#page.querySelector("[data-time-left]");
    if (this.#over === null || !place) return;
    const seconds = Math.max(0, (this.#over - now) / 1000);
    const isLast = seconds < WARN_SECONDS;
    place.textContent = durationText(Math.ceil(seconds));
    place.parentElement.classList.toggle("soon", isLast);
    if (isLast && !this.#isLast) this.dispatchEvent(new Event("last"));
    this.#isLast = isLast;
  }

  // A running call keeps the session open.
  #drawExpiry(now) {
    if (this.#expires === null) return;
    const isHeld = this.#calls.size > 0;
    const seconds = Math.max(0, (this.#expires - now) / 1000);
    const isSoon = !isHeld && seconds < WARN_SECONDS;
    const place = this.#page.querySelector("[data-expiry]");
    const endsEarlier = this.#over !== null && this.#over <= this.#expires;
    place.textContent = isHeld || endsEarlier ? "" : `ends in ${durationText(seconds)} if idle`;
    place.classList.toggle("soon", isSoon);
    if (isSoon !== this.#isSoon) this.dispatchEvent(new Event(isSoon ? "soon" : "later"));
    this.#isSoon = isSoon;
  }
}

function line({ tool, since }, now) {
  const element = document.createElement("p");
  element.className = "running-call";
  const name = document.createElement("code");
  name.textContent = tool;
  element.append(name, ` is running · ${durationText((now - since) / 1000)}`);
  return element;
}

// 0:07, 12:40, 1:02:05
export function durationText(seconds) {
  const whole = Math.floor(seconds);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}
