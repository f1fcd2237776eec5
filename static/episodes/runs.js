// The list of runs: select runs to compare them or their curves. j and k move the focus from name to name, so Enter opens one.
import { runShortcut } from "../orsweb/keys.js";

const picked = new Set([...document.querySelectorAll("[data-pick]:checked")].map((box) => box.value));
const form = document.querySelector("[data-runs]");

function shown() {
  const chosen = [...form.querySelectorAll("[data-pick]:checked")].map((box) => box.value);
  const most = Number(form.dataset.most);
  const bar = form.querySelector("[data-selection]");
  bar.hidden = chosen.length === 0;
  bar.querySelector("[data-count]").textContent = `${chosen.length} run${chosen.length === 1 ? "" : "s"}`;
  link(bar.querySelector("[data-compare]"), `${form.action}?runs=${chosen}`, chosen.length >= 2 && chosen.length <= most);
  link(bar.querySelector("[data-overlay]"), `${form.dataset.curves}?runs=${chosen}`, chosen.length <= most);
}

function link(element, address, isAble) {
  if (isAble) element.href = address;
  else element.removeAttribute("href");
  element.setAttribute("aria-disabled", String(!isAble));
}

function move(by) {
  const names = [...form.querySelectorAll("td.name a")];
  const place = names.findIndex((name) => name.closest("tr").contains(document.activeElement));
  const next = place < 0 ? names.at(by > 0 ? 0 : -1) : names[place + by];
  next?.focus();
}

function pick() {
  const box = document.activeElement.closest("tr")?.querySelector("[data-pick]");
  if (!box) return false;
  box.click(); // tells of the change
}

const KEYS = { j: () => move(1), k: () => move(-1), x: pick };

// A table that was fetched again has the same runs selected.
function restore() {
  for (const box of form.querySelectorAll("[data-pick]")) box.checked = picked.has(box.value);
  shown();
}

function remember({ target }) {
  if (!target.matches("[data-pick]")) return;
  if (target.checked) picked.add(target.value);
  else picked.delete(target.value);
  shown();
}

if (form) {
  form.addEventListener("change", remember);
  document.addEventListener("htmx:afterSwap", restore);
  document.addEventListener("keydown", (event) => runShortcut(event, KEYS));
  shown();
}
