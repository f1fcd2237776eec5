// What a chart tells of the place that is pointed at: the value of each curve, highest first, beside the pointer.
const GAP = 16; // pixels between the pointer and the tooltip
const SVG = "http://www.w3.org/2000/svg";

export class ChartTooltip {
  #element = document.createElement("div");
  #canvas;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#element.className = "chart-tooltip";
    this.#element.hidden = true;
    canvas.parentElement.append(this.#element);
  }

  // Rows: [{colour, dash, name, value, isNearest}, …] in order; `more`: the number of curves that are left out; `at`: {x, y}
  // of the pointer on the canvas.
  show(title, rows, more, at) {
    const head = document.createElement("strong");
    head.textContent = title;
    const list = document.createElement("ul");
    list.append(...rows.map(rowOf));
    this.#element.replaceChildren(head, list);
    if (more) this.#element.append(`and ${more} more`);
    this.#element.hidden = false;
    this.#place(at);
  }

  hide() {
    this.#element.hidden = true;
  }

  // Right of the pointer, else left of it; where neither has room, above or below.
  #place({ x, y }) {
    const { offsetLeft, offsetTop, clientWidth, clientHeight } = this.#canvas;
    const style = this.#element.style;
    style.left = style.top = "0";
    const { offsetWidth: width, offsetHeight: height } = this.#element;
    const isRight = x + GAP + width <= clientWidth;
    const isBeside = isRight || x - GAP - width >= 0;
    const left = isRight ? x + GAP : isBeside ? x - GAP - width : Math.max(0, Math.min(x - width / 2, clientWidth - width));
    const beside = Math.max(0, Math.min(y - height / 2, clientHeight - height));
    const top = isBeside ? beside : y + GAP + height <= clientHeight ? y + GAP : y - GAP - height;
    style.left = `${offsetLeft + left}px`;
    style.top = `${offsetTop + top}px`;
  }
}

function rowOf({ colour, dash, name, value, isNearest }) {
  const row = document.createElement("li");
  row.classList.toggle("nearest", isNearest);
  if (name) {
    const swatch = document.createElementNS(SVG, "svg");
    swatch.setAttribute("width", 14);
    swatch.setAttribute("height", 10);
    const line = document.createElementNS(SVG, "line");
    for (const [key, place] of Object.entries({ x1: 0, y1: 5, x2: 14, y2: 5, "stroke-width": 3, stroke: colour })) line.setAttribute(key, place);
    if (dash.length) line.setAttribute("stroke-dasharray", dash.join(" "));
    swatch.append(line);
    const label = document.createElement("span");
    label.textContent = name;
    row.append(swatch, label);
  }
  const number = document.createElement("b");
  number.textContent = value;
  row.append(number);
  return row;
}
