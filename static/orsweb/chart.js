// A large chart of one or more series with bands. Chart.js (a classic script, loaded before) draws it. User actions
// are dispatched as events on the canvas: "chart:point" {series, point}, "chart:zoom" {from, to} and "chart:hover" {x: of the
// nearest point, null away from the chart}.
//
// Data: {x: "episode" | "time" | "step", unit: text of the y axis, isShare: y is 0 to 1, log: boolean, band: boolean,
//        isSmoothed: whether the line of the raw values is drawn faintly behind each,
//        marks: [{x, text}, …]: vertical lines,
//        caption: lines that an image of the chart shows below it,
//        series: [{name, hue: 0 to 360, dash: [pixels, …], points: [{x, xTo, y, raw, low, high, n, …}, …]}, …]}
// y, raw (only if smoothed), low and high may be null. By episode, x is the 0-based position of a point's first ending and xTo the position after its
// last; by time and step both are inclusive. Times are seconds since the epoch.
import { large, MIN_SHOWN } from "./figures.js";
import { keyOf } from "./keys.js";

const DRAG_PIXELS = 6;
const POINT_PIXELS = 5;
const MAX_TOLD = 4; // series whose values a chart tells while another one is pointed at; more would cover it
const MAX_NAME = 40;
const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });

export function drawChart(canvas, data) {
  const state = { canvas, data, hidden: new Set(), cursor: null, hovered: null, drag: null };
  state.chart = new Chart(canvas.getContext("2d"), configuration(state));
  const themes = new MutationObserver(() => redraw(state));
  themes.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const onScheme = () => redraw(state);
  scheme.addEventListener("change", onScheme);
  listen(state);
  return {
    update(fresh) {
      state.data = fresh;
      if (!fresh.series.some(({ points }) => points.some(({ x }) => x === state.cursor))) state.cursor = null;
      redraw(state);
    },
    show(name, isShown) {
      isShown ? state.hidden.delete(name) : state.hidden.add(name);
      redraw(state);
    },
    isShown: (name) => !state.hidden.has(name),
    hover: (x) => hover(state, x),
    png: () => png(state),
    destroy() {
      themes.disconnect();
      scheme.removeEventListener("change", onScheme);
      state.chart.destroy();
    },
  };
}

// --- configuration of Chart.js ------------------------------------------------------------------------------------------

function configuration(state) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const ink = resolved(colour("--ink-soft"), state.canvas);
  const rule = resolved(colour("--rule-faint"), state.canvas);
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  return {
    type: "line",
    data: { datasets: state.data.series.flatMap((series) => datasets(state, series)) },
    options: {
      animation: isStill ? false : { duration: 150 },
      maintainAspectRatio: false,
      responsive: true,
      normalized: true,
      parsing: false,
      interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: {
        x: axis(ink, rule, {
          ...{ type: "linear", bounds: "data" },
          // places and training steps are whole numbers, so a short axis has no tick between two of them
          ticks: { maxRotation: 0, callback: tick(state.data.x), ...(state.data.x === "time" ? {} : { precision: 0 }) },
          afterBuildTicks: ({ ticks }) => dropCovered(ticks),
        }),
        y: axis(ink, rule, {
          type: state.data.log ? "logarithmic" : "linear",
          title: { display: true, text: state.data.unit, color: ink },
          ...(state.data.isShare && !state.data.log ? { min: 0, max: 1 } : {}),
          ticks: { callback: plainTick },
        }),
      },
      plugins: { legend: { display: false }, tooltip: tooltip(state) },
    },
    plugins: [markLines(state, ink), cursorLine(state, ink)],
  };
}

function axis(ink, rule, more) {
  return { grid: { color: rule }, border: { color: rule }, ...more, ticks: { color: ink, ...(more.ticks ?? {}) } };
}

// The axis ends at the first and the last point, each with a tick: none whose number covers that of its neighbour.
export function dropCovered(ticks) {
  const gap = (at) => ticks[at + 1].value - ticks[at].value;
  if (ticks.length < 4) return;
  const step = gap(1);
  if (gap(ticks.length - 2) < step / 2) ticks.pop();
  if (gap(0) < step / 2) ticks.shift();
}

function datasets(state, series) {
  const dark = isDark(state.canvas);
  const line = `oklch(${dark ? "76%" : "52%"} 0.13 ${series.hue})`;
  const area = `oklch(${dark ? "76%" : "52%"} 0.13 ${series.hue} / 0.16)`;
  const faint = `oklch(${dark ? "76%" : "52%"} 0.13 ${series.hue} / 0.35)`;
  const hidden = state.hidden.has(series.name);
  const plain = { borderWidth: 0, pointRadius: 0, pointHitRadius: 0, hidden, spanGaps: true };
  const points = (key) => series.points.map((point) => ({ x: point.x, y: drawable(state, point[key]), point }));
  const middle = {
    ...{ series, data: points("y"), label: series.label, hidden, borderColor: line, backgroundColor: line, borderDash: series.dash },
    ...{ borderWidth: 1.75, pointRadius: series.points.length < 60 ? 2 : 0, pointHoverRadius: 4, tension: 0 },
    clip: POINT_PIXELS, // a point at the edge, such as one of 100 % success, is drawn whole
  };
  const behind = { ...plain, isBehind: true };
  const low = { ...behind, data: points("low") };
  const high = { ...behind, data: points("high"), fill: "-1", backgroundColor: area };
  const raw = { ...behind, data: points("raw"), borderColor: faint, borderWidth: 1 };
  return [...(state.data.band ? [low, high] : []), ...(state.data.isSmoothed ? [raw] : []), middle];
}

