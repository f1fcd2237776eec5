// The Episodes page: filters that apply themselves, keys, selection, preview, columns, and new rows as they happen.
//
// htmx replaces the whole table (#results); afterwards the selection, hidden columns and the cursor are restored.
import { click, runShortcut } from "../orsweb/keys.js";

const HIDDEN = "orsweb.episodes.hidden"; // localStorage: names of columns that are not shown
const PICKED = "orsweb.episodes.picked"; // sessionStorage: ids that are selected, through all pages
const PREVIEW_PAUSE_MS = 120;

const browse = document.querySelector("[data-browse]");
const preview = document.getElementById("preview");
const bar = document.querySelector("[data-selection]");
const form = document.querySelector("[data-filters]");
const hiding = new CSSStyleSheet();
document.adoptedStyleSheets.push(hiding);
let at = null; // id of the row under the cursor
let known = ids();
let picked = new Set(read(sessionStorage, PICKED));
let previewTimer = 0;

function read(storage, name) {
  try {
    const kept = JSON.parse(storage.getItem(name) ?? "[]");
    return Array.isArray(kept) ? kept.map(String) : [];
  } catch {
    return [];
  }
}

function rows() {
  return [...browse.querySelectorAll("tr[data-episode]")];
}

function ids() {
  return new Set(rows().map((row) => row.dataset.episode));
}

function rowAt() {
  return at && browse.querySelector(`tr[data-episode="${CSS.escape(at)}"]`);
}

// --- filters ---------------------------------------------------------------------------------------------------------

// Keep only filters that are set in the address.
function submitted() {
  for (const field of form.elements) if (field.name && !field.value.trim()) field.disabled = true;
}

function changed({ target }) {
  for (const name of target.dataset.clears?.split(" ") ?? []) {
    const cleared = form.elements[name];
    if (cleared) cleared.value = "";
  }
  if ("auto" in target.dataset) form.requestSubmit();
}

// On a phone the fields would fill the screen.
function foldFilters() {
  const button = form.querySelector("[data-show-filters]");
  form.classList.add("foldable");
  button.addEventListener("click", () => button.setAttribute("aria-expanded", String(form.classList.toggle("open"))));
}

// A page from the back/forward cache has its fields as they were left: set for the next page, or disabled.
function restored({ persisted }) {
  if (persisted) form.reset();
  for (const field of form.elements) field.disabled = false;
}

// --- columns ---------------------------------------------------------------------------------------------------------

function showColumns() {
  const names = read(localStorage, HIDDEN);
  hiding.replaceSync(names.map((name) => `.browse [data-column="${CSS.escape(name)}"] { display: none; }`).join("\n"));
}

function offerColumns() {
  const menu = browse.querySelector("[data-columns]");
  const choices = browse.querySelector("[data-column-choices]");
  const hidden = new Set(read(localStorage, HIDDEN));
  for (const head of browse.querySelectorAll("th[data-column]")) {
    const box = Object.assign(document.createElement("input"), { type: "checkbox", value: head.dataset.column });
    box.checked = !hidden.has(head.dataset.column);
    const label = document.createElement("label");
    label.append(box, head.dataset.label);
    choices.append(label);
  }
  menu.hidden = !choices.childElementCount;
  choices.addEventListener("change", ({ target }) => {
    if (target.checked) hidden.delete(target.value);
    else hidden.add(target.value);
    localStorage.setItem(HIDDEN, JSON.stringify([...hidden]));
    showColumns();
  });
}

// --- cursor and preview ----------------------------------------------------------------------------------------------

function moveTo(row) {
  if (!row) return;
  rowAt()?.classList.remove("at");
  at = row.dataset.episode;
  row.classList.add("at");
  row.scrollIntoView({ block: "nearest" });
  if (!preview.hidden) {
    clearTimeout(previewTimer);
    previewTimer = setTimeout(showPreview, PREVIEW_PAUSE_MS);
  }
}

function move(by) {
  const all = rows();
  const place = all.indexOf(rowAt());
  moveTo(place < 0 ? all[by > 0 ? 0 : all.length - 1] : all[place + by]);
}

function showPreview() {
  const row = rowAt();
  if (!row) return;
  preview.hidden = false;
  preview.scrollTop = 0;
  htmx.ajax("GET", `${row.dataset.href}preview/?${browse.dataset.query}`, { target: preview, swap: "innerHTML" });
}

