"""The curves that the parameters of a page describe, each by the definition in force for it.
Without HTTP and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import cycle
from operator import attrgetter, itemgetter
from typing import NamedTuple

from django.db.models import Exists, OuterRef

from environments.database.json_rows import among
from environments.display.numbers import digits_of, signed
from environments.filtering.parameters import WholeRange
from environments.models import Environment, Split
from environments.scoring.convention import Coverage
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    Definition,
    Definitions,
    definition_of,
)
from episodes.attempts.group_states import GroupCount, counts_together
from episodes.figures.curves.components import ComponentCurves, ComponentSeries, component_curves
from episodes.figures.curves.curve_parameters import CurveQuery
from episodes.figures.curves.curve_points import MAX_POINTS, Curve, CurvePoint, curve, curves
from episodes.figures.curves.figure_menu import (
    EXTREMES,
    NO_COMPONENTS,
    NO_GROUPS,
    NO_SCALARS,
    NO_TOKENS,
    OF_GROUPS,
    OWN_COLUMNS,
    Figure,
)
from episodes.figures.curves.phases import Phase, phases_of
from episodes.figures.curves.revision_marks import RevisionMark, marks_of
from episodes.figures.curves.run_groups import (
    configs_of,
    groups_by,
    names_of_settings,
    names_that_differ,
)
from episodes.figures.curves.tokens import TokenCurve, token_curve
from episodes.figures.curves.zoomed_range import WHOLE
from episodes.figures.run_splits import (
    common_split,
    of_one_split,
    pools_splits,
    splits_of,
    within,
)
from episodes.figures.scope_figures import ScopeFigures
from episodes.figures.scopes import (
    MAX_COMPARED,
    MAX_SERIES,
    Overlaid,
    OverlaidPart,
    Scope,
    of_runs,
    overlaid,
    people_left_out,
    scope_of_filter,
    without_people,
)
from episodes.figures.spreads import RunSpread
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode, Run, ScalarSeries
from episodes.rendering.line_colours import COLOURS, colour_of_run
from episodes.runs.scalar_curves import MAX_POINTS as MAX_SCALAR_POINTS
from episodes.runs.scalar_curves import MAX_READ, ScalarCurve, scalar_curves

DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 3), (8, 3, 2, 3))
"""Lengths of dashes and gaps in pixels; empty: solid."""
ALIKE = 4
"""Lines of a chart, one after another, that have the same dashes."""
_SETTLED = frozenset(("environment", "run", "task"))
"""Conditions whose episodes have one scale of rewards; others may pool several environments."""
MAX_COMPONENT_LINES = 12
MAX_CHART_POINTS = 6_000
"""Points of all curves of a chart together, if they are many."""
MAX_CHART_SCALARS = 4_000
"""Points of a scalar of all runs of a chart together, if they are many."""


@dataclass(frozen=True, slots=True)
class ChartSeries:
    key: str
    """What addresses call the curve, without a comma: the number of its run, else its label."""
    label: str
    colour: int
    """Number of the colour of its line, 0 to 11."""
    filter: EpisodeFilter
    """Filter that finds the episodes of the series."""
    curve: Curve
    environment: Environment | None = None
    """Environment of all of its episodes; None if there are several, or none."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Parts of the convention that the address of a list of its episodes needs."""
    components: ComponentCurves | None = None
    """The components of the rewards, if they are what is drawn."""
    tokens: TokenCurve | None = None
    """The tokens that clients reported, if they are what is drawn."""
    is_zoomed: bool = False
    """Whether a part of the axis is shown."""
    dash: tuple[int, ...] = ()
    """Lengths of dashes and gaps in pixels; empty if solid."""
    run_state: str = ""
    """`Run.state` of its run; empty without one."""

    @property
    def failed(self) -> int:
        """Number of its runs that failed."""
        return int(self.run_state == "failed")

    @property
    def coverage(self) -> Coverage | None:
        """Return how many rollouts the curve counts; None without an ending."""
        return self.curve.total.coverage if self.curve.total else None

    @property
    def carried(self) -> list[CurvePoint]:
        """Return the points whose mean return a few unusual returns carry."""
        outliers = self.curve.total.outliers if self.curve.total else None
        if outliers is None:
            return []
        low, high = outliers.low, outliers.high
        return [
            point
            for point in self.curve.points
            if not point.is_mean_usual
            and not (low <= (point.lowest or 0.0) and (point.highest or 0.0) <= high)
        ]

    @property
    def usual_returns(self) -> tuple[float, float] | None:
        """Return the range of the points that no unusual returns carry, beyond which the axis of a
        chart need not reach; None if there are no others, or no such points."""
        outliers = self.curve.total.outliers if self.curve.total else None
        if outliers is None:
            return None
        low, high, carried_ids = outliers.low, outliers.high, {id(point) for point in self.carried}
        usual = [
            point
            for point in self.curve.points
            if id(point) not in carried_ids and low <= (point.mean or 0.0) <= high
        ]
        values = [
            value
            for point in usual
            for value in (point.mean, point.p10, point.p90)
            if value is not None and low <= value <= high
        ]
        has_others = len(usual) < len(self.curve.points)
        return (min(values), max(values)) if values and has_others else None

    def value_of(self, column: str) -> float | None:
        """Return what the table has in one of the columns SORTS; None without a value."""
        names = {"attempts": "n", "return": "mean", "length": "length_mean"}
        total = self.curve.total
        return None if total is None else getattr(total, names.get(column, column))

    @property
    def has_mixed_conventions(self) -> bool:
        return self.curve.definition.convention is None

    @property
    def listed(self) -> EpisodeFilter:
        """The filter of the list of the episodes that are counted: of a zoomed curve those of the
        part that is shown, and over training steps only those that have one.
        """
        points, filters = self.curve.points, self.filter
        if not points:
            return filters
        if self.curve.axis == "step":
            filters = replace(
                filters, step=WholeRange(int(points[0].x), int(max(point.x_to for point in points)))
            )
        if self.is_zoomed:
            first, *others = self.curve.ends
            ends = (
                {"ends": self.curve.ends}
                if others
                else {"ends_from": first.low, "ends_to": first.high}
            )
            filters = replace(filters, **ends)
        return filters

    @property
    def attempts_query(self) -> str:
        """Query string of the list of the rollouts that are counted."""
        return replace(self.listed, ending="attempt").to_query(**self.parts)

    @property
    def groups(self) -> GroupCount:
        """Groups of the whole curve; none unless it is that of a run over training steps and a
        figure of groups is drawn.
        """
        return counts_together(
            point.group_count for point in self.curve.points if point.group_count
        )


