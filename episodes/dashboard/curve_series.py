"""Curves as the numbers that a chart, a table and a CSV file show. Used by `curves.py` without HTTP and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from environments.models import Environment
from environments.scoring.convention import Coverage
from environments.scoring.definition import DEFINITION_PARAMETERS, Definition, definition_of
from episodes.analytics.block_queries import Axis
from episodes.analytics.components import ComponentCurves, ComponentSeries, component_curves
from episodes.analytics.curve import Curve, CurvePoint, curve, curves
from episodes.analytics.revisions import RevisionMark, marks_of
from episodes.analytics.runs import environment_in_force, environment_of
from episodes.analytics.scopes import Overlay, of_runs, overlaid, scope_of_filter
from episodes.analytics.zoom import Range
from episodes.attempts.conventions import parts_in_address
from episodes.attempts.group_states import GroupCount
from episodes.dashboard.curve_query import CurveAsked, Figure
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.parameters import WholeRange
from episodes.models import Run
from episodes.models.privacy import visible_runs
from episodes.transfer.csv_lines import COVERAGE_COLUMNS, coverage_values, csv_line

HUES = (258, 25, 150, 310, 85, 200, 350, 120)
"""Hues of the series in order, in degrees. Neighbours are far apart."""
MAX_BANDS = 3
UNITS = {
    "return": "return",
    "success": "success rate",
    "length": "steps of an episode",
    "components": "components of the reward",
    "flat": "share of flat groups",
}
BY_DEFINITION = ("return", "components")
"""Figures that depend on the definition of the return."""
NO_COMPONENTS = (
    'These episodes report no components. An environment does with metadata["reward_components"] = {name: number} in '
    "the output of a tool."
)
NO_GROUPS = (
    "Flat groups are counted along the training steps of a run: choose a run and the axis Training step. A group is "
    "all rollouts at one task in one step, and flat if their returns are equal. Filters that can leave out some of "
    "these rollouts, such as a model, have no groups."
)
_FIELDS: dict[str, tuple[str, str, str]] = {
    "return": ("mean", "p10", "p90"),
    "success": ("success", "success_low", "success_high"),
    "length": ("length_mean", "length_p10", "length_p90"),
    "flat": ("flat_share", "", ""),
}
"""Attributes of a point by figure: the value, and the lower and upper end of its band, if it has one."""
_RESTS_ON = {"return": "scored", "flat": "groups"}
"""Attribute of a point that counts what its value rests on, where that is not the number of attempts."""
_COLUMNS = (
    *("x", "x_to", "n", "scored", "mean", "error", "p10", "p90", "successes", "success", "success_low"),
    *("success_high", "length_mean", "length_p10", "length_p90", "episodes", "first_end", "last_end"),
    *("groups", "flat_groups", "flat_share"),
)


@dataclass(frozen=True, slots=True)
class ChartSeries:
    label: str
    hue: int
    filter: EpisodeFilter
    """Filter that finds the episodes of the series."""
    curve: Curve
    components: ComponentCurves | None = None
    """The components of the rewards, if they are what is drawn."""
    is_zoomed: bool = False
    """Whether a part of the axis is shown."""

    @property
    def coverage(self) -> Coverage | None:
        """Return how many rollouts the curve counts; None without an ending."""
        return self.curve.total.coverage if self.curve.total else None

    @property
    def listed(self) -> EpisodeFilter:
        """The filter of the list of the episodes that are counted: of a zoomed curve those of the part that is shown,
        and over training steps only those that have one.
        """
        points, found = self.curve.points, self.filter
        if not points:
            return found
        if self.curve.axis == "step":
            found = replace(found, step=WholeRange(int(points[0].x), int(max(point.x_to for point in points))))
        if self.is_zoomed:
            ends = min(point.first_end for point in points), max(point.last_end for point in points)
            found = replace(found, ends_from=ends[0], ends_to=ends[1])
        return found

    @property
    def groups(self) -> GroupCount:
        """Groups of the whole curve; none unless it is that of a run over training steps."""
        points = self.curve.points
        return GroupCount(sum(point.groups or 0 for point in points), sum(point.flat_groups or 0 for point in points))


@dataclass(frozen=True, slots=True)
class ComponentLine:
    """One component of the rewards as a line of a chart."""

    label: str
    hue: int
    of: ChartSeries
    component: ComponentSeries


@dataclass(frozen=True)
class Drawn:
    asked: CurveAsked
    named: NamedRows
    environment: Environment | None
    """Environment whose definition holds unless the address gives another; None for the default definition."""
    definition: Definition
    series: list[ChartSeries]

    @property
    def notes(self) -> list[str]:
        """Notes to show next to the chart, without duplicates."""
        given = [self.named.unknown, *(one.curve.note for one in self.series)]
        given += [one.components.note for one in self.series if one.components]
        if self.asked.y == "components" and not (self.is_empty or self.components):
            given.append(NO_COMPONENTS)
        if self.asked.y == "flat" and not (self.is_empty or self.has_values):
            given.append(NO_GROUPS)
        if self.asked.is_log:
            given.append("A logarithmic scale has no place for 0 and below: such values are left out.")
        if stepless := sum(one.curve.stepless for one in self.series):
            subject = "episode names" if stepless == 1 else "episodes name"
            given.append(f"{stepless:,} {subject} no training step; the curve leaves them out.")
        return list(dict.fromkeys(note for note in given if note))

    @cached_property
    def marks(self) -> list[RevisionMark]:
        """Return where another revision begins, for all curves together."""
        marks = (mark for one in self.series for mark in marks_of(one.curve, len(self.series)))
        return sorted({(mark.revision.pk, mark.x): mark for mark in marks}.values(), key=lambda mark: mark.x)

    @property
    def components(self) -> list[ComponentLine]:
        """Return the components of all curves, as many as a chart can show."""
        each = ((one, part) for one in self.series if one.components for part in one.components.series)
        is_alone = len(self.series) == 1
        labels = ((one, part, part.name if is_alone else f"{one.label} · {part.name}") for one, part in each)
        return [ComponentLine(label, hue, one, part) for (one, part, label), hue in zip(labels, HUES, strict=False)]

    @property
    def is_empty(self) -> bool:
        return not any(one.curve.points for one in self.series)

    @property
    def has_values(self) -> bool:
        """Return whether there is anything to draw.

        Where there are episodes, only components and flat groups can be missing.
        """
        if self.asked.y == "flat":
            return any(one.groups.groups for one in self.series)
        return bool(self.components) if self.asked.y == "components" else not self.is_empty

    @property
    def can_have_groups(self) -> bool:
        return self.asked.y == "flat" or any(one.curve.scope.has_groups for one in self.series)

    @property
    def has_bands(self) -> bool:
        return len(self.series) <= MAX_BANDS if self.asked.has_band is None else self.asked.has_band


def drawn(asked: CurveAsked, least_blocks: int | None = None) -> Drawn:
    """Return the curves that `asked` describes. `least_blocks`: passed to `curves`; a zoom is as fine as possible."""
    named = NamedRows.of(asked.filter)
    environment = _environment(asked, named)
    definition = definition_of(environment, asked.definition)
    parts = _parts(asked)
    scopes = [
        scope_of_filter(part, NamedRows.of(part) if part != asked.filter else named, label) for part, label in parts
    ]
    is_zoomed = asked.shown != Range()
    if is_zoomed:
        found = [curve(scope, definition, asked.x, shown=asked.shown) for scope in scopes]
    else:
        found = curves(scopes, definition, asked.x, least_blocks=least_blocks)
    each = zip(parts, HUES, found, strict=False)
    has_components = asked.y == "components"
    series = [
        ChartSeries(label, hue, part, one, component_curves(one) if has_components else None, is_zoomed)
        for (part, label), hue, one in each
    ]
    return Drawn(asked, named, environment, definition, series)


def _environment(asked: CurveAsked, named: NamedRows) -> Environment | None:
    """Return the environment whose definition holds: the one that is named, else that of the run or the first run."""
    if named.environment or asked.environment:
        return named.environment or asked.environment
    if asked.runs:
        runs = Run.objects.filter(visible_runs(asked.filter.hidden, asked.filter.key)).in_bulk(asked.runs)
        first = next((runs[pk] for pk in asked.runs if pk in runs), None)
        return environment_of(first) if first else None
    return environment_in_force(asked.filter, named)


def _parts(asked: CurveAsked) -> list[tuple[EpisodeFilter, str]]:
    """Return the filter and label of each curve."""
    if asked.runs:
        return of_runs(asked.filter, asked.runs)
    by: Overlay | None = asked.by
    if by is not None:
        return overlaid(asked.filter, by)
    return [(asked.filter, _label(asked.filter))]


def _label(asked: EpisodeFilter) -> str:
    values = [value for name, value in asked.values().items() if name not in DEFINITION_PARAMETERS]
    return " · ".join(values) or "all episodes"


# --- as numbers ------------------------------------------------------------------------------------------------------


def chart_of(found: Drawn) -> dict[str, Any]:
    """Return the JSON object that `static/orsweb/chart.js` draws."""
    asked = found.asked
    return {
        "x": asked.x,
        "unit": f"{UNITS[asked.y]} ({found.definition.return_})" if asked.y in BY_DEFINITION else UNITS[asked.y],
        "isShare": asked.y in ("success", "flat"),
        "log": asked.is_log,
        "band": found.has_bands,
        "marks": [{"x": mark.x, "text": mark.revision.label} for mark in found.marks],
        "caption": _caption(found),
        "series": _component_series(found) if asked.y == "components" else _series(found),
    }


def _series(found: Drawn) -> list[dict[str, Any]]:
    asked, parts = found.asked, parts_in_address(found.definition.convention, found.named.environment)
    return [
        {
            "name": one.label,
            "hue": one.hue,
            "query": one.filter.to_query(**parts),
            "points": _points(one.curve, asked.y, asked.smooth),
        }
        for one in found.series
    ]


def _component_series(found: Drawn) -> list[dict[str, Any]]:
    parts = parts_in_address(found.definition.convention, found.named.environment)
    return [
        {
            "name": line.label,
            "hue": line.hue,
            "query": line.of.filter.to_query(**parts),
            "points": _component_points(line, found.asked.smooth),
        }
        for line in found.components
    ]


def _caption(found: Drawn) -> list[str]:
    """Return the lines under an image of the chart: what it shows, the definition, and the coverage of each curve."""
    shown = ", ".join(one.label for one in found.series)
    covered = [(one.label, one.coverage) for one in found.series if one.coverage]
    lines = [coverage.text if len(covered) == 1 else f"{label}: {coverage.text}" for label, coverage in covered]
    return [f"{UNITS[found.asked.y].capitalize()} of {shown}", f"Return: {found.definition}", *lines]


def _component_points(line: ComponentLine, smooth: float) -> list[dict[str, Any]]:
    values = smoothed([part.mean for part in line.component.points], smooth)
    each = zip(line.of.curve.points, line.component.points, values, strict=True)
    return [
        {
            **{"x": point.x, "xTo": point.x_to, "y": value, "low": None, "high": None, "n": part.n},
            **{"attempts": point.n, "behind": _end_numbers(point, line.of.curve.axis)},
            "coverage": point.coverage.text,
        }
        for point, part, value in each
    ]


def _points(found: Curve, figure: Figure, smooth: float) -> list[dict[str, Any]]:
    points = found.points
    middles, lows, highs = (
        smoothed([getattr(point, name) if name else None for point in points], smooth) for name in _FIELDS[figure]
    )
    rests_on = _RESTS_ON.get(figure, "n")
    return [
        {
            **{"x": point.x, "xTo": point.x_to, "y": middle, "low": low, "high": high, "n": getattr(point, rests_on)},
            **{"attempts": point.n, "behind": _end_numbers(point, found.axis), "coverage": point.coverage.text},
        }
        for point, middle, low, high in zip(points, middles, lows, highs, strict=True)
    ]


def _end_numbers(point: CurvePoint, axis: Axis) -> dict[str, str]:
    """Return the parameters that narrow the filter of a curve to the episodes of one point."""
    ends = {"ends_from": str(point.first_end), "ends_to": str(point.last_end)}
    return ends | {"step": str(WholeRange(int(point.x), int(point.x_to)))} if axis == "step" else ends


def smoothed(values: Sequence[float | None], strength: float) -> list[float | None]:
    """Return the exponential moving average of `values`; None stays None and is ignored.

    The average starts at the first value and is not biased towards 0: the weights of the values so far add up to 1.
    """
    total = weight = 0.0
    found = list[float | None]()
    for value in values:
        if value is not None and strength:
            total, weight = total * strength + value, weight * strength + 1.0
        found.append(value if value is None or not strength else total / weight)
    return found


def csv_of(found: Drawn) -> Iterator[str]:
    """Yield the lines of a CSV file: one for each point, without smoothing. Times are seconds since the epoch."""
    names = list(dict.fromkeys(line.component.name for line in found.components))
    yield csv_line(["series", *_COLUMNS, *COVERAGE_COLUMNS, *(f"component:{name}" for name in names)])
    for one in found.series:
        parts = {part.name: part.points for part in one.components.series} if one.components else {}
        for place, point in enumerate(one.curve.points):
            means = (parts[name][place].mean if name in parts else None for name in names)
            figures = (getattr(point, name) for name in _COLUMNS)
            yield csv_line([one.label, *figures, *coverage_values(point.coverage), *means])
