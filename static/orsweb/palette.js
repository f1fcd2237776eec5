// The palette: Ctrl K or ⌘K opens it on every page. It lists the pages of the rail and what the server finds by name. Arrow keys
// choose, Enter opens, Escape closes. Focus stays in the field; the chosen line is its aria-activedescendant.
const DELAY_MS = 120;

const dialog = document.getElementById("palette");
const field = dialog?.querySelector("input");
const list = dialog?.querySelector("[role=listbox]");
const status = dialog?.querySelector("[role=status]");
let timer = 0;
let request = null;
let chosen = 0;

function pages(text) {
  const links = [...document.querySelectorAll(".rail a:not(.brand)")];
  const all = links.map((link) => ({ kind: "page", name: link.textContent.trim(), url: link.href }));
  return all.filter((page) => page.name.toLowerCase().includes(text.toLowerCase()));
}

function lineOf(place, number) {
  const line = document.createElement("a");
  line.id = `palette-${number}`;
  line.href = place.url;
  line.tabIndex = -1;
  line.setAttribute("role", "option");
  const kind = document.createElement("span");
  kind.className = "hint";
  kind.textContent = place.kind;
  line.append(place.name, kind);
  return line;
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
  if (!text) return show(pages(""));
  request = new AbortController();
  try {
    const answer = await fetch(`${dialog.dataset.url}?text=${encodeURIComponent(text)}`, { signal: request.signal });
    if (!answer.ok) throw new Error(answer.status);
    const { places } = await answer.json();
    show([...places, ...pages(text)]);
  } catch (error) {
    if (error.name === "AbortError") return;
    show(pages(text));
    status.textContent = "The server did not answer; only pages are listed.";
  }
}

function open() {
  field.value = "";
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
  else if (event.key === "Enter") list.children[chosen]?.click();
  else return;
  event.preventDefault();
}

if (dialog) {
  window.addEventListener("keydown", onKey);
  field.addEventListener("keydown", onFieldKey);
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, DELAY_MS);
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
