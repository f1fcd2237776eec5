"""The curves that the parameters of a page describe, each by the definition in force for it.
Without HTTP and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import cycle

from environments.filtering.parameters import WholeRange
from environments.models import Environment, Split
from environments.scoring.convention import Coverage
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    Definition,
    Definitions,
    definition_of,
)
from episodes.analytics.components import ComponentCurves, ComponentSeries, component_curves
from episodes.analytics.curve import Curve, curve, curves
from episodes.analytics.curve_query import CurveQuery
from episodes.analytics.figure_menu import (
    NO_COMPONENTS,
    NO_GROUPS,
    NO_TOKENS,
    OF_GROUPS,
    OWN_COLUMNS,
    Figure,
)
from episodes.analytics.revision_marks import RevisionMark, marks_of
from episodes.analytics.run_splits import (
    common_split,
    of_one_split,
    pools_splits,
    splits_of,
    within,
)
from episodes.analytics.scopes import (
    MAX_SERIES,
    Overlaid,
    OverlaidPart,
    of_runs,
    overlaid,
    people_left_out,
    scope_of_filter,
    without_people,
)
from episodes.analytics.tokens import TokenCurve, token_curve
from episodes.analytics.zoom import WHOLE
from episodes.attempts.group_states import GroupCount, counts_together
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.rendering.run_hues import hue_of_run

HUES = (255, 30, 150, 315, 90, 195, 345, 120, 225, 60, 285, 0)
"""Hues of series that are no runs in order, in degrees. Neighbours are far apart; each has a class
in `record.css`."""
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 3), (8, 3, 2, 3))
"""Dashes of lines that have the same hue, in order."""
NEAR = 15
"""Degrees up to which two hues look alike in lines of one chart."""
MAX_COMPONENT_LINES = 12
MAX_BANDS = 3


@dataclass(frozen=True, slots=True)
class ChartSeries:
    label: str
    hue: int
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
    """Lengths of dashes and gaps in pixels, which tell it apart from series of a similar hue; empty
    if solid."""

    @property
    def coverage(self) -> Coverage | None:
        """Return how many rollouts the curve counts; None without an ending."""
        return self.curve.total.coverage if self.curve.total else None

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
            GroupCount(
                point.groups, point.flat_groups or 0, point.groups * (point.group_deviation or 0.0)
            )
            for point in self.curve.points
            if point.groups
        )


@dataclass(frozen=True, slots=True)
class ComponentLine:
    """One component of the rewards as a line of a chart."""

    label: str
    hue: int
    dash: tuple[int, ...]
    of: ChartSeries
    component: ComponentSeries


@dataclass(frozen=True)
class Drawn:
    query: CurveQuery
    rows: NamedRows
    overlay: Overlaid
    series: list[ChartSeries]
    people: str = ""
    """A sentence about the episodes of people that the curves leave out; empty if there are
    none."""
    splits: Sequence[Split] = ()
    """Splits that the runs played, if one of them played several."""

    @property
    def split(self) -> Split | None:
        """The split that all curves of runs with several are limited to; None if they differ, or
        show all."""
        shown = {part.split or self.rows.split for part in self.overlay.parts} - {None}
        return shown.pop() if len(shown) == 1 else None

    @property
    def environment(self) -> Environment | None:
        """Environment of all episodes; None if there are several, or none."""
        own = {one.environment for one in self.series}
        return own.pop() if len(own) == 1 else self.rows.environment

    @property
    def definitions(self) -> list[Definitions]:
        """The definition of each curve, or the definitions where its environments differ; without a
        curve the one in force.
        """
        own = definition_of(self.rows.environment, self.query.definition)
        return [one.curve.definition for one in self.series] or [own]

    @property
    def definition(self) -> Definition | None:
        """The definition of all curves; None where they differ, or where the environments of one
        do."""
        first, *others = self.definitions
        return (
            first if isinstance(first, Definition) and all(one == first for one in others) else None
        )

    @property
    def notes(self) -> list[str]:
        """Notes to show next to the chart, without duplicates."""
        given = [self.rows.unknown, *_left_out(self), *(one.curve.note for one in self.series)]
        given += [part.note for one in self.series for part in (one.components, one.tokens) if part]
        if "components" in self.query.figures and not (self.is_empty or self.components):
            given.append(NO_COMPONENTS)
        if (
            known := sum(len(one.components.series) for one in self.series if one.components)
        ) > MAX_COMPONENT_LINES:
            given.append(f"The first {MAX_COMPONENT_LINES} of {known:,} components are shown.")
        if "tokens" in self.query.figures and not (self.is_empty or "tokens" in self.figures):
            given.append(NO_TOKENS)
        if not self.is_empty and any(
            name in OF_GROUPS and name not in self.figures for name in self.query.figures
        ):
            given.append(NO_GROUPS)
        if self.query.is_log:
            given.append(
                "A logarithmic scale has no place for 0 and below: such values are left out."
            )
        if stepless := sum(one.curve.stepless for one in self.series):
            subject, rest = ("episode names", "it") if stepless == 1 else ("episodes name", "them")
            given.append(f"{stepless:,} {subject} no training step; the curve leaves {rest} out.")
        return list(dict.fromkeys(note for note in given if note))

    @cached_property
    def marks(self) -> list[RevisionMark]:
        """Return where another revision begins, for all curves together."""
        marks = marks_of(*(one.curve for one in self.series))
        return sorted(
            {(mark.revision.pk, mark.x): mark for mark in marks}.values(), key=lambda mark: mark.x
        )

    @property
    def components(self) -> list[ComponentLine]:
        """Return the components of all curves, as many as a chart can show.

        Those of a single curve differ by hue. Otherwise each has the hue of its curve, and the same
        dashes in all.
        """
        each = [
            (one, part) for one in self.series if one.components for part in one.components.series
        ]
        each = each[:MAX_COMPONENT_LINES]
        if len(self.series) == 1:
            return [
                ComponentLine(part.name, hue, (), one, part)
                for (one, part), hue in zip(each, HUES, strict=False)
            ]
        dashes = dict(
            zip(dict.fromkeys(part.name for _, part in each), cycle(DASHES), strict=False)
        )
        return [
            ComponentLine(f"{one.label} · {part.name}", one.hue, dashes[part.name], one, part)
            for one, part in each
        ]

    @property
    def is_empty(self) -> bool:
        return not any(one.curve.points for one in self.series)

    @property
    def figures(self) -> list[Figure]:
        """The figures that have values to draw, a chart each.

        Where there are episodes, only components, tokens and figures of groups can be missing.
        """
        has_groups = any(one.groups.groups for one in self.series)
        has_tokens = any(
            one.tokens.total.output_tokens is not None for one in self.series if one.tokens
        )
        has_values = {
            **dict.fromkeys(OF_GROUPS, has_groups),
            "components": bool(self.components),
            "tokens": has_tokens,
        }
        return [
            figure for figure in self.query.figures if has_values.get(figure, not self.is_empty)
        ]

    @property
    def has_lines(self) -> bool:
        """Return whether a chart has a line for each curve; one of components alone has others."""
        return any(figure != "components" for figure in self.figures)

    @property
    def own_columns(self) -> list[Figure]:
        """Return the figures that have a column in the table only if they are asked for."""
        return [figure for figure in self.query.figures if figure in OWN_COLUMNS]

    @property
    def can_have_groups(self) -> bool:
        return not set(OF_GROUPS).isdisjoint(self.query.figures) or any(
            one.curve.scope.has_groups for one in self.series
        )

    @property
    def has_bands(self) -> bool:
        return len(self.series) <= MAX_BANDS if self.query.has_band is None else self.query.has_band


def drawn(query: CurveQuery, least_blocks: int | None = None) -> Drawn:
    """Return the curves that `query` describes. `least_blocks`: passed to `curves`; a zoom is as
    fine as possible."""
    rows = NamedRows.of(query.filter)
    overlay, splits = _of_splits(query, rows, _overlay(query))
    lines = _curves(query, rows, overlay.parts, least_blocks)
    environments = _environments(lines, rows.environment)
    hues = _hues(overlay, rows)
    series = [
        ChartSeries(
            *(
                part.label,
                hue,
                without_people(part.filter),
                one,
                environment,
                query.definition.convention_parts,
            ),
            dash=dash,
            components=component_curves(one) if "components" in query.figures else None,
            tokens=token_curve(one) if "tokens" in query.figures else None,
            is_zoomed=query.zoom != WHOLE,
        )
        for part, hue, dash, one, environment in zip(
            overlay.parts, hues, _dashes(hues), lines, environments, strict=True
        )
    ]
    people = "" if query.by == "player" else people_left_out(query.filter, rows)
    return Drawn(query, rows, overlay, series, people, splits)


def _hues(overlay: Overlaid, rows: NamedRows) -> list[int]:
    """Return the hue of each curve: that of its run, else one by its place."""
    if len(overlay.parts) == 1 and rows.run:
        return [hue_of_run(rows.run.pk)]
    return [
        hue_of_run(part.run.pk) if part.run else hue
        for part, hue in zip(overlay.parts, HUES, strict=False)
    ]


def _dashes(hues: Sequence[int]) -> list[tuple[int, ...]]:
    """Return dashes for lines with these hues: other ones for each line of a similar hue, as long
    as there are any."""
    dashes = list[tuple[int, ...]]()
    for place, hue in enumerate(hues):
        near = [
            dash
            for dash, other in zip(dashes, hues, strict=False)
            if abs((hue - other + 180) % 360 - 180) <= NEAR
        ]
        dashes.append(
            next((dash for dash in DASHES if dash not in near), DASHES[place % len(DASHES)])
        )
    return dashes


def _overlay(query: CurveQuery) -> Overlaid:
    if query.runs:
        return of_runs(query.filter, query.runs[:MAX_SERIES])
    if query.by is not None:
        return overlaid(query.filter, query.by, needs_step=query.x == "step")
    return Overlaid([OverlaidPart(query.filter, _label(query.filter))], 1)


def _of_splits(
    query: CurveQuery, rows: NamedRows, overlay: Overlaid
) -> tuple[Overlaid, list[Split]]:
    """Return the parts with each run limited to the split that is shown of it, and all splits that
    the runs played.

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
    if query.are_together or not several or not pools_splits(query.filter):
        return overlay, every
    common = common_split([splits for splits in splits_by_part if splits])
    parts = [
        _limited(part, common or splits[0]) if len(splits) > 1 else part
        for part, splits in zip(overlay.parts, splits_by_part, strict=True)
    ]
    return replace(overlay, parts=parts), every


