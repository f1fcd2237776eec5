// The list of runs: keys, and a selection of runs to compare. j and k move the focus from name to name, so Enter opens one.
import { click, runShortcut } from "../orsweb/keys.js";

const PICKED = "orsweb.runs.picked"; // sessionStorage: ids that are selected, through all pages

const bar = document.querySelector("[data-selection]");
const most = Number(bar.dataset.selection); // that can be compared
const mostCurves = Number(bar.dataset.mostCurves);
const pickList = bar.querySelector("[data-pick-list]");
const listed = pickList?.dataset.pickList.split(",") ?? []; // ids of the runs of all pages of the list, as many as can be drawn
let picked = new Set((sessionStorage.getItem(PICKED) ?? "").split(",").filter(Boolean));

const rows = () => [...document.querySelectorAll("tr[data-run]")];
const rowAt = () => document.activeElement.closest("tr[data-run]");

function move(by) {
  const all = rows();
  const place = all.indexOf(rowAt());
  const next = place < 0 ? all.at(by > 0 ? 0 : -1) : all[place + by];
  next?.querySelector(".name a").focus();
}

// --- selection -------------------------------------------------------------------------------------------------------

function pick(row, isPicked = !picked.has(row.dataset.run)) {
  if (isPicked) picked.add(row.dataset.run);
  else picked.delete(row.dataset.run);
}

function showPicked() {
  sessionStorage.setItem(PICKED, [...picked].join());
  for (const row of rows()) {
    row.classList.toggle("picked", picked.has(row.dataset.run));
    row.querySelector("[data-pick]").checked = picked.has(row.dataset.run);
  }
  const all = document.querySelector("[data-pick-all]");
  if (all) all.checked = rows().every((row) => picked.has(row.dataset.run));
  bar.hidden = picked.size === 0;
  const others = picked.size - rows().filter((row) => picked.has(row.dataset.run)).length;
  bar.querySelector("[data-selected-count]").textContent = `${picked.size} selected${others ? `, ${others} not on this page` : ""}`;
  if (pickList) pickList.hidden = listed.every((run) => picked.has(run));
  const reasons = [
    link("[data-compare-link]", "compareLink", most, `Compare takes 2 to ${most} runs`, 2),
    link("[data-curves-link]", "curvesLink", mostCurves, `Curves are drawn of at most ${mostCurves} runs`),
  ];
  bar.querySelector("[data-selection-limit]").textContent = reasons.filter(Boolean).join(" · ");
}

// Returns why the link cannot be followed; an empty text if it can.
function link(selector, page, most, reason, least = 1) {
  const runs = [...picked].sort((a, b) => a - b); // the oldest is what the others are compared with
  const isAble = runs.length >= least && runs.length <= most;
  const element = bar.querySelector(selector);
  if (isAble) element.href = `${element.dataset[page]}?runs=${runs.join()}${bar.dataset.kept}`;
  else element.removeAttribute("href");
  element.setAttribute("aria-disabled", String(!isAble));
  return isAble ? "" : reason;
}

// Pinned cells stay beside each other at the left while the table scrolls.
function placePinned() {
  let left = 0;
  for (const head of document.querySelectorAll("th.pinned")) {
    for (const row of head.closest("table").rows) row.cells[head.cellIndex].style.left = `${left}px`;
    left += head.offsetWidth;
  }
}

function unselect() {
  if (!picked.size) return false;
  picked = new Set();
  showPicked();
}

function changed({ target }) {
  if (target.matches("[data-pick]")) pick(target.closest("tr"), target.checked);
  else if (target.matches("[data-pick-all]")) for (const row of rows()) pick(row, target.checked);
  else return;
  showPicked();
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  x: () => (rowAt() ? (pick(rowAt()), showPicked()) : false),
  c: () => click("[data-compare-link][href]"),
  v: () => click("[data-curves-link][href]"),
  u: unselect,
  f: () => document.querySelector("[data-run-search]").focus(),
  "]": () => click('.paging a[rel="next"]'),
  "[": () => click('.paging a[rel="first"]'),
};

document.addEventListener("change", changed);
document.addEventListener("keydown", (event) => runShortcut(event, KEYS));
document.addEventListener("htmx:afterSwap", placePinned);
document.addEventListener("htmx:afterSwap", showPicked); // a table that was fetched again has the same runs selected
pickList?.addEventListener("click", () => {
  picked = new Set(listed);
  showPicked();
});
bar.querySelector("[data-unselect]").addEventListener("click", unselect);
showPicked();
placePinned();
