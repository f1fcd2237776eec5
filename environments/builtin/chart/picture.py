"""Pictures of charts: bars, stacked bars, lines, scatter plots and pies; used by `chart.py`.

A picture depends on the data alone: the same data makes the same bytes with the same version of
Pillow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from environments.builtin.chart.canvas import HEIGHT, PAPER, WIDTH, Canvas, Colour, Point

LEFT, RIGHT, TOP, BOTTOM = 76, WIDTH - 34, 124, HEIGHT - 74
"""Edges of the plot, in pixels."""
INK: Colour = (33, 37, 46)
MUTED: Colour = (94, 101, 115)
AXIS: Colour = (140, 147, 160)
GRID: Colour = (214, 219, 228)
FAINT: Colour = (236, 239, 245)
COLOURS: list[Colour] = [
    (43, 108, 176),
    (224, 133, 36),
    (26, 140, 120),
    (176, 58, 96),
    (122, 92, 168),
    (120, 128, 140),
]
"""Colours of series and slices, which colour-blind people can distinguish too."""
PIE_MIDDLE: Point = (310, 318)
PIE_RADIUS = 176.0
MAX_TICKS = 7


class Series(BaseModel):
    """A series of values, drawn in one colour."""

    name: str
    values: list[float] = Field(
        default=[], description="One for each category; of a pie's only series, the shares."
    )
    points: list[tuple[float, float]] = Field(
        default=[], description="Of a scatter plot instead: pairs of x and y."
    )


class Data(BaseModel):
    """The data that a chart shows."""

    kind: Literal["bars", "stacked", "lines", "scatter", "pie"]
    title: str
    x_label: str = ""
    y_label: str = ""
    categories: list[str] = Field(
        default=[], description="Names along the x axis, or of a pie's slices."
    )
    series: list[Series] = Field(min_length=1, max_length=len(COLOURS))

    def check(self) -> None:
        """Check that the data fits the kind. Raises: ValueError with a sentence about the part that does not."""
        for series in self.series:
            if self.kind == "scatter" and not series.points:
                raise ValueError(
                    f"series {series.name!r} has no points; a scatter plot needs pairs of x and y."
                )
            if self.kind != "scatter" and len(series.values) != len(self.categories):
                raise ValueError(
                    f"series {series.name!r} has {len(series.values)} values for "
                    f"{len(self.categories)} categories; give one for each."
                )
        if self.kind != "scatter" and not self.categories:
            raise ValueError(f"a chart of kind {self.kind!r} needs at least one category.")
        if (
            self.kind in ("bars", "stacked", "pie")
            and min(v for series in self.series for v in series.values) < 0
        ):
            raise ValueError(f"a chart of kind {self.kind!r} shows no values below 0.")
        if self.kind == "pie" and (
            len(self.categories) > len(COLOURS) or sum(self.series[0].values) <= 0
        ):
            raise ValueError(f"a pie needs 1 to {len(COLOURS)} slices that add up to more than 0.")


@dataclass(frozen=True)
class Axis:
    """Round numbers from `low` to `high`, a labelled tick every `step`, a fifth of it between the small ones."""

    low: float
    high: float
    step: float

    @classmethod
    def over(cls, values: Sequence[float], *, from_zero: bool) -> Axis:
        """Return the axis with at most MAX_TICKS ticks that holds all values."""
        low, high = min(values), max(values)
        low = min(0.0, low) if from_zero or low < 0 or low < 0.4 * high else low
        if low == high:
            low, high = sorted((0.0, high or 1.0))
        power = 10.0 ** math.floor(math.log10((high - low) / MAX_TICKS))
        steps = (power * factor for factor in (1, 2, 5, 10, 20))
        step = next(
            size for size in steps if math.ceil(high / size) - math.floor(low / size) < MAX_TICKS
        )
        top = math.ceil(high / step) * step
        return cls(math.floor(low / step) * step, top if top > low else low + step, step)

    @property
    def small_step(self) -> float:
        return self.step / 5

    def ticks(self, step: float) -> list[float]:
        return [
            self.low + number * step for number in range(round((self.high - self.low) / step) + 1)
        ]

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def label(self, value: float) -> str:
        """Return `value` with as many decimals as its ticks need, for small ticks if it is at one of them."""
        is_small = abs(value / self.step - round(value / self.step)) > 1e-6
        digits = max(0, -math.floor(math.log10(self.small_step if is_small else self.step) + 1e-9))
        return f"{round(value, 9) + 0.0:,.{digits}f}"


def y_axis(data: Data) -> Axis:
    """Return the axis that values are read from; for a pie, it is in percent."""
    if data.kind == "pie":
        return Axis(0, 100, 5)
    if data.kind == "scatter":
        return Axis.over([y for series in data.series for _, y in series.points], from_zero=False)
    if data.kind == "stacked":
        return Axis.over(
            [sum(series.values[n] for series in data.series) for n in range(len(data.categories))],
            from_zero=True,
        )
    return Axis.over(
        [value for series in data.series for value in series.values], from_zero=data.kind == "bars"
    )


def x_axis(data: Data) -> Axis:
    """Return the axis below a scatter plot."""
    return Axis.over([x for series in data.series for x, _ in series.points], from_zero=False)


def draw(data: Data, canvas: Canvas) -> Canvas:
    """Draw `data` on `canvas` and return the canvas."""
    canvas.heading((28, 22), data.title, INK, size=22)
    if data.kind == "pie":
        _pie(data, canvas)
        return canvas
    canvas.text((28, 56), data.y_label, MUTED, size=15)
    _legend(data, canvas)
    vertical = y_axis(data)
    _y_ticks(vertical, canvas)
    if data.kind == "scatter":
        _scatter(data, x_axis(data), vertical, canvas)
    else:
        {"bars": _bars, "stacked": _stacked, "lines": _lines}[data.kind](data, vertical, canvas)
        _categories(data, canvas)
    canvas.line([(LEFT, BOTTOM), (RIGHT, BOTTOM)], AXIS, 1.5)
    canvas.text(((LEFT + RIGHT) / 2, HEIGHT - 34), data.x_label, MUTED, size=15, anchor="ma")
    _pinned_labels(data, vertical, canvas)
    return canvas


def _height(axis: Axis, value: float) -> float:
    return BOTTOM - axis.share(value) * (BOTTOM - TOP)


def _place(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (RIGHT - LEFT)


def _legend(data: Data, canvas: Canvas) -> None:
    x = 28.0
    for series, colour in zip(data.series, COLOURS, strict=False):
        if data.kind in ("lines", "scatter"):
            canvas.disc(x + 7, 94, 6, colour)
        else:
            canvas.box(x, 87, x + 14, 101, colour)
        x += canvas.text((x + 21, 94), series.name, INK, size=14, anchor="lm") + 46


def _y_ticks(axis: Axis, canvas: Canvas) -> None:
    for value in axis.ticks(axis.small_step):
        y = _height(axis, value)
        canvas.line([(LEFT - 5, y), (LEFT, y)], AXIS, 1)
        if canvas.magnification >= 2:
            canvas.hairline((LEFT, y), (RIGHT, y), FAINT)
    for value in axis.ticks(axis.step):
        y = _height(axis, value)
        canvas.hairline((LEFT - 9, y), (RIGHT, y), GRID)
        canvas.line([(LEFT - 9, y), (LEFT, y)], AXIS, 1.5)
        canvas.text((LEFT - 14, y), axis.label(value), INK, size=14, anchor="rm")
    canvas.line([(LEFT, TOP), (LEFT, BOTTOM)], AXIS, 1.5)


def _pinned_labels(data: Data, axis: Axis, canvas: Canvas) -> None:
    """Draw the values of the grid lines at the edge of a window that does not show the axis
    itself."""
    if canvas.left > LEFT:
        for value in axis.ticks(axis.step if canvas.magnification < 3 else axis.small_step):
            canvas.label(
                (canvas.left + 8 / canvas.magnification, _height(axis, value)),
                axis.label(value),
                MUTED,
                anchor="lm",
            )
    if data.kind == "scatter" and canvas.bottom < BOTTOM:
        across, y = x_axis(data), canvas.bottom - 8 / canvas.magnification
        for value in across.ticks(across.step if canvas.magnification < 3 else across.small_step):
            canvas.label((_place(across, value), y), across.label(value), MUTED, anchor="md")


def _middle(data: Data, number: int) -> float:
    """Return the x of the middle of a category."""
    return LEFT + (number + 0.5) * (RIGHT - LEFT) / len(data.categories)


def _categories(data: Data, canvas: Canvas) -> None:
    for number, name in enumerate(data.categories):
        canvas.line(
            [(_middle(data, number), BOTTOM), (_middle(data, number), BOTTOM + 5)], AXIS, 1.5
        )
        canvas.text((_middle(data, number), BOTTOM + 10), name, INK, size=14, anchor="ma")


def _bars(data: Data, axis: Axis, canvas: Canvas) -> None:
    wide = min(70.0, (RIGHT - LEFT) / len(data.categories) * 0.76 / len(data.series))
    for place, series in enumerate(data.series):
        for number, value in enumerate(series.values):
            left = _middle(data, number) + (place - len(data.series) / 2) * wide
            canvas.box(left + 1, _height(axis, value), left + wide - 1, BOTTOM, COLOURS[place])


def _stacked(data: Data, axis: Axis, canvas: Canvas) -> None:
    wide = min(80.0, (RIGHT - LEFT) / len(data.categories) * 0.66)
    for number in range(len(data.categories)):
        below, left = 0.0, _middle(data, number) - wide / 2
        for series, colour in zip(data.series, COLOURS, strict=False):
            above = below + series.values[number]
            canvas.box(left, _height(axis, above), left + wide, _height(axis, below), colour)
            below = above


def _lines(data: Data, axis: Axis, canvas: Canvas) -> None:
    for series, colour in zip(data.series, COLOURS, strict=False):
        points = [
            (_middle(data, number), _height(axis, value))
            for number, value in enumerate(series.values)
        ]
        canvas.line(points, colour, 2.5)
        for x, y in points:
            canvas.disc(x, y, 6.5, PAPER)
            canvas.disc(x, y, 5, colour)


def _scatter(data: Data, across: Axis, axis: Axis, canvas: Canvas) -> None:
    for value in across.ticks(across.small_step):
        canvas.line([(_place(across, value), BOTTOM), (_place(across, value), BOTTOM + 5)], AXIS, 1)
        if canvas.magnification >= 2:
            canvas.hairline((_place(across, value), TOP), (_place(across, value), BOTTOM), FAINT)
    for value in across.ticks(across.step):
        canvas.hairline((_place(across, value), TOP), (_place(across, value), BOTTOM), GRID)
        canvas.line(
            [(_place(across, value), BOTTOM), (_place(across, value), BOTTOM + 9)], AXIS, 1.5
        )
        canvas.text(
            (_place(across, value), BOTTOM + 14), across.label(value), INK, size=14, anchor="ma"
        )
    for series, colour in zip(data.series, COLOURS, strict=False):
        for x, y in series.points:
            canvas.disc(_place(across, x), _height(axis, y), 7, PAPER)
            canvas.disc(_place(across, x), _height(axis, y), 5.5, colour)


def _pie(data: Data, canvas: Canvas) -> None:
    values, total = data.series[0].values, sum(data.series[0].values)
    begin = 0.0
    for number, value in enumerate(values):
        end = begin + 360 * value / total
        canvas.wedge(PIE_MIDDLE, PIE_RADIUS, (begin, end), COLOURS[number])
        begin = end
        canvas.box(600, 196 + 42 * number, 618, 214 + 42 * number, COLOURS[number])
        canvas.text((632, 205 + 42 * number), data.categories[number], INK, size=16, anchor="lm")
    for value in values:  # white seams, over the slices
        canvas.line([PIE_MIDDLE, _rim(begin, PIE_RADIUS)], PAPER, 2)
        begin += 360 * value / total
    _rim_scale(canvas)


def _rim_scale(canvas: Canvas) -> None:
    """Draw ticks about the pie: every percent, longer every five, labelled every ten."""
    for percent in range(100):
        degrees, is_long = percent * 3.6, percent % 5 == 0
        inner, outer = (
            _rim(degrees, PIE_RADIUS + 4),
            _rim(degrees, PIE_RADIUS + (11 if is_long else 7)),
        )
        canvas.line([inner, outer], AXIS, 1.5 if is_long else 1)
        if percent % 10 == 0:
            canvas.text(_rim(degrees, PIE_RADIUS + 27), f"{percent}%", MUTED, size=14, anchor="mm")


def _rim(degrees: float, radius: float) -> Point:
    turn = math.radians(degrees)
    return PIE_MIDDLE[0] + radius * math.sin(turn), PIE_MIDDLE[1] - radius * math.cos(turn)