def _limited(part: OverlaidPart, split: Split) -> OverlaidPart:
    return replace(
        part,
        filter=of_one_split(part.filter, split),
        label=f"{part.label} · {split.name}",
        split=split,
    )


def _environments(lines: Sequence[Curve], named: Environment | None) -> list[Environment | None]:
    """Return the environment of all episodes of each curve; None if there are several, or none.

    `named`: one that has been read, because the filter names it.
    """
    ids = [next(iter(one.environments)) if len(one.environments) == 1 else None for one in lines]
    rows = {named.pk: named} if named else {}
    if missing := {pk for pk in ids if pk is not None} - set(rows):
        rows |= Environment.objects.defer("card", "task_schema").in_bulk(missing)
    return [None if pk is None else rows.get(pk) for pk in ids]


def _curves(
    query: CurveQuery, rows: NamedRows, parts: Sequence[OverlaidPart], least_blocks: int | None
) -> list[Curve]:
    """Return the curve of each part, in which every episode follows the definition of its own
    environment."""
    definitions = query.definitions(rows)
    scopes = [scope_of_filter(part.filter, _named(part, query, rows), part.label) for part in parts]
    needs_groups = query.format == "csv" or not set(OF_GROUPS).isdisjoint(query.figures)
    if query.zoom != WHOLE:
        return [
            curve(scope, definitions, query.x, zoom=query.zoom, needs_groups=needs_groups)
            for scope in scopes
        ]
    return curves(
        scopes, definitions, query.x, least_blocks=least_blocks, needs_groups=needs_groups
    )


