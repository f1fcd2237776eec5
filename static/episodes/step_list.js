// The list of steps next to the transcript: a row for each step of the episode. Only visible rows are drawn.
import { signed } from "../orsweb/figures.js";

const ROW = 22;
const BEYOND = 8; // rows that are drawn outside the view, on each side
const WORDS = { r: "refused", f: "failed" };
// Marks of what went wrong, by its reason. The reason of a crash is the name of its exception.
const MARKS = {
  not_found: "no tool",
  name_collision: "name",
  input_validation: "input",
  episode_finished: "ended",
  tool_error: "error",
  quota: "quota",
  timeout: "timeout",
  limit: "limit",
  result_size: "size",
  deleted: "stopped",
  interrupted: "stopped",
};

export class StepList {
  #view;
  #rows;
  #position;
  #steps;
  #hits = new Set();
  #current = 0;
  #drawn = new Map(); // index -> row

  constructor(nav, steps) {
    this.#view = nav.querySelector("[data-rail-view]");
    this.#rows = nav.querySelector("[data-rail-rows]");
    this.#position = nav.querySelector("[data-position]");
    this.#steps = steps;
    this.#view.addEventListener("scroll", () => this.#draw(), { passive: true });
    new ResizeObserver(() => this.#draw()).observe(this.#view);
    steps.addEventListener("change", () => this.redraw());
    this.redraw();
  }

  get #height() {
    return this.#steps.total * ROW;
  }

  show(index) {
    this.#drawn.get(this.#current)?.removeAttribute("aria-current");
    this.#current = index;
    const top = index * ROW;
    const view = this.#view;
    if (top < view.scrollTop + ROW || top > view.scrollTop + view.clientHeight - 2 * ROW) {
      view.scrollTop = top - view.clientHeight / 2;
    }
    this.#draw();
    this.#drawn.get(index)?.setAttribute("aria-current", "step");
    this.#say();
  }

  mark(indexes) {
    this.#hits = new Set(indexes);
    this.redraw();
  }

  redraw() {
    for (const row of this.#drawn.values()) row.remove();
    this.#drawn.clear();
    this.#rows.style.height = `${this.#height}px`;
    this.#draw();
    this.#say();
  }

  #say() {
    const { total } = this.#steps;
    this.#position.textContent = total ? `Step ${this.#current.toLocaleString("en-US")} · ${total.toLocaleString("en-US")} total` : "No steps yet";
  }

  #draw() {
    const first = Math.max(0, Math.floor(this.#view.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.#steps.total, Math.ceil((this.#view.scrollTop + this.#view.clientHeight) / ROW) + BEYOND);
    for (const [index, row] of this.#drawn) {
      if (index < first || index >= last) {
        row.remove();
        this.#drawn.delete(index);
      }
    }
    for (let index = first; index < last; index++) {
      if (this.#drawn.has(index)) continue;
      const row = this.#row(index);
      this.#drawn.set(index, row);
      this.#rows.append(row);
    }
  }

  #row(index) {
    const { states, tools, rewards } = this.#steps;
    const row = document.createElement("a");
    row.className = "rail-row";
    row.href = `#step-${index}`;
    row.tabIndex = -1; // keys move through steps; thousands of stops would not help anybody
    row.style.transform = `translateY(${index * ROW}px)`;
    row.dataset.state = states[index] ?? "";
    if (index === this.#current) row.setAttribute("aria-current", "step");
    if (this.#hits.has(index)) row.dataset.hit = "";
    const reward = rewards[index] ?? null;
    row.append(this.#bar(reward), cell("at", index), cell("tool", tools[index] ?? "…"), this.#figure(index, reward));
    const reason = this.#steps.reasons.get(index);
    row.title = [tools[index] ?? "", [WORDS[states[index]], reason].filter(Boolean).join(": ")].filter(Boolean).join(", ");
    return row;
  }

  #figure(index, reward) {
    const { states, reasons } = this.#steps;
    const state = states[index];
    if (state === "f" || state === "r") return cell("failing", MARKS[reasons.get(index)] ?? (state === "f" ? "crash" : "refused"));
    if (reward === null) return reasons.has(index) ? cell("failing", "NaN") : cell("none", "");
    const shown = cell("reward", signed(reward));
    shown.dataset.level = this.#steps.level(reward);
    return shown;
  }

  #bar(reward) {
    const level = this.#steps.level(reward);
    const bar = cell("bar-mark", "");
    bar.dataset.level = level;
    bar.style.width = `${reward ? 3 + 3 * Math.abs(level) : 2}px`;
    return bar;
  }
}

function cell(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}