function closePreview() {
  if (preview.hidden) return false;
  preview.hidden = true;
  preview.replaceChildren();
}

function togglePreview() {
  if (!preview.hidden) return closePreview();
  if (!rowAt()) move(1);
  showPreview();
}

function open(row, inTab) {
  if (!row) return;
  if (inTab) window.open(row.dataset.href, "_blank", "noopener");
  else location.assign(row.dataset.href);
}

// --- selection -------------------------------------------------------------------------------------------------------

function pick(row, isPicked = !picked.has(row.dataset.episode)) {
  if (isPicked) picked.add(row.dataset.episode);
  else picked.delete(row.dataset.episode);
  showPicked();
}

function showPicked() {
  sessionStorage.setItem(PICKED, JSON.stringify([...picked]));
  for (const row of rows()) {
    const isPicked = picked.has(row.dataset.episode);
    row.classList.toggle("picked", isPicked);
    row.querySelector("[data-pick]").checked = isPicked;
  }
  const all = browse.querySelector("[data-pick-all]");
  if (all) all.checked = rows().length > 0 && rows().every((row) => picked.has(row.dataset.episode));
  bar.hidden = picked.size === 0;
  const list = [...picked].join(",");
  bar.querySelector("[data-selected-count]").textContent = `${picked.size} selected`;
  const compare = bar.querySelector("[data-compare-link]");
  compare.setAttribute("aria-disabled", String(picked.size !== 2));
  compare.title = picked.size === 2 ? "" : "Select two episodes to compare";
  if (picked.size === 2) compare.href = `${browse.dataset.compare}?episodes=${list}`;
  else compare.removeAttribute("href");
  for (const link of bar.querySelectorAll("[data-selected-format]")) {
    link.href = `${browse.dataset.export}?ids=${list}&format=${link.dataset.selectedFormat}`;
  }
}

// --- keys and clicks --------------------------------------------------------------------------------------------

function clicked(event) {
  const row = event.target.closest("tr[data-episode]");
  // a checkbox with focus would prevent refreshes of the table; the keyboard needs the focus, the mouse doesn't
  if (event.detail && event.target.matches("[data-pick], [data-pick-all]")) event.target.blur();
  if (event.target.matches("[data-pick]")) pick(row, event.target.checked);
  else if (event.target.matches("[data-pick-all]")) for (const one of rows()) pick(one, event.target.checked);
  else if (event.target.closest("[data-close-preview]")) closePreview();
  else if (row && !event.target.closest("a, input, td.pick") && !getSelection().toString()) {
    moveTo(row);
    open(row, event.ctrlKey || event.metaKey || event.button === 1);
  }
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  x: () => (rowAt() ? pick(rowAt()) : false),
  " ": togglePreview,
  Enter: () => (rowAt() ? open(rowAt()) : false),
  Escape: closePreview,
  f: () => form.elements.environment.focus(),
  "]": () => click('.browse a[rel="next"]'),
  "[": () => click('.browse a[rel="prev"]'),
};

// --- after a refresh of the table ---------------------------------------------------------------------------------------

// Rows of another page are different, but not new.
function asked({ detail }) {
  if (detail.elt.matches?.("a[rel]")) known = null;
}

function swapped({ detail }) {
  if (detail.target?.id !== "results" && detail.elt?.id !== "results") return;
  const wasRefetched = browse.querySelector("[data-refetch]") !== null;
  for (const row of rows()) if (known && wasRefetched && !known.has(row.dataset.episode)) row.classList.add("new");
  known = ids();
  rowAt()?.classList.add("at");
  showPicked();
}

foldFilters();
showColumns();
offerColumns();
showPicked();
form.addEventListener("submit", submitted);
form.addEventListener("change", changed);
window.addEventListener("pageshow", restored);
browse.addEventListener("click", clicked);
browse.addEventListener("auxclick", (event) => event.button === 1 && clicked(event));
bar.querySelector("[data-unselect]").addEventListener("click", () => {
  picked = new Set();
  showPicked();
});
document.addEventListener("keydown", (event) => runShortcut(event, KEYS));
document.addEventListener("htmx:beforeRequest", asked);
document.addEventListener("htmx:afterSettle", swapped);
