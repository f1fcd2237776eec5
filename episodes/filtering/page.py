"""One page of episodes: rows with what a table shows, cursors of the next and previous page, and
the number of matches.

Used by the list of episodes and by the API. Nothing is read by offset: a cursor is the key of an
episode and a direction, as text in an address. It is opaque to clients and is checked when it comes
back. Matches are counted as far as that is cheap.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left

from environments.database.storable import MAX_BIGINT
from environments.display.task_line import MAX_READ_CHARACTERS, summary, summary_field
from environments.display.visible import visible
from environments.scoring.definition import DefinitionAsked, definition_of
from environments.scoring.returns import Return
from environments.service import hidden_fields
from episodes.attempts.rule import kind_of
from episodes.filtering.conditions import NamedRows, episodes_of, parts_of
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.keys import (
    COUNTED,
    Direction,
    EpisodeKey,
    EpisodeOrder,
    EpisodesFound,
    has_index,
    read,
)
from episodes.filtering.names import name_tasks
from episodes.filtering.parameters import BadFilter
from episodes.filtering.running_episodes import SoFar, so_far
from episodes.models import Episode
from episodes.search.snippets import Snippet, snippets_of

PAGE_EPISODES = 50
_AXES = {"time": "created", "ends": "end_number"}
"""Columns that rise with time. A filter by one such range alone is read along its index, wherever
the range starts."""


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    episode: Episode
    """The episode with its environment, split, task (without spec) and run."""
    summary: str
    """The task in one line."""
    value: float | None
    """Return of the episode by the page's definition, 0 if `is_zero`; None without a reward, and
    while it runs unless `so_far` is set."""
    is_zero: bool = False
    """Whether the convention in force counts it as a return of 0."""
    so_far: SoFar | None = None
    """Figures of a running episode, if the page asked for them (`with_running`)."""
    snippet: Snippet | None = None
    """Where the transcript has what the page was searched for (`with_snippets`), if that was
    found."""


@dataclass(frozen=True, slots=True)
class EpisodePage:
    rows: Sequence[EpisodeRow]
    definition: Return
    """Definition of the return that rows show and are sorted by."""
    named: NamedRows
    """The rows that the filter names. Without rows for all of its names, there are no episodes."""
    next: str = ""
    """Cursor of the next page; empty if there is none."""
    previous: str = ""
    is_bounded: bool = False
    """Whether some episodes were not searched. In the order of time `next` continues with them."""
    matches: int | None = None
    """Number of episodes that match the filter, on all pages together; None where it did not become
    known."""

    @property
    def unknown(self) -> str:
        """Sentences about names in the filter that do not exist; empty when all exist."""
        return self.named.unknown

    @property
    def has_running(self) -> bool:
        return any(row.episode.status == "running" for row in self.rows)


def page_of(
    asked: EpisodeFilter, sort: str = "", after: str = "", size: int = PAGE_EPISODES
) -> EpisodePage:
    """Return the page at the cursor `after`; the first if it is empty. Raises: BadFilter for `sort`
    or `after`."""
    named = NamedRows.of(asked)
    definition, parts = named.definition(asked), parts_of(asked)
    order = EpisodeOrder.parse(sort, definition)
    if len(parts) == 1 and not order.is_figure:
        order = replace(order, column=_AXES.get(next(iter(parts)), order.column))
    rows = episodes_of(asked, named)
    if order.is_return and (conventions := named.conventions(asked)).zeros is not None:
        order = replace(order, column=f"{COUNTED}{order.column}")
        rows = rows.annotate(**{order.column: conventions.return_of(definition)})
    direction = _direction(after, order) if after else Direction(order)
    if named.unknown:
        return EpisodePage((), definition, named, matches=0)
    page = _page(read(rows, parts, direction, size + 1), direction, size, definition, named)
    return replace(page, rows=[_with_mark(row, asked.asked) for row in page.rows])


def _with_mark(row: EpisodeRow, asked: DefinitionAsked) -> EpisodeRow:
    """Return the row with the return that counts, where the convention of its environment counts it
    as 0."""
    episode = row.episode
    treatments = definition_of(episode.environment, asked).convention.treatments
    if episode.status != "ended" or treatments.get(kind_of(episode)) != "zero":
        return row
    return replace(row, value=0.0, is_zero=True)


def _page(
    found: EpisodesFound, direction: Direction, size: int, definition: Return, named: NamedRows
) -> EpisodePage:
    order, start, is_backward = direction
    keys, has_more = found.keys[:size], len(found.keys) > size
    further = keys[-1] if has_more else (None if order.is_figure else found.edge)
    onward = _cursor(Direction(order, further, is_backward))
    # an empty page still links to the page that led to it
    back = _cursor(Direction(order, start and (keys[0] if keys else start), not is_backward))
    is_whole = start is None and not has_more and found.edge is None
    return EpisodePage(
        rows=rows_of([key.pk for key in (keys[::-1] if is_backward else keys)], definition),
        definition=definition,
        named=named,
        next=back if is_backward else onward,
        previous=onward if is_backward else back,
        is_bounded=found.edge is not None,
        matches=len(keys) if is_whole else found.count,
    )


def rows_of(ids: Sequence[int], definition: Return) -> list[EpisodeRow]:
    """Return rows for `ids` in their order, with one query."""
    found = (
        {episode.pk: episode for episode in shown(Episode.objects.filter(pk__in=ids))}
        if ids
        else {}
    )
    episodes = [found[pk] for pk in ids if pk in found]
    lines = summaries(episodes)
    return [
        EpisodeRow(episode, lines[episode.pk], episode.returns[definition]) for episode in episodes
    ]


def shown(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Return `episodes` with what a row needs. `head` is the start of the task's spec, which may
    have megabytes."""
    related = episodes.select_related(
        "environment", "split", "task", "run", "play__guest__invite__study"
    ).annotate(head=Left("task__spec", MAX_READ_CHARACTERS))
    return related.defer(
        "task__spec", "task__folded", "environment__description", "environment__card", "labels"
    )