// What rounding leaves of 0 is 0; a logarithmic axis has no place for it.
function drawable(state, value) {
  const shown = Math.abs(value ?? 1) < MIN_SHOWN ? 0 : value;
  return state.data.log && !(shown > 0) ? null : shown;
}

function tooltip(state) {
  return {
    filter: (item) => !item.dataset.isBehind,
    displayColors: state.data.series.length > 1,
    callbacks: {
      title: (items) => (items.length ? spanText(state.data.x, items[0].raw.point) : ""),
      label: (item) => {
        const { y, raw, low, high, n } = item.raw.point;
        const band = low === null || low === undefined ? "" : ` (${number(low)} to ${number(high)})`;
        const full = item.dataset.label;
        const short = full.length > MAX_NAME ? `${full.slice(0, MAX_NAME)}…` : full;
        const name = state.data.series.length > 1 ? `${short}: ` : "";
        const coverage = item.raw.point.coverage ? ` (${item.raw.point.coverage})` : "";
        const before = state.data.isSmoothed ? `, ${number(raw)} before smoothing` : "";
        return `${name}${number(y)}${band}${before}, n = ${n.toLocaleString("en")}${coverage}`;
      },
    },
  };
}

// Lines with a text at the top, where something about all series changed.
function markLines(state, ink) {
  return {
    id: "marks",
    afterDatasetsDraw(chart) {
      const { top, bottom, left, right } = chart.chartArea;
      const context = chart.ctx;
      context.save();
      context.strokeStyle = context.fillStyle = ink;
      context.font = "11px system-ui, sans-serif";
      context.setLineDash([6, 4]);
      for (const { x, text } of state.data.marks ?? []) {
        const at = chart.scales.x.getPixelForValue(x);
        if (at < left || at > right) continue;
        context.beginPath();
        context.moveTo(at, top);
        context.lineTo(at, bottom);
        context.stroke();
        const isLate = at + 70 > right;
        context.textAlign = isLate ? "right" : "left";
        context.fillText(text, at + (isLate ? -4 : 4), top + 10);
      }
      context.restore();
    },
  };
}

function cursorLine(state, ink) {
  return {
    id: "cursor",
    afterDatasetsDraw(chart) {
      const { top, bottom } = chart.chartArea;
      const context = chart.ctx;
      context.save();
      if (state.drag) {
        context.fillStyle = ink;
        context.globalAlpha = 0.15;
        context.fillRect(state.drag.from, top, state.drag.to - state.drag.from, bottom - top);
      } else {
        context.strokeStyle = ink;
        for (const [at, dashes] of [[state.cursor, [3, 3]], [state.hovered, []]]) {
          if (at === null) continue;
          const x = chart.scales.x.getPixelForValue(at);
          context.lineWidth = dashes.length ? 1 : 0.5;
          context.setLineDash(dashes);
          context.beginPath();
          context.moveTo(x, top);
          context.lineTo(x, bottom);
          context.stroke();
        }
      }
      context.restore();
    },
  };
}

function redraw(state) {
  const { data, options } = configuration(state);
  state.chart.data = data;
  state.chart.options = options;
  state.chart.update("none");
}

// --- user actions ------------------------------------------------------------------------------------------

function listen(state) {
  const { canvas } = state;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0) state.drag = { from: event.offsetX, to: event.offsetX, isWide: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!state.drag) return hovered(state, nearest(state, event)?.point.x ?? null);
    state.drag.to = event.offsetX;
    state.drag.isWide ||= Math.abs(state.drag.to - state.drag.from) > DRAG_PIXELS;
    state.chart.draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const drag = state.drag;
    state.drag = null;
    if (!drag) return;
    if (drag.isWide) zoom(state, drag);
    else openPoint(state, nearest(state, event));
  });
  canvas.addEventListener("pointerleave", () => {
    state.drag = null;
    hovered(state, null);
    state.chart.draw();
  });
  canvas.addEventListener("keydown", (event) => onKey(state, event));
}

function hovered(state, x) {
  if (x === state.hovered) return;
  state.hovered = x;
  dispatch(state, "chart:hover", { x });
}

// Show the values at the place that is pointed at in another chart.
function hover(state, x) {
  if (x === state.hovered) return;
  state.hovered = x;
  const elements = state.chart.data.datasets.flatMap((set, datasetIndex) => {
    const index = set.isBehind || set.hidden ? -1 : set.data.findIndex((point) => point.x === x && point.y !== null);
    return index < 0 ? [] : [{ datasetIndex, index }];
  });
  state.chart.tooltip.setActiveElements(elements.length > MAX_TOLD ? [] : elements, { x: 0, y: 0 });
  state.chart.update("none");
}

