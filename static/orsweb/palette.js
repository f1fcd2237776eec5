// The palette: Ctrl K, ⌘K or its button opens it on every page. It lists the pages of the rail, actions, and what the server finds by
// name. Arrow keys choose, Enter opens, Escape closes. Focus stays in the field; the chosen line is its aria-activedescendant.
const DELAY_MS = 120;

const dialog = document.getElementById("palette");
const field = dialog?.querySelector("input");
const list = dialog?.querySelector("[role=listbox]");
const status = dialog?.querySelector("[role=status]");
let timer = 0;
let request = null;
let chosen = 0;
let isWaiting = false; // the list is not yet that of the text
let opensFirst = false; // Enter was pressed meanwhile

function pages(text) {
  const links = [...document.querySelectorAll(".rail > a:not(.brand)")];
  const all = links.map((link) => ({ kind: "page", name: link.textContent.trim(), url: link.href }));
  const actions = [...dialog.querySelectorAll("[data-actions] > *")];
  all.push(...actions.map((action) => ({ kind: "action", name: action.textContent, url: action.href, presses: action.dataset.presses })));
  const words = text.toLowerCase().split(/\s+/u);
  return all.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
}

function lineOf(place, number) {
  const line = document.createElement("a");
  line.id = `palette-${number}`;
  if (place.url) line.href = place.url;
  if (place.presses) line.addEventListener("click", () => press(place.presses));
  line.tabIndex = -1;
  line.setAttribute("role", "option");
  const kind = document.createElement("span");
  kind.className = "hint";
  kind.textContent = place.kind;
  line.append(place.name, kind);
  return line;
}

// Presses the button of the page that an action stands for.
function press(selector) {
  dialog.close();
  document.querySelector(selector)?.click();
}

function choose(number) {
  const lines = [...list.children];
  chosen = lines.length ? (number + lines.length) % lines.length : 0;
  lines.forEach((line, place) => line.setAttribute("aria-selected", place === chosen));
  lines[chosen]?.scrollIntoView({ block: "nearest" });
  if (lines.length) field.setAttribute("aria-activedescendant", lines[chosen].id);
  else field.removeAttribute("aria-activedescendant");
}

function show(places) {
  list.replaceChildren(...places.map(lineOf));
  list.hidden = !places.length;
  status.textContent = places.length ? "" : "Nothing has that name.";
  choose(0);
}

async function search() {
  request?.abort();
  const text = field.value.trim();
  request = new AbortController();
  try {
    if (!text) return listed(pages(""));
    const answer = await fetch(`${dialog.dataset.url}?text=${encodeURIComponent(text)}`, { signal: request.signal });
    if (!answer.ok) throw new Error(answer.status);
    const { places } = await answer.json();
    listed([...places, ...pages(text)]);
  } catch (error) {
    if (error.name === "AbortError") return;
    listed(pages(text));
    status.textContent = "The server did not answer; only pages are listed.";
  }
}

function listed(places) {
  show(places);
  isWaiting = false;
  if (opensFirst) list.children[0]?.click();
  opensFirst = false;
}

function open() {
  field.value = "";
  isWaiting = opensFirst = false;
  show(pages(""));
  dialog.showModal();
}

function onKey(event) {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  if (dialog.open) dialog.close();
  else if (!document.querySelector("dialog[open]")) open();
}

function onFieldKey(event) {
  if (event.isComposing) return;
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Enter" && isWaiting) opensFirst = true;
  else if (event.key === "Enter") list.children[chosen]?.click();
  else return;
  event.preventDefault();
}

if (dialog) {
  window.addEventListener("keydown", onKey);
  document.querySelector("[data-palette-open]")?.addEventListener("click", open);
  field.addEventListener("keydown", onFieldKey);
  field.addEventListener("input", () => {
    isWaiting = true;
    clearTimeout(timer);
    timer = setTimeout(search, DELAY_MS);
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
