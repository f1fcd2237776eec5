// A tool's form. The server renders it from the tool's JSON Schema, and again whenever its shape changes: an added item, another
// option, the JSON view. This module collects the values of the controls, replaces the HTML and keeps the focus.
//
//   const form = mountForm(element, tool, ask, html, draft)
//                             tool: {name}; ask(message): Promise of the response, see forms/answer.py; html: the initial form; without
//                             it, it is requested; draft: where half-typed values are kept, {read(), write(state)}
//   await form.value(anyway)  the input; throws an Error and marks controls that have no valid value. Required ones may be empty if `anyway`
//   await form.draft()        the input, or undefined if it isn't valid; marks nothing
//   await form.set(value, isWanted)   changes nothing if isWanted() is false when the server has responded
//   await form.begin(input)   enters some members; goes on with the others
//   await form.reset()     form.showErrors([{path, message}])     form.focus()
//   form.isSingleShort        whether the form is a single short field
import { isComposing } from "../orsweb/keys.js";
import { parseExact } from "./exact_json.js";

const ARROWS = { ArrowUp: ["up", "north", "n"], ArrowDown: ["down", "south", "s"], ArrowLeft: ["left", "west", "w"], ArrowRight: ["right", "east", "e"] };
const REPLACES = new Set(["show", "set"]); // operations that do not start from what is typed
const ENTERED = "[data-entered]:not([hidden])";

export function mountForm(element, tool, ask, html = "", draft = null) {
  return new Form(element, tool, ask, html, draft);
}

// A required field is empty.
export class Missing extends Error {}

class Form {
  #element;
  #tool;
  #ask;
  #draft;
  #work = Promise.resolve(); // operations go one after the other, each on what the one before left

  constructor(element, tool, ask, html, draft) {
    this.#element = element;
    this.#tool = tool;
    this.#ask = ask;
    this.#draft = draft;
    element.classList.add("form-place");
    element.addEventListener("click", (event) => this.#clicked(event));
    element.addEventListener("change", (event) => this.#changed(event));
    element.addEventListener("input", (event) => this.#entered(event.target));
    element.addEventListener("keydown", (event) => this.#pressed(event));
    const kept = draft?.read();
    if (html) this.#show(html, null);
    else if (!kept) this.reset();
    if (kept) this.#restore(kept);
  }

  // Show the half-typed values that were there before the page was reloaded.
  #restore(state) {
    this.#work = this.#work.then(async () => {
      const answer = await this.#ask({ type: "form", tool: this.#tool.name, state, do: "refresh", at: "" });
      if (answer.html !== undefined) this.#show(answer.html, null);
    });
  }

  get isSingleShort() {
    const fields = [...this.#element.querySelectorAll(ENTERED)];
    return fields.length === 1 && fields[0].matches("[data-line]");
  }

  reset() {
    return this.#operate({ do: "show" });
  }

  set(value, isWanted) {
    return this.#operate({ do: "set", text: JSON.stringify(value) }, { keepsFocus: true, isWanted });
  }

  async value(anyway = false) {
    await this.#work;
    if (!anyway && this.#stopsAtMissing()) throw new Missing("Fill in the marked field first.");
    const answer = await this.#send({ do: "read" });
    if (answer.errors) {
      this.showErrors(answer.errors);
      throw new Error(answer.errors.length === 1 ? "Correct one field first." : `Correct ${answer.errors.length} fields first.`);
    }
    if (answer.error) throw new Error(answer.error);
    return parseExact(answer.input);
  }

  async draft() {
    await this.#work;
    const answer = await this.#send({ do: "read" });
    return answer.input === undefined ? undefined : parseExact(answer.input);
  }

  focus() {
    this.#work = this.#work.then(() => {
      const first = first_of(this.#element) ?? this.#element.closest("form")?.querySelector("[type=submit]");
      first?.focus();
    });
    return this.#work;
  }

  // Enter these members of the input, and go to the first required control of another one.
  begin(input) {
    this.#work = this.#work.then(() => {
      const names = Object.keys(input).map((name) => `v/p${name}`);
      const control = (one) => one.querySelector("input") ?? one;
      for (const one of this.#element.querySelectorAll(ENTERED)) {
        if (names.includes(one.name)) one.value = input[one.name.slice(3)];
      }
      this.#keep();
      const next = [...this.#element.querySelectorAll("[data-needed]")].map(control).find((one) => !names.includes(one.name));
      next?.focus();
      next?.select?.();
    });
    return this.#work;
  }

  // --- requests -----------------------------------------------------------------------------------------

  #send(operation) {
    return this.#ask({ type: "form", tool: this.#tool.name, state: this.#state(), ...operation });
  }

