"""EpisodeListQuery: one page of a list of episodes, as parameters ask for it.

    EpisodeListQuery.parse(request.GET, viewer).result()

The Episodes page and the API share it; the page of a run lists its newest episodes by it. Nothing
is read by offset: a cursor is the key of an episode and a direction, as text in an address
(`episode_keys.py`). Matches are counted as far as that is cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from environments.filtering.parameters import BadFilter, any_text, trimmed
from environments.models import Viewer
from environments.scoring.returns import Return
from episodes.browsing.episode_keys import SORTS, Direction, EpisodeOrder, has_index, read
from episodes.browsing.episode_rows import EpisodeRow, rows_of
from episodes.browsing.task_lines import name_tasks
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode
from episodes.models.privacy import visible_episodes
from episodes.rollups.search_note import search_note

PAGE_EPISODES = 50
MAX_LABELS = 8
"""Number of labels that have a column."""
MAX_COUNTED = 20_000
"""Matches that are counted along an index that gives them alone; takes 2 ms."""
MAX_COUNTED_UNSEALED = 1_000
"""Matches that are counted where a split is sealed from the reader, because the task of each has to
be looked up."""
LOOKED_AT_FOR_COUNT = 20_000
"""Number of newest episodes in which matches are counted if no index answers alone; takes 10 ms of
CPU time. With 100,000, a list by return took three times as long as without a count."""


@dataclass(frozen=True, slots=True)
class EpisodeList:
    """One page of episodes."""

    rows: Sequence[EpisodeRow]
    names: NamedRows
    """The rows that the filter names. Without rows for all of its names, there are no episodes."""
    note: str
    """What a search for text leaves out, in sentences; empty if that is nothing."""
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
        return self.names.unknown

    @property
    def definition(self) -> Return:
        """Definition of the return that rows show and are sorted by."""
        return self.names.definition

    @property
    def has_running(self) -> bool:
        return any(row.episode.status == "running" for row in self.rows)


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


@dataclass(frozen=True, slots=True)
class EpisodeListQuery:
    filter: EpisodeFilter
    sort: str = ""
    """One of SORTS, with a minus sign for the largest first; empty: the newest first."""
    after: str = ""
    """Cursor of the page; empty: the first page."""
    labels: Sequence[str] = ()
    """Names of labels whose values the rows have."""
    size: int = PAGE_EPISODES

    def __post_init__(self) -> None:
        if (self.sort or "-time").removeprefix("-") not in SORTS:
            choices = ", ".join(f"{name}, -{name}" for name in SORTS)
            raise BadFilter("sort", self.sort, f"allowed are {choices} (with - the largest first)")

    @classmethod
    def parse(
        cls,
        parameters: Mapping[str, str],
        viewer: Viewer,
        *,
        also: Collection[str] = (),
        size: int = PAGE_EPISODES,
    ) -> Self:
        """Return the query in an address. Raises: BadFilter.

        `also`: further parameters that it may have, such as `columns` with the names of labels.
        """
        text = parameters.get("columns", "")
        names = [trimmed(name) for name in any_text("columns", text).split(",")]
        labels = list(dict.fromkeys(name for name in names if name))
        if len(labels) > MAX_LABELS:
            raise BadFilter("columns", text, f"at most {MAX_LABELS} labels are shown")
        filter_ = EpisodeFilter.parse(parameters, viewer, also=("sort", "after", *also))
        sort, after = parameters.get("sort", ""), parameters.get("after", "")
        return cls(filter_, sort, after, labels, size)

    def to_query(self, **changes: str) -> str:
        """Return the query string of the first page, with other values for some parameters."""
        own = {"sort": self.sort, "columns": ",".join(self.labels)}
        return self.filter.to_query(**{**own, **changes})

    def result(
        self, blind: Iterable[int] | None = None, *, has_task_names: bool = True
    ) -> EpisodeList:
        """Return the page. Raises: BadFilter for a cursor of another order.

        `blind`: ids of running episodes whose return is not shown, while rows of others have their
        figures so far, which takes two queries; None: no row has any. `has_task_names`: whether
        tasks are named by their place where clients sent only their content, which may take some
        queries.
        """
        names = NamedRows.of(self.filter)
        order = EpisodeOrder.of(self.sort, names)
        direction = Direction.parse(self.after, order) if self.after else Direction(order)
        note = ""
        if self.filter.text is not None:
            note = search_note(self.filter.text, visible_episodes(self.filter.viewer))
        if names.unknown:
            return EpisodeList((), names, note, matches=0)
        search = read(names, direction, self.size + 1)
        keys, has_more = search.keys[: self.size], len(search.keys) > self.size
        start, is_backward = direction.start, direction.is_backward
        further = keys[-1] if has_more else (None if order.is_figure else search.edge)
        onward = Direction(order, further, is_backward).cursor
        # An empty page still links to the page that led to it.
        origin = None if start is None else keys[0] if keys else start
        back = Direction(order, origin, not is_backward).cursor
        is_whole = start is None and not has_more and search.edge is None
        ids = [key.pk for key in (keys[::-1] if is_backward else keys)]
        rows = rows_of(ids, names, self.labels, blind)
        if has_task_names:
            name_tasks(row.episode for row in rows)
        return EpisodeList(
            rows=rows,
            names=names,
            note=note,
            next=back if is_backward else onward,
            previous=onward if is_backward else back,
            is_bounded=search.edge is not None,
            matches=len(keys) if is_whole else search.count,
        )

    def match_count(self, result: EpisodeList) -> MatchCount:
        """Return how many episodes match the filter of the page `result`: exactly if that is known
        or cheap, up to a maximum."""
        if result.matches is not None:
            return MatchCount(result.matches)
        rows, is_least = result.names.episodes(), False
        if not has_index(self.filter):
            last = Episode.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
            is_least = last > LOOKED_AT_FOR_COUNT
            rows = rows.filter(pk__gt=last - LOOKED_AT_FOR_COUNT) if is_least else rows
        sealed_environments, environment = (
            self.filter.viewer.sealed_splits.values(),
            result.names.environment,
        )
        is_plain = not sealed_environments or (
            environment is not None and environment.pk not in sealed_environments
        )
        most = MAX_COUNTED if is_plain else MAX_COUNTED_UNSEALED
        count = rows[: most + 1].count()
        if count > most:
            return MatchCount(most, is_more=True)
        return MatchCount(max(count, len(result.rows)), is_least=is_least)
