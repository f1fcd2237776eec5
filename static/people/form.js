// A tool's form, made by the server from the tool's JSON Schema: a field for each member, and a view of the whole input as JSON.
// What stands in it is an entry: an object with the text of each field, or the text of the JSON view. The server reads it, see
// episodes/people/forms/form.py, because JavaScript would rewrite some numbers.
//
//   const form = mountForm(element, tool, ask, html, draft)
//                             tool: {name}; ask(message): Promise of the response; html: the form; without it, it is requested;
//                             draft: where half-typed values are kept, {read(), write(entry)}
//   await form.ready          until the HTML is there
//   form.entry, form.set(entry)
//   form.stopsAtMissing()     marks the first required field that is empty; returns whether there is one
//   form.begin(input)         enters some members; goes on with the others
//   form.showErrors([{path, message}])     form.focus()
//   form.isSingleShort        whether the form is a single short field
import { isComposing } from "../orsweb/keys.js";

const ARROWS = { ArrowUp: ["up", "north", "n"], ArrowDown: ["down", "south", "s"], ArrowLeft: ["left", "west", "w"], ArrowRight: ["right", "east", "e"] };

export function mountForm(element, tool, ask, html = "", draft = null) {
  return new Form(element, tool, ask, html, draft);
}

class Form {
  #element;
  #tool;
  #ask;
  #draft;
  ready; // fulfilled when the HTML is there

