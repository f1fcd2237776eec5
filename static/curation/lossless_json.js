// JSON as the editor reads and writes it: numbers that JavaScript would rewrite (1.0, 1e20, -0, long integers) keep their text.
// A task is identified by its content, and 1 is different content than 1.0.

export const isSupported = typeof JSON.rawJSON === "function";

class ExactNumber {
  isLosslessNumber = true;
  constructor(text) { this.text = text; }
  valueOf() { return Number(this.text); }
  toString() { return this.text; }
}

function read(key, value, context) {
  return typeof value === "number" && String(value) !== context.source ? new ExactNumber(context.source) : value;
}

export const lossless = {
  parse(text, reviver) {
    const value = JSON.parse(text, read);
    return reviver ? JSON.parse(JSON.stringify(value), reviver) : value;
  },
  stringify(value, replacer, space) {
    if (Array.isArray(replacer)) return JSON.stringify(value, replacer, space);
    const write = (key, one) => {
      const replaced = replacer ? replacer(key, one) : one;
      return replaced instanceof ExactNumber ? JSON.rawJSON(replaced.text) : replaced;
    };
    return JSON.stringify(value, write, space);
  },
};
