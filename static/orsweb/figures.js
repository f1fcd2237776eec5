// Numbers as `environments/display/numbers.py` writes them.
export const MIN_SHOWN = 1e-12; // a smaller size is what rounding leaves of 0
const NUMBERS = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const UNITS = { 6: "M", 9: "B", 12: "T" };
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// Like the server's template filter `signed`.
export function signed(value) {
  const size = Math.abs(value);
  if (size < MIN_SHOWN) return "0.00";
  const text = size < 0.005 ? small(size) : size < 1e6 ? NUMBERS.format(size) : large(size);
  return (value > 0 ? "+" : "−") + text;
}

// Two digits: 0.0012; below 0.0001: 0.00.
function small(size) {
  const rounded = Number(size.toPrecision(2));
  return rounded < 1e-4 ? "0.00" : String(rounded);
}

// A size from 1e6 on with three digits: 1.23M, 12.3B, 123T, and 1.2×10¹⁸ from 1e15 on.
export function large(size) {
  const [digits, exponent] = size.toExponential(2).split("e").map(Number);
  const unit = exponent < 15 ? exponent - (exponent % 3) : exponent;
  const shown = Number((digits * 10 ** (exponent - unit)).toPrecision(3));
  return shown + (UNITS[unit] ?? `×10${raised(unit)}`);
}

// 4×10⁻⁶, with two digits at most.
export function scientific(value) {
  const [digits, exponent] = value.toExponential(1).split("e").map(Number);
  return `${digits}×10${raised(exponent)}`;
}

const raised = (exponent) => (exponent < 0 ? "⁻" : "") + [...String(Math.abs(exponent))].map((digit) => RAISED[digit]).join("");
