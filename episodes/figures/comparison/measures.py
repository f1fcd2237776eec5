"""The measures by which runs are compared: success, return, length and tokens."""

from __future__ import annotations

from typing import NamedTuple

from environments.display.formats import grouped, percent
from environments.display.numbers import signed, unsigned


class Measure(NamedTuple):
    name: str
    title: str
    less: str
    """Word for a run whose mean is lower."""
    more: str
    is_cost: bool
    """Whether less is better."""

    def text(self, value: float) -> str:
        """Return a mean with its unit."""
        if self.name == "success":
            return f"{percent(value)}%"
        if self.name == "return":
            return signed(value)
        return unsigned(value) if self.name == "length" else grouped(round(value))

    def change_text(self, value: float) -> str:
        """Return a difference of two means with its sign and unit."""
        if self.name == "success":
            return f"{_sign(value)}{abs(value):.1%}".replace("%", " pp")
        if self.name == "return":
            return signed(value)
        return f"{_sign(value)}{self.text(abs(value))}"


MEASURES = (
    Measure("success", "Success", "less often", "more often", False),
    Measure("return", "Return", "lower", "higher", False),
    Measure("length", "Steps", "shorter", "longer", True),
    Measure("tokens", "Output tokens", "fewer", "more", True),
)
"""In the order in which they decide what is worse."""
MEASURE_BY_NAME = {measure.name: measure for measure in MEASURES}


def _sign(value: float) -> str:
    return "\N{MINUS SIGN}" if value < 0 else "+" if value > 0 else ""
