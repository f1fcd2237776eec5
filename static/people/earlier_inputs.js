// Previous inputs of a tool for the arrow keys, newest last. They are kept while the tab is open.
import { parseExact } from "./exact_json.js";

const MAX_KEPT = 50;

export class EarlierInputs {
  #key;
  #known;
  #at = null; // place among the inputs while they are leafed through
  #draft = null; // what stood in the form before

  constructor(environment, tool) {
    this.#key = `orsweb:play:${environment}:${tool}`;
    try {
      this.#known = parseExact(sessionStorage.getItem(this.#key) ?? "[]");
    } catch {
      this.#known = [];
    }
  }

  add(value) {
    const text = JSON.stringify(value);
    this.#known = [...this.#known.filter((one) => JSON.stringify(one) !== text), value].slice(-MAX_KEPT);
    this.#at = this.#draft = null;
    try {
      sessionStorage.setItem(this.#key, JSON.stringify(this.#known));
    } catch {
      sessionStorage.removeItem(this.#key); // full: what is known stays in memory
    }
  }

  // The input `by` places after the one that is shown; undefined if there is none.
  leaf(by, shown) {
    const isNewest = this.#at === null && JSON.stringify(this.#known.at(-1)) === JSON.stringify(shown);
    const at = (this.#at ?? this.#known.length) + (isNewest && by < 0 ? by - 1 : by);
    if (at < 0 || at > this.#known.length || (this.#at === null && by > 0)) return undefined;
    if (this.#at === null) this.#draft = shown;
    this.#at = at === this.#known.length ? null : at;
    return this.#at === null ? this.#draft : this.#known[at];
  }
}
