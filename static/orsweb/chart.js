// A large chart of one or more series with bands. Chart.js (a classic script, loaded before) draws it. User actions
// are dispatched as events on the canvas: "chart:point" {series, point}, "chart:zoom" {from, to}, "chart:unzoom" and
// "chart:hover" {x: of the nearest point, key: of its series; null away from the chart}.
//
// Data: {figure: its name, x: "episode" | "time" | "step", xTitle, yTitle, isShare: y is 0 to 1, log: boolean,
//        isReported: whether y is of `n` of a point's `attempts`, band, extremes: sentences about the bands and the light bands; empty: there are
//        none,
//        maxBands: lines that all have bands; of more only those that stand out do,
//        isSmoothed: whether the line of the raw values is drawn faintly behind each,
//        marks: [{x, text}, …]: vertical lines,
//        series: [{key, curve: key of the curve of which it is a part, label, colour: 0 to 11, dash: [pixels, …],
//                  usual: [low, high] beyond which the y axis need not reach, or null,
//                  points: [{x, xTo, y, raw, low, high, min, max, n, …}, …]}, …]}
// y, raw (only if smoothed), low, high, min and max (only with light bands) may be null, and all but y may be missing. By episode, x is the 0-based position of a point's first ending and xTo the position after its
// last; by time and step both are inclusive. Times are seconds since the epoch.
import { linearAxis, logAxis, numberTicks, roundAxis, timeAxis, timeTicks } from "./chart_axes.js";
import { ChartTooltip } from "./chart_tooltip.js";
import { large, MIN_SHOWN, signed } from "./figures.js";
import { keyOf } from "./keys.js";

const DRAG_PIXELS = 6;
const POINT_PIXELS = 5;
const NEAR_PIXELS = 12; // points this close to the pointer's place on the x axis belong to it
const MAX_TOLD = 4; // series whose values a chart tells while another one is pointed at; more would cover it
const MAX_ROWS = 12; // of a tooltip
const MAX_LEGEND = 8; // lines that a chart names above it
const MAX_THICK = 12; // curves that are drawn as thick lines
const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });

// `view` says what charts that are shown together hide and highlight: {hidden, highlighted: sets of keys of series or
// curves, hovered: a key or null, isBest: whether nobody chose these, so that they have no bands}. Whoever changes it calls `redraw`.
export function drawChart(canvas, data, view = { hidden: new Set(), highlighted: new Set(), hovered: null }) {
  const state = { canvas, data, view, cursor: null, hovered: null, near: null, drag: null, colours: new Map() };
  state.tooltip = new ChartTooltip(canvas);
  state.chart = new Chart(canvas.getContext("2d"), configuration(state));
  const onScheme = () => {
    state.colours.clear();
    redraw(state);
  };
  const themes = new MutationObserver(onScheme);
  themes.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
  const schemes = ["(prefers-color-scheme: dark)", "print"].map((query) => matchMedia(query));
  for (const scheme of schemes) scheme.addEventListener("change", onScheme);
  listen(state);
  return {
    update(fresh) {
      state.data = fresh;
      if (!fresh.series.some(({ points }) => points.some(({ x }) => x === state.cursor))) state.cursor = null;
      redraw(state);
    },
    redraw: () => redraw(state),
    hover: (place) => hover(state, place),
    destroy() {
      themes.disconnect();
      for (const scheme of schemes) scheme.removeEventListener("change", onScheme);
      state.chart.destroy();
    },
  };
}

const holds = (keys, { key, curve }) => keys.has(key) || keys.has(curve);
const isHidden = ({ view }, series) => holds(view.hidden, series);
const keepsBands = ({ view }, series) => !view.isBest && holds(view.highlighted, series);
const isHovered = ({ view, near }, { key, curve }) => near === key || (view.hovered !== null && [key, curve].includes(view.hovered));
const isPicked = (state, series) => holds(state.view.highlighted, series) || isHovered(state, series);

