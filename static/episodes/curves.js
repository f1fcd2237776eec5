// Curves: the charts of a curve panel, which share their axis, their switches, and the episodes of a point.
//
// The address of the panel contains all its options; switches that need no new page change it in place.
import { drawChart } from "../orsweb/chart.js";
import { runShortcut } from "../orsweb/keys.js";

const panel = document.querySelector("[data-curve]");
const canvases = [...(panel?.querySelectorAll("[data-chart]") ?? [])];
const behind = document.getElementById("behind");
const query = new URLSearchParams(panel?.dataset.query ?? "");
let charts = []; // {data, chart} of each canvas, in order

// What all charts hide and highlight, by key of a curve; the address has both. If it highlights nothing, the best of
// many stand out.
const NONE = "none"; // in the address: not even these
const listed = (text) => new Set((text ?? "").split(",").filter((key) => key && key !== NONE));
const isBest = Boolean(panel?.dataset.best) && !query.has("highlight"); // bands of these would hide the others
const view = { hidden: listed(query.get("hidden")), highlighted: listed(isBest ? panel.dataset.best : query.get("highlight")), hovered: null, isBest };

function data() {
  return JSON.parse(document.getElementById("curve-data").textContent);
}

// --- switches --------------------------------------------------------------------------------------------------------

let latest = 0;

// The tables follow the chart: their address is the one that live.js fetches again, too.
function refetch() {
  keep();
  const tables = document.getElementById("curve-tables");
  htmx.ajax("GET", tables.dataset.refetch, { target: tables, swap: "outerHTML" });
  return load();
}

const KEPT = ["smooth", "window", "band", "minmax", "hidden", "highlight"];
const isOwn = (address) => new URL(address, location.href).pathname === panel.dataset.source;
const textOf = (asked) => String(asked).replaceAll("%2C", ",");

// The address, and the links and forms that lead to other curves, keep what was switched in place.
function keep() {
  query.delete("format");
  if (isOwn(location.href)) history.replaceState(null, "", `?${textOf(query)}`);
  document.getElementById("curve-tables").dataset.refetch = `${panel.dataset.source}?${textOf(query)}`;
  for (const link of document.querySelectorAll("[data-curve] a, [data-curve-filters] a, a[href^='?']")) {
    if (!link.hasAttribute("href") || !isOwn(link.href) || link.matches("[data-whole]")) continue;
    const [path, asked] = link.getAttribute("href").split("?");
    link.href = `${path}?${textOf(withKept(new URLSearchParams(asked)))}`;
  }
  const picker = panel.querySelector("[data-run-picker]");
  picker.dataset.switches = String(withKept(new URLSearchParams(picker.dataset.switches)));
}

// A part of the axis stays while the axis does.
function withKept(asked) {
  const axisOf = (parameters) => parameters.get("x") ?? panel.dataset.x;
  const names = axisOf(asked) === axisOf(query) ? [...KEPT, "from", "to"] : KEPT;
  for (const name of names) query.has(name) ? asked.set(name, query.get(name)) : asked.delete(name);
  return asked;
}

function keepInForm({ target: form }) {
  if (form.method !== "get" || !isOwn(form.action)) return;
  for (const name of panel.contains(form) ? [...KEPT, "from", "to"] : KEPT) {
    form.querySelector(`input[type=hidden][name=${name}]`)?.remove();
    if (!query.has(name)) continue;
    const field = Object.assign(document.createElement("input"), { type: "hidden", name, value: query.get(name) });
    form.append(field);
  }
}

async function load() {
  const turn = ++latest;
  const answer = await fetch(`${panel.dataset.source}?${query}&format=json`);
  if (!answer.ok || turn !== latest) return;
  const fresh = (await answer.json()).charts;
  if (fresh.some(({ figure }) => !charts.some(({ data }) => data.figure === figure))) return showNew();
  for (const drawn of charts) {
    const data = fresh.find(({ figure }) => figure === drawn.data.figure);
    if (!data) continue;
    drawn.data = data;
    drawn.chart.update(data);
  }
  tellBands();
  panel.querySelector("[data-unzoom]").hidden = !isZoomed();
}