function zoom(state, drag) {
  const scale = state.chart.scales.x;
  const ends = [drag.from, drag.to].map((pixel) => scale.getValueForPixel(pixel)).sort((a, b) => a - b);
  dispatch(state, "chart:zoom", { from: ends[0], to: ends[1] });
}

function nearest(state, event) {
  const [found] = state.chart
    .getElementsAtEventForMode(event, "nearest", { axis: "x", intersect: false }, true)
    .filter((element) => !state.chart.data.datasets[element.datasetIndex].isBehind);
  if (!found) return null;
  const set = state.chart.data.datasets[found.datasetIndex];
  return { series: set.series, point: set.data[found.index].point };
}

function openPoint(state, found) {
  if (!found) return;
  state.cursor = found.point.x;
  state.chart.draw();
  dispatch(state, "chart:point", found);
}

function onKey(state, event) {
  const key = keyOf(event);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  const series = state.data.series.find(({ name }) => !state.hidden.has(name));
  if (!series?.points.length || (!step && key !== "Enter")) return;
  event.preventDefault();
  const at = series.points.findIndex(({ x }) => x === state.cursor);
  if (!step) {
    if (at >= 0) openPoint(state, { series, point: series.points[at] });
    return;
  }
  const next = at < 0 ? (step > 0 ? 0 : series.points.length - 1) : at + step;
  const point = series.points[Math.max(0, Math.min(next, series.points.length - 1))];
  state.cursor = point.x;
  const set = state.chart.data.datasets.findIndex((dataset) => dataset.series === series);
  state.chart.tooltip.setActiveElements([{ datasetIndex: set, index: series.points.indexOf(point) }], { x: 0, y: 0 });
  state.chart.update("none");
}

function dispatch(state, type, detail) {
  state.canvas.dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));
}

function png(state) {
  const copy = document.createElement("canvas");
  const style = getComputedStyle(document.body);
  const ratio = state.canvas.width / state.canvas.clientWidth;
  const context = copy.getContext("2d");
  const font = `${12 * ratio}px ${style.fontFamily}`;
  context.font = font;
  const lines = (state.data.caption ?? []).flatMap((line) => wrapped(context, line, state.canvas.width - 24 * ratio));
  copy.width = state.canvas.width;
  copy.height = state.canvas.height + (lines.length ? lines.length * 18 + 12 : 0) * ratio;
  context.fillStyle = style.backgroundColor;
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(state.canvas, 0, 0);
  context.font = font; // a new size resets it
  context.fillStyle = style.color;
  lines.forEach((line, place) => context.fillText(line, 12 * ratio, state.canvas.height + (place + 1) * 18 * ratio));
  return new Promise((done) => copy.toBlob(done, "image/png"));
}

// Break a text into lines that fit, between words.
function wrapped(context, text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (lines.at(-1) && context.measureText(longer).width > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

// --- texts and colours -----------------------------------------------------------------------------------------------

export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size < MIN_SHOWN) return "0";
  if (size >= 1e6) return (value < 0 ? "\u2212" : "") + large(size);
  if (size < 0.005) return minus(value.toPrecision(2)); // as the table below writes it
  return minus(value.toLocaleString("en", { maximumFractionDigits: size < 10 ? 3 : 1 }));
}

// A number's text with the sign that is as wide as a plus.
function minus(text) {
  return text.replace(/^-/, "\u2212");
}

export function moment(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
}

function spanText(kind, point) {
  if (kind === "episode") return placesText(point);
  const format = kind === "time" ? moment : (value) => value.toLocaleString("en");
  const isOne = point.xTo === undefined || point.xTo === null || point.xTo === point.x;
  return `${kind === "step" ? "training step " : ""}${format(point.x)}${isOne ? "" : ` to ${format(point.xTo)}`}`;
}

// Write positions in words, counted from 1: a bare number would be mistaken for an episode's number.
function placesText({ x, xTo }) {
  const count = xTo - x;
  if (count === 1) return `the ${ordinal(xTo)} ending`;
  return `${count.toLocaleString("en")} endings, the ${ordinal(x + 1)} to ${ordinal(xTo)}`;
}

function ordinal(value) {
  const ending = { one: "st", two: "nd", few: "rd", other: "th" }[ORDINALS.select(value)];
  return `${value.toLocaleString("en")}${ending}`;
}

function tick(kind) {
  return (value) => (kind === "time" ? moment(value).slice(5) : value.toLocaleString("en"));
}

// A tick of the y axis: Chart.js's own text, whose digits follow from the other ticks. Chart.js passes its axis as `this`.
function plainTick(value, place, ticks) {
  return minus(Chart.Ticks.formatters[this.type === "logarithmic" ? "logarithmic" : "numeric"].call(this, value, place, ticks));
}

function isDark(element) {
  return resolved("light-dark(rgb(255, 255, 255), rgb(0, 0, 0))", element) === "rgb(0, 0, 0)";
}

function resolved(colour, element) {
  // a canvas supports neither custom properties nor light-dark(), so an element of the page has to resolve them
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = colour;
  element.parentElement.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