// --- configuration of Chart.js ------------------------------------------------------------------------------------------

function configuration(state) {
  const ink = colour(state, "var(--ink-soft)");
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
      events: [],
      scales: {
        x: axis(state, "linear", state.data.xTitle, ({ width }) => xAxis(state.data, width), state.data.x === "time" ? timeTicks : numberTicks),
        y: axis(state, state.data.log ? "logarithmic" : "linear", state.data.yTitle, ({ height }) => yAxis(state, height), numberTicks),
      },
      plugins: { legend: legend(state.data, ink), tooltip: { enabled: false } },
    },
    plugins: [markLines(state), arrows(state), cursorLine(state)],
  };
}

// Which line is which component; of other charts the table below says which curve is which.
function legend({ figure, series }, color) {
  const labels = { color, boxWidth: 14, boxHeight: 0, filter: ({ text }) => Boolean(text) }; // bands have none
  return { display: figure === "components" && series.length > 1 && series.length <= MAX_LEGEND, labels };
}

// An axis whose ends and ticks are those of `place`, which is given the chart and returns {low, high, ticks}.
function axis(state, type, title, place, textsOf) {
  const [ink, rule] = [colour(state, "var(--ink-soft)"), colour(state, "var(--rule-faint)")];
  let texts = [];
  return {
    ...{ type, bounds: "data", grid: { color: rule }, border: { color: rule } },
    title: { display: true, text: title, color: ink },
    ticks: { color: ink, autoSkip: false, maxRotation: 0, callback: (_, place) => texts[place] },
    afterDataLimits(scale) {
      const { low, high } = place(scale.chart);
      [scale.min, scale.max] = [low, high];
    },
    afterBuildTicks(scale) {
      const { ticks } = place(scale.chart);
      texts = textsOf(ticks);
      scale.ticks = ticks.map((value) => ({ value }));
    },
  };
}

function xAxis({ x, series }, width) {
  const points = series.flatMap((line) => line.points);
  if (!points.length) return linearAxis(0, 1, 5);
  const low = least(points.map((point) => point.x));
  const high = -least(points.map((point) => -endOf(x, point)));
  if (x === "time") return timeAxis(low, high, Math.max(2, Math.floor(width / 110)));
  return linearAxis(low, high, Math.max(2, Math.floor(width / 70)), { least: 1 });
}

// The place up to which a point reaches: by episode a single one has no width.
function endOf(kind, { x, xTo }) {
  return kind === "episode" && xTo - x <= 1 ? x : (xTo ?? x);
}

// The y axis holds all lines that are shown, and the bands of those that keep theirs: pointing at one changes no axis.
// Figures for papers have the same (`axis_limits.py`).
function yAxis(state, height) {
  const { data, view } = state;
  const most = Math.max(2, Math.floor(height / 45));
  if (data.isShare && !data.log) return linearAxis(0, 1, most);
  const shown = data.series.filter((series) => !isHidden(state, series));
  const values = shown.flatMap((series) => {
    const hasBands = shown.length <= data.maxBands || keepsBands(state, series);
    const values = series.points.flatMap(({ y, raw, low, high, min, max }) => [y, raw, ...(hasBands ? [low, high, min, max] : [])]);
    return series.usual ? values.filter((value) => value >= series.usual[0] && value <= series.usual[1]) : values;
  });
  const drawn = values.map((value) => drawable(state, value)).filter((value) => value !== null && value !== undefined);
  if (!drawn.length) return data.log ? logAxis(0.1, 10, most) : linearAxis(0, 1, most);
  const [low, high] = [least(drawn), -least(drawn.map((value) => -value))];
  if (data.log) return logAxis(low, high, most);
  return roundAxis(low, high, most);
}

const least = (values) => values.reduce((low, value) => Math.min(low, value), Infinity);

