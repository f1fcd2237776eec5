"""Numbers as plain text, for pages, sentences and addresses. Needs neither Django nor a database.

`static/orsweb/figures.js` writes signed numbers like `signed` does
(`tests/browser/test_figures.py`).
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal

from environments.scoring.returns import MIN_SIZE, RETURN_DIGITS, rounded

_THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)
_UNITS = {6: "M", 9: "B", 12: "T"}
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def shown(value: float) -> float:
    """Return the value, or 0.0 for what rounding leaves of it."""
    return 0.0 if abs(value) < MIN_SIZE else value


def signed(value: float) -> str:
    """Return `value` with a sign and two decimals; 0.0012 where they would be 0, and 1.23M from 1e6
    on."""
    return f"+{unsigned(value)}" if value >= MIN_SIZE else unsigned(value)


def unsigned(value: float) -> str:
    """Return `value` with two decimals but no plus sign: for a size, such as a standard error, or
    an end of a range."""
    size = abs(value)
    if size < MIN_SIZE:
        return "0.00"
    if size == math.inf:
        text = "inf"
    elif size >= 1e6:
        text = _large(size)
    else:
        # the shortest text is rounded, halves up, so that 0.075 becomes 0.08, as in JavaScript
        hundredths = Decimal(repr(float(size))).quantize(Decimal("0.01"), ROUND_HALF_UP)
        text = f"{hundredths:,.2f}" if size >= 0.005 else f"{size:.2g}"
    if "e-" in text:  # below 0.0001
        text = "0.00"
    return f"\N{MINUS SIGN}{text}" if value < 0 else text


def plain(value: float, digits: int = 6) -> str:
    """Return `value` with up to so many significant digits, such as an end of a declared range in a
    sentence.

    Up to 1e15 all digits before the point are written.
    """
    is_long = 10**digits - 0.5 <= abs(value) < 1e15
    text = f"{value:,.0f}" if is_long else f"{shown(value):.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}", 1 if value < 0 else 0)


def threshold_text(threshold: float) -> str:
    """Return a threshold with all digits that decide about success."""
    return f"{rounded(threshold):,.{RETURN_DIGITS}g}".replace(
        "-", "\N{MINUS SIGN}", 1 if threshold < 0 else 0
    )


def digits_of(value: float) -> str:
    """Return a short text, without an exponent up to 1e15, that is read as exactly the same
    number."""
    text = f"{value:g}"
    if float(text) == value and "e+" not in text:
        return text
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def _large(size: float) -> str:
    """Return a size from 1e6 on with three digits: 1.23M, 12.3B, 123T, and a power of ten from 1e15
    on."""
    number = _THREE_DIGITS.create_decimal(repr(float(size)))
    exponent = number.adjusted()
    unit = exponent // 3 * 3 if exponent < 15 else exponent
    name = _UNITS.get(unit) or f"\N{MULTIPLICATION SIGN}10{str(unit).translate(_RAISED)}"
    return f"{number.scaleb(-unit).normalize():f}{name}"
