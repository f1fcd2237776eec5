"""Queries for what curves are made of: blocks as coarse as possible, spans by training step, and
rows of single endings.

`summary_cover.py` and `curves/zoom.py` use them. Rows have no more columns than a curve needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, NamedTuple, cast

from django.db import connection
from django.db.models import BigIntegerField, BooleanField, F, QuerySet, Sum, Value
from django.db.models.expressions import RawSQL
from pydantic_core import from_json

from environments.scoring.definition import Definitions
from environments.scoring.returns import RETURNS, Return
from episodes.attempts.endings import Epoch, rows_of
from episodes.attempts.group_states import GroupCount, GroupTally
from episodes.attempts.rule import ENDED, KIND
from episodes.attempts.summary import (
    NO_GROUPS,
    NOTHING_LOST,
    CallCounts,
    Distributions,
    EndedReturn,
    Summary,
)
from episodes.figures.scope_figures import EndingRow
from episodes.figures.scopes import Scope, floor_of
from episodes.figures.spreads import count_groups
from episodes.models import CurveBlock, Episode, StepSpan
from episodes.rollups.blocks import BLOCK_ENDINGS, BLOCKS_ABOVE
from episodes.rollups.scopes import Place

Axis = Literal["episode", "time", "step"]

_PLACES: dict[str, Any] = {"episode": F("pk"), "time": Epoch("ended"), "step": F("run_step")}


def read_rows(
    parts: Sequence[QuerySet[Episode]],
    definitions: Definitions,
    axis: Axis = "episode",
    most: int | None = None,
) -> list[list[EndingRow]]:
    """Return the endings of each part in order of `end_number`. One query for all parts.

    `most`: for a single part, the number of endings to return at most.
    """
    if not parts:
        return []
    columns = (
        *("end_number", KIND, "steps_count", definitions.value(), _PLACES[axis]),
        *("failed_count", "refused_count", "split_id", "environment_id"),
    )
    if most is not None:
        oldest = parts[0].filter(ENDED).order_by("end_number").values_list(*columns)[:most]
        return [cast(list[EndingRow], rows_of(oldest))]
    # sorted here, or the database may go through all endings in their order
    queries = [part.filter(ENDED).order_by() for part in parts]
    if len(queries) == 1:
        rows_by_part = [cast(list[EndingRow], list(rows_of(queries[0].values_list(*columns))))]
    else:
        rows_by_part = [[] for _ in parts]
        first, *others = (
            query.values_list(*columns, Value(place, BigIntegerField()))
            for place, query in enumerate(queries)
        )
        for *row, place in rows_of(first.union(*others, all=True)):
            rows_by_part[place].append(cast(EndingRow, tuple(row)))
    for rows in rows_by_part:
        rows.sort(key=itemgetter(0))
    return rows_by_part


MAX_GROUPED = 50_000
"""Endings that are read one by one to count groups."""
MIN_BLOCKS = 80
ROWS_PARSED = 50
"""Rows that are parsed together. What a row has of other returns is dropped soon, before garbage is
collected."""
_NUMBERS = ("first_end", "last_end", "episodes", "failed", "refused")
_FIRST_PARSED = len(_NUMBERS) + 3
"""Place of the first column that is parsed at once, in the columns of `_columns_for`."""
_ENDS: dict[str, tuple[Any, Any]] = {
    "episode": (Value(0), Value(0)),  # computed from the block's number
    "time": (Epoch("began"), Epoch("ended")),
}
_HEAD = (
    "SELECT CAST(%s AS bigint) AS place, number, MAX(last_end) AS last_end, COUNT(*) AS places"
    " FROM episodes_curveblock WHERE scope = %s AND scope_id = %s AND level = 0"
    " GROUP BY number ORDER BY number DESC LIMIT 1"
)
_RANGE = "(scope = %s AND scope_id = %s AND level = %s AND number >= %s AND number < %s)"


@dataclass(frozen=True, slots=True)
class StoredBlock:
    low: float
    """Start of the block on the axis; by episode, the 0-based place of its first ending within the
    scope."""
    high: float
    """End of the block on the axis; by episode, the place after its last episode."""
    parts: Mapping[Place, Summary]
    """Summary of its episodes in each place; of one or more."""

    @property
    def pairs(self) -> list[tuple[int, Summary]]:
        """Summaries of all of its episodes, each with the id of its environment."""
        return [(place.environment, summary) for place, summary in self.parts.items()]

    @property
    def episodes(self) -> int:
        return sum([summary.episodes for summary in self.parts.values()])

    @property
    def first_end(self) -> int:
        return min([summary.first_end for summary in self.parts.values()])

    @property
    def last_end(self) -> int:
        return max([summary.last_end for summary in self.parts.values()])


class ScopeHead(NamedTuple):
    """The number of full level 0 blocks that a scope has, and the `end_number` of the last ending
    in them."""

    blocks: int = 0
    last_end: int = 0
    places: int = 1
    """Number of places in the last of them, each of which has a row."""

    @property
    def endings(self) -> int:
        """Return how many endings the blocks had before any was removed."""
        return self.blocks * BLOCK_ENDINGS


class BlockRange(NamedTuple):
    """Blocks of one level, by number."""

    level: int
    first: int
    beyond: int


def heads_of(scopes: Sequence[Scope]) -> list[ScopeHead]:
    """Return the head of each scope. One query."""
    heads = [ScopeHead()] * len(scopes)
    scopes_with_blocks = [(place, scope) for place, scope in enumerate(scopes) if scope.has_blocks]
    if scopes_with_blocks:
        parts = [f"SELECT * FROM ({_HEAD}) AS h{place}" for place, _ in scopes_with_blocks]  # nosec B608 # only our own names
        values = [
            value for place, scope in scopes_with_blocks for value in (place, scope.kind, scope.id)
        ]
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts), values)
            for place, number, end, places in cursor.fetchall():
                heads[place] = ScopeHead(number + 1, end, places)
    return heads


def episodes_in(scopes: Sequence[Scope], heads: Sequence[ScopeHead]) -> list[int]:
    """Return how many episodes the blocks of each scope have, without those that were removed. One
    query at most.

    It reads the largest blocks: those of the lowest level are as many as the episodes divided by
    BLOCK_ENDINGS.
    """
    ranges = [block_ranges(0, head.blocks, 1) for head in heads]
    counts = defaultdict[tuple[str, int], list[tuple[Place, int]]](list)
    if (condition := _in_ranges(scopes, ranges)) is not None:
        by = ("scope", "scope_id", "environment_id", "split_id")
        rows = CurveBlock.objects.filter(condition).order_by().values_list(*by)
        for kind, key, environment, split, count in rows.annotate(count=Sum("episodes")):
            counts[kind, key].append((Place(environment, split), count))
    return [
        sum(count for place, count in counts[scope.kind, scope.id] if scope.holds(place))
        for scope in scopes
    ]


def _in_ranges(scopes: Sequence[Scope], ranges: Sequence[Sequence[BlockRange]]) -> RawSQL | None:
    """Return the condition on the blocks in the ranges of each scope; None without a range. The
    equivalent Q costs more than the query."""
    pairs = [(scope, part) for scope, parts in zip(scopes, ranges, strict=True) for part in parts]
    if not pairs:
        return None
    values = [value for scope, part in pairs for value in (scope.kind, scope.id, *part)]
    return RawSQL(" OR ".join([_RANGE] * len(pairs)), values, BooleanField())  # nosec B611 # the values are parameters


def block_ranges(first: int, beyond: int, least_blocks: int = MIN_BLOCKS) -> list[BlockRange]:
    """Return ranges of blocks, as large as possible, that hold the level 0 blocks from `first` up
    to `beyond`, in order.

    No block is so large that fewer than `least_blocks` of its size would hold all.
    """
    top = 0
    while (beyond - first) // BLOCKS_ABOVE ** (top + 1) >= least_blocks:
        top += 1
    ranges: list[BlockRange] = []
    while first < beyond:
        level = top
        while first % BLOCKS_ABOVE**level or first + BLOCKS_ABOVE**level > beyond:
            level -= 1
        size = BLOCKS_ABOVE**level
        if ranges and ranges[-1].level == level:
            ranges[-1] = ranges[-1]._replace(beyond=first // size + 1)
        else:
            ranges.append(BlockRange(level, first // size, first // size + 1))
        first += size
    return ranges


def read_blocks(
    scopes: Sequence[Scope],
    ranges: Sequence[Sequence[BlockRange]],
    definitions: Definitions,
    axis: Axis,
) -> list[list[StoredBlock]]:
    """Return the blocks in the ranges of each scope, in order. One query at most."""
    condition = _in_ranges(scopes, ranges)
    if condition is None:
        return [[] for _ in scopes]
    rows = CurveBlock.objects.filter(condition)
    rows_by_scope = _read_rows(rows, ("level", "number", *_ENDS[axis]), definitions)
    blocks_by_scope = list[list[StoredBlock]]()
    for scope in scopes:
        rows_by_first = {
            number * BLOCKS_ABOVE**level * BLOCK_ENDINGS: rows
            for (level, number), rows in rows_by_scope[scope.kind, scope.id].items()
        }
        blocks, next_place = list[StoredBlock](), 0
        for first, block in _blocks(scope, rows_by_first):
            if axis == "episode":
                # blocks of a part of a run hold other episodes, too, so those of the part are counted
                start = next_place if scope.is_part else first
                next_place = start + block.episodes
                block = StoredBlock(start, next_place, block.parts)
            blocks.append(block)
        blocks_by_scope.append(blocks)
    return blocks_by_scope


class _StoredRow(NamedTuple):
    """The part of a block or span that is of one place, with its ends on the axis."""

    low: float
    high: float
    place: Place
    summary: Summary


def _read_rows(
    rows: QuerySet[Any], columns: Sequence[Any], definitions: Definitions, *groups: str
) -> dict[tuple[str, int], dict[tuple[int, int], list[_StoredRow]]]:
    """Return rows of blocks or spans by kind and id of their scope, then by the first two of the
    four `columns`; the others are their ends. `groups`: columns of groups that are read, too."""
    names = ("scope", "scope_id", *columns, "split_id", *_columns_for(definitions), *groups)
    values = rows_of(rows.values_list(*names))
    rows_by_scope = defaultdict[tuple[str, int], dict[tuple[int, int], list[_StoredRow]]](dict)
    for row, summary in zip(
        values, _summaries([row[7:] for row in values], definitions), strict=True
    ):
        kind, key, level, number, low, high, split, environment, *_ = row
        if summary.episodes:  # all may have been removed
            content = _StoredRow(low, high, Place(environment, split), summary)
            rows_by_scope[kind, key].setdefault((level, number), []).append(content)
    return rows_by_scope


def _blocks(
    scope: Scope, rows_by_number: Mapping[int, Sequence[_StoredRow]]
) -> Iterator[tuple[int, StoredBlock]]:
    """Yield the blocks or spans of a scope in order of their numbers."""
    for number in sorted(rows_by_number):
        rows = [row for row in rows_by_number[number] if scope.holds(row.place)]
        if rows:
            low, high = min([row.low for row in rows]), max([row.high for row in rows])
            yield number, StoredBlock(low, high, {row.place: row.summary for row in rows})


def _columns_for(definitions: Definitions) -> tuple[Any, ...]:
    """Return the columns that `_summaries` takes."""
    return (
        "environment_id",
        *_NUMBERS,
        "length",
        definitions.value(),
        "causes",
        "scatter",
        "expired",
    )


class StoredSketch(Sequence[tuple[float, int]]):
    """A sketch as it is stored, which is parsed whenever it is read.

    It is read once or not at all. If all sketches of a chart were parsed before, the collector of
    garbage would go through hundreds of thousands of lists again and again.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __iter__(self) -> Iterator[tuple[float, int]]:
        return iter(from_json(self._text))

    def __len__(self) -> int:
        return len(from_json(self._text))

    def __getitem__(self, place: Any) -> Any:
        return from_json(self._text)[place]


