"""The part that makes StepSpan rows of environments, splits and runs, from which curves over
training steps are drawn.

Episodes of runs that train at the same time end in any order, so a span takes the episodes of its
training steps whenever they end. A span has a row for each place of its episodes: their
environment, and of a run their split. Spans of a run also count its groups. When a scope has more
than MAX_SPANS spans, neighbours are merged. Endings without a training step are in no span and cost
nothing here. The latest spans of a run are also summed up (`latest_totals.py`).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import connection

from environments.database.bulk_writer import BulkWriter, Values
from episodes.attempts.endings import Ending, rows_of
from episodes.attempts.group_states import GroupTally
from episodes.models import LatestTotal, StepGroup, StepSpan
from episodes.rollups.group_changes import GroupChange
from episodes.rollups.latest_totals import LatestChange, RunSpans, latest_change
from episodes.rollups.rollup_part import NO_LIMIT, delete_some
from episodes.rollups.scopes import (
    SCOPES,
    Place,
    RollupScope,
    by_place,
    by_scope,
    edges_of_environments,
    place_of,
)
from episodes.rollups.span_content import SCOPE_CONDITION, Span, SpanContent, merged, span_queries
from episodes.rollups.summaries import (
    COLUMNS,
    columns_read,
    read_summary,
    shrink,
    summary_of,
    values_of,
)

MAX_SPANS = 256
"""Maximum number of spans of one scope."""
MAX_ROWS, MIN_SPANS = 768, 64
"""Spans are also merged down to MIN_SPANS while they have more than MAX_ROWS rows, one for each
place: a curve reads them all."""
MERGED_SPANS = 2
"""Neighbours that become one span when a scope has too many."""
MAX_SCOPES = 1000
"""Scopes whose layouts are remembered; when there are more, those that were quiet for longest are
forgotten."""
_KEY = ("scope", "scope_id", "width", "number", "environment_id", "split_id")
_COLUMNS = (*_KEY, "step_low", "step_high", "groups", "deviations", *COLUMNS)


@dataclass(slots=True)
class _Layout:
    """Width of the spans of one scope, and their numbers with each of their places."""

    width: int = 1
    rows: set[Span] = field(default_factory=set)

    def make_room(self, places: Iterable[Span]) -> None:
        """Add the spans of these training steps and places, and merge spans if there are too
        many."""
        self.rows |= {(step // self.width, place) for step, place in places}
        while True:
            spans = len({number for number, _ in self.rows})
            if spans <= MAX_SPANS and (len(self.rows) <= MAX_ROWS or spans <= MIN_SPANS):
                return
            self.width *= MERGED_SPANS
            self.rows = {(number // MERGED_SPANS, place) for number, place in self.rows}


class SpanChange(NamedTuple):
    stale: list[int]
    """Ids of rows that `fresh` replaces."""
    fresh: list[Values]
    """Rows in the order of _COLUMNS, ready to be written: others wait for the transaction."""
    groups: GroupChange
    latest: LatestChange


class SpansPart:
    # as in the Progress rows of existing databases, although these are training steps
    name = "steps"
    most_endings = 1000
    most_steps = NO_LIMIT

    def __init__(self) -> None:
        self._layouts: OrderedDict[RollupScope, _Layout] = OrderedDict()

    def gather(self, endings: Sequence[Ending]) -> SpanChange:
        change = SpanChange([], [], GroupChange(), LatestChange())
        parts = by_scope(ending for ending in endings if ending.run_step is not None)
        if not parts:
            return change
        self._learn(parts)
        before = {scope: self._layouts[scope].width for scope in parts}
        fresh = {scope: self._spread(scope, part) for scope, part in parts.items()}
        runs = {
            scope.id: RunSpans(
                layout.width, layout.rows, {span: new for span, [new] in spans.items()}
            )
            for scope, spans in fresh.items()
            if scope.kind == "run" and (layout := self._layouts[scope])
        }
        change.groups.read(endings)
        tallies = defaultdict[tuple[RollupScope, Span], GroupTally](GroupTally)
        for (run, step, place), tally in change.groups.differences().items():
            scope = RollupScope("run", run)
            tallies[scope, (step // self._layouts[scope].width, place)].add(tally)
        for (scope, span), tally in tallies.items():
            fresh[scope][span][0] = fresh[scope][span][0].with_groups(tally)
        numbers = {scope: {number for number, _ in spans} for scope, spans in fresh.items()}
        for scope, pk, place, content in _read(numbers, before, self._layouts):
            fresh[scope][content.low // self._layouts[scope].width, place].append(content)
            change.stale.append(pk)
        edges, writer = edges_of_environments(), BulkWriter(connection)
        for scope, spans in fresh.items():
            width = self._layouts[scope].width
            for (number, place), contents in spans.items():
                content = merged(contents, edges.get(place.environment, ()))
                if scope.kind == "run":
                    runs[scope.id].fresh[number, place] = content
                key, groups = (*scope, width, number, *place), content.summary.summary.groups.texts
                values = values_of(content.summary, writer)
                change.fresh.append((*key, content.low, content.high, *groups, *values))
        latest = latest_change(runs, change.stale, edges)
        while len(self._layouts) > MAX_SCOPES:
            self._layouts.popitem(last=False)
        return change._replace(latest=latest)

    def write(self, change: SpanChange) -> None:
        StepSpan.objects.filter(pk__in=change.stale).delete()
        BulkWriter(connection).insert(StepSpan, _COLUMNS, change.fresh)
        change.groups.write()
        change.latest.write()

    def forget(self) -> None:
        self._layouts.clear()

    def remove(self, endings: Sequence[Ending]) -> None:
        scopes = by_scope(ending for ending in endings if ending.run_step is not None)
        for scope, some in scopes.items():
            spans = StepSpan.objects.filter(scope=scope.kind, scope_id=scope.id)
            parts = by_place(scope.kind, some)
            endings_of = dict[int, list[Ending]]()
            for pk, *_, width, number, environment, split in spans.values_list("pk", *_KEY):
                endings_of[pk] = [
                    ending
                    for ending in parts.get(Place(environment, split), ())
                    if (ending.run_step or 0) // width == number
                ]
            shrink(StepSpan, {pk: some for pk, some in endings_of.items() if some})
        change = GroupChange()
        change.remove(endings)
        for (run, step, place), tally in change.differences().items():
            spans = StepSpan.objects.filter(scope="run", scope_id=run, split_id=place.split)
            spans = spans.filter(environment_id=place.environment)
            for span in spans.filter(step_low__lte=step, step_high__gte=step):
                groups = GroupTally.from_texts(span.groups, span.deviations)
                groups.add(tally)
                span.groups, span.deviations = groups.texts
                span.save(update_fields=["groups", "deviations"])
        change.write()
        ids = {scope.id for scope in by_scope(endings)}
        StepSpan.objects.filter(episodes=0, scope__in=SCOPES, scope_id__in=ids).delete()
        self.forget()
        self._learn(scopes)
        LatestTotal.objects.filter(scope_id__in=[scope.id for scope in scopes]).delete()
        runs = {
            scope.id: RunSpans(layout.width, layout.rows)
            for scope, layout in self._layouts.items()
            if scope.kind == "run"
        }
        latest_change(runs, (), edges_of_environments()).write()

    def empty(self) -> bool:
        return any(delete_some(model) for model in (StepSpan, LatestTotal, StepGroup))

    def _learn(self, scopes: Collection[RollupScope]) -> None:
        """Read the layouts of these scopes that are not remembered, and make all of them the last
        to be forgotten."""
        unknown = [(SCOPE_CONDITION, scope) for scope in scopes if scope not in self._layouts]
        for scope in scopes:
            self._layouts.setdefault(scope, _Layout())
            self._layouts.move_to_end(scope)
        for rows in span_queries(unknown):
            for kind, key, width, number, *place in rows_of(rows.values_list(*_KEY)):
                layout = self._layouts[RollupScope(kind, key)]
                layout.width = width
                layout.rows.add((number, Place(*place)))

    def _spread(
        self, scope: RollupScope, endings: Sequence[Ending]
    ) -> dict[Span, list[SpanContent]]:
        """Return the contents of new endings by the numbers of their spans and by place, in a
        layout that has room for them.
        """
        layout, contents = self._layouts[scope], defaultdict[Span, list[Ending]](list)
        places = [
            (ending.run_step, place_of(scope.kind, ending), ending)
            for ending in endings
            if ending.run_step is not None
        ]
        layout.make_room((step, place) for step, place, _ in places)
        for step, place, ending in places:
            contents[step // layout.width, place].append(ending)
        spans = defaultdict[Span, list[SpanContent]](list)
        for span, some in contents.items():
            steps = [ending.run_step for ending in some if ending.run_step is not None]
            spans[span].append(SpanContent(min(steps), max(steps), summary_of(some)))
        return spans


def _read(
    numbers: Mapping[RollupScope, Collection[int]],
    before: Mapping[RollupScope, int],
    layouts: Mapping[RollupScope, _Layout],
) -> Iterable[tuple[RollupScope, int, Place, SpanContent]]:
    """Yield the stored spans with those numbers, or all spans of a scope whose width differs from
    `before`, each with its id and place."""
    conditions = list[tuple[str, Sequence[Any]]]()
    for scope, places in numbers.items():
        if layouts[scope].width != before[scope]:
            conditions.append((SCOPE_CONDITION, scope))
        else:
            marks = ", ".join(["%s"] * len(places))
            condition = f"{SCOPE_CONDITION} AND width = %s AND number IN ({marks})"
            conditions.append((condition, (*scope, before[scope], *places)))
    columns = ("scope", "scope_id", "pk", "environment_id", "split_id", "step_low", "step_high")
    for rows in span_queries(conditions):
        for kind, key, pk, environment, split, low, high, groups, deviations, *row in rows_of(
            rows.values_list(*columns, "groups", "deviations", *columns_read())
        ):
            content = SpanContent(low, high, read_summary(row))
            content = content.with_groups(GroupTally.from_texts(groups, deviations))
            yield RollupScope(kind, key), pk, Place(environment, split), content