function datasets(state, series) {
  const { data, view } = state;
  const isBold = isPicked(state, series);
  const isFaint = !isBold && (data.series.some((other) => holds(view.highlighted, other)) || view.hovered !== null);
  const shown = data.series.filter((other) => !isHidden(state, other));
  const isThin = shown.length > MAX_THICK;
  const line = lineColour(state, series, isFaint ? 0.25 : isThin && !isBold ? 0.6 : 1);
  const hidden = isHidden(state, series);
  const order = isBold ? 0 : 1; // the highest is drawn first
  const hasBands = shown.length <= data.maxBands || keepsBands(state, series) || isHovered(state, series);
  const plain = { borderWidth: 0, pointRadius: 0, pointHitRadius: 0, hidden, order, spanGaps: true };
  const points = (key) => series.points.map((point) => ({ x: point.x, y: drawable(state, point[key]), point }));
  const middle = {
    ...{ series, data: points("y"), label: series.label, hidden, order, borderColor: line, backgroundColor: line, borderDash: series.dash },
    ...{ borderWidth: isBold ? 3 : isThin ? 1 : 1.75, pointRadius: series.points.length < 60 && !isThin ? 2 : 0, tension: 0 },
    clip: series.usual ? 0 : POINT_PIXELS, // a point at the edge, such as one of 100 % success, is drawn whole
  };
  const behind = { ...plain, isBehind: true };
  const low = { ...behind, data: points("low") };
  const high = { ...behind, data: points("high"), fill: "-1", backgroundColor: lineColour(state, series, isFaint ? 0.06 : 0.16) };
  const edge = { ...behind, borderColor: lineColour(state, series, isFaint ? 0.1 : 0.4), borderWidth: 1 }; // a lone outlier has no area
  const min = { ...edge, data: points("min") };
  const max = { ...edge, data: points("max"), fill: "-1", backgroundColor: lineColour(state, series, isFaint ? 0.03 : 0.08) };
  const raw = { ...behind, data: points("raw"), borderColor: lineColour(state, series, isFaint ? 0.1 : 0.35), borderWidth: 1 };
  const hasRaw = data.isSmoothed && (!isThin || isBold);
  return [...(hasBands && data.extremes ? [min, max] : []), ...(hasBands && data.band ? [low, high] : []), ...(hasRaw ? [raw] : []), middle];
}

function lineColour(state, series, share) {
  return colour(state, `var(--line-${series.colour})`).replace("rgb(", "rgba(").replace(")", `, ${share})`);
}

// What rounding leaves of 0 is 0; a logarithmic axis has no place for it.
function drawable(state, value) {
  const shown = Math.abs(value ?? 1) < MIN_SHOWN ? 0 : value;
  return state.data.log && !(shown > 0) ? null : shown;
}

// Lines with a text at the top, where something about all series changed.
function markLines(state) {
  return {
    id: "marks",
    afterDatasetsDraw(chart) {
      const [ink, ground] = ["var(--ink-soft)", "var(--surface)"].map((name) => colour(state, name)); // which follow the theme
      const { top, bottom, left, right } = chart.chartArea;
      const context = chart.ctx;
      context.save();
      context.strokeStyle = context.fillStyle = ink;
      context.font = "11px system-ui, sans-serif";
      context.setLineDash([6, 4]);
      const ends = []; // of the last text in each row
      for (const { x, text } of state.data.marks ?? []) {
        const at = chart.scales.x.getPixelForValue(x);
        if (at < left || at > right) continue;
        context.beginPath();
        context.moveTo(at, top);
        context.lineTo(at, bottom);
        context.stroke();
        const width = context.measureText(text).width;
        const start = at + 4 + width > right ? at - 4 - width : at + 4;
        const free = ends.findIndex((end) => end + 4 < start);
        const row = free < 0 ? ends.length : free;
        ends[row] = start + width;
        context.fillStyle = ground;
        context.fillRect(start - 2, top + 12 * row, width + 4, 12);
        context.fillStyle = ink;
        context.fillText(text, start, top + 10 + 12 * row);
      }
      context.restore();
    },
  };
}