def _summaries(rows: Sequence[Sequence[Any]], definitions: Definitions) -> list[Summary]:
    """Return the summary in each row of the columns of `_columns_for`, which those of groups may
    follow."""
    summaries = list[Summary]()
    for start in range(0, len(rows), ROWS_PARSED):
        some = rows[start : start + ROWS_PARSED]
        # one call is faster than one for each row, and pydantic's parser three times as fast as
        # that of `json`
        texts = [f"[{','.join([text or 'null' for text in row[_FIRST_PARSED:]])}]" for row in some]
        for row, values in zip(some, from_json(f"[{','.join(texts)}]"), strict=True):
            summaries.append(_summary(row, values, definitions.of(row[0]).return_))
    return summaries


def _summary(row: Sequence[Any], json_values: Sequence[Any], return_: Return) -> Summary:
    first_end, last_end, episodes, failed_calls, refused_calls, lengths, returns = row[
        1:_FIRST_PARSED
    ]
    kinds, scatters, expired_values, *groups = json_values
    own = Distributions(
        {return_: StoredSketch(returns)},
        StoredSketch(lengths),
        CallCounts(failed_calls, refused_calls),
        scatters or NOTHING_LOST,
    )
    late = None
    if expired_values:
        *sketches, late_lengths, late_failed, late_refused, late_scatters = expired_values
        late = Distributions(
            {return_: sketches[RETURNS.index(return_)]},
            late_lengths,
            CallCounts(late_failed, late_refused),
            late_scatters or NOTHING_LOST,
        )
    tally = GroupTally(*(part or {} for part in groups)) if groups else NO_GROUPS
    return Summary(first_end, last_end, episodes, kinds, own, late, tally)


