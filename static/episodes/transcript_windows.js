// The transcript as windows of steps: a window is fetched when it gets close to the screen, and removed when it is far away. The
// visible steps stay in place while the heights of windows above them change.
import { isForPage } from "../orsweb/keys.js";

const NEAR = "1500px 0px";
const FAR = 9000; // pixels from the screen at which a window is emptied
const GUESS = 150; // pixels of a step that was never seen
const LATER = "[data-later]"; // stands for a step or messages for which the page had no room

export class Windows extends EventTarget {
  current = 0; // index of the step at the top of the screen, or the one that was gone to
  #box;
  #size;
  #address;
  #sections = []; // by number of the window
  #loading = new Map(); // number -> promise
  #total = 0;
  #goal = null; // step that is kept at the top until the reader scrolls
  #held = null; // {element, top}: what stays where it is
  #near;
  #sizes;

  constructor(box, { size, address, total, first }) {
    super();
    this.#box = box;
    this.#size = size;
    this.#address = address;
    this.#near = new IntersectionObserver((entries) => entries.forEach((entry) => this.#came(entry)), { rootMargin: NEAR });
    this.#sizes = new ResizeObserver(() => {
      this.#pad();
      this.#settle();
    });
    this.#adopt(box.querySelector(".window"), first, total);
    const bar = document.querySelector(".toolbar");
    if (bar) this.#sizes.observe(bar); // it grows when the timeline comes
    this.#pad();
    window.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    for (const kind of ["wheel", "touchmove", "pointerdown"]) window.addEventListener(kind, (event) => this.#took(event), { passive: true });
    window.addEventListener("keydown", (event) => ["PageDown", "PageUp", "ArrowDown", "ArrowUp", "Home", "End", " "].includes(event.key) && this.#took(event));
  }

  // Height of the bar that covers the top of the screen.
  get top() {
    const bar = document.querySelector(".toolbar");
    return bar && getComputedStyle(bar).position === "sticky" ? 48 + bar.offsetHeight : 104;
  }

  card(index) {
    return this.#sections[Math.floor(index / this.#size)]?.querySelector(`#step-${index}`) ?? null;
  }

  // Scroll step `index` to the top; resolves when it is there.
  async go(index) {
    if (!this.#total) return;
    index = Math.max(0, Math.min(this.#total - 1, index));
    this.#goal = index;
    this.#select(index);
    const number = Math.floor(index / this.#size);
    this.#align();
    await this.#load(number, this.card(index)?.matches(LATER));
    this.#align();
  }

  // Keep no step in its place, because the page is about to be scrolled elsewhere.
  letScroll() {
    this.#goal = this.#held = null;
  }

  // Scroll an element of the transcript to the top.
  show(element) {
    this.#goal = null;
    window.scrollBy({ top: element.getBoundingClientRect().top - this.top - 4, behavior: "instant" });
    this.#hold(element);
  }

  // Scroll to the top of the page, to the prompt before the first step.
  async home() {
    await this.go(0);
    this.#goal = null;
    window.scrollTo({ top: 0, behavior: "instant" });
    this.#select(0);
  }

  // Set the number of steps to `total`, and fetch the rest of the last window if it is on the page.
  async grow(total) {
    const before = this.#total;
    if (total <= before) return;
    this.#lay(total);
    const number = Math.floor(Math.max(0, before - 1) / this.#size);
    if (this.#sections[number]?.childElementCount || !before) await this.#load(number, true);
  }

  // Fetch the messages that have arrived for the windows that are on the page.
  async refresh() {
    for (const [number, section] of this.#sections.entries()) if (section.childElementCount || !this.#total) await this.#load(number, true);
  }

  // --- windows -------------------------------------------------------------------------------------------------------

  #adopt(section, first, total) {
    const number = Math.floor(first / this.#size);
    for (let n = 0; n < number; n++) this.#add(n, section);
    this.#sections[number] = section;
    this.#watch(section, number);
    for (const one of section.querySelectorAll(LATER)) this.#near.observe(one);
    this.#lay(total);
    const card = section.querySelector(".step");
    if (card) this.current = Number(card.dataset.index);
  }

  #lay(total) {
    this.#total = total;
    for (let n = this.#sections.length; n * this.#size < total; n++) this.#add(n, null);
    const last = this.#sections.at(-1);
    if (last && !last.childElementCount) last.style.height = `${this.#guess(this.#sections.length - 1)}px`;
  }

  #add(number, before) {
    const section = document.createElement("section");
    section.className = "window";
    this.#sections[number] = section;
    section.style.height = `${this.#guess(number)}px`;
    this.#box.insertBefore(section, before);
    this.#watch(section, number);
  }

  #guess(number) {
    return Math.max(1, Math.min(this.#size, this.#total - number * this.#size)) * GUESS;
  }

  #watch(section, number) {
    section.dataset.number = number;
    this.#near.observe(section);
    this.#sizes.observe(section);
  }

  #came(entry) {
    const number = Number(entry.target.closest(".window")?.dataset.number);
    if (entry.isIntersecting) this.#load(number, entry.target.matches(LATER));
    this.#letGo();
  }

  #load(number, again = false) {
    const section = this.#sections[number];
    if (!section || (section.childElementCount && !again)) return Promise.resolve();
    if (!this.#loading.has(number)) {
      const done = this.#fetch(section, number).finally(() => this.#loading.delete(number));
      this.#loading.set(number, done);
    }
    return this.#loading.get(number);
  }

  async #fetch(section, number) {
    const place = new URL(this.#address, location.href);
    place.searchParams.set("first", number * this.#size);
    const answer = await fetch(place, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (!answer?.ok) return this.#failed(section, number, answer?.status === 404);
    section.querySelector("[data-failed]")?.remove();
    const made = document.createElement("template");
    made.innerHTML = await answer.text();
    const goal = this.#stretch(section);
    this.#merge(section, [...made.content.children]);
    section.style.height = "";
    htmx.process(section);
    if (goal !== null) this.#hold(this.card(number * this.#size + goal));
    this.#settle();
    this.dispatchEvent(new CustomEvent("loaded", { detail: { section } }));
  }

  // Say in an empty window why it stays empty. It keeps its height, so that nothing moves.
  #failed(section, number, isGone) {
    if (isGone) this.dispatchEvent(new Event("gone"));
    if (section.querySelector(".step, .message")) return;
    const notice = document.createElement("p");
    notice.className = "notice";
    notice.dataset.kind = "warn";
    notice.dataset.failed = "";
    notice.textContent = isGone ? "This episode was deleted, so its other steps can't be shown." : "These steps could not be loaded. ";
    if (!isGone) {
      const button = document.createElement("button");
      button.className = "button";
      button.type = "button";
      button.textContent = "Try again";
      button.addEventListener("click", () => this.#load(number, true));
      notice.append(button);
    }
    section.replaceChildren(notice);
  }

  // Put new steps and messages in their places. Those that are there stay as the reader has expanded them.
  #merge(section, cards) {
    let before = null;
    for (const one of section.querySelectorAll(`${LATER}:not(.step)`)) one.remove();
    for (const card of cards) {
      const known = card.id ? this.#box.querySelector(`#${CSS.escape(card.id)}`) : null;
      const one = known?.parentElement === section && !known.matches(LATER) ? known : card;
      if (known !== one) known?.remove(); // a message at the end of the window before: a step has followed it
      const place = before ? before.nextElementSibling : section.firstElementChild;
      if (place !== one) section.insertBefore(one, place); // also one that is there: messages can arrive after their step
      before = one;
    }
  }

  // Step of an empty window that is at the top of the screen; null if the window isn't there.
  #stretch(section) {
    const box = section.getBoundingClientRect();
    if (this.#goal !== null || section.childElementCount || box.top >= this.top || box.bottom <= this.top) return null;
    return Math.floor(((this.top - box.top) / box.height) * this.#size);
  }

  #letGo() {
    for (const section of this.#sections) {
      if (!section.childElementCount) continue;
      const box = section.getBoundingClientRect();
      if (box.bottom > -FAR && box.top < window.innerHeight + FAR) continue;
      section.style.height = `${box.height}px`;
      section.replaceChildren();
    }
  }

  // --- scroll position ---------------------------------------------------------------------------------------------

  #align() {
    const at = this.card(this.#goal) ?? this.#sections[Math.floor(this.#goal / this.#size)];
    if (!at) return;
    window.scrollBy({ top: at.getBoundingClientRect().top - this.top - 4, behavior: "instant" });
  }

  // Let the browser scroll to where #align does: it goes to the step of the address once the page has loaded.
  #pad() {
    document.documentElement.style.scrollPaddingTop = `${this.top + 4}px`;
  }

  // After heights have changed, keep the visible step in its place.
  #settle() {
    if (this.#goal !== null) return this.#align();
    if (!this.#held?.element.isConnected) return;
    const moved = this.#held.element.getBoundingClientRect().top - this.#held.top;
    if (Math.abs(moved) >= 1) window.scrollBy({ top: moved, behavior: "instant" });
  }

  #hold(element) {
    this.#held = element && { element, top: this.top };
  }

  #took(event) {
    // a click on an element doesn't scroll; a click on the scroll bar has the page itself as its target
    if (event.type === "pointerdown" && event.target !== document.documentElement) return;
    if (event.type === "keydown" && !isForPage(event)) return;
    if (event.type !== "keydown" && event.target.closest?.(".step-rail, .replay-side, dialog")) return;
    this.#goal = null;
    this.dispatchEvent(new Event("scrolled"));
  }

  #scrolled() {
    if (this.#goal !== null) return;
    const at = this.#topmost();
    if (!at) return;
    this.#held = { element: at, top: at.getBoundingClientRect().top };
    const step = at.closest(".message") ? this.#stepAfter(at) : at;
    if (step?.dataset.index) this.#select(Number(step.dataset.index));
  }

  #stepAfter(message) {
    let at = message;
    while (at && !at.matches(".step")) at = at.nextElementSibling;
    return at;
  }

  // The step or the empty window at the top of the screen.
  #topmost() {
    const line = this.top + 24;
    const section = this.#sections.find((one) => one.getBoundingClientRect().bottom > line) ?? this.#sections.at(-1);
    if (!section?.childElementCount) return section;
    return [...section.children].find((card) => card.getBoundingClientRect().bottom > line) ?? section.lastElementChild;
  }

  #select(index) {
    if (index === this.current && this.card(index)?.classList.contains("current")) return;
    this.current = index;
    this.dispatchEvent(new Event("moved"));
  }
}