def _named(part: OverlaidPart, query: CurveQuery, rows: NamedRows) -> NamedRows:
    """Return the rows that the filter of a part names. `rows`: those of the filter of the whole
    chart."""
    if part.filter == query.filter:
        return rows
    if part.run is not None and not rows.unknown:
        rows = replace(rows, run=part.run)
        return (
            replace(rows, environment=part.split.environment, split=part.split)
            if part.split
            else rows
        )
    return NamedRows.of(part.filter)


def _left_out(found: Drawn) -> list[str]:
    """Return a sentence for each reason why runs, environments or models are not in the chart."""
    overlay, sentences = found.overlay, list[str]()
    sentences.append(found.people)
    if overlay.missing:
        numbers = ", ".join(map(str, overlay.missing))
        sentences.append(
            f"There is no run {numbers}; a run's number is in the address of its page."
        )
    if len(found.query.runs) > MAX_SERIES:
        sentences.append(f"The first {MAX_SERIES} of {len(found.query.runs):,} runs are shown.")
    if overlay.known > len(overlay.parts):
        newest = f"The {len(overlay.parts)} newest of {overlay.known:,} {found.query.by}s"
        newest += " with training steps" if overlay.stepless else ""
        drawn = sum(bool(one.curve.points) for one in found.series)
        is_whole = drawn in (0, len(overlay.parts))
        sentences.append(
            f"{newest} are shown."
            if is_whole
            else f"{newest} were chosen, and {drawn} of them are drawn."
        )
    lacking = (
        [one.label for one in found.series if not one.curve.points]
        if found.query.zoom == WHOLE
        else []
    )
    lacking += overlay.stepless
    if found.query.x == "step" and lacking and len(found.series) + len(overlay.stepless) > 1:
        more = f" and {overlay.unnamed:,} more" if overlay.unnamed else ""
        reason = "Not drawn, because none of their ended episodes has a training step"
        sentences.append(f"{reason}: {', '.join(lacking)}{more}.")
    return sentences


def _label(filters: EpisodeFilter) -> str:
    values = [
        value for name, value in filters.values().items() if name not in DEFINITION_PARAMETERS
    ]
    return " · ".join(values) or "all episodes"
