// The chart of the return so far, whose cursor is the current step. A click or a drag goes to a step.
import { signed } from "../orsweb/figures.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 110;
const EDGE = 6;

export class ReturnChart {
  #panel;
  #svg;
  #steps;
  #low = 0;
  #high = 1;
  #current = 0;
  #cursor = null;
  #dot = null;

  constructor(panel, steps, go) {
    this.#panel = panel;
    this.#svg = panel.querySelector("[data-return-chart]");
    this.#steps = steps;
    steps.addEventListener("change", () => this.#draw());
    const goTo = (event) => {
      const box = this.#svg.getBoundingClientRect();
      go(Math.round(((event.clientX - box.left) / box.width) * (steps.total - 1)));
    };
    this.#svg.addEventListener("click", goTo);
    this.#svg.addEventListener("pointermove", (event) => event.buttons === 1 && goTo(event));
    this.#draw();
  }

  show(index) {
    this.#current = index;
    if (!this.#cursor) return;
    const value = this.#steps.running[index] ?? null;
    const x = this.#x(index);
    this.#cursor.setAttribute("x1", x);
    this.#cursor.setAttribute("x2", x);
    const y = value === null ? HEIGHT / 2 : this.#y(value);
    this.#dot.setAttribute("d", value === null ? "" : `M${x} ${y}h0`);
    this.#panel.querySelector("[data-chart-at]").textContent = value === null ? `Step ${index}: none yet` : `Step ${index}: ${signed(value)}`;
  }

  #x(index) {
    return EDGE + (index / Math.max(1, this.#steps.total - 1)) * (WIDTH - 2 * EDGE);
  }

  #y(value) {
    return HEIGHT - EDGE - (value / 2 - this.#low / 2) / (this.#high / 2 - this.#low / 2) * (HEIGHT - 2 * EDGE);
  }

  #draw() {
    const values = this.#steps.running;
    this.#panel.hidden = !values.length;
    if (!values.length) return;
    this.#low = Math.min(0, least(values));
    this.#high = Math.max(0, most(values));
    if (this.#low === this.#high) this.#high = this.#low + 1;
    this.#cursor = shape("line", { class: "cursor", y1: 0, y2: HEIGHT });
    this.#dot = shape("path", { class: "dot" });
    const zero = this.#y(0);
    this.#svg.replaceChildren(
      shape("line", { class: "zero", x1: 0, x2: WIDTH, y1: zero, y2: zero }),
      shape("path", { class: "line", d: this.#line(values) }),
      this.#cursor,
      this.#dot,
    );
    this.#panel.querySelector("[data-chart-low]").textContent = `min ${signed(least(values))}`;
    this.#panel.querySelector("[data-chart-high]").textContent = `max ${signed(most(values))}`;
    this.show(this.#current);
  }

  // Draw a staircase, because the return stays until the next reward. With more steps than pixels, draw the lowest and highest
  // value of each pixel.
  #line(values) {
    const size = Math.max(1, Math.ceil(values.length / WIDTH));
    let path = "";
    for (let start = 0; start < values.length; start += size) {
      const piece = values.slice(start, start + size).filter((value) => value !== null);
      if (!piece.length) continue;
      const x = this.#x(start).toFixed(2);
      path += path ? `H${x}` : `M${x} ${this.#y(piece[0]).toFixed(2)}`;
      if (piece.length > 2) path += `V${this.#y(least(piece)).toFixed(2)}V${this.#y(most(piece)).toFixed(2)}`;
      path += `V${this.#y(piece.at(-1)).toFixed(2)}`;
    }
    return path && `${path}H${this.#x(values.length - 1).toFixed(2)}`;
  }
}

function least(values) {
  const found = values.reduce((best, value) => (value === null ? best : Math.min(best, value)), Infinity);
  return found === Infinity ? 0 : found;
}

function most(values) {
  const found = values.reduce((best, value) => (value === null ? best : Math.max(best, value)), -Infinity);
  return found === -Infinity ? 0 : found;
}

function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