_OF_SCOPE = "(scope = %s AND scope_id = %s)"


def read_spans(
    scopes: Sequence[Scope], definitions: Definitions, *, needs_groups: bool
) -> dict[Scope, list[StoredBlock]]:
    """Return the spans of each scope in order of training steps, with or without their groups. One
    query at most."""
    if not scopes:
        return {}
    values = [value for scope in scopes for value in (scope.kind, scope.id)]
    condition = RawSQL(" OR ".join([_OF_SCOPE] * len(scopes)), values, BooleanField())  # nosec B611 # the values are parameters
    rows_by_scope = _read_rows(
        StepSpan.objects.filter(condition),
        ("width", "number", "step_low", "step_high"),
        definitions,
        *(("groups", "deviations") if needs_groups else ()),
    )
    spans = dict[Scope, list[StoredBlock]]()
    for scope in scopes:
        rows = rows_by_scope[scope.kind, scope.id]
        by_number = {number: some for (_, number), some in rows.items()}
        spans[scope] = [span for _, span in _blocks(scope, by_number)]
    return spans


def groups_by_step(
    scope: Scope, definitions: Definitions, low: int, high: int
) -> dict[int, GroupCount]:
    """Return the groups of each training step of a run from `low` to `high`, counted by
    environment.

    Two queries. Reads the single endings, so the caller makes sure that there are not many; those
    that a curve of the scope reads.
    """
    episodes = scope.episodes.filter(ENDED, run_step__gte=low, run_step__lte=high).order_by()
    if not scope.has_blocks and (floor := floor_of(scope)):
        episodes = episodes.filter(pk__gt=floor)
    rows = rows_of(
        episodes.values_list(
            "run_step", "environment_id", "split_id", "task_id", KIND, definitions.value()
        )[:MAX_GROUPED]
    )
    endings_by_step = defaultdict[int, dict[tuple[int, ...], list[EndedReturn]]](dict)
    for step, environment, split, task, kind, value in rows:
        group = endings_by_step[step].setdefault((environment, split or 0, task), [])
        group.append((kind, value))
    return {step: count_groups(groups, definitions) for step, groups in endings_by_step.items()}
