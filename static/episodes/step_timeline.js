// The time axis of the replay: a waterfall of all calls, whose cursor is the current step or moves on while the replay plays. A click or a drag
// goes to a step.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000;
const HEIGHT = 44;
const MAX_TICKS = 7;
const TICKS_SECONDS = [0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400];
const KINDS = { o: "ok", r: "refused", f: "failed" };

export class StepTimeline {
  #panel;
  #svg;
  #cursor;
  #steps;
  #current = 0;
  #first = 0;
  #last = 1;

  constructor(panel, steps, go) {
    this.#panel = panel;
    this.#svg = panel.querySelector("[data-waterfall]");
    this.#cursor = panel.querySelector("[data-time-cursor]");
    this.#steps = steps;
    steps.addEventListener("change", () => this.#draw());
    const goTo = (event) => {
      const box = this.#svg.getBoundingClientRect();
      go(this.#stepAt(this.#first + ((event.clientX - box.left) / box.width) * (this.#last - this.#first)));
    };
    this.#svg.addEventListener("click", goTo);
    this.#svg.addEventListener("pointermove", (event) => event.buttons === 1 && goTo(event));
  }

  show(index) {
    this.#current = index;
    const { starts, waits, durations, tools, known } = this.#steps;
    if (index >= known) return;
    this.hold(starts[index]);
    const before = index ? Math.max(0, starts[index] - starts[index - 1] - waits[index - 1] - durations[index - 1]) : null;
    const took = `Step ${index} · ${tools[index]} took ${inWords(durations[index])}`;
    this.#panel.querySelector("[data-time-at]").textContent = before === null ? took : `${took}, ${inWords(before)} after step ${index - 1}`;
  }

  // Put the cursor at a recorded time.
  hold(ms) {
    this.#cursor.style.transitionDuration = "0s";
    this.#cursor.style.left = `${this.#share(ms)}%`;
  }

  // Move the cursor from one recorded time to another. It stays if the system asks for less motion.
  run(from, to, durationMs) {
    this.hold(from);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.#cursor.getBoundingClientRect(); // so that the browser begins there
    this.#cursor.style.transitionDuration = `${durationMs}ms`;
    this.#cursor.style.left = `${this.#share(to)}%`;
  }

  #share(ms) {
    return (100 * (ms - this.#first)) / (this.#last - this.#first);
  }

  // The step that ran at that time, or the nearest.
  #stepAt(ms) {
    const { starts, waits, durations } = this.#steps;
    const distances = starts.map((start, n) => Math.max(0, start - ms, ms - start - waits[n] - durations[n]));
    return distances.reduce((best, distance, n) => (distance < distances[best] ? n : best), 0);
  }

  #draw() {
    const { starts, waits, durations, states, known } = this.#steps;
    this.#panel.dataset.loading = String(!known);
    if (!known) return;
    this.#first = starts.reduce((least, start) => Math.min(least, start), Infinity);
    this.#last = starts.reduce((most, start, n) => Math.max(most, start + waits[n] + durations[n]), this.#first + 1);
    const row = HEIGHT / known;
    const height = Math.max(1.5, Math.min(8, row));
    const paths = { wait: "", ok: "", refused: "", failed: "" };
    for (let n = 0; n < known; n++) {
      const y = known > 1 ? (n / (known - 1)) * (HEIGHT - height) : (HEIGHT - height) / 2;
      const began = starts[n] + waits[n];
      if (waits[n]) paths.wait += this.#bar(starts[n], began, y, height);
      paths[KINDS[states[n]]] += this.#bar(began, began + durations[n], y, height);
    }
    this.#svg.replaceChildren(...Object.entries(paths).map(([kind, d]) => path(kind, d)));
    const inCalls = durations.reduce((sum, ms) => sum + ms, 0);
    this.#panel.querySelector("[data-time-sum]").textContent = `${inWords(this.#last - this.#first)} from first to last call, ${inWords(inCalls)} in calls`;
    this.#panel.querySelector("[data-time-axis]").replaceChildren(...this.#ticks());
    this.show(this.#current);
  }

  #bar(from, to, y, height) {
    const x = this.#share(from) * (WIDTH / 100);
    const width = Math.max(1.5, this.#share(to) * (WIDTH / 100) - x);
    return `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h-${width.toFixed(1)}z`;
  }

  #ticks() {
    const seconds = (this.#last - this.#first) / 1000;
    const gap = TICKS_SECONDS.find((size) => seconds / size <= MAX_TICKS) ?? 86_400 * Math.ceil(seconds / 86_400 / MAX_TICKS);
    return Array.from({ length: Math.floor(seconds / gap) + 1 }, (_, n) => {
      const tick = document.createElement("span");
      tick.style.left = `${(100 * n * gap) / seconds}%`;
      tick.textContent = clock(n * gap, gap);
      return tick;
    });
  }
}

function path(kind, d) {
  const element = document.createElementNS(SVG, "path");
  element.setAttribute("class", kind);
  element.setAttribute("d", d);
  return element;
}

// A time on an axis whose ticks are `gap` seconds apart: 0.2 s, 15 s, 1:30, 2:00:00.
function clock(seconds, gap) {
  if (gap < 1 || seconds < 60) return `${Number(seconds.toPrecision(6))} s`;
  return inMinutes(seconds);
}

// A duration as `environments/display/formats.py` writes it.
export function inWords(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : inMinutes(Math.round(ms / 1000));
}

// 1:05, 2:00:05
export function inMinutes(seconds) {
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60].map(String);
  return hours === "0" ? `${minutes}:${rest.padStart(2, "0")}` : `${hours}:${minutes.padStart(2, "0")}:${rest.padStart(2, "0")}`;
}
