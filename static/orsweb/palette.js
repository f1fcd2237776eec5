// The palette: Ctrl K, ⌘K or its button opens it on every page. It lists what was opened lately, the pages of the rail and of the
// admin, actions, and what the server finds by name. Arrow keys choose, Enter opens, Escape closes. Focus stays in the field; the
// chosen line is its aria-activedescendant.
const DELAY_MS = 120;
const MAX_RECENT = 6;

const dialog = document.getElementById("palette");
const field = dialog?.querySelector("input");
const list = dialog?.querySelector("[role=listbox]");
const status = dialog?.querySelector("[role=status]");
let timer = 0;
let request = null;
let chosen = 0;
let isWaiting = false; // the list is not yet that of the text
let opensFirst = false; // Enter was pressed meanwhile

// What has all words of the text in its name; `isGood`: at the beginnings of words.
function pages(text) {
  const links = [...document.querySelectorAll(".rail > a:not(.brand)")];
  const all = links.map((link) => ({ kind: "page", name: link.textContent.trim(), url: link.href }));
  const actions = [...dialog.querySelectorAll("[data-actions] > *")];
  all.push(...actions.map(({ textContent, href, dataset }) => ({ kind: dataset.kind ?? "action", name: textContent, url: href, presses: dataset.presses })));
  const words = wordsOf(text);
  const found = all.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
  return found.map((page) => ({ ...page, isGood: words.every((word) => wordsOf(page.name).some((own) => own.startsWith(word))) }));
}

function wordsOf(text) {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

// --- what was opened lately, by each person of this browser ---------------------------------------------------------

const recentKey = () => `orsweb.recent.${dialog.dataset.who}`;

function recent() {
  try {
    return JSON.parse(localStorage.getItem(recentKey())) ?? [];
  } catch {
    return [];
  }
}

function remember() {
  const crumbs = [...document.querySelectorAll(".crumbs > li")].map((crumb) => crumb.textContent.trim().replace(/\s+/gu, " "));
  if (crumbs.length < 2) return;
  const others = recent().filter(({ path }) => path !== location.pathname);
  const place = { name: crumbs.slice(1).join(" › "), path: location.pathname, url: location.pathname + location.search };
  try {
    localStorage.setItem(recentKey(), JSON.stringify([place, ...others].slice(0, MAX_RECENT + 1)));
  } catch {
    // without storage, nothing is remembered
  }
}

// All pages, below what was opened before this one.
function start() {
  const places = recent().filter(({ path }) => path !== location.pathname).slice(0, MAX_RECENT);
  show([...places.map(({ name, url }) => ({ kind: "recent", name, url })), ...pages("")], "");
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

function show(places, words) {
  list.replaceChildren(...places.map(lineOf));
  list.hidden = !places.length;
  list.setAttribute("aria-busy", "false");
  status.textContent = words;
  choose(0);
}

async function search() {
  request?.abort();
  const text = field.value.trim();
  request = new AbortController();
  try {
    if (!text) return listed(null);
    const answer = await fetch(`${dialog.dataset.url}?text=${encodeURIComponent(text)}`, { signal: request.signal });
    if (!answer.ok) throw new Error(answer.status);
    const { places } = await answer.json();
    listed(places, text);
  } catch (error) {
    if (error.name !== "AbortError") listed([], text, "The server did not answer; only pages and actions are listed.");
  }
}

// Lists the places with the pages and actions of that name, the better matches first, and the search for the text itself.
function listed(places, text, trouble = "") {
  if (places === null) start();
  else {
    const own = pages(text);
    const all = [...own.filter(({ isGood }) => isGood), ...places, ...own.filter(({ isGood }) => !isGood)];
    const search = { kind: "search", name: `Search transcripts for “${text}”`, url: `${dialog.dataset.episodes}?text=${encodeURIComponent(text)}` };
    show([...all, search], trouble || (all.length ? "" : "Nothing has that name."));
  }
  isWaiting = false;
  if (opensFirst) list.children[0]?.click();
  opensFirst = false;
}

function open() {
  field.value = "";
  isWaiting = opensFirst = false;
  start();
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
  remember();
  window.addEventListener("keydown", onKey);
  document.querySelector("[data-palette-open]")?.addEventListener("click", open);
  field.addEventListener("keydown", onFieldKey);
  field.addEventListener("input", () => {
    isWaiting = true;
    list.setAttribute("aria-busy", "true");
    status.textContent = "Searching…";
    clearTimeout(timer);
    timer = setTimeout(search, DELAY_MS);
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
