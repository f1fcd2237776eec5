// Notes: the server renders them in the side column; this script also shows each one at its step, and sets the step of the form.
// The event `orsweb:note` on document, detail {step}, starts a note on a step. Ctrl Enter sends a note, and a flag too.
import { isComposing } from "../orsweb/keys.js";

const form = document.querySelector("[data-note-form]");
const choice = form?.querySelector("[data-note-step]");

const cards = () => document.querySelectorAll(".transcript .step[data-index]");

// --- at the step -----------------------------------------------------------------------------------------------------

function byStep() {
  const found = new Map();
  for (const note of document.querySelectorAll("[data-notes] [data-step]")) {
    found.set(note.dataset.step, [...(found.get(note.dataset.step) ?? []), note]);
  }
  return found;
}

function spread() {
  const notes = byStep();
  for (const card of cards()) show(card, notes.get(card.dataset.index) ?? []);
}

function show(card, notes) {
  const place = card.querySelector(":scope > .step-notes");
  const state = notes.map((note) => note.dataset.id).join(" ");
  if ((place?.dataset.state ?? "") === state) return;
  place?.remove();
  if (!notes.length) return;
  const list = document.createElement("ul");
  list.className = "step-notes";
  list.dataset.state = state;
  list.setAttribute("aria-label", "Notes on this step");
  list.append(...notes.map(copied));
  card.querySelector(":scope > header").after(list);
}

function copied(note) {
  const item = document.createElement("li");
  const [text, facts] = note.querySelectorAll(":scope > p");
  item.append(text.cloneNode(true), facts.cloneNode(true));
  item.querySelector("a")?.remove();
  const said = item.lastElementChild;
  if (said.firstChild) said.firstChild.textContent = said.firstChild.textContent.replace(/^\s*·\s*/, "");
  return item;
}

// --- the form --------------------------------------------------------------------------------------------------------

function offer(step) {
  let option = choice.querySelector("[data-offered]");
  if (!option) {
    option = document.createElement("option");
    option.dataset.offered = "";
    choice.append(option);
  }
  for (const other of choice.options) if (other !== option && other.value === String(step)) other.remove();
  option.value = step;
  option.textContent = `step ${step}`;
}

function current() {
  const card = document.querySelector(".transcript .step.current") ?? [...cards()].at(-1);
  return card ? Number(card.dataset.index) : null;
}

function write(step) {
  offer(step);
  choice.value = String(step);
  form.closest("details").open = true;
  form.querySelector("textarea").focus();
  form.scrollIntoView({ block: "nearest" });
}

function entered() {
  const step = current();
  if (step !== null && choice.value === "") offer(step);
}

// Like in the player's forms, Enter alone starts a new line in a text.
function pressed(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || isComposing(event)) return;
  const said = event.target.closest("[data-note-form] textarea, .flagging textarea");
  if (!said) return;
  event.preventDefault();
  said.form.requestSubmit();
}

function answered({ detail }) {
  if (detail.elt !== form || !detail.successful) return;
  if (!document.querySelector("[data-notes] [data-problem]")) form.querySelector("textarea").value = "";
}

document.addEventListener("keydown", pressed);
if (form) {
  form.addEventListener("focusin", entered);
  document.addEventListener("htmx:afterRequest", answered);
  document.addEventListener("orsweb:note", ({ detail }) => write(detail.step));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-note-on]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    link.closest(".menu").open = false;
    write(Number(link.dataset.noteOn));
  });
  // steps come and go while scrolling or playing; the list is replaced as a whole
  new MutationObserver(spread).observe(document.getElementById("content"), { childList: true, subtree: true });
  spread();
}
