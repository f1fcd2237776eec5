// The task list: keyboard shortcuts, selecting rows, and a search that continues until its page is full. The page also works
// without this script.
import { click, isComposing, isForPage, isTyping, runShortcut } from "../orsweb/keys.js";

const list = document.querySelector("[data-tasks]");
const PAGE_TASKS = 50;
const rows = () => [...list.querySelectorAll("[data-row]")];
const boxOf = (row) => row.querySelector("input[name=task]");
const search = list.querySelector("[data-search]");
let current = -1;

// --- selecting

const bar = list.querySelector("[data-bar]");
const all = list.querySelector("[data-check-all]");

function showChecked() {
  if (!bar) return;
  const boxes = rows().map(boxOf);
  const checked = boxes.filter((box) => box.checked).length;
  const number = bar.querySelector("[name=scope]:checked").dataset.total ?? checked;
  bar.toggleAttribute("data-idle", !number);
  for (const button of bar.querySelectorAll("button")) button.disabled = !number;
  bar.querySelector("[data-count]").textContent = `${checked} selected`;
  all.checked = checked > 0 && checked === boxes.length;
  all.indeterminate = checked > 0 && checked < boxes.length;
}

function preferChecked() {
  if (bar) bar.querySelector("[name=scope][value=checked]").checked = true;
  showChecked();
}

function check(row, isChecked) {
  boxOf(row).checked = isChecked;
  preferChecked();
}

let lastClicked = null;
list.addEventListener("click", (event) => {
  const row = event.target.closest("[data-row]");
  if (row && event.target.matches("input[name=task]")) {
    const between = rows();
    if (event.shiftKey && lastClicked) {
      const [from, to] = [between.indexOf(lastClicked), between.indexOf(row)].sort((a, b) => a - b);
      between.slice(from, to + 1).forEach((one) => (boxOf(one).checked = event.target.checked));
    }
    lastClicked = row;
    return preferChecked();
  }
  if (row && !event.target.closest("a, input, button, label") && !getSelection().toString()) open(row, event);
});
list.addEventListener("change", (event) => {
  if (event.target !== all) return showChecked();
  rows().forEach((row) => (boxOf(row).checked = all.checked));
  preferChecked();
});
addEventListener("pageshow", showChecked); // the browser may bring checks back

// --- keys

function open(row, event) {
  const link = row.querySelector(".wide a");
  if (event.ctrlKey || event.metaKey) window.open(link.href);
  else location.href = link.href;
}

function moveTo(index) {
  const known = rows();
  if (!known.length) return;
  known[current]?.classList.remove("current");
  current = Math.max(0, Math.min(index, known.length - 1));
  known[current].classList.add("current");
  known[current].scrollIntoView({ block: "nearest" });
}

const keys = {
  "/": () => (search.focus(), search.select()),
  j: () => moveTo(current + 1),
  k: () => moveTo(current - 1),
  x: () => current >= 0 && check(rows()[current], !boxOf(rows()[current]).checked),
  n: () => click("[data-next], [data-continue]"),
  p: () => click("[data-previous]"),
  Enter: (event) => current >= 0 && open(rows()[current], event),
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && isTyping(event) && !isComposing(event)) return event.target.blur();
  const opensTab = event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.altKey && isForPage(event);
  if (!opensTab) runShortcut(event, keys);
  else if (keys.Enter(event) !== false) event.preventDefault();
});

// --- continuing a search

async function lookFurther() {
  let pages = list.querySelector("[data-pages]");
  let looked = Number(pages.querySelector("[data-looked]")?.dataset.looked ?? 0);
  const previous = pages.querySelector("[data-previous]");
  const target = list.querySelector("[data-rows]");
  let nothing = null; // the sentence of the last page if that has no rows either
  for (let link; target && (link = pages.querySelector("[data-continue]")) && rows().length < PAGE_TASKS; ) {
    pages.setAttribute("aria-busy", "true");
    const answer = await fetch(link.href);
    if (!answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    target.append(...found.querySelectorAll("[data-row]"));
    nothing = found.querySelector(".empty");
    const fresh = found.querySelector("[data-pages]");
    const more = fresh.querySelector("[data-looked]");
    looked += Number(more?.dataset.looked ?? 0);
    if (more) more.textContent = `searched ${looked.toLocaleString("en-US")} tasks so far`;
    fresh.querySelector("[data-previous]")?.remove();
    if (previous) fresh.prepend(previous);
    pages.replaceWith(fresh);
    pages = fresh;
    showChecked();
  }
  if (nothing && !rows().length) target.closest("table").replaceWith(nothing);
}

showChecked();
lookFurther();
