// Runs: select some to compare them, or to draw their curves over each other.
const form = document.querySelector("[data-runs]");
const MOST_SERIES = 8;

function shown() {
  const chosen = [...form.querySelectorAll("[data-pick]:checked")].map((box) => box.value);
  const bar = form.querySelector("[data-selection]");
  bar.hidden = chosen.length === 0;
  bar.querySelector("[data-count]").textContent = `${chosen.length} run${chosen.length === 1 ? "" : "s"}`;
  link(bar.querySelector("[data-compare]"), `${form.action}?runs=${chosen}`, chosen.length >= 2 && chosen.length <= MOST_SERIES);
  link(bar.querySelector("[data-overlay]"), `${form.dataset.curves}?runs=${chosen}`, chosen.length <= MOST_SERIES);
}

function link(element, address, isAble) {
  if (isAble) element.href = address;
  else element.removeAttribute("href");
  element.setAttribute("aria-disabled", String(!isAble));
}

function pressed(event) {
  if (event.key !== "x" || event.ctrlKey || event.metaKey || event.target.matches("input:not([type=checkbox]), select")) return;
  const box = event.target.closest("tr")?.querySelector("[data-pick]");
  if (!box) return;
  event.preventDefault();
  box.checked = !box.checked;
  shown();
}

if (form) {
  form.addEventListener("change", shown);
  document.addEventListener("keydown", pressed);
  shown();
}
