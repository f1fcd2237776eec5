// Plays a recorded episode: goes from step to step when their recorded times have come, at the chosen speed.
const SPEED = "orsweb:replay-speed";
const MAX_TIMER_MS = 2 ** 31 - 1; // a browser calls timers that take longer at once

export class Playback {
  #steps;
  #timeline;
  #go;
  #button;
  #choice;
  #isOn = false;
  #index = 0;
  #at = 0; // recorded time, in ms, at `since`
  #since = 0;
  #speed = 1; // of the time since then
  #timer = 0;

  constructor(controls, steps, timeline, go) {
    this.#steps = steps;
    this.#timeline = timeline;
    this.#go = go;
    this.#button = controls.querySelector("[data-play]");
    this.#choice = controls.querySelector("[data-speed]");
    const kept = localStorage.getItem(SPEED);
    if ([...this.#choice.options].some(({ value }) => value === kept)) this.#choice.value = kept;
    this.#button.addEventListener("click", () => this.toggle());
    this.#choice.addEventListener("change", () => this.#changeSpeed());
  }

  // Start or stop. After the last step, it starts at the first. Returns false if there is nothing to play.
  toggle() {
    if (this.#isOn) return void this.stop();
    if (this.#steps.known < 2) return false;
    this.#show(true);
    if (this.#index >= this.#steps.known - 1) this.#go(0);
    this.#begin(this.#steps.starts[this.#index]);
  }

  stop() {
    if (!this.#isOn) return;
    this.#timeline.hold(this.#now());
    this.#show(false);
  }

  // Choose the next speed up (by 1) or down (by -1).
  changeSpeed(by) {
    const { selectedIndex, options } = this.#choice;
    this.#choice.selectedIndex = Math.max(0, Math.min(options.length - 1, selectedIndex + by));
    this.#changeSpeed();
  }

  // The page has gone to a step, and plays on from there.
  moved(index) {
    this.#index = index;
    if (this.#isOn) this.#begin(this.#steps.starts[index] ?? 0);
  }

  #changeSpeed() {
    const now = this.#now();
    localStorage.setItem(SPEED, this.#choice.value);
    if (this.#isOn) this.#begin(now);
  }

  #show(isOn) {
    clearTimeout(this.#timer);
    this.#isOn = isOn;
    this.#button.setAttribute("aria-pressed", String(isOn));
    this.#button.textContent = isOn ? "Pause" : "Play";
  }

  #now() {
    return this.#isOn ? this.#at + (performance.now() - this.#since) * this.#speed : this.#at;
  }

  #begin(at) {
    clearTimeout(this.#timer);
    this.#at = at;
    this.#since = performance.now();
    this.#speed = Number(this.#choice.value);
    const next = this.#steps.starts[this.#index + 1];
    if (next === undefined) return this.#show(false);
    const ms = Math.max(0, next - at) / this.#speed;
    this.#timeline.run(at, Math.max(at, next), ms);
    this.#timer = setTimeout(() => this.#go(this.#index + 1), Math.min(ms, MAX_TIMER_MS));
  }
}
