// The composer: tools as tabs, the form of the selected tool, its previous inputs. Dispatches "call" (detail: tool, number, anyway, and
// the entry of a form or the input of a control) and "typed".
import { isAlt, isComposing, isCovered, isTyping, keyOf, placeOf } from "../orsweb/keys.js";
import { mountForm } from "./form.js";
import { EarlierInputs } from "./earlier_inputs.js";

const RUNS = "Wait until the running call is done.";
const BRACKETS = { "[": -1, "]": 1 };
const WAITS = "It will be sent when the connection is back.";

export class Composer extends EventTarget {
  #element;
  #tools;
  #tabs;
  #panel;
  #environment;
  #ask;
  #forms = new Map(); // number of the tool -> its form
  #pasts = new Map();
  #chosen = 0;
  #isBusy = false; // from the press until the call is answered or refused
  #isWaiting = false; // until the connection is back nothing goes out
  #sent; // what stood in the lone field when it was sent
  #controls = []; // of the environment's hand_controls: {label, key, tool, input}

  constructor(element, environment, ask) {
    super();
    this.#element = element;
    this.#environment = environment;
    this.#ask = ask;
    this.#tools = JSON.parse(element.querySelector("#play-tools").textContent);
    this.#tabs = [...element.querySelectorAll("[data-tool]")];
    this.#panel = element.querySelector("[data-tool-panel]");
    this.#panel.addEventListener("submit", (event) => (event.preventDefault(), this.#call(false)));
    this.#panel.addEventListener("keydown", (event) => this.#heldInForm(event), { capture: true });
    this.#panel.addEventListener("keydown", (event) => this.#pressedInForm(event));
    this.#panel.addEventListener("input", () => this.#changed());
    this.#find("[data-call]").addEventListener("click", (event) => this.#clicked(event));
    this.#find("[data-anyway]").addEventListener("click", () => this.#call(true));
    for (const tab of this.#tabs) tab.addEventListener("click", () => this.choose(Number(tab.dataset.tool)));
    element.querySelector("[data-tool-tabs]").addEventListener("keydown", (event) => this.#pressedInTabs(event));
    document.addEventListener("keydown", (event) => this.#pressed(event));
    this.#controls = JSON.parse(element.querySelector("#play-controls")?.textContent ?? "[]");
    for (const button of element.querySelectorAll("[data-control]")) {
      button.addEventListener("click", () => this.press(this.#controls[Number(button.dataset.control)]));
    }
    const kept = this.#tools.findIndex((tool) => new Draft(tool.name).isLatest);
    if (this.#tools.length) this.#select(kept < 0 ? this.#likeliest() : kept);
    this.focus();
  }

  // The first tool that needs an input, so that the focus is in a field; one without input would be called by Enter.
  #likeliest() {
    const fields = ({ input_schema: schema }) => Object.keys(schema?.properties ?? {}).length;
    const found = [this.#tools.findIndex((tool) => fields(tool) && tool.input_schema.required?.length), this.#tools.findIndex(fields)];
    return Math.max(0, found.find((number) => number >= 0) ?? 0);
  }

  get #isPlain() {
    return "isPlain" in this.#element.dataset;
  }

  // The keys of the controls work where nothing is typed, so the focus is beside them.
  focus() {
    const byForm = this.#find("[data-by-form]");
    if (byForm && !byForm.open) this.#find("[data-pad]").focus({ preventScroll: true });
    else if (this.#tools.length) this.#form.focus();
  }

  hide() {
    this.#element.hidden = true;
  }

  choose(number) {
    if (!this.#tools[number]) return;
    const byForm = this.#find("[data-by-form]");
    if (byForm) byForm.open = true;
    this.#select(number);
    this.focus();
  }

  #select(number) {
    this.#chosen = number;
    const tool = this.#tools[number];
    for (const [n, tab] of this.#tabs.entries()) {
      tab.setAttribute("aria-selected", String(n === number));
      tab.tabIndex = n === number ? 0 : -1;
    }
    this.#tabs[number].scrollIntoView({ block: "nearest", inline: "nearest" });
    this.#panel.setAttribute("aria-labelledby", this.#tabs[number].id);
    this.#find("[data-tool-words]").textContent = this.#isPlain ? tool.description.replaceAll("`", "") : tool.description;
    this.#find("[data-tool-words]").hidden = !tool.description;
    this.#find("[data-call]").textContent = this.#isPlain ? tool.title : `Call ${tool.name}`;
    this.#find("[data-anyway]").hidden = true;
    this.#tell();
    this.#show(number, tool);
  }

  // The form of each tool keeps what was typed into it.
  #show(number, tool) {
    const place = this.#find("[data-tool-form]");
    for (const [n, one] of this.#forms) one.element.hidden = n !== number;
    if (this.#forms.has(number)) return;
    const element = document.createElement("div");
    place.append(element);
    this.#forms.set(number, { element, form: mountForm(element, tool, this.#ask, this.#first(number), new Draft(tool.name)) });
    this.#pasts.set(number, new EarlierInputs(this.#environment, tool.name));
  }

  // The form that came with the page, so that people can type immediately.
  #first(number) {
    return this.#element.querySelector(`template[data-first-form="${number}"]`)?.innerHTML;
  }

  get #form() {
    return this.#forms.get(this.#chosen).form;
  }

  // --- calling -------------------------------------------------------------------------------------------------------

  async #call(anyway) {
    if (this.#isBusy) return this.#say(this.#isWaiting ? WAITS : RUNS);
    this.#busy(true);
    const number = this.#chosen;
    const { form } = this.#forms.get(number);
    await form.ready;
    const isMissing = !anyway && form.stopsAtMissing();
    this.#find("[data-anyway]").hidden = !isMissing || this.#isPlain;
    if (isMissing) return this.free("Fill in the marked field first.");
    this.#sent = this.#line(number)?.value;
    this.dispatchEvent(new CustomEvent("call", { detail: { tool: this.#tools[number].name, entry: form.entry, anyway, number } }));
  }

  // Make the call of a control, or of a mark in the text. If the tool needs more, its form opens with what is known.
  press({ tool, input }) {
    if (this.#isBusy) return this.#say(this.#isWaiting ? WAITS : RUNS);
    const number = this.#tools.findIndex((one) => one.name === tool);
    const needed = this.#tools[number]?.input_schema?.required ?? [];
    if (needed.some((name) => !(name in input))) return this.#begin(number, input);
    this.#busy(true);
    this.dispatchEvent(new Event("typed"));
    this.dispatchEvent(new CustomEvent("call", { detail: { tool, input, anyway: false, number } }));
  }

  #begin(number, input) {
    this.choose(number);
    this.#form.begin(input);
  }

  // The call was answered or refused; the next one can start.
  free(words = "") {
    this.#busy(false);
    this.#say(words);
  }

  // Whether a call has to wait for the connection.
  wait(isWaiting) {
    this.#isWaiting = isWaiting;
    if (this.#isBusy) this.#tell();
  }

  #busy(isBusy) {
    this.#isBusy = isBusy;
    this.#find("[data-call]").setAttribute("aria-disabled", String(isBusy)); // disabled, it would lose the focus
    this.#element.toggleAttribute("data-busy", isBusy);
    this.#tell();
  }

  #tell() {
    this.#say(this.#isBusy && this.#isWaiting ? WAITS : "");
  }

  // The call was made: its entry can be recalled, and in a form with a single field, typing replaces it.
  called(number, entry) {
    if (entry === undefined) return; // called by a control
    this.#pasts.get(number).add(entry);
    new Draft(this.#tools[number].name).forget();
    const line = this.#line(number);
    if (line && line === document.activeElement && line.value === this.#sent) line.select();
  }

  // The one short field of a tool that has no other.
  #line(number) {
    const { element, form } = this.#forms.get(number);
    return form.isSingleShort ? element.querySelector("[data-line]") : null;
  }

  invalid(number, errors) {
    if (!this.#forms.has(number)) return this.#say(errors.map((one) => one.message).join(" "));
    this.#forms.get(number).form.showErrors(errors);
    const count = errors.length;
    if (this.#isPlain) return this.#say(count === 1 ? "Correct the marked field first." : "Correct the marked fields first.");
    this.#say(`Not called: ${count} value${count === 1 ? "" : "s"} ${count === 1 ? "is" : "are"} invalid. An agent's call would be refused and recorded.`);
    this.#find("[data-anyway]").hidden = false;
  }

  #changed() {
    this.#find("[data-anyway]").hidden = true;
    this.dispatchEvent(new Event("typed"));
  }

  // --- presses -------------------------------------------------------------------------------------------------------

  // The response may come between the two clicks of a double click.
  #clicked(event) {
    if (event.detail !== 2) return;
    event.preventDefault();
    if (!this.#isBusy) this.#say("Clicked twice, called once.");
  }

  // Holding Enter counts as one press, except where it breaks lines.
  #heldInForm(event) {
    const { key, repeat, target, ctrlKey, metaKey, shiftKey } = event;
    const breaksLine = target.matches("textarea") && !ctrlKey && !metaKey && (shiftKey || !target.matches("[data-line]"));
    if (key !== "Enter" || !repeat || breaksLine) return;
    event.preventDefault();
    event.stopPropagation();
  }

  #pressedInForm(event) {
    if (event.defaultPrevented || isComposing(event)) return;
    const sends = event.ctrlKey || event.metaKey || event.target.matches("select, input[type=radio]");
    if (event.key === "Enter" && sends) {
      event.preventDefault();
      this.#panel.requestSubmit();
    } else if ((event.key === "ArrowUp" || event.key === "ArrowDown") && this.#recalls(event)) {
      event.preventDefault();
      this.#recall(event.key === "ArrowUp" ? -1 : 1);
    }
  }

  // The arrow keys move the caret in a multi-line text and change a choice; elsewhere they are free.
  #recalls({ key, target, ctrlKey, altKey, shiftKey }) {
    if (altKey || shiftKey) return false;
    if (ctrlKey) return true;
    if (!target.matches("textarea, input:not([type=radio])")) return false;
    const beyond = key === "ArrowUp" ? target.value.slice(0, target.selectionStart) : target.value.slice(target.selectionEnd);
    return !beyond.includes("\n");
  }

  #recall(by) {
    const { form } = this.#forms.get(this.#chosen);
    const entry = this.#pasts.get(this.#chosen).leaf(by, form.entry);
    if (entry === undefined) return;
    form.set(entry);
    form.focus();
    const line = this.#line(this.#chosen);
    line?.setSelectionRange(line.value.length, line.value.length);
  }

  #pressedInTabs(event) {
    const key = keyOf(event);
    const by = { ArrowRight: 1, ArrowLeft: -1 }[key];
    const to = { Home: 0, End: this.#tools.length - 1 }[key] ?? (by && (this.#chosen + by + this.#tools.length) % this.#tools.length);
    if (to === undefined) return;
    event.preventDefault();
    this.choose(to);
    this.#tabs[to].focus();
  }

  #pressed(event) {
    if (this.#element.hidden || event.defaultPrevented || isComposing(event) || isCovered()) return;
    const types = isTyping(event);
    if (types && !isAlt(event)) return;
    const key = keyOf(event) || (isAlt(event) && placeOf(event));
    if (!key) return;
    const control = !types && !event.target.closest?.("[data-tool-panel]") && this.#controls.find((one) => isKey(one.key, event));
    if (control) {
      event.preventDefault();
      if (!event.repeat) this.press(control);
      return;
    }
    if (key in BRACKETS) {
      event.preventDefault();
      this.choose((this.#chosen + BRACKETS[key] + this.#tools.length) % this.#tools.length);
    } else if (/^[1-9]$/.test(key) && this.#tools[key - 1]) {
      event.preventDefault();
      this.choose(key - 1);
    } else if (key === "f" && !types) {
      event.preventDefault();
      this.choose(this.#chosen);
    }
  }

  // --- the rest ------------------------------------------------------------------------------------------------------

  #find(selector) {
    return this.#element.querySelector(selector);
  }

  #say(words) {
    this.#find("[data-call-state]").textContent = words;
  }
}

// Half-typed values of a tool in this play, kept while the tab is open so that they survive a reload.
class Draft {
  #key;
  #latest = `orsweb:draft:${location.pathname}`;

  constructor(tool) {
    this.#key = `${this.#latest}:${tool}`;
  }

  // Whether this tool's values were typed last.
  get isLatest() {
    return sessionStorage.getItem(this.#latest) === this.#key;
  }

  read() {
    return JSON.parse(sessionStorage.getItem(this.#key) ?? "null");
  }

  write(entry) {
    try {
      sessionStorage.setItem(this.#key, JSON.stringify(entry));
      sessionStorage.setItem(this.#latest, this.#key);
    } catch {
      this.forget(); // no room
    }
  }

  forget() {
    sessionStorage.removeItem(this.#key);
  }
}

// Whether a key of hand_controls, such as "p" or "Shift+ArrowUp", was pressed.
function isKey(key, event) {
  const wantsShift = key.startsWith("Shift+");
  const name = wantsShift ? key.slice("Shift+".length) : key;
  const meant = keyOf(event);
  const pressed = meant && name === event.key && !/^[a-z]$/i.test(name) ? name : meant; // a control may have a key of another script
  if (!name || !pressed) return false;
  return name.toLowerCase() === pressed.toLowerCase() && (wantsShift === event.shiftKey || (!wantsShift && pressed.length === 1 && name === pressed));
}