// An arrow with the value of each point beyond the y axis.
function arrows(state) {
  return {
    id: "arrows",
    afterDatasetsDraw(chart) {
      const { x: across, y: up } = chart.scales;
      const context = chart.ctx;
      context.save();
      context.font = "11px system-ui, sans-serif";
      for (const series of state.data.series.filter((line) => line.usual && !isHidden(state, line))) {
        context.fillStyle = lineColour(state, series, 1);
        for (const { x, y } of series.points.filter((point) => point.y !== null && (point.y > up.max || point.y < up.min))) {
          const text = `${y > up.max ? "▲" : "▼"} ${signed(y)}`;
          const at = Math.min(across.getPixelForValue(x), up.chart.chartArea.right - context.measureText(text).width);
          context.fillText(text, at - 5, y > up.max ? up.top + 10 : up.bottom - 4);
        }
      }
      context.restore();
    },
  };
}

function cursorLine(state) {
  return {
    id: "cursor",
    afterDatasetsDraw(chart) {
      const ink = colour(state, "var(--ink-soft)");
      const { top, bottom } = chart.chartArea;
      const context = chart.ctx;
      context.save();
      if (state.drag) {
        context.fillStyle = ink;
        context.globalAlpha = 0.15;
        context.fillRect(state.drag.from, top, state.drag.to - state.drag.from, bottom - top);
      } else {
        for (const { series, x, y } of state.hovered === null ? [] : rowsAt(state, state.hovered)) {
          context.fillStyle = lineColour(state, series, 1);
          context.beginPath();
          context.arc(x, y, 3.5, 0, 2 * Math.PI);
          context.fill();
        }
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
    if (!state.drag?.isWide) point(state, event);
    if (!state.drag) return;
    state.drag.to = event.offsetX;
    state.drag.isWide ||= Math.abs(state.drag.to - state.drag.from) > DRAG_PIXELS;
    if (state.drag.isWide) state.tooltip.hide();
    state.chart.draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const drag = state.drag;
    state.drag = null;
    if (!drag) return;
    if (drag.isWide) zoom(state, drag);
    else openPoint(state, nearest(rowsAt(state, placeOf(state, event)), event.offsetY));
  });
  canvas.addEventListener("dblclick", () => dispatch(state, "chart:unzoom", {}));
  canvas.addEventListener("pointerleave", () => {
    state.drag = null;
    leave(state);
  });
  canvas.addEventListener("keydown", (event) => onKey(state, event));
}

const placeOf = ({ chart }, { offsetX }) => chart.scales.x.getValueForPixel(offsetX);

// The point of each series that is shown at a place on the x axis, with its pixels: [{series, point, x, y}, …].
function rowsAt(state, place) {
  const { x: across, y: up } = state.chart.scales;
  const rows = state.data.series.flatMap((series) => {
    const drawn = isHidden(state, series) ? [] : series.points.filter(({ y }) => drawable(state, y ?? null) !== null);
    if (!drawn.length) return [];
    const [point] = drawn.reduce(
      (best, point) => {
        const gap = point.x <= place && place < endOf(state.data.x, point) ? 0 : Math.abs(point.x - place);
        return gap < best[1] ? [point, gap] : best;
      },
      [drawn[0], Infinity],
    );
    return [{ series, point, x: across.getPixelForValue(point.x), y: up.getPixelForValue(point.y) }];
  });
  const gap = ({ x, point }) => (point.x <= place && place < endOf(state.data.x, point) ? 0 : Math.abs(x - across.getPixelForValue(place)));
  const most = Math.max(NEAR_PIXELS, least(rows.map(gap)));
  return rows.filter((row) => gap(row) <= most);
}

// Of rows that belong to the same place, the one whose point is closest.
function nearest(rows, y) {
  return rows.reduce((best, row) => (best && Math.abs(best.y - y) <= Math.abs(row.y - y) ? best : row), null);
}

function point(state, event) {
  const rows = rowsAt(state, placeOf(state, event));
  const close = nearest(rows, event.offsetY);
  if (!close) return;
  tell(state, rows, close, { x: event.offsetX, y: event.offsetY });
  const near = state.data.series.length > 1 ? close.series.key : null;
  const isOther = near !== state.near;
  state.near = near;
  if (close.point.x !== state.hovered || isOther) dispatch(state, "chart:hover", { x: close.point.x, key: close.series.key });
  state.hovered = close.point.x;
  isOther ? redraw(state) : state.chart.draw();
}

function leave(state) {
  state.tooltip.hide();
  state.hovered = state.near = null;
  redraw(state);
  dispatch(state, "chart:hover", { x: null, key: null });
}

// Show the tooltip: the values of `rows`, highest first, that of `close` bold. Of many, those nearest to it.
function tell(state, rows, close, at) {
  const distance = (row) => Math.abs(row.y - close.y);
  const told = [...rows].sort((a, b) => distance(a) - distance(b)).slice(0, MAX_ROWS);
  told.sort((a, b) => b.point.y - a.point.y);
  const isAlone = state.data.series.length === 1;
  const content = told.map((row) => ({
    ...{ colour: lineColour(state, row.series, 1), dash: row.series.dash, name: isAlone ? "" : row.series.label },
    ...{ value: valueText(state.data, row.point), isNearest: row === close && rows.length > 1 },
  }));
  state.tooltip.show(spanText(state.data.x, close.point), content, rows.length - told.length, at);
}

// A value: of a group of runs with the standard deviation over them, of reports with the attempts that
// have them; with the lowest and highest where light bands are drawn.
function valueText({ isReported }, { y, deviation, n, attempts, min, max }) {
  if (isReported && n < attempts) return `${number(y)} (${n} of ${attempts})`;
  if (Number.isFinite(min)) return `${number(y)} (${number(min)} to ${number(max)})`;
  return deviation === undefined || deviation === null ? number(y) : `${number(y)} ± ${number(deviation)}`;
}

// Show the values at the place that is pointed at in another chart.
function hover(state, { x, key }) {
  state.hovered = x;
  const rows = x === null ? [] : rowsAt(state, x).filter((row) => row.point.x === x);
  const close = rows.find(({ series }) => series.key === key) ?? rows[0];
  if (close && rows.length <= MAX_TOLD) tell(state, rows, close, close);
  else state.tooltip.hide();
  state.chart.draw();
}

function zoom(state, drag) {
  const scale = state.chart.scales.x;
  const ends = [drag.from, drag.to].map((pixel) => scale.getValueForPixel(pixel)).sort((a, b) => a - b);
  leave(state);
  dispatch(state, "chart:zoom", { from: ends[0], to: ends[1] });
}

function openPoint(state, row) {
  if (!row) return;
  state.cursor = row.point.x;
  state.chart.draw();
  dispatch(state, "chart:point", { series: row.series, point: row.point });
}

function onKey(state, event) {
  const key = keyOf(event);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  const series = state.data.series.find((line) => isPicked(state, line) && !isHidden(state, line)) ?? state.data.series.find((line) => !isHidden(state, line));
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
  const rows = rowsAt(state, point.x);
  const row = rows.find((other) => other.series === series);
  if (row) tell(state, rows, row, row);
  state.chart.draw();
}

function dispatch(state, type, detail) {
  state.canvas.dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));
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
  const [first, last] = [format(point.x), format(point.xTo ?? point.x)];
  return `${kind === "step" ? "training step " : ""}${first}${first === last ? "" : ` to ${last}`}`;
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

function colour(state, text) {
  if (!state.colours.has(text)) state.colours.set(text, resolved(text, state.canvas));
  return state.colours.get(text);
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
