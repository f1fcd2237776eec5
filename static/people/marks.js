// Numbers between marks in a text, such as "[3] Shop", become buttons that make a call with the number, or begin one: the marks of the
// environment's hand_controls, {open, close, tool, argument}. The label ends at two blanks or with the line.
export function makePressable(element, marks, press) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  for (const node of nodes) {
    const parts = split(node.data, marks, press);
    if (parts.length > 1 || parts[0] instanceof Element) node.replaceWith(...parts);
  }
}

function split(text, marks, press) {
  const parts = [];
  let rest = 0;
  for (const { index, end, mark, number } of found(text, marks)) {
    if (index < rest) continue;
    if (index > rest) parts.push(text.slice(rest, index));
    parts.push(buttonOf(text.slice(index, end), () => press({ tool: mark.tool, input: { [mark.argument]: number } })));
    rest = end;
  }
  return rest < text.length ? [...parts, text.slice(rest)] : parts;
}

function found(text, marks) {
  const all = marks.flatMap((mark) => {
    const pattern = new RegExp(`${literal(mark.open)}(\\d+)${literal(mark.close)}(?: \\S+)*`, "g");
    return [...text.matchAll(pattern)].map((one) => ({ index: one.index, end: one.index + one[0].length, mark, number: one[1] }));
  });
  return all.sort((one, other) => one.index - other.index);
}

function buttonOf(label, press) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "mark", textContent: label });
  button.addEventListener("click", press);
  return button;
}

function literal(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
