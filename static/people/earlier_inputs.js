// Previous entries of a tool's form for the arrow keys, newest last. They are kept while the tab is open.
const MAX_KEPT = 50;

export class EarlierInputs {
  #key;
  #entries;
  #at = null; // place among the entries while they are leafed through
  #draft = null; // what stood in the form before

  constructor(environment, tool) {
    this.#key = `orsweb:play:${environment}:${tool}`;
    this.#entries = JSON.parse(sessionStorage.getItem(this.#key) ?? "[]");
  }

  add(entry) {
    const text = JSON.stringify(entry);
    this.#entries = [...this.#entries.filter((one) => JSON.stringify(one) !== text), entry].slice(-MAX_KEPT);
    this.#at = this.#draft = null;
    try {
      sessionStorage.setItem(this.#key, JSON.stringify(this.#entries));
    } catch {
      sessionStorage.removeItem(this.#key); // full: they stay in memory
    }
  }

  // The entry `by` places after the one that is shown; undefined if there is none.
  leaf(by, entry) {
    const isNewest = this.#at === null && JSON.stringify(this.#entries.at(-1)) === JSON.stringify(entry);
    const at = (this.#at ?? this.#entries.length) + (isNewest && by < 0 ? by - 1 : by);
    if (at < 0 || at > this.#entries.length || (this.#at === null && by > 0)) return undefined;
    if (this.#at === null) this.#draft = entry;
    this.#at = at === this.#entries.length ? null : at;
    return this.#at === null ? this.#draft : this.#entries[at];
  }
}
