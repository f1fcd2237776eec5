// Curves: the charts of a curve panel, which share their axis, their switches, and the episodes of a point.
//
// The address of the panel contains all its options; switches that need no new page change it in place.
import { drawChart } from "../orsweb/chart.js";
import { runShortcut } from "../orsweb/keys.js";

const panel = document.querySelector("[data-curve]");
const canvases = [...(panel?.querySelectorAll("[data-chart]") ?? [])];
const behind = document.getElementById("behind");
const query = new URLSearchParams(panel?.dataset.query ?? "");
let charts = []; // {figure, chart} of each canvas, in order

function data() {
  return JSON.parse(document.getElementById("curve-data").textContent);
}

// --- switches --------------------------------------------------------------------------------------------------------

let latest = 0;

// The tables follow the chart: their address is the one that live.js fetches again, too.
function refetch() {
  query.delete("format");
  if (panel.dataset.source === location.pathname) history.replaceState(null, "", `?${query}`);
  const tables = document.getElementById("curve-tables");
  tables.dataset.refetch = `${panel.dataset.source}?${query}`;
  htmx.ajax("GET", tables.dataset.refetch, { target: tables, swap: "outerHTML" });
  return load();
}

async function load() {
  const turn = ++latest;
  const answer = await fetch(`${panel.dataset.source}?${query}&format=json`);
  if (!answer.ok || turn !== latest) return;
  const fresh = (await answer.json()).charts;
  if (fresh.some(({ figure }) => !charts.some((one) => one.figure === figure))) return showNew();
  for (const { figure, chart } of charts) {
    const data = fresh.find((one) => one.figure === figure);
    if (data) chart.update(data);
  }
  panel.querySelector("[data-unzoom]").hidden = !query.has("from") && !query.has("to");
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

const isShown = (name) => charts.every(({ chart }) => chart.isShown(name));

// Tables that were fetched again know nothing of the curves that are hidden.
function markLegends() {
  for (const legend of panel.querySelectorAll("[data-series]")) legend.setAttribute("aria-pressed", isShown(legend.dataset.series));
}

function set(name, value) {
  if (value === "" || value === null) query.delete(name);
  else query.set(name, value);
}

function zoom({ detail: { from, to } }) {
  set("from", Number(from.toPrecision(12)));
  set("to", Number(to.toPrecision(12)));
  refetch();
}

function unzoom() {
  set("from", null);
  set("to", null);
  refetch();
}

function listenToSwitches() {
  listenToSmoothing(panel.querySelector("[data-smoothing]"));
  panel.querySelector("[data-band]").addEventListener("change", (event) => {
    set("band", event.target.checked ? "yes" : "no");
    refetch();
  });
  panel.querySelector("[data-unzoom]").addEventListener("click", unzoom);
  panel.querySelector("[data-png]").addEventListener("click", download);
  panel.addEventListener("click", ({ target }) => {
    const legend = target.closest("[data-series]");
    if (!legend) return;
    const toShow = !isShown(legend.dataset.series);
    for (const { chart } of charts) chart.show(legend.dataset.series, toShow);
    markLegends();
  });
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

async function download() {
  for (const { figure, chart } of charts) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await chart.png());
    link.download = charts.length === 1 ? "curve.png" : `curve-${figure}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
}

// --- the episodes of a point -----------------------------------------------------------------------------------------

function listEpisodes({ detail: { series, point } }) {
  const asked = new URLSearchParams(series.query);
  for (const [name, value] of Object.entries(point.behind)) asked.set(name, value);
  if (!asked.has("ending")) asked.set("ending", "attempt");
  const address = `${panel.dataset.episodes}?${asked}`;
  const title = document.createElement("h2");
  const link = document.createElement("a");
  link.href = address;
  link.textContent = `${point.attempts.toLocaleString("en")} episode${point.attempts === 1 ? "" : "s"} at this point of ${series.label}`;
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
  charts = data().map((one, place) => ({ figure: one.figure, chart: drawChart(canvases[place], one) }));
  listenToSwitches();
  panel.addEventListener("chart:zoom", zoom); // of any chart: all show the same part
  panel.addEventListener("chart:hover", ({ target, detail: { x } }) => {
    for (const [place, { chart }] of charts.entries()) if (canvases[place] !== target) chart.hover(x);
  });
  panel.addEventListener("chart:point", listEpisodes);
  behind.addEventListener("click", openRow);
  document.addEventListener("keydown", (event) => runShortcut(event, KEYS));
  document.addEventListener("htmx:afterSwap", markLegends);
}
