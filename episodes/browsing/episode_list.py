"""EpisodeListQuery: one page of a list of episodes, as parameters ask for it.

    EpisodeListQuery.parse(request.GET, viewer).result()

The Episodes page and the API share it; the page of a run lists its newest episodes by it. Nothing
is read by offset: a cursor is the key of an episode and a direction, as text in an address
(`episode_keys.py`). Matches are counted as far as that is cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from environments.display.task_line import summary, summary_field
from environments.display.visible import visible
from environments.filtering.parameters import BadFilter, trimmed, words
from environments.models import Viewer
from environments.scoring.definition import definition_of
from environments.scoring.returns import Return
from environments.service import hidden_fields
from episodes.attempts.rule import kind_of
from episodes.browsing.episode_keys import COUNTED, Direction, EpisodeOrder, has_index, read
from episodes.browsing.running_episodes import SoFar, so_far
from episodes.filtering.columns import cells_of, for_rows
from episodes.filtering.conditions import NamedRows, episodes_of, parts_of
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.names import name_tasks
from episodes.models import Episode
from episodes.models.privacy import visible_episodes
from episodes.rollups.search_note import search_note
from episodes.search.snippets import Snippet, snippets_of

PAGE_EPISODES = 50
MAX_LABELS = 8
"""Number of labels that have a column."""
MAX_COUNTED = 10_000
MAX_COUNTED_UNSEALED = 1_000
"""Matches that are counted where a split is sealed from the reader, because the task of each has to
be looked up."""
LOOKED_AT_FOR_COUNT = 100_000
"""Number of newest episodes in which matches are counted if no index answers alone; takes 15 ms of
CPU time."""
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
    """Return of the episode by the definition of the list, 0 if `is_zero`; None without a reward,
    and while it runs unless `so_far` is set."""
    is_zero: bool = False
    """Whether the convention in force counts it as a return of 0."""
    so_far: SoFar | None = None
    """Figures of a running episode, if they were asked for."""
    snippet: Snippet | None = None
    """Where the transcript has what the filter searches for, if that was found."""
    labels: Sequence[str | None] = ()
    """Values of the labels of the query; None where the episode lacks one."""

    @property
    def cells(self) -> list[tuple[str, Any]]:
        """Names and values of the columns that the list shows behind its own."""
        return cells_of(self.episode)


@dataclass(frozen=True, slots=True)
class EpisodeList:
    """One page of episodes."""

    rows: Sequence[EpisodeRow]
    definition: Return
    """Definition of the return that rows show and are sorted by."""
    subject: NamedRows
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
        return self.subject.unknown

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
        names = [trimmed(name) for name in words("columns", text).split(",")]
        labels = list(dict.fromkeys(name for name in names if name))
        if len(labels) > MAX_LABELS:
            raise BadFilter("columns", text, f"at most {MAX_LABELS} labels are shown")
        filter_ = EpisodeFilter.parse(parameters, viewer, also=("sort", "after", *also))
        sort = parameters.get("sort", "")
        EpisodeOrder.parse(sort, "sum")  # refuses an unknown one before anything is read
        return cls(filter_, sort, parameters.get("after", ""), labels, size)

    def to_query(self, **changes: str) -> str:
        """Return the query string of the first page, with other values for some parameters."""
        own = {"sort": self.sort, "columns": ",".join(self.labels)}
        return self.filter.to_query(**{**own, **changes})

    def result(self, blind: Iterable[int] | None = None) -> EpisodeList:
        """Return the page. Raises: BadFilter for a cursor of another order.

        `blind`: ids of running episodes whose return is not shown, while rows of others have their
        figures so far, which takes two queries; None: no row has any.
        """
        subject = NamedRows.of(self.filter)
        definition, parts = subject.definition(self.filter), parts_of(self.filter)
        order = EpisodeOrder.parse(self.sort, definition)
        if len(parts) == 1 and not order.is_figure:
            order = replace(order, column=_AXES.get(next(iter(parts)), order.column))
        episodes = episodes_of(self.filter, subject)
        if order.is_return and (conventions := subject.conventions(self.filter)).zeros is not None:
            order = replace(order, column=f"{COUNTED}{order.column}")
            episodes = episodes.annotate(**{order.column: conventions.return_of(definition)})
        direction, note = Direction.parse(self.after, order), ""
        if self.filter.text is not None:
            note = search_note(self.filter.text, visible_episodes(self.filter.viewer))
        if subject.unknown:
            return EpisodeList((), definition, subject, note, matches=0)
        search = read(episodes, parts, direction, self.size + 1)
        keys, has_more = search.keys[: self.size], len(search.keys) > self.size
        start, is_backward = direction.start, direction.is_backward
        further = keys[-1] if has_more else (None if order.is_figure else search.edge)
        onward = Direction(order, further, is_backward).cursor
        # An empty page still links to the page that led to it.
        origin = None if start is None else keys[0] if keys else start
        back = Direction(order, origin, not is_backward).cursor
        is_whole = start is None and not has_more and search.edge is None
        ids = [key.pk for key in (keys[::-1] if is_backward else keys)]
        return EpisodeList(
            rows=self._rows(ids, definition, blind),
            definition=definition,
            subject=subject,
            note=note,
            next=back if is_backward else onward,
            previous=onward if is_backward else back,
            is_bounded=search.edge is not None,
            matches=len(keys) if is_whole else search.count,
        )

    def _rows(
        self, ids: Sequence[int], definition: Return, blind: Iterable[int] | None
    ) -> list[EpisodeRow]:
        """Return rows for `ids` in their order, without those that were deleted meanwhile."""
        if not ids:
            return []
        by_id = for_rows(Episode.objects.filter(pk__in=ids)).in_bulk()
        episodes = [by_id[pk] for pk in ids if pk in by_id]
        running = [episode.pk for episode in episodes if episode.status == "running"]
        figures = so_far(running, list(blind)) if running and blind is not None else {}
        text, lines = self.filter.text, summaries(episodes)
        snippets = snippets_of(episodes, text) if text and episodes else {}
        labels = dict[int, dict[str, str]]()
        if self.labels:
            with_labels = Episode.objects.filter(pk__in=ids).only("labels")
            labels = {episode.pk: episode.labels_object for episode in with_labels}
        rows = []
        for episode in episodes:
            value, latest = episode.returns[definition], figures.get(episode.pk)
            own = definition_of(episode.environment, self.filter.overrides)
            treatment = own.convention.treatments.get(kind_of(episode))
            is_zero = episode.status == "ended" and treatment == "zero"
            rows.append(
                EpisodeRow(
                    episode,
                    lines[episode.pk],
                    0.0 if is_zero else latest.returns[definition] if latest else value,
                    is_zero,
                    latest,
                    snippets.get(episode.pk),
                    [labels.get(episode.pk, {}).get(name) for name in self.labels],
                )
            )
        return rows

    def match_count(self, result: EpisodeList) -> MatchCount:
        """Return how many episodes match the filter of the page `result`: exactly if that is known
        or cheap, up to a maximum."""
        if result.matches is not None:
            return MatchCount(result.matches)
        rows, is_least = episodes_of(self.filter, result.subject), False
        if not has_index(parts_of(self.filter)):
            last = Episode.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
            is_least = last > LOOKED_AT_FOR_COUNT
            rows = rows.filter(pk__gt=last - LOOKED_AT_FOR_COUNT) if is_least else rows
        with_seals, environment = (
            self.filter.viewer.sealed_splits.values(),
            result.subject.environment,
        )
        is_plain = not with_seals or (environment is not None and environment.pk not in with_seals)
        most = MAX_COUNTED if is_plain else MAX_COUNTED_UNSEALED
        count = rows[: most + 1].count()
        if count > most:
            return MatchCount(most, is_more=True)
        return MatchCount(max(count, len(result.rows)), is_least=is_least)


def summary_of(episode: Episode) -> str:
    """Return the episode's task in one line. The episode comes from `for_rows`."""
    return summaries([episode])[episode.pk]


def summaries(episodes: Iterable[Episode]) -> dict[int, str]:
    """Return the tasks' lines by episode id; each line and each environment's schema are made once.

    The episodes have `head`, as `for_rows` annotates it.
    """
    arguments = dict[int, tuple[str, Collection[str] | None]]()
    by_task, by_episode = dict[int, str](), dict[int, str]()
    for episode in episodes:
        environment = episode.environment
        if environment.pk not in arguments:
            arguments[environment.pk] = (
                summary_field(environment.task_schema),
                hidden_fields(environment.name),
            )
        if episode.task_id not in by_task:
            by_task[episode.task_id] = visible(summary(episode.head, *arguments[environment.pk]))  # type: ignore[attr-defined]  # annotated
        by_episode[episode.pk] = by_task[episode.task_id]
    return by_episode


def describe_tasks(episodes: Sequence[Episode]) -> None:
    """Set `task_place` and `task_words` of episodes that come from `for_rows`."""
    name_tasks(episodes)
    lines = summaries(episodes)
    for episode in episodes:
        episode.task_words = lines[episode.pk]