  #operate(operation, { keepsFocus = false, isWanted = () => true } = {}) {
    this.#work = this.#work.then(async () => {
      let [before, answer, isTyped] = ["", null, false];
      do {
        isTyped = answer !== null;
        before = JSON.stringify(this.#state());
        answer = await this.#send(operation);
      } while (!REPLACES.has(operation.do) && before !== JSON.stringify(this.#state())); // typed meanwhile: nothing of it is lost
      if (!isWanted()) return;
      keepsFocus ||= isTyped;
      if (answer.error) this.#say(answer.error);
      if (answer.errors) this.showErrors(answer.errors);
      if (answer.html !== undefined) this.#show(answer.html, keepsFocus ? null : answer.focus);
    });
    return this.#work;
  }

  // Values of the controls by name. A choice that was just changed still has its old value, because the rest of the form belongs to it.
  #state() {
    const state = {};
    for (const one of this.#element.querySelectorAll("[name]")) {
      if (one.type === "radio" && !one.checked) continue;
      state[one.name] = one.type === "checkbox" ? String(one.checked) : (one.dataset.was ?? one.value);
    }
    return state;
  }

  #show(html, focus) {
    const active = this.#element.contains(document.activeElement) ? document.activeElement : null;
    const [held, start, end] = active ? [bearing(active), active.selectionStart, active.selectionEnd] : [null];
    const unfolded = new Set([...this.#element.querySelectorAll("details[open]")].map(folder));
    this.#element.innerHTML = html;
    for (const one of this.#element.querySelectorAll("details")) one.open ||= unfolded.has(folder(one));
    this.#shaped();
    if (typeof focus === "string") unfold(this.#slot(focus));
    if (typeof focus === "string") (first_of(this.#slot(focus)) ?? this.#slot(focus)?.querySelector("button"))?.focus();
    else if (held) {
      const found = [...this.#element.querySelectorAll("[name], [data-do]")].find((one) => bearing(one) === held);
      found?.focus();
      if (typeof start === "number" && typeof found?.selectionStart === "number") found.setSelectionRange(start, end);
    }
    this.#keep();
  }

  #keep() {
    this.#draft?.write(this.#state());
  }

  #shaped() {
    for (const one of this.#element.querySelectorAll("textarea")) grow(one);
  }

  #slot(name) {
    return [...this.#element.querySelectorAll("[data-slot]")].find((one) => one.dataset.slot === name) ?? null;
  }

  #say(words) {
    this.#element.querySelector(":scope > [data-form-error]")?.remove();
    const place = document.createElement("p");
    place.className = "error form-error";
    place.dataset.formError = "";
    place.setAttribute("role", "alert");
    place.textContent = words;
    this.#element.append(place);
  }

  // --- errors -------------------------------------------------------------------------------------------------------

  // Show each error at the control of its path, or at the nearest control around it.
  showErrors(errors) {
    for (const slot of this.#element.querySelectorAll(".slot.wrong")) unmark(slot);
    const slots = new Map();
    for (const slot of this.#element.querySelectorAll("[data-path]")) slots.set(JSON.stringify(JSON.parse(slot.dataset.path)), slot);
    let first = null;
    for (const { path, message } of errors) {
      const at = [...path];
      while (at.length && !slots.has(JSON.stringify(at))) at.pop();
      const slot = slots.get(JSON.stringify(at));
      if (!slot) this.#say(message);
      else {
        const control = mark(slot, at.length < path.length ? `${path.slice(at.length).join(".")}: ${message}` : message);
        first ??= control;
      }
    }
    first?.focus();
  }

  // --- user actions -----------------------------------------------------------------------------------------------

  #clicked(event) {
    const button = event.target.closest("button[data-do]");
    if (!button) return;
    if (button.getAttribute("aria-pressed") !== "true") this.#operate({ do: button.dataset.do, at: button.dataset.at });
  }

  #changed({ target }) {
    const { do: what, at } = target.dataset;
    this.#keep();
    if (target.matches("[data-presence-of]")) this.#present(target);
    else if (what === "presence") this.#operate({ do: target.value === "given" ? "include" : "refresh", at });
    else if (what === "choose" && target.value !== "") this.#operate({ do: "choose", at, choice: Number(target.value) });
    else if (what === "refresh") this.#operate({ do: "refresh", at });
  }

  // Entering a value includes it in the input; emptying an optional field leaves it out.
  #entered(target) {
    const slot = target.closest(".slot");
    unmark(slot);
    this.#element.querySelector(":scope > [data-form-error]")?.remove();
    if (target.matches("textarea")) grow(target);
    const presence = slot?.querySelector(":scope > [data-presence-of]");
    if (presence && presence !== target) {
      const isEmptied = target.value === "" && target.matches("textarea, select, input:not([type=radio], [type=checkbox])") && mayBeAbsent(presence);
      const wanted = isEmptied ? "absent" : "given";
      if (presence.value !== wanted) {
        presence.value = wanted;
        this.#present(presence);
      }
    }
    this.#keep();
  }

  #present(select) {
    select.closest(".slot").dataset.presence = select.value;
    if (select.value !== "given") unmark(select.closest(".slot"));
  }

  #pressed(event) {
    if (isComposing(event) || event.ctrlKey || event.metaKey) return;
    const { key, target, altKey, shiftKey } = event;
    if (altKey && (key === "ArrowUp" || key === "ArrowDown")) this.#shift(event);
    else if (key === "Enter" && !shiftKey && !altKey && target.matches("[data-line]")) this.#submit(event);
    else if (target.matches("[type=radio]") && key in ARROWS && !altKey && !shiftKey) point(event);
    else if (target.matches("[type=radio]") && key.length === 1 && key !== " " && !altKey) choose(event);
  }

  #shift(event) {
    const item = event.target.closest("[data-item]");
    const button = item?.querySelector(`:scope > .item-acts > [data-do=${event.key === "ArrowUp" ? "up" : "down"}]:not(:disabled)`);
    if (!button) return;
    event.preventDefault();
    this.#operate({ do: button.dataset.do, at: button.dataset.at });
  }

  // Enter sends a complete input, otherwise it moves to the missing field.
  #submit(event) {
    event.preventDefault();
    if (!this.#stopsAtMissing()) this.#element.closest("form")?.requestSubmit();
  }

  // Mark the first required field that is empty and move there. Returns whether there is one.
  #stopsAtMissing() {
    const missing = [...this.#element.querySelectorAll("[data-needed]")].find(isMissing);
    if (!missing) return false;
    const slot = missing.closest(".slot");
    unmark(slot);
    mark(slot, "Required.");
    (missing.querySelector("input") ?? missing).focus();
    return true;
  }
}