// --- live ------------------------------------------------------------------------------------------------------------

const PAUSE_MS = 10_000;
let loaded = -Infinity;
let isDue = false;

function onLive({ detail: { type } }) {
  if (isDue || !["ended", "catch-up"].includes(type)) return;
  isDue = true;
  setTimeout(
    async () => {
      isDue = false; // what ends from now on may not be in the answer
      loaded = performance.now();
      await load().catch(() => {}); // the server is away; the next event comes when it is back
    },
    Math.max(0, loaded + PAUSE_MS - performance.now()),
  );
}

// A figure that had no values when the page was loaded has no chart in it. Nothing that is being typed is lost.
function showNew() {
  if (!document.activeElement?.matches("input, textarea, select")) location.reload();
}

// Tables that were fetched again know nothing of the curves that are hidden or highlighted.
function markLegends() {
  for (const legend of panel.querySelectorAll("[data-series]")) legend.setAttribute("aria-pressed", !view.hidden.has(legend.dataset.series));
  for (const button of panel.querySelectorAll("[data-highlight]")) button.setAttribute("aria-pressed", view.highlighted.has(button.dataset.highlight));
  tellBands();
}

// Of many curves only those that stand out have bands.
function tellBands() {
  const isShown = (line) => !view.hidden.has(line.key) && !view.hidden.has(line.curve);
  const lacks = ({ band, extremes, maxBands, series }) => (band || extremes) && series.filter(isShown).length > maxBands;
  panel.querySelector("[data-band-hint]").hidden = !charts.some(({ data }) => lacks(data));
}

function redraw() {
  for (const { chart } of charts) chart.redraw();
}

function toggle(name, keys, key) {
  if (!keys.delete(key)) keys.add(key);
  if (name === "highlight") view.isBest = false;
  set(name, [...keys].join() || (name === "highlight" && panel.dataset.best ? NONE : ""));
  keep();
  markLegends();
  redraw();
}

function onClick({ target }) {
  const { series, highlight } = target.closest("[data-series], [data-highlight]")?.dataset ?? {};
  if (series) toggle("hidden", view.hidden, series);
  if (highlight) toggle("highlight", view.highlighted, highlight);
}

// The curve of the row that is pointed at, or that has the focus, stands out.
function onRow({ type, target, relatedTarget }) {
  const entered = ["pointerover", "focusin"].includes(type) ? target : relatedTarget;
  const key = entered?.closest?.("[data-curve-row]")?.dataset.curveRow ?? null;
  if (key === view.hovered) return;
  view.hovered = key;
  redraw();
}

function set(name, value) {
  if (value === "" || value === null) query.delete(name);
  else query.set(name, value);
}

const isZoomed = () => query.has("from") || query.has("to");

// Places, training steps and seconds are whole numbers.
function zoom({ detail: { from, to } }) {
  set("from", Math.round(from));
  set("to", Math.round(to));
  refetch();
}

function unzoom() {
  clearTimeout(click);
  if (!isZoomed()) return;
  set("from", null);
  set("to", null);
  refetch();
}

function listenToSwitches() {
  listenToSmoothing(panel.querySelector("[data-smoothing]"));
  for (const name of ["band", "minmax"]) {
    panel.querySelector(`[data-${name}]`)?.addEventListener("change", (event) => {
      set(name, event.target.checked ? "yes" : "no");
      refetch();
    });
  }
  panel.querySelector("[data-unzoom]").addEventListener("click", unzoom);
  panel.addEventListener("click", onClick);
  for (const type of ["pointerover", "pointerout", "focusin", "focusout"]) panel.addEventListener(type, onRow);
}