@dataclass(frozen=True, slots=True)
class ComponentLine:
    """One component of the rewards as a line of a chart."""

    key: str
    label: str
    colour: int
    dash: tuple[int, ...]
    of: ChartSeries
    component: ComponentSeries

    @property
    def share(self) -> float | None:
        """Share of the attempts that report it; None where not all of them are read."""
        attempts = self.of.components and self.of.components.attempts
        return self.component.total.n / attempts if attempts else None

    @property
    def mean_of_all(self) -> float | None:
        """Mean over all attempts, those that don't report it as 0; None where not all are read."""
        if self.share is None:
            return None
        return (self.component.total.mean or 0.0) * self.share


@dataclass(frozen=True, slots=True)
class GroupLine:
    """The runs of a chart that have the same value in their configuration, as a line."""

    key: str
    label: str
    colour: int
    dash: tuple[int, ...]
    members: Sequence[ChartSeries]

    @property
    def failed(self) -> int:
        """Number of its runs that failed."""
        return sum(line.failed for line in self.members)

    def value_of(self, column: str) -> float | None:
        """Return what the table has in one of the columns SORTS; None without a value."""
        spread = {"return": self.mean, "success": self.success}.get(column)
        return spread and spread.mean

    @property
    def mean(self) -> RunSpread | None:
        """Spread of the mean returns of its runs."""
        return RunSpread.of([total.mean for total in self._totals])

    @property
    def success(self) -> RunSpread | None:
        """Spread of the success rates of its runs."""
        return RunSpread.of([total.success for total in self._totals])

    @property
    def best(self) -> ChartSeries | None:
        """The run that succeeds most often, of equal ones that with the highest mean return; None
        without a return."""
        members = [
            (line.curve.total.success or 0.0, line.curve.total.mean, line)
            for line in self.members
            if line.curve.total and line.curve.total.mean is not None
        ]
        return max(members, key=itemgetter(0, 1))[2] if members else None

    @property
    def _totals(self) -> list[ScopeFigures]:
        return [line.curve.total for line in self.members if line.curve.total]


