// JSON read so that JSON.stringify writes it back as it was: numbers that JavaScript would rewrite (1.0, 1e20, long integers)
// keep their text, if the browser supports it.
const canKeep = typeof JSON.rawJSON === "function";

function keep(key, value, context) {
  return typeof value === "number" && String(value) !== context.source ? JSON.rawJSON(context.source) : value;
}

export function parseExact(text) {
  return canKeep ? JSON.parse(text, keep) : JSON.parse(text);
}