// Two ways of smoothing, each with a slider whose lowest value is none. The one that is not chosen is hidden and at none.
function listenToSmoothing(choice) {
  const sliders = [...panel.querySelectorAll("[data-smooth]")];
  const show = (slider) => (slider.nextElementSibling.textContent = slider.value);
  const apply = () => {
    for (const slider of sliders) set(slider.dataset.smooth, slider.value === slider.min ? null : slider.value);
    refetch();
  };
  for (const slider of sliders) {
    slider.addEventListener("input", () => show(slider));
    slider.addEventListener("change", apply);
  }
  choice.addEventListener("change", () => {
    for (const slider of sliders) {
      slider.parentElement.hidden = slider.dataset.smooth !== choice.value;
      slider.value = slider.parentElement.hidden ? slider.min : slider.dataset.first;
      show(slider);
    }
    apply();
  });
}

// --- the episodes of a point -----------------------------------------------------------------------------------------

const DOUBLE_CLICK_MS = 300;
let click = null;

// In a part of the axis a click may be the first of two, which show all of it.
function onPoint({ detail }) {
  clearTimeout(click);
  if (isZoomed()) click = setTimeout(() => listEpisodes(detail), DOUBLE_CLICK_MS);
  else listEpisodes(detail);
}

function listEpisodes({ series, point }) {
  if (!series.query) return; // of a group of runs
  const asked = new URLSearchParams(series.query);
  const own = point.behind ?? { step: `${point.x}..${point.xTo}` };
  for (const [name, value] of Object.entries(own)) asked.set(name, value);
  if (!asked.has("ending")) asked.set("ending", "attempt");
  const address = `${panel.dataset.episodes}?${asked}`;
  const title = document.createElement("h2");
  const link = document.createElement("a");
  link.href = address;
  const count = (point.attempts ?? null) === null ? "Episodes" : `${point.attempts.toLocaleString("en")} episode${point.attempts === 1 ? "" : "s"}`;
  link.textContent = `${count} at this point of ${series.label}`;
  title.append(link);
  const list = document.createElement("div");
  behind.replaceChildren(title, list);
  behind.hidden = false;
  htmx.ajax("GET", address, { target: list, swap: "innerHTML" }).then(() => behind.scrollIntoView({ block: "nearest" }));
}

function openRow(event) {
  const row = event.target.closest("tr[data-href]");
  if (row && !event.target.closest("a, input, button")) location.assign(row.dataset.href);
}

// --- filters and keys ------------------------------------------------------------------------------------------------

function listenToFilters(form) {
  form.addEventListener("change", (event) => {
    if (!event.target.matches("[data-auto]")) return;
    const cleared = event.target.dataset.clears && form.elements[event.target.dataset.clears];
    if (cleared) cleared.value = "";
    form.requestSubmit();
  });
  form.addEventListener("submit", () => {
    for (const field of form.elements) field.disabled = field.name !== "" && field.value === "";
  });
  window.addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return; // else the browser kept the page whole, its fields as they were left
    form.reset();
    for (const field of form.elements) field.disabled = false;
  });
}

const KEYS = { c: () => canvases[0].focus(), 0: unzoom };

if (panel) document.addEventListener("orsweb:live", onLive);
const filters = document.querySelector("[data-curve-filters]");
if (filters) listenToFilters(filters);
if (canvases.length) {
  charts = data().map((data, place) => ({ data, chart: drawChart(canvases[place], data, view) }));
  listenToSwitches();
  panel.addEventListener("chart:zoom", zoom); // of any chart: all show the same part
  panel.addEventListener("chart:hover", ({ target, detail }) => {
    for (const [place, { chart }] of charts.entries()) if (canvases[place] !== target) chart.hover(detail);
  });
  panel.addEventListener("chart:unzoom", unzoom);
  panel.addEventListener("chart:point", onPoint);
  document.addEventListener("submit", keepInForm, true);
  markLegends();
  behind.addEventListener("click", openRow);
  document.addEventListener("keydown", (event) => runShortcut(event, KEYS));
  document.addEventListener("htmx:afterSwap", markLegends);
}
