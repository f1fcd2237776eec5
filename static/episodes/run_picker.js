// The menu "Compare runs" of a chart: search runs, check those to draw, and go to the address that names them.
const DELAY_MS = 200;

function listen(picker) {
  const search = picker.querySelector("input[type=search]");
  const choices = picker.querySelector("[data-choices]");
  const most = Number(picker.dataset.most);
  let chosen = picker.dataset.chosen.split(",").filter(Boolean);
  let latest = 0;
  let timer = null;

  async function load() {
    const turn = ++latest;
    const asked = new URLSearchParams({ search: search.value, runs: chosen.join() });
    const answer = await fetch(`${picker.dataset.list}?${asked}`, { headers: { "HX-Request": "true" } });
    const html = await answer.text();
    if (!answer.ok || turn !== latest) return;
    choices.innerHTML = html; // rendered and escaped by the server
    update();
  }

  function update() {
    const isFull = chosen.length >= most;
    for (const box of choices.querySelectorAll("input")) box.disabled = isFull && !box.checked;
    picker.querySelector("[data-count]").textContent = `${chosen.length} of at most ${most} chosen`;
    const link = picker.querySelector("[data-show]");
    if (chosen.length) link.href = address();
    else link.removeAttribute("href");
    link.setAttribute("aria-disabled", String(!chosen.length));
  }

  // The runs replace what else names runs in the address, and the part of the axis that is shown of others.
  function address() {
    const query = new URLSearchParams(picker.dataset.switches);
    for (const name of ["by", "run", "from", "to", "format"]) query.delete(name);
    query.set("runs", chosen.join());
    return `${picker.dataset.address}?${String(query).replaceAll("%2C", ",")}`;
  }

  picker.addEventListener("toggle", () => {
    if (!picker.open) return;
    load();
    search.focus();
  });
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(load, DELAY_MS);
  });
  choices.addEventListener("change", ({ target }) => {
    if (target.checked) chosen.push(target.value);
    else chosen = chosen.filter((run) => run !== target.value);
    update();
  });
}

for (const picker of document.querySelectorAll("[data-run-picker]")) listen(picker);
