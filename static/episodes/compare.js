// Keyboard shortcuts of the comparison: both sides move together.
import { click, runShortcut } from "../orsweb/keys.js";

const rows = [...document.querySelectorAll(".compare-row")];
let at = Math.max(0, rows.findIndex((row) => `#${row.id}` === location.hash));

function show(index) {
  if (index < 0 || index >= rows.length) return turn(index - at);
  rows[at]?.classList.remove("current");
  at = index;
  const row = rows[at];
  row.classList.add("current");
  row.scrollIntoView({ block: row.offsetHeight > innerHeight / 2 ? "start" : "nearest", behavior: "instant" });
  history.replaceState(history.state, "", `#${row.id}`);
}

function turn(by) {
  return click(`.paging [rel="${by < 0 ? "prev" : "next"}"]`);
}

function difference(by) {
  for (let n = at + by; n >= 0 && n < rows.length; n += by) if (rows[n].dataset.verdict !== "same") return show(n);
  return turn(by);
}

function unfold() {
  for (const side of rows[at]?.querySelectorAll("details") ?? []) side.open = !side.open;
}

const KEYS = {
  j: () => show(at + 1),
  k: () => show(at - 1),
  n: () => difference(1),
  p: () => difference(-1),
  g: () => (show(0), false), // the frame has to see it: g and a letter opens a page
  G: () => show(rows.length - 1),
  v: () => click("[data-divergence]"),
  Enter: unfold,
};

document.addEventListener("keydown", (event) => runShortcut(event, KEYS));
document.addEventListener("click", (event) => {
  const row = event.target.closest(".compare-row");
  if (!row || event.target.closest("a, button, summary, select")) return;
  rows[at]?.classList.remove("current");
  at = rows.indexOf(row);
  row.classList.add("current");
});
window.addEventListener("hashchange", () => {
  const found = rows.findIndex((row) => `#${row.id}` === location.hash);
  if (found >= 0) show(found);
});

if (rows.length && location.hash) show(at);
else rows[0]?.classList.add("current");
