"""Smoothing of the values along a curve, by an exponential average or by a window, as the address
of a page says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from environments.filtering.parameters import BadFilter, given, real, whole

MAX_STRENGTH = 0.99
"""Highest strength of the exponential average; at 1 a curve would stay at its first value."""
MAX_WINDOW = 99
PARAMETERS = ("smooth", "window")


@dataclass(frozen=True, slots=True)
class Smoothing:
    """At most one of the two is given."""

    strength: float = 0.0
    """Strength of the exponential average, from 0 (none) to MAX_STRENGTH."""
    window: int = 1
    """Number of neighbouring points that are averaged, the point in their middle: 1 (none) or odd
    up to MAX_WINDOW."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Smoothing:
        """Return what the parameters `smooth` and `window` of an address say. Raises: BadFilter."""
        smoothing = cls(
            given(query, "smooth", _strength, 0.0) or 0.0, given(query, "window", _odd, 1) or 1
        )
        if smoothing.strength and smoothing.window > 1:
            raise BadFilter(
                "window",
                smoothing.window,
                f"a curve is smoothed in one way; leave out smooth={smoothing.strength:g}",
            )
        return smoothing

    @property
    def is_on(self) -> bool:
        return bool(self.strength) or self.window > 1

    def values(self) -> dict[str, str]:
        """Return what is given as parameters of an address."""
        texts = {"smooth": f"{self.strength:g}" if self.strength else ""}
        texts["window"] = str(self.window) if self.window > 1 else ""
        return {name: text for name, text in texts.items() if text}

    def of(self, values: Sequence[float | None]) -> list[float | None]:
        """Return the smoothed values. None stays None and is ignored."""
        if self.window > 1:
            return averaged(values, self.window)
        return smoothed(values, self.strength) if self.strength else list(values)

    def __str__(self) -> str:
        if self.window > 1:
            return f"average of {self.window} neighbouring points"
        return f"exponential average of strength {self.strength:g}" if self.strength else "none"


def smoothed(values: Sequence[float | None], strength: float) -> list[float | None]:
    """Return the exponential moving average of `values`.

    The average starts at the first value and is not biased towards 0: the weights of the values so
    far add up to 1.
    """
    total = weight = 0.0
    averages = list[float | None]()
    for value in values:
        if value is not None:
            total, weight = total * strength + value, weight * strength + 1.0
        averages.append(value if value is None else total / weight)
    return averages


def averaged(values: Sequence[float | None], window: int) -> list[float | None]:
    """Return the mean of each value and its neighbours, as many on either side as the window and
    the ends allow.

    Near an end fewer are taken on both sides, so that a mean is always that of a stretch around its
    point.
    """
    means = list[float | None]()
    for place, value in enumerate(values):
        reach = min(window // 2, place, len(values) - 1 - place)
        values_near = [
            near for near in values[place - reach : place + reach + 1] if near is not None
        ]
        means.append(value if value is None else sum(values_near) / len(values_near))
    return means


def _strength(name: str, text: str) -> float:
    value = real(name, text)
    if not 0 <= value <= MAX_STRENGTH:
        raise BadFilter(name, text, f"it has to be a number from 0 to {MAX_STRENGTH}")
    return value


def _odd(name: str, text: str) -> int:
    value = whole(name, text)
    if not 1 <= value <= MAX_WINDOW or value % 2 == 0:
        raise BadFilter(name, text, f"it has to be an odd number from 1 to {MAX_WINDOW}, such as 9")
    return value
