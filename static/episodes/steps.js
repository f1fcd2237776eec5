// Short facts of all steps of an episode, fetched in parts, for the step list, the chart and the keys.
import { MIN_SHOWN } from "../orsweb/figures.js";

export class Steps extends EventTarget {
  tools = []; // name per step
  states = []; // "o", "r" (refused) or "f" (failed) per step
  reasons = new Map(); // step that was refused or failed, or whose reward was no number -> why, if that is known
  rewards = []; // number or null per step
  running = []; // the return so far per step, or null
  starts = []; // milliseconds after the episode was created at which each step's request came
  waits = []; // milliseconds that each step waited for the setup and other calls
  durations = []; // milliseconds that each step took after that
  total = 0; // steps that the episode has; the arrays may still be shorter
  status = "running";
  #place;
  #definition;
  #scale;
  #reading = null;
  #again = false;
  #sum = 0;
  #count = 0;
  #last = null;
  #most = null;

  constructor({ place, definition, low, high, total, status }) {
    super();
    this.#place = place;
    this.#definition = definition;
    this.#scale = { low, high };
    this.total = total;
    this.status = status;
  }

  get known() {
    return this.states.length;
  }

  // Load steps that are missing. Dispatches "change" after each part, "gone" if the episode was deleted, "failed" if it can't be read.
  read() {
    if (this.#reading) this.#again = true;
    else this.#reading = this.#readAll().finally(() => (this.#reading = null));
    return this.#reading;
  }

  async #readAll() {
    let before;
    do {
      before = this.known;
      this.#again = false;
      const answer = await fetch(`${this.#place}?first=${this.known}`, { headers: { Accept: "application/json" } }).catch(() => null);
      if (answer?.status === 404) return void this.dispatchEvent(new Event("gone"));
      if (!answer?.ok) return void this.dispatchEvent(new Event("failed"));
      this.#take(await answer.json());
    } while (this.#again || before < this.known && this.known < this.total);
  }

  #take(piece) {
    if (piece.first !== this.known) return;
    for (const [n, state] of [...piece.state].entries()) {
      this.tools.push(piece.tools[piece.tool[n]]);
      this.states.push(state);
      if (piece.reason[piece.first + n]) this.reasons.set(piece.first + n, piece.reason[piece.first + n]);
      this.rewards.push(piece.reward[n]);
      this.running.push(this.#add(piece.reward[n]));
    }
    this.starts.push(...piece.start);
    this.waits.push(...piece.wait);
    this.durations.push(...piece.duration);
    this.total = Math.max(piece.total, this.known);
    this.status = piece.status;
    this.dispatchEvent(new Event("change"));
  }

  #add(reward) {
    if (reward !== null) {
      this.#sum = Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, this.#sum + reward));
      this.#count += 1;
      this.#last = reward;
      this.#most = this.#most === null ? reward : Math.max(this.#most, reward);
    }
    if (this.#definition === "sum") return this.#sum;
    if (this.#definition === "mean") return this.#count ? this.#sum / this.#count : null;
    return this.#definition === "last" ? this.#last : this.#most;
  }

  // Position on the scale of rewards, -3 … 3, like on the server.
  level(reward) {
    if (Math.abs(reward) < MIN_SHOWN) return 0;
    const { low, high } = this.#scale;
    let span = reward > 0 ? high : Math.abs(low);
    if (span <= 0) span = Math.max(Math.abs(low), Math.abs(high)) || 1;
    return Math.sign(reward) * Math.ceil(3 * Math.min(1, Math.abs(reward) / span) - 1e-9);
  }

  // The first index from `at` on, in steps of `by`, for which `holds` is true; -1 if there is none.
  next(at, by, holds) {
    for (let n = at + by; n >= 0 && n < this.known; n += by) if (holds(n)) return n;
    return -1;
  }
}