  constructor(element, tool, ask, html, draft) {
    this.#element = element;
    this.#tool = tool;
    this.#ask = ask;
    this.#draft = draft;
    element.classList.add("form-place");
    element.addEventListener("click", ({ target }) => this.#clicked(target.closest("[data-view]")));
    element.addEventListener("change", () => this.#keep());
    element.addEventListener("input", (event) => this.#entered(event.target));
    element.addEventListener("keydown", (event) => this.#pressed(event));
    if (html) this.#show(html);
    else this.ready = this.#request();
  }

  async #request() {
    const answer = await this.#send();
    if (answer.error) this.#say(answer.error);
    else this.#show(answer.html);
  }

  #show(html) {
    this.#element.innerHTML = html;
    const kept = this.#draft?.read();
    if (kept) this.set(kept);
    for (const text of this.#element.querySelectorAll("textarea")) grow(text);
  }

  get isSingleShort() {
    const fields = this.#fields;
    return !this.#isJson && fields.length === 1 && fields[0].matches("[data-line]");
  }

  // --- what is entered ----------------------------------------------------------------------------------------------

  get entry() {
    if (this.#isJson) return this.#json.value;
    return Object.fromEntries(this.#fields.map((field) => [nameOf(field), textOf(field)]));
  }

  // Fields that the entry does not name become empty.
  set(entry) {
    this.#view(typeof entry === "string");
    if (this.#isJson) this.#json.value = entry;
    else for (const field of this.#fields) write(field, entry[nameOf(field)] ?? "");
    for (const text of this.#element.querySelectorAll("textarea")) grow(text);
    this.#keep();
  }

  // Enter these members of the input, and go to the first required field of another one.
  async begin(input) {
    await this.ready;
    const given = this.#fields.filter((field) => nameOf(field) in input);
    for (const field of given) write(field, String(input[nameOf(field)]));
    this.#keep();
    const next = this.#fields.find((field) => field.matches("[data-needed]") && !given.includes(field));
    const control = next && controlOf(next);
    control?.focus();
    control?.select?.();
  }

  async focus() {
    await this.ready;
    const first = this.#isJson ? this.#json : this.#fields[0];
    (first ? controlOf(first) : this.#element.closest("form")?.querySelector("[type=submit]"))?.focus();
  }

  #keep() {
    this.#draft?.write(this.entry);
  }

  // --- form and JSON ------------------------------------------------------------------------------------------------

  get #fields() {
    return [...this.#element.querySelectorAll("[data-fields] [data-entered]")];
  }

  get #json() {
    return this.#element.querySelector("[data-as-json] textarea");
  }

  get #isJson() {
    const place = this.#element.querySelector("[data-as-json]");
    return place !== null && !place.hidden;
  }

  #view(isJson) {
    const [fields, json] = ["[data-fields]", "[data-as-json]"].map((one) => this.#element.querySelector(one));
    if (!fields || !json) return;
    fields.hidden = isJson;
    json.hidden = !isJson;
    for (const button of this.#element.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", String((button.dataset.view === "json") === isJson));
  }

  async #clicked(button) {
    if (!button || button.getAttribute("aria-pressed") === "true") return;
    this.showErrors([]);
    let [entry, answer] = [null, null];
    do {
      entry = this.entry;
      answer = await this.#send({ entry });
    } while (JSON.stringify(entry) !== JSON.stringify(this.entry)); // typed meanwhile: nothing of it is lost
    if (answer.error) return this.#say(answer.error);
    if (answer.errors) return this.showErrors(answer.errors);
    this.set(answer.entry);
    this.focus();
  }

  #send(members = {}) {
    return this.#ask({ type: "form", tool: this.#tool.name, ...members });
  }

  // --- errors -------------------------------------------------------------------------------------------------------

  // Show each error at its field, with the rest of its path; at the form if there is no field.
  showErrors(errors) {
    this.#element.querySelector(":scope > [data-form-error]")?.remove();
    for (const place of this.#element.querySelectorAll(".wrong")) unmark(place);
    const places = new Map([...this.#element.querySelectorAll("[data-path]")].map((place) => [place.dataset.path, place]));
    let first = null;
    for (const { path, message } of errors) {
      const depth = this.#isJson ? 0 : 1;
      const place = path.length < depth ? undefined : places.get(JSON.stringify(path.slice(0, depth)));
      const rest = path.slice(place ? depth : 0).join(".");
      const sentence = rest ? `${rest}: ${message}` : message;
      if (!place) {
        this.#say(sentence);
        continue;
      }
      const control = mark(place, sentence);
      first ??= control;
    }
    first?.focus();
  }

  #say(words) {
    const place = document.createElement("p");
    place.className = "error form-error";
    place.dataset.formError = "";
    place.setAttribute("role", "alert");
    place.textContent = words;
    this.#element.append(place);
  }

  stopsAtMissing() {
    const fields = this.#isJson ? [this.#json] : this.#fields;
    const missing = fields.find((field) => field.matches("[data-needed]") && textOf(field) === "");
    if (!missing) return false;
    unmark(missing.closest("[data-path]"));
    mark(missing.closest("[data-path]"), "Required.").focus();
    return true;
  }

  // --- user actions -------------------------------------------------------------------------------------------------

  #entered(target) {
    unmark(target.closest("[data-path]"));
    this.#element.querySelector(":scope > [data-form-error]")?.remove();
    if (target.matches("textarea")) grow(target);
    this.#keep();
  }

  #pressed(event) {
    if (isComposing(event) || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const { key, target } = event;
    if (key === "Enter" && target.matches("[data-line]")) this.#submit(event);
    else if (target.matches("[type=radio]") && key in ARROWS) point(event);
    else if (target.matches("[type=radio]") && key.length === 1 && key !== " ") choose(event);
  }

  // Enter sends a complete input, otherwise it moves to the missing field.
  #submit(event) {
    event.preventDefault();
    if (!this.stopsAtMissing()) this.#element.closest("form")?.requestSubmit();
  }
}

// --- fields ----------------------------------------------------------------------------------------------------------

// The element that gets the focus; a row of buttons is not one.
function controlOf(field) {
  return field.querySelector("input:checked") ?? field.querySelector("input") ?? field;
}

function nameOf(field) {
  return controlOf(field).name.slice("v/".length);
}

function textOf(field) {
  return field.matches("[role=radiogroup]") ? (field.querySelector("input:checked")?.value ?? "") : field.value;
}

function write(field, text) {
  if (!field.matches("[role=radiogroup]")) field.value = text;
  else for (const button of field.querySelectorAll("input")) button.checked = button.value === text;
}

function mark(place, message) {
  const [error, field] = [place.querySelector("[data-error]"), place.querySelector("[data-entered]")];
  const folded = place.closest("details");
  if (folded) folded.open = true;
  place.classList.add("wrong");
  error.textContent = error.hidden ? message : `${error.textContent} ${message}`;
  error.hidden = false;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", error.id);
  return controlOf(field);
}

function unmark(place) {
  if (!place?.classList.contains("wrong")) return;
  const [error, field] = [place.querySelector("[data-error]"), place.querySelector("[data-entered]")];
  place.classList.remove("wrong");
  error.hidden = true;
  error.textContent = "";
  field.removeAttribute("aria-invalid");
  field.removeAttribute("aria-errormessage");
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