def summary_of(episode: Episode) -> str:
    """Return the episode's task in one line. The episode comes from `shown`."""
    return summaries([episode])[episode.pk]


def summaries(episodes: Iterable[Episode]) -> dict[int, str]:
    """Return the tasks' lines by episode id; each line and each environment's schema are made once.

    The episodes have `head`, as `shown` annotates it.
    """
    arguments, lines, found = (
        dict[int, tuple[str, Collection[str] | None]](),
        dict[int, str](),
        dict[int, str](),
    )
    for episode in episodes:
        environment = episode.environment
        if environment.pk not in arguments:
            arguments[environment.pk] = (
                summary_field(environment.task_schema),
                hidden_fields(environment.name),
            )
        if episode.task_id not in lines:
            lines[episode.task_id] = visible(summary(episode.head, *arguments[environment.pk]))  # type: ignore[attr-defined]  # annotated
        found[episode.pk] = lines[episode.task_id]
    return found


def describe_tasks(episodes: Sequence[Episode]) -> None:
    """Set `task_place` and `task_words` of episodes that come from `shown`."""
    name_tasks(episodes)
    lines = summaries(episodes)
    for episode in episodes:
        episode.task_words = lines[episode.pk]


# --- episodes that are running --------------------------------------------------------------------


def with_running(page: EpisodePage, blind: Iterable[int]) -> EpisodePage:
    """Return the page with figures of running episodes, except the return of those in `blind`. Two
    queries more."""
    ids = [row.episode.pk for row in page.rows if row.episode.status == "running"]
    found = so_far(ids, list(blind))
    return replace(
        page,
        rows=[_with_figures(row, found.get(row.episode.pk), page.definition) for row in page.rows],
    )


def _with_figures(row: EpisodeRow, found: SoFar | None, definition: Return) -> EpisodeRow:
    return row if found is None else replace(row, value=found.returns[definition], so_far=found)


