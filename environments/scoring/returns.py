"""Definitions of return, and how a return is compared with the threshold of success.

An environment's class declares one of the definitions; an address can name another. A
return is a success if it is above the threshold, both rounded to RETURN_DIGITS: sums of decimal
fractions are off in their last digits, so that 0.1 + 0.2 is 0.30000000000000004. Needs neither
Django nor a database.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

Return = Literal["sum", "last", "max", "mean"]
"""How the rewards of an episode's steps make its return; "last" is the last reward that is not
null."""
RETURNS: tuple[Return, ...] = get_args(Return)
RETURN_DIGITS = 12
"""Significant digits of a return and of a threshold that decide about success."""
MAX_RETURN = 1e290
"""Greatest size of a return of either sign; larger ones count as this in figures, so that no sum of
them overflows."""
MIN_SIZE = 1e-12
"""Smaller sizes are 0: what rounding leaves of it, such as 5.6e-17 of 0.1 + 0.2 - 0.3."""


def rounded(value: float) -> float:
    """Return a return or a threshold as it decides about success."""
    return 0.0 if abs(value) < MIN_SIZE else float(f"{value:.{RETURN_DIGITS - 1}e}")


def rounded_sql(value: str, *, is_sqlite: bool) -> str:
    """Return `rounded` as an SQL expression of another one."""
    # char(37) is a percent sign, which would have to be doubled in statements with parameters
    digits = f"printf(char(37) || '.{RETURN_DIGITS - 1}e', {value})"
    if not is_sqlite:
        digits = f"to_char({value}, '9.{'9' * (RETURN_DIGITS - 1)}EEEE')"
    return (
        f"CASE WHEN ABS({value}) < {MIN_SIZE} THEN 0.0 ELSE CAST({digits} AS double precision) END"
    )


@lru_cache(maxsize=1024)
def bar_of(threshold: float) -> float:
    """Return what a return has to exceed to be a success: the largest number that is no success.

    To be greater than it is the same as to be greater than the threshold when rounded, for Python
    and for a database.
    """
    level = rounded(threshold)
    low, high = level, level + max(abs(level) * 10.0 ** (1 - RETURN_DIGITS), MIN_SIZE)
    while (middle := low + (high - low) / 2) not in (low, high):
        low, high = (middle, high) if rounded(middle) <= level else (low, middle)
    return low


def floor_of(least: float) -> float:
    """Return the smallest number that is at least `least` when rounded, such as 0.1 + 0.7 for
    0.8."""
    return -bar_of(-least)
