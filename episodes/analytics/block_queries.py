"""Queries for what curves are made of: blocks as coarse as possible, spans by training step, and
rows of single endings.

`summary_cover.py` and `zoom.py` use them. Rows have no more columns than a curve needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from django.db import connection
from django.db.models import BigIntegerField, BooleanField, F, QuerySet, Sum, Value
from django.db.models.expressions import RawSQL
from pydantic_core import from_json

from environments.scoring.definition import Definitions
from environments.scoring.returns import RETURNS, Return
from episodes.analytics.figures import EndingRow
from episodes.analytics.groups import count_of
from episodes.analytics.scopes import Scope, floor_of
from episodes.attempts.endings import Epoch, rows_of
from episodes.attempts.group_states import GroupCount, GroupTally
from episodes.attempts.rule import ENDED, KIND, NO_ROLLOUTS
from episodes.attempts.summary import NO_GROUPS, NOTHING_LOST, CallCounts, Distributions, Summary
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
    found: list[list[EndingRow]] = [[] for _ in parts]
    if most is not None:
        first = parts[0].filter(ENDED).order_by("end_number").values_list(*columns)[:most]
        return [cast(list[EndingRow], rows_of(first))]
    # sorted here, or the database may go through all endings in their order
    unsorted = [part.filter(ENDED).order_by() for part in parts]
    if len(parts) == 1:
        found[0] = cast(list[EndingRow], list(rows_of(unsorted[0].values_list(*columns))))
    else:
        marked = [
            part.values_list(*columns, Value(n, BigIntegerField()))
            for n, part in enumerate(unsorted)
        ]
        for *row, place in rows_of(marked[0].union(*marked[1:], all=True)):
            found[place].append(cast(EndingRow, tuple(row)))
    for rows in found:
        rows.sort(key=lambda row: row[0])
    return found


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
    first: int
    """0-based place of its first ending within the scope; for a span its lowest training step."""
    low: float
    """Start of the block on the axis."""
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
    held: int = 0
    """Episodes in these blocks, without those that were removed; 0 until `held_by` has counted
    them."""
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
    asked = [(place, scope) for place, scope in enumerate(scopes) if scope.has_blocks]
    found = [ScopeHead()] * len(scopes)
    if asked:
        parts = [f"SELECT * FROM ({_HEAD}) AS h{place}" for place, _ in asked]  # nosec B608 # only our own names
        values = [value for place, scope in asked for value in (place, scope.kind, scope.id)]
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts), values)
            for place, number, end, places in cursor.fetchall():
                found[place] = ScopeHead(number + 1, end, places=places)
    return found


def held_by(scopes: Sequence[Scope], heads: Sequence[ScopeHead]) -> list[ScopeHead]:
    """Return the heads with the number of episodes that their blocks hold. One query at most.

    It reads the largest blocks: those of the lowest level are as many as the episodes divided by
    BLOCK_ENDINGS.
    """
    ranges = [
        (one, part)
        for one, head in zip(scopes, heads, strict=True)
        for part in block_ranges(0, head.blocks, 1)
    ]
    counts = dict[tuple[str, int], list[tuple[Place, int]]]()
    if ranges:
        values = [value for scope, part in ranges for value in (scope.kind, scope.id, *part)]
        chosen = RawSQL(" OR ".join([_RANGE] * len(ranges)), values, BooleanField())  # nosec B611 # the values are parameters
        blocks = (
            CurveBlock.objects.filter(chosen)
            .order_by()
            .values("scope", "scope_id", "environment_id", "split_id")
        )
        columns = ("scope", "scope_id", "environment_id", "split_id", "held")
        for kind, key, environment, split, held in blocks.annotate(
            held=Sum("episodes")
        ).values_list(*columns):
            counts.setdefault((kind, key), []).append((Place(environment, split), held))
    return [
        head._replace(
            held=sum(
                held for place, held in counts.get((scope.kind, scope.id), ()) if scope.holds(place)
            )
        )
        for scope, head in zip(scopes, heads, strict=True)
    ]


def block_ranges(first: int, beyond: int, least_blocks: int = MIN_BLOCKS) -> list[BlockRange]:
    """Return ranges of blocks, as large as possible, that hold the level 0 blocks from `first` up
    to `beyond`, in order.

    No block is so large that fewer than `least_blocks` of its size would hold all.
    """
    top = 0
    while (beyond - first) // BLOCKS_ABOVE ** (top + 1) >= least_blocks:
        top += 1
    found: list[BlockRange] = []
    while first < beyond:
        level = top
        while first % BLOCKS_ABOVE**level or first + BLOCKS_ABOVE**level > beyond:
            level -= 1
        size = BLOCKS_ABOVE**level
        if found and found[-1].level == level:
            found[-1] = found[-1]._replace(beyond=first // size + 1)
        else:
            found.append(BlockRange(level, first // size, first // size + 1))
        first += size
    return found


def read_blocks(
    scopes: Sequence[Scope],
    wanted: Sequence[Sequence[BlockRange]],
    definitions: Definitions,
    axis: Axis,
) -> list[list[StoredBlock]]:
    """Return the blocks in the wanted ranges of each scope, in order. One query at most."""
    asked = [(scope, part) for scope, parts in zip(scopes, wanted, strict=True) for part in parts]
    values = [value for scope, part in asked for value in (scope.kind, scope.id, *part)]
    chosen = RawSQL(  # nosec B611 # the values are parameters
        " OR ".join([_RANGE] * len(asked)), values, BooleanField()
    )  # the equivalent Q costs more than the query
    found: dict[tuple[str, int], dict[int, list[_PartRow]]] = {
        (scope.kind, scope.id): {} for scope in scopes
    }
    columns = (
        "scope",
        "scope_id",
        "level",
        "number",
        *_ENDS[axis],
        "split_id",
        *_columns_for(definitions),
    )
    rows = rows_of(CurveBlock.objects.filter(chosen).values_list(*columns)) if asked else []
    summaries = _summaries([row[7:] for row in rows], definitions)
    for (kind, key, level, number, low, high, split, environment, *_), summary in zip(
        rows, summaries, strict=True
    ):
        if summary.episodes:
            first = number * BLOCKS_ABOVE**level * BLOCK_ENDINGS
            found[kind, key].setdefault(first, []).append(
                _PartRow(low, high, Place(environment, split), summary)
            )
    return [_blocks(scope, found[scope.kind, scope.id], axis) for scope in scopes]


class _PartRow(NamedTuple):
    """The part of a block that is of one place, with its ends by time."""

    low: float
    high: float
    place: Place
    summary: Summary


def _blocks(scope: Scope, found: Mapping[int, Sequence[_PartRow]], axis: Axis) -> list[StoredBlock]:
    """Return the blocks of a scope, in order; those of a part of a run follow each other by
    episode."""
    blocks, place = list[StoredBlock](), 0
    for first in sorted(found):
        rows = [row for row in found[first] if scope.holds(row.place)]
        parts = {row.place: row.summary for row in rows}
        if not rows:
            continue
        if axis == "episode":
            start, episodes = (
                place if scope.is_part else first,
                sum([row.summary.episodes for row in rows]),
            )
            place += episodes
            blocks.append(StoredBlock(start, start, start + episodes, parts))
        else:
            blocks.append(
                StoredBlock(
                    first, min([row.low for row in rows]), max([row.high for row in rows]), parts
                )
            )
    return blocks


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
    found = list[Summary]()
    for start in range(0, len(rows), ROWS_PARSED):
        some = rows[start : start + ROWS_PARSED]
        # one call is faster than one for each row, and pydantic's parser three times as fast as
        # that of `json`
        texts = [f"[{','.join([text or 'null' for text in row[_FIRST_PARSED:]])}]" for row in some]
        values = from_json(f"[{','.join(texts)}]")
        found += [
            _summary(row, parsed, definitions) for row, parsed in zip(some, values, strict=True)
        ]
    return found


def _summary(row: Sequence[Any], parsed: Sequence[Any], definitions: Definitions) -> Summary:
    environment, first_end, last_end, episodes, failed, refused, lengths, returns, *_ = row
    kinds, scatters, expired, *groups = parsed
    return_, calls = definitions.of(environment).return_, CallCounts(failed, refused)
    own = Distributions(
        {return_: StoredSketch(returns)}, StoredSketch(lengths), calls, scatters or NOTHING_LOST
    )
    late = _expired(expired, return_) if expired else None
    tally = GroupTally(*(part or {} for part in groups)) if groups else NO_GROUPS
    return Summary(first_end, last_end, episodes, kinds, own, late, tally)


def _expired(values: Sequence[Any], return_: Return) -> Distributions:
    """Return the distributions in the column `expired`."""
    lengths, failed, refused, scatters = values[len(RETURNS) :]
    returns = values[RETURNS.index(return_)]
    return Distributions(
        {return_: returns}, lengths, CallCounts(failed, refused), scatters or NOTHING_LOST
    )


_OF_SCOPE = "(scope = %s AND scope_id = %s)"


def read_spans(
    scopes: Sequence[Scope], definitions: Definitions, *, needs_groups: bool
) -> dict[Scope, list[StoredBlock]]:
    """Return the spans of each scope in order of training steps, with or without their groups. One
    query at most."""
    values = [value for scope in scopes for value in (scope.kind, scope.id)]
    chosen = RawSQL(" OR ".join([_OF_SCOPE] * len(scopes)), values, BooleanField())  # nosec B611 # the values are parameters
    columns: list[Any] = ["scope", "scope_id", "number", "step_low", "step_high", "split_id"]
    columns += _columns_for(definitions)
    columns += ["groups", "deviations"] if needs_groups else []
    found: dict[tuple[str, int], dict[int, list[_PartRow]]] = {
        (scope.kind, scope.id): {} for scope in scopes
    }
    rows = rows_of(StepSpan.objects.filter(chosen).values_list(*columns)) if scopes else []
    summaries = _summaries([row[6:] for row in rows], definitions)
    for (kind, key, number, low, high, split, environment, *_), summary in zip(
        rows, summaries, strict=True
    ):
        found[kind, key].setdefault(number, []).append(
            _PartRow(low, high, Place(environment, split), summary)
        )
    return {scope: _spans(scope, found[scope.kind, scope.id]) for scope in scopes}


def _spans(scope: Scope, found: Mapping[int, Sequence[_PartRow]]) -> list[StoredBlock]:
    """Return the spans of a scope in order."""
    spans = list[StoredBlock]()
    for number in sorted(found):
        rows = [row for row in found[number] if scope.holds(row.place)]
        if rows:
            low, high = min([int(row.low) for row in rows]), max([int(row.high) for row in rows])
            spans.append(StoredBlock(low, low, high, {row.place: row.summary for row in rows}))
    return spans


def groups_by_step(
    scope: Scope, definitions: Definitions, low: int, high: int
) -> dict[int, list[GroupCount]]:
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
    rollouts: dict[tuple[int, int, int | None], list[tuple[int, str, float | None]]] = defaultdict(
        list
    )
    for step, environment, split, task, kind, value in rows:
        if kind not in NO_ROLLOUTS:
            rollouts[step, environment, split].append((task, kind, value))
    found: dict[int, list[GroupCount]] = defaultdict(list)
    for (step, environment, _), some in rollouts.items():
        found[step].append(count_of(some, definitions.of(environment)))
    return found