# --- matches of a search --------------------------------------------------------------------------


def with_snippets(page: EpisodePage, asked: EpisodeFilter) -> EpisodePage:
    """Return the page with snippets of the transcripts, if the filter searches them."""
    if not asked.text or not page.rows:
        return page
    found = snippets_of([row.episode for row in page.rows], asked.text)
    return replace(
        page, rows=[replace(row, snippet=found.get(row.episode.pk)) for row in page.rows]
    )


# --- cursors --------------------------------------------------------------------------------------


def _cursor(direction: Direction) -> str:
    """Return the direction as text; empty if it has no start."""
    if direction.start is None:
        return ""
    segment, value, pk = direction.start
    value = value.isoformat() if isinstance(value, datetime) else value
    text = json.dumps(
        [str(direction.order), segment, value, pk, direction.is_backward], separators=(",", ":")
    )
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _direction(cursor: str, order: EpisodeOrder) -> Direction:
    """Return what `_cursor` has written as `cursor`. Raises: BadFilter if it was not written for
    this order."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        sign, segment, value, pk, is_backward = json.loads(raw)
        if sign != str(order):
            raise BadFilter(
                "after",
                cursor,
                "it belongs to another order or filter; leave it out for the first page",
            )
        if segment not in order.segments or not _is_whole(pk) or not isinstance(is_backward, bool):
            raise TypeError
        return Direction(order, EpisodeKey(segment, _value(value, order, segment), pk), is_backward)
    except (ValueError, TypeError, RecursionError):
        reason = "it is not a cursor from a page of episodes; leave it out for the first page"
        raise BadFilter("after", cursor, reason) from None


def _value(value: Any, order: EpisodeOrder, segment: str) -> Any:
    """Return the value of a key as it was before `_cursor`. Raises: TypeError, ValueError if the
    order has no such."""
    if segment != "known":
        is_allowed = value is None
    elif order.column == "created":
        value = datetime.fromisoformat(value)
        is_allowed = value.tzinfo is not None
    else:
        is_allowed = _is_whole(value) or (
            order.is_figure and isinstance(value, float) and math.isfinite(value)
        )
    if not is_allowed:
        raise TypeError
    return value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_BIGINT


# --- numbers of matches ---------------------------------------------------------------------------

MAX_COUNTED = 10_000
MAX_COUNTED_UNSEALED = 1_000
"""Matches that are counted where a split is sealed from the reader, because the task of each has to
be looked up."""
LOOKED_AT_FOR_COUNT = 100_000
"""Number of newest episodes in which matches are counted if no index answers alone; takes 15 ms of
CPU time."""


@dataclass(frozen=True, slots=True)
class MatchCount:
    count: int
    is_more: bool = False
    """Whether there are more than `count`."""
    is_least: bool = False
    """Whether some episodes were not searched, so that there may be more than `count`."""

    def __str__(self) -> str:
        words = "more than " if self.is_more else "at least " if self.is_least else ""
        return f"{words}{self.count:,}"


def match_count_of(asked: EpisodeFilter, page: EpisodePage) -> MatchCount:
    """Return how many episodes match the filter of `page`: exactly if that is known or cheap, up to
    a maximum."""
    if page.matches is not None:
        return MatchCount(page.matches)
    rows, is_least = episodes_of(asked, page.named), False
    if not has_index(parts_of(asked)):
        last = Episode.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        is_least = last > LOOKED_AT_FOR_COUNT
        rows = rows.filter(pk__gt=last - LOOKED_AT_FOR_COUNT) if is_least else rows
    sealed, environment = asked.viewer.sealed_splits.values(), page.named.environment
    is_plain = not sealed or (environment is not None and environment.pk not in sealed)
    most = MAX_COUNTED if is_plain else MAX_COUNTED_UNSEALED
    count = rows[: most + 1].count()
    if count > most:
        return MatchCount(most, is_more=True)
    return MatchCount(max(count, len(page.rows)), is_least=is_least)