// --- elements --------------------------------------------------------------------------------------------------------

function first_of(place) {
  return [...(place?.querySelectorAll(`.entry-name, .way, ${ENTERED}`) ?? [])]
    .map((one) => one.querySelector("input:checked") ?? one.querySelector("input") ?? one)
    .find((one) => one.closest("[data-presence]").dataset.presence === "given") ?? null;
}

// Selector that identifies an element before and after the form is replaced.
function bearing(element) {
  return element.name || `${element.dataset.do} ${element.dataset.at}`;
}

// What identifies a folded part before and after the form is replaced: the slot that it belongs to.
function folder(details) {
  return details.parentElement.closest("[data-slot]")?.dataset.slot ?? "";
}

function unfold(slot) {
  for (let folded = slot?.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
}

function mayBeAbsent(presence) {
  return presence.type === "hidden" || [...presence.options].some((one) => one.value === "absent");
}

function isMissing(element) {
  return element.matches("[role=radiogroup]") ? !element.querySelector("input:checked") : element.value === "";
}

function mark(slot, message) {
  unfold(slot);
  const error = slot.querySelector(":scope > [data-error]");
  const control = [...slot.querySelectorAll("[data-error-at]")].find((one) => one.dataset.errorAt === error.id);
  slot.classList.add("wrong");
  error.textContent = error.hidden ? message : `${error.textContent} ${message}`;
  error.hidden = false;
  control?.setAttribute("aria-invalid", "true");
  control?.setAttribute("aria-errormessage", error.id);
  return control?.querySelector("input") ?? control ?? first_of(slot);
}

function unmark(slot) {
  if (!slot?.classList.contains("wrong")) return;
  slot.classList.remove("wrong");
  const error = slot.querySelector(":scope > [data-error]");
  error.hidden = true;
  error.textContent = "";
  for (const one of slot.querySelectorAll("[aria-errormessage]")) {
    if (one.dataset.errorAt !== error.id) continue;
    one.removeAttribute("aria-invalid");
    one.removeAttribute("aria-errormessage");
  }
}

// In a row of buttons such as up, down, left and right, an arrow key selects the one that it shows; elsewhere the browser moves on.
function point(event) {
  const buttons = [...event.target.closest("[role=radiogroup]").querySelectorAll("input")];
  const found = buttons.find((one) => ARROWS[event.key].includes(one.nextElementSibling.textContent.trim().toLowerCase()));
  if (!found) return;
  event.preventDefault();
  found.click();
  found.focus();
}

// In a row of buttons, a letter selects the next one that starts with it.
function choose(event) {
  const buttons = [...event.target.closest("[role=radiogroup]").querySelectorAll("input")];
  const begins = (one) => one.nextElementSibling.textContent.toLowerCase().startsWith(event.key.toLowerCase());
  const from = buttons.indexOf(event.target) + (event.target.checked ? 1 : 0);
  const found = [...buttons.slice(from), ...buttons.slice(0, from)].find(begins);
  if (!found) return;
  event.preventDefault();
  found.click();
  found.focus();
}

// Fit the height to the text in browsers where the style sheet can't.
function grow(textarea) {
  if (CSS.supports("field-sizing", "content")) return;
  textarea.style.height = "auto";
  textarea.style.height = `${textarea.scrollHeight + 2}px`;
}
