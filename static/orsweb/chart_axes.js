// The ends and ticks of the axes of a chart, and what stands at the ticks.
import { large, MIN_SHOWN, scientific } from "./figures.js";

const ROUND_PARTS = 5; // of a round axis: its ends are multiples of a part, at every height and in figures for papers
const NEAR = 0.05; // of an axis: a round number this close to its end becomes the end
const FINE = [1, 2, 5, 10, 15, 30];
const TIMES = [...FINE, ...FINE.map((minutes) => minutes * 60), ...[1, 2, 3, 6, 12].map((hours) => hours * 3600)];
const DAY = 86_400;

// Return a step of 1, 2 or 5 times a power of ten with which `most` or fewer fit into the span.
function roundStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => span / step <= most * (1 + 1e-9));
}

function multiples(low, high, step) {
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

// Return {low, high, ticks} of an axis of numbers. `least`: the smallest step, 1 for whole numbers.
export function linearAxis(low, high, most, { least = 0 } = {}) {
  const span = high - low;
  if (!(span > 0)) return { low: low - 0.5, high: high + 0.5, ticks: [low] };
  const step = Math.max(roundStep(span, most), least);
  const [below, above] = [Math.floor(low / step) * step, Math.ceil(high / step) * step];
  if (low - below <= span * NEAR) low = below;
  if (above - high <= span * NEAR) high = above;
  return { low, high, ticks: multiples(low, high, step) };
}

// Return {low, high, ticks} of an axis of numbers with round ends, as `axis_limits.py` has them.
export function roundAxis(low, high, most) {
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  const part = roundStep(high - low, ROUND_PARTS);
  const ends = [Math.floor(low / part + 1e-9), Math.ceil(high / part - 1e-9)].map((count) => Number((count * part).toPrecision(12)));
  const step = roundStep(ends[1] - ends[0], most);
  const isEven = step >= part || Number.isInteger(Number((part / step).toPrecision(6)));
  return { low: ends[0], high: ends[1], ticks: multiples(...ends, isEven ? step : part) };
}

export function timeAxis(low, high, most) {
  const span = high - low;
  if (!(span > 0)) return { low: low - 60, high: high + 60, ticks: [low] };
  const fine = TIMES.find((step) => span / step <= most);
  const step = fine ?? DAY * Math.max(1, roundStep(span / DAY, most));
  return { low, high, ticks: multiples(low, high, step) };
}

// Return {low, high, ticks} for values above 0: powers of ten, with 2 and 5 times each where there are few.
export function logAxis(low, high, most) {
  const round = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    round.push(...[1, 2, 5].map((factor) => Number(`${factor}e${power}`)));
  }
  low = round.findLast((value) => value <= low) ?? low;
  high = round.find((value) => value >= high) ?? high;
  if (low === high) [low, high] = [low / 2, high * 2];
  const within = round.filter((value) => value >= low && value <= high);
  if (within.length < 4) return { low, high, ticks: multiples(low, high, roundStep(high - low, most)) };
  if (within.length <= most) return { low, high, ticks: within };
  const powers = within.filter((value) => String(value.toExponential()).startsWith("1e"));
  const every = Math.ceil(powers.length / most);
  return { low, high, ticks: powers.filter((_, place) => place % every === 0) };
}

// Return the text of each tick: with as many digits as their differences need, large ones short (14B).
export function numberTicks(ticks) {
  const [gap = Math.abs(ticks[0]), last = gap] = [ticks[1] - ticks[0], ticks.at(-1) - ticks.at(-2)].filter(Number.isFinite);
  const isEven = Math.abs(last - gap) < gap / 2;
  return ticks.map((tick) => {
    const size = Math.abs(tick);
    if (size === 0 || (size < MIN_SHOWN && isEven)) return "0";
    if (size >= 1e6) return (tick < 0 ? "\u2212" : "") + large(size);
    const digits = Math.max(0, -Math.floor(Math.log10(isEven ? gap : size)));
    const text = digits > 4 ? scientific(tick) : tick.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    return text.replace(/^-/, "\u2212");
  });
}

// Return the text of each tick: the time, and the date where it is another than that of the tick before.
export function timeTicks(ticks) {
  const isFine = ticks.length > 1 && ticks[1] - ticks[0] < 60;
  const isDays = ticks.length > 1 && ticks[1] - ticks[0] >= DAY;
  let before = "";
  return ticks.map((tick) => {
    const text = new Date(tick * 1000).toISOString();
    const [date, time] = [text.slice(5, 10), text.slice(11, isFine ? 19 : 16)];
    const isNew = date !== before;
    before = date;
    if (isDays) return date;
    return isNew ? `${date} ${time}` : time;
  });
}
