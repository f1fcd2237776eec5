// Search in the episode: requests which steps contain the text, moves through them, and marks the text on the page.
import { isComposing } from "../orsweb/keys.js";

export class Finder {
  steps = []; // indexes of the steps that hold it
  #form;
  #input;
  #count;
  #address;
  #text = "";
  #found;

  // `found(steps)` is called with the indexes; `go(step)` shows a step; `at()` returns the current one.
  constructor(form, address, { found, go, at }) {
    this.#form = form;
    this.#input = form.querySelector("input");
    this.#count = form.querySelector("[data-find-count]");
    this.#address = address;
    this.#found = found;
    form.addEventListener("submit", (event) => event.preventDefault());
    this.#input.addEventListener("keydown", async (event) => {
      if (isComposing(event)) return;
      if (event.key === "Escape") return this.clear();
      if (event.key !== "Enter") return;
      event.preventDefault();
      const isNew = await this.#search();
      const next = this.#next(at(), event.shiftKey ? -1 : 1, isNew);
      if (next !== undefined) go(next);
      this.#say(next);
    });
    this.#input.addEventListener("input", () => this.#input.value || this.clear());
  }

  focus() {
    this.#input.focus();
    this.#input.select();
  }

  clear() {
    this.#input.value = this.#text = "";
    this.steps = [];
    this.#count.textContent = "";
    this.#found([]);
    this.mark();
  }

  async #search() {
    const text = this.#input.value.trim();
    if (text === this.#text) return false;
    if (!text) return this.clear(), false;
    this.#text = text;
    this.#count.textContent = "…";
    const answer = await fetch(`${this.#address}?text=${encodeURIComponent(text)}`);
    const { steps, is_all: isAll } = answer.ok ? await answer.json() : { steps: [], is_all: true };
    if (text !== this.#text) return false;
    this.steps = steps;
    this.#form.dataset.isAll = String(isAll);
    this.#found(steps);
    this.mark();
    return true;
  }

  #next(at, by, isNew) {
    if (by < 0) return this.steps.findLast((step) => step < at) ?? this.steps.at(-1);
    return this.steps.find((step) => (isNew ? step >= at : step > at)) ?? this.steps[0];
  }

  #say(step) {
    const more = this.#form.dataset.isAll === "false" ? " or more" : "";
    const total = this.steps.length;
    this.#count.textContent = total ? `${this.steps.indexOf(step) + 1} of ${total}${more} step${total === 1 ? "" : "s"}` : this.#text && `no matches${more && " so far"}`;
  }

  // Mark the text on the page without changing the document.
  mark() {
    if (!CSS.highlights) return;
    CSS.highlights.delete("found");
    if (!this.#text) return;
    const wanted = fold(this.#text).text;
    const ranges = [];
    for (const details of document.querySelectorAll(":is(.message details, .repeats):not([open])")) details.open = fold(details.textContent).text.includes(wanted);
    for (const block of document.querySelectorAll(".transcript .said-text, .transcript .code.error, .transcript .tool-name")) {
      const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
      while (walker.nextNode() && ranges.length < 2000) mark(walker.currentNode, wanted, ranges);
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }
}

function mark(node, wanted, ranges) {
  const { text, starts, ends } = fold(node.data);
  for (let at = wanted ? text.indexOf(wanted) : -1; at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
    const range = new Range();
    range.setStart(node, starts[at]);
    range.setEnd(node, ends[at + wanted.length - 1]);
    ranges.push(range);
  }
}

// Return the text without case, accents and invisible characters, as the server compares it, and where the character of each of its units starts and ends in `data`.
function fold(data) {
  const starts = [];
  const ends = [];
  let text = "";
  let at = 0;
  for (const char of data) {
    const folded = char < "\x80" ? char.toLowerCase() : foldLetter(char);
    for (let unit = 0; unit < folded.length; unit++) starts.push(at), ends.push(at + char.length);
    at += char.length;
    if (!folded && ends.length) ends[ends.length - 1] = at; // an accent is marked with its letter
    text += folded;
  }
  return { text, starts, ends };
}

function foldLetter(char) {
  const plain = char.normalize("NFKD").replace(/[\u0300-\u036f]|\p{Default_Ignorable_Code_Point}/gu, "");
  return (plain === "ı" ? plain : plain.toUpperCase().toLowerCase()).normalize("NFC"); // ß and ss are the same, ı and i are not
}