class ScalarChart(NamedTuple):
    """A scalar that trainers report, of the runs that have it."""

    name: str
    lines: Sequence[tuple[ChartSeries, ScalarCurve]]
    """The curve of each run's episodes, which has the look of its line, and its scalar."""

    @property
    def extremes(self) -> str:
        """A sentence about the light band; empty without one, because each point is one value."""
        size = max(point.numbers for _, curve in self.lines for point in curve.points)
        values = f"lowest and highest of up to {size:,} values"
        return f"Light band of {self.name}: {values}." if size > 1 else ""

    @property
    def notes(self) -> list[str]:
        """A sentence about the values that are no numbers, if there are any."""
        gaps = sum(curve.series.gaps for _, curve in self.lines)
        values = "value" if gaps == 1 else "values"
        return [f"{self.name}: {gaps:,} {values} NaN or infinite, drawn as gaps."] if gaps else []


@dataclass(frozen=True)
class CurveCharts:
    """What the page of curves shows."""

    query: CurveQuery
    rows: NamedRows
    overlay: Overlaid
    series: list[ChartSeries]
    people: str = ""
    """A sentence about the episodes of people that the curves leave out; empty if there are
    none."""
    splits: Sequence[Split] = ()
    """Splits that the runs played, if one of them played several."""
    group_names: Sequence[str] = ()
    """Names of values of the runs' configurations by which they can be grouped."""
    group_suggestion: Sequence[str] = ()
    """Those that differ between settings and not only between their seeds; may be empty."""
    groups: Sequence[GroupLine] = ()
    """The runs by the value that the address names; empty: a curve for each run."""
    scalar_names: Sequence[str] = ()
    """Names of all scalars of the runs."""
    scalars: Sequence[ScalarChart] = ()
    """What is drawn of them."""
    failed: int = 0
    """Number of the chosen runs that failed, whether or not they are drawn."""
    split_name: str = ""
    """The split that all curves show; empty if they show several, or none."""

    @property
    def split(self) -> Split | None:
        """The split that all curves of runs with several are limited to; None if they differ, or
        show all."""
        splits = {part.split or self.rows.split for part in self.overlay.parts} - {None}
        return splits.pop() if len(splits) == 1 else None

    @cached_property
    def environment(self) -> Environment | None:
        """Environment of all episodes; None if there are several, or none."""
        environments = {line.environment for line in self.series}
        return environments.pop() if len(environments) == 1 else self.rows.environment

    @property
    def place(self) -> str:
        """What all curves show: an environment and perhaps its split; empty if there are several
        environments."""
        return f"{self.environment.name} {self.split_name}".strip() if self.environment else ""

    @cached_property
    def definitions(self) -> list[Definitions]:
        """The definition of each curve, or the definitions where its environments differ; without a
        curve the one in force.
        """
        own = definition_of(self.rows.environment, self.query.definition)
        return [line.curve.definition for line in self.series] or [own]

    @cached_property
    def definition(self) -> Definition | None:
        """The definition of all curves; None where they differ, or where the environments of one
        do."""
        first = self.definitions[0]
        are_equal = all(definition == first for definition in self.definitions)
        return first if are_equal and isinstance(first, Definition) else None

    @property
    def failed_note(self) -> str:
        """A sentence about the failed runs that are left out; may be empty."""
        if self.query.has_failed or not self.failed:
            return ""
        return f"{self.failed:,} failed run{'' if self.failed == 1 else 's'} left out."

    @property
    def notes(self) -> list[str]:
        """Notes to show next to the chart, without duplicates."""
        notes = [self.rows.unknown, *_left_out(self), *(line.curve.note for line in self.series)]
        if self.query.by == "environment":
            notes.append("Each curve joins the splits, models and runs of an environment.")
        notes += [
            part.note for line in self.series for part in (line.components, line.tokens) if part
        ]
        notes += [NO_SCALARS] if self.query.scalars and not self.can_have_scalars else []
        if self.can_have_scalars:
            names = [chart.name for chart in self.scalars]
            missing = [name for name in self.query.scalars if name not in names]
            notes += [f"No values of {', '.join(missing)} here."] if missing else []
        notes.append(" ".join(note for chart in self.scalars for note in chart.notes))
        without_values = set(self.query.figures) - set(self.figures)
        if self.has_points:
            are_few = len(self.series) <= MAX_COMPARED
            notes += [NO_COMPONENTS] if are_few and "components" in without_values else []
            notes += [NO_TOKENS] if are_few and "tokens" in without_values else []
            notes += [NO_GROUPS] if without_values.intersection(OF_GROUPS) else []
        count = sum(len(line.components.series) for line in self.series if line.components)
        if count > MAX_COMPONENT_LINES:
            notes.append(f"The first {MAX_COMPONENT_LINES} of {count:,} components are shown.")
        if len(self.series) > MAX_COMPARED and {"components", "tokens"} & {*self.query.figures}:
            notes.append(f"Components and tokens are drawn of {MAX_COMPARED} curves at most.")
        if (steps := self.steps_of_a_point) > 1:
            notes.append(f"Each point averages up to {steps:,} steps. Zoom in for detail.")
        if stepless := sum(line.curve.stepless for line in self.series):
            subject, rest = ("episode names", "it") if stepless == 1 else ("episodes name", "them")
            notes.append(f"{stepless:,} {subject} no training step; the curve leaves {rest} out.")
        return list(dict.fromkeys(filter(None, notes)))

    @property
    def outlying(self) -> list[tuple[str, str]]:
        """A sentence for each curve of which a few returns carry the mean, or that of some points,
        and the query string of the curve without these."""
        rows = list[tuple[str, str]]()
        for line in self.series if "return" in self.query.figures else ():
            total, count = line.curve.total, len(line.carried)
            if total is None or (outliers := total.outliers) is None:
                continue
            if total.is_mean_usual and not count:
                continue
            points = f"{count:,} of {len(line.curve.points):,} points"
            place = f" at {points}" if total.is_mean_usual else ""
            text = (
                f"{line.label}: a few returns, as far as {signed(outliers.farthest)}, carry the mean"
                f"{place}. Without them the mean is about {signed(outliers.mean)}."
            )
            ends = {
                "return_from": digits_of(outliers.low),
                "return_to": digits_of(outliers.high),
            }
            rows.append((text, line.filter.to_query(**line.parts, **ends)))
        return rows

    @property
    def steps_of_a_point(self) -> int:
        """Number of training steps that a point averages, at most; 1 on another axis."""
        steps = [line.curve.steps_of_a_point for line in self.series]
        return max(steps, default=1) if self.query.x == "step" and self.query.figures else 1

    @cached_property
    def has_extremes(self) -> bool:
        """Whether light bands reach to the lowest and highest value of each point."""
        if self.query.has_extremes is None:
            return self.steps_of_a_point > 1 or any(chart.extremes for chart in self.scalars)
        return self.query.has_extremes

    @property
    def can_have_extremes(self) -> bool:
        has_own = not set(EXTREMES).isdisjoint(self.figures)
        return bool(self.groups) or has_own or any(chart.extremes for chart in self.scalars)

    @property
    def can_have_scalars(self) -> bool:
        return self.query.x == "step" and bool(self.scalar_names)

    @cached_property
    def marks(self) -> list[RevisionMark]:
        """Return where another revision begins, for all curves together."""
        marks = marks_of(*(line.curve for line in self.series))
        by_place = {(mark.revision.pk, mark.x): mark for mark in marks}
        return sorted(by_place.values(), key=attrgetter("x"))

    @cached_property
    def phases(self) -> list[Phase]:
        """Return the phases of a single curve over training steps; none of other charts."""
        is_training = self.is_single and self.query.x == "step"
        return phases_of(self.series[0].curve.points) if is_training else []

    @cached_property
    def components(self) -> list[ComponentLine]:
        """Return the components of all curves, as many as a chart can show.

        Those of a single curve differ as curves do. Otherwise each has the colour of its curve, and
        the same dashes in all.
        """
        pairs = [
            (line, component)
            for line in self.series
            if line.components
            for component in line.components.series
        ][:MAX_COMPONENT_LINES]
        if self.is_single:
            return [
                ComponentLine(
                    key_of(part.name), part.name, place, _dash(place, len(pairs)), line, part
                )
                for place, (line, part) in enumerate(pairs)
            ]
        names = dict.fromkeys(component.name for _, component in pairs)
        dashes = dict(zip(names, cycle(DASHES), strict=False))
        return [
            ComponentLine(
                f"{line.key}·{key_of(component.name)}",
                f"{line.label} · {component.name}",
                line.colour,
                dashes[component.name],
                line,
                component,
            )
            for line, component in pairs
        ]

    @property
    def has_points(self) -> bool:
        """Return whether there are episodes to draw."""
        return any(line.curve.points for line in self.series)

    @property
    def is_single(self) -> bool:
        return len(self.series) == 1

    @property
    def is_empty(self) -> bool:
        return not self.has_points and not self.scalars

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures that have values to draw, a chart each.

        Where there are episodes, only components, tokens and figures of groups can be missing.
        """
        has_groups = any(line.groups.groups for line in self.series)
        has_values = {
            **dict.fromkeys(OF_GROUPS, has_groups),
            "components": any(line.components and line.components.series for line in self.series),
            "tokens": any(
                line.tokens and line.tokens.total.output_tokens is not None for line in self.series
            ),
        }
        return [figure for figure in self.query.figures if has_values.get(figure, self.has_points)]

    @cached_property
    def has_lines(self) -> bool:
        """Return whether a chart has a line for each curve; one of components alone has others."""
        return not self.groups and any(figure != "components" for figure in self.figures)

    @property
    def own_columns(self) -> list[Figure]:
        """Return the figures that have a column in the table only if they are asked for."""
        return [figure for figure in self.query.figures if figure in OWN_COLUMNS]

    @property
    def can_have_groups(self) -> bool:
        return not set(OF_GROUPS).isdisjoint(self.query.figures) or any(
            line.curve.scope.has_groups for line in self.series
        )


def key_of(label: str) -> str:
    """Return what an address calls a curve with this label."""
    return label.replace(",", " ")


def curve_charts(query: CurveQuery, least_blocks: int | None = None) -> CurveCharts:
    """Return the curves that `query` describes, in which every episode follows the definition of
    its own environment. `least_blocks`: passed to `curves`; a zoom is as fine as possible."""
    rows, filters = NamedRows.of(query.filter), query.filter
    if query.by is None and not query.runs and _SETTLED.isdisjoint(filters.names_of_conditions):
        by_environment = replace(query, by="environment")
        overlay = _overlay(by_environment)
        query = by_environment if len(overlay.parts) > 1 else query
    overlay = _overlay(query)
    parts = [part for part in overlay.parts if not (part.run and part.run.state == "failed")]
    failed_count = len(overlay.parts) - len(parts)
    if not query.has_failed:
        overlay = replace(overlay, parts=parts)
    runs = overlay.runs or ([rows.run] if rows.run else [])
    if query.axis is None and runs and (query.scalars or _have_steps(runs)):
        query = replace(query, axis="step")
    overlay, splits, split_name = _of_splits(query, rows, overlay)
    scopes = [
        scope_of_filter(part.filter, _rows_of_part(part, filters, rows), part.label)
        for part in overlay.parts
    ]
    definitions = rows.definitions
    lines = _curves(query, scopes, definitions, least_blocks)
    runs_of_parts = [part.run for part in overlay.parts]
    if len(runs_of_parts) == 1 and rows.run:
        runs_of_parts = [rows.run]
    detailed_figures = query.figures if len(overlay.parts) <= MAX_COMPARED else ()
    series = [
        ChartSeries(
            key=str(part.run.pk) if part.run else key_of(part.label),
            label=part.label,
            colour=colour,
            filter=without_people(part.filter),
            curve=line,
            environment=environment,
            parts=query.definition.list_parts,
            components=component_curves(line) if "components" in detailed_figures else None,
            tokens=token_curve(line) if "tokens" in detailed_figures else None,
            is_zoomed=query.zoom != WHOLE,
            dash=_dash(place, len(overlay.parts)),
            run_state=part.run.state if part.run else "",
        )
        for place, (part, colour, line, environment) in enumerate(
            zip(
                overlay.parts,
                _colours(runs_of_parts),
                lines,
                _environments(lines, rows),
                strict=True,
            )
        )
    ]
    # runs have those of their own people
    people = "" if query.by == "player" or query.runs else people_left_out(filters, rows)
    group_names, suggestion, groups = _grouped(query, series, overlay)
    scalar_names, scalars = _scalars(query, series, runs_of_parts)
    return CurveCharts(
        *(query, rows, overlay, series, people, splits, group_names, suggestion, groups),
        scalar_names=scalar_names,
        scalars=scalars,
        failed=failed_count,
        split_name=split_name,
    )


def _overlay(query: CurveQuery) -> Overlaid:
    """Return what curves the query names, each with its filter."""
    filters = query.filter
    if query.runs:
        return of_runs(filters, query.runs[:MAX_SERIES])
    if query.by is not None and query.by != "all":
        return overlaid(filters, query.by, needs_step=query.x == "step")
    names = filters.values()
    label = " · ".join(text for name, text in names.items() if name not in DEFINITION_PARAMETERS)
    return Overlaid([OverlaidPart(filters, label or "all episodes")], 1)


def _curves(
    query: CurveQuery, scopes: Sequence[Scope], definitions: Definitions, least_blocks: int | None
) -> list[Curve]:
    """Return the curve of each scope, as fine as its chart needs it."""
    needs_groups = query.format == "csv" or not set(OF_GROUPS).isdisjoint(query.figures)
    if query.zoom != WHOLE and len(scopes) <= MAX_COMPARED:
        return [
            curve(scope, definitions, query.x, zoom=query.zoom, needs_groups=needs_groups)
            for scope in scopes
        ]
    are_drawn = query.figures or query.format == "csv" or len(scopes) <= MAX_COMPARED
    return curves(
        scopes,
        definitions,
        query.x,
        points=min(MAX_POINTS, MAX_CHART_POINTS // max(1, len(scopes))) if are_drawn else 1,
        zoom=query.zoom,
        least_blocks=least_blocks,
        needs_groups=needs_groups,
    )


def _have_steps(runs: Sequence[Run]) -> bool:
    """Return whether each run has an episode with a training step."""
    with_step = Episode.objects.filter(run=OuterRef("pk"), run_step__isnull=False)
    stepless = Run.objects.filter(~Exists(with_step), among("pk", [run.pk for run in runs]))
    return not stepless.exists()


def _scalars(
    query: CurveQuery, series: Sequence[ChartSeries], runs: Sequence[Run | None]
) -> tuple[list[str], list[ScalarChart]]:
    """Return the names of the scalars of the runs, and a chart of each that is drawn."""
    lines = {run.pk: line for run, line in zip(runs, series, strict=True) if run}
    rows = ScalarSeries.objects.filter(among("run_id", list(lines)))
    names = list(rows.order_by("name").values_list("name", flat=True).distinct()) if lines else []
    if query.x != "step":
        return names, []
    # a file has every step
    points = MAX_READ if query.format == "csv" else MAX_CHART_SCALARS // max(1, len(lines))
    points = points if query.format == "csv" else min(MAX_SCALAR_POINTS, points)
    charts = list[ScalarChart]()
    for name in query.scalars:
        curves = scalar_curves(list(rows.filter(name=name)), points, *query.zoom)
        by_run = {curve.series.run_id: curve for curve in curves if curve.points}
        if by_run:
            pairs = [(line, by_run[run]) for run, line in lines.items() if run in by_run]
            charts.append(ScalarChart(name, pairs))
    return names, charts


def _grouped(
    query: CurveQuery, series: Sequence[ChartSeries], overlay: Overlaid
) -> tuple[list[str], list[str], list[GroupLine]]:
    """Return the names by which the runs can be grouped, those that suit seeds, and the groups by
    those of the address."""
    if len(overlay.runs) < 2:
        return [], [], []
    configs = configs_of(overlay.runs)
    names = names_that_differ(configs)
    if not query.group:
        return names, names_of_settings(names, configs), []
    groups = groups_by(query.group, configs)
    by_run = {
        part.run.pk: line for part, line in zip(overlay.parts, series, strict=True) if part.run
    }
    lines = [
        GroupLine(
            key_of(group.label),
            group.label,
            place % COLOURS,
            _dash(place, len(groups)),
            [by_run[pk] for pk in group.runs],
        )
        for place, group in enumerate(groups)
    ]
    return names, [], lines


def _colours(runs: Sequence[Run | None]) -> list[int]:
    """Return the colour of each curve: that of its run unless an earlier curve has it, and another
    as long as there are any."""
    colours = list[int]()
    for place, run in enumerate(runs):
        own = colour_of_run(run.pk) if run else place % COLOURS
        near = [(own + turn) % COLOURS for turn in range(COLOURS)]
        colours.append(next((colour for colour in near if colour not in colours), own))
    return colours


def _dash(place: int, count: int) -> tuple[int, ...]:
    """Return the dashes of a line among `count`: neighbours have the same, so that few charts have
    dashes, and lines of the same colour have others."""
    return DASHES[place // (ALIKE if count <= COLOURS else COLOURS) % len(DASHES)]


def _of_splits(
    query: CurveQuery, rows: NamedRows, overlay: Overlaid
) -> tuple[Overlaid, list[Split], str]:
    """Return the parts with each run limited to the split that is shown of it, all splits that the
    runs played, and the name of the split that all parts show, or an empty text.

    Runs that are compared show the same split if they have one in common. Nothing changes if no run
    played several.
    """
    runs = [
        part.run or (rows.run if part.filter.run is not None else None) for part in overlay.parts
    ]
    splits_by_run = splits_of({run.pk for run in runs if run}, query.filter.viewer)
    splits_by_part = [
        within(splits_by_run.get(run.pk, []), part.filter) if run else []
        for run, part in zip(runs, overlay.parts, strict=True)
    ]
    several = [splits for splits in splits_by_part if len(splits) > 1]
    every = list(dict.fromkeys(split for splits in several for split in splits))
    is_limited = not query.are_together and several and pools_splits(query.filter)
    common = common_split([splits for splits in splits_by_part if splits]) if is_limited else None
    parts, names = list[OverlaidPart](), set[str]()
    for part, splits in zip(overlay.parts, splits_by_part, strict=True):
        name = part.filter.split or ""
        if len(splits) == 1:
            name = splits[0].name
        elif splits and is_limited:
            split = common or splits[0]
            filters, label = of_one_split(part.filter, split), f"{part.label} · {split.name}"
            part, name = replace(part, filter=filters, label=label, split=split), split.name
        parts.append(part)
        names.add(name)
    return replace(overlay, parts=parts), every, names.pop() if len(names) == 1 else ""


def _environments(lines: Sequence[Curve], rows: NamedRows) -> list[Environment | None]:
    """Return the environment of all episodes of each curve; None if there are several, or none."""
    ids = [next(iter(line.environments)) if len(line.environments) == 1 else 0 for line in lines]
    environments = {rows.environment.pk: rows.environment} if rows.environment else {}
    if missing := set(ids) - {0, *environments}:
        environments |= Environment.objects.defer("card", "task_schema").in_bulk(missing)
    return [environments.get(pk) for pk in ids]


def _rows_of_part(part: OverlaidPart, filters: EpisodeFilter, rows: NamedRows) -> NamedRows:
    """Return the rows that the filter of a part names. `rows`: those of the filter of the whole
    chart."""
    if part.filter == filters:
        return rows
    if part.run is None or rows.unknown:
        return NamedRows.of(part.filter)
    rows = replace(rows, run=part.run)
    if part.split is None:
        return rows
    return replace(rows, environment=part.split.environment, split=part.split)


def _left_out(charts: CurveCharts) -> list[str]:
    """Return a sentence for each reason why runs, environments or models are not in the chart."""
    query, overlay, sentences = charts.query, charts.overlay, [charts.people, charts.failed_note]
    if overlay.missing:
        numbers = ", ".join(map(str, overlay.missing))
        sentences.append(
            f"There is no run {numbers}; a run's number is in the address of its page."
        )
    if len(query.runs) > MAX_SERIES:
        sentences.append(f"Showing the first {MAX_SERIES} of {len(query.runs):,} selected runs.")
    if overlay.count > len(overlay.parts):
        newest = f"The {len(overlay.parts)} newest of {overlay.count:,} {query.by}s"
        newest += " with training steps" if overlay.stepless else ""
        count = sum(bool(line.curve.points) for line in charts.series)
        if count in (0, len(overlay.parts)):
            sentences.append(f"{newest} are shown.")
        else:
            sentences.append(f"{newest} were chosen, and {count} of them are drawn.")
    stepless = list(overlay.stepless)
    if query.zoom == WHOLE:
        stepless = [line.label for line in charts.series if not line.curve.points] + stepless
    if query.x == "step" and stepless and len(charts.series) + len(overlay.stepless) > 1:
        more = f" and {overlay.unnamed_count:,} more" if overlay.unnamed_count else ""
        reason = "Not drawn, because none of their ended episodes has a training step"
        sentences.append(f"{reason}: {', '.join(stepless)}{more}.")
    return sentences
