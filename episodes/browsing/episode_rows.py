"""The rows of a page of episodes: what the list, its JSON and the page of a run show of each.
`episode_list.py` says which episodes these are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from environments.scoring.definition import definition_of
from episodes.attempts.rule import treatment_of
from episodes.attempts.success import success_of
from episodes.browsing.running_episodes import SoFar, so_far
from episodes.browsing.task_lines import task_lines
from episodes.filtering.columns import cells_of, with_list_columns
from episodes.filtering.conditions import NamedRows
from episodes.models import Episode
from episodes.search.snippets import Snippet, snippets_of


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
    is_success: bool | None = None
    """Whether it is a success by the definition in force; None: no figure counts it."""
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


def rows_of(
    ids: Sequence[int],
    names: NamedRows,
    label_names: Sequence[str] = (),
    blind: Iterable[int] | None = None,
) -> list[EpisodeRow]:
    """Return rows for `ids` in their order, without those that were deleted meanwhile.

    `names`: of the filter, whose text and definition the rows follow. `blind`: see
    `EpisodeListQuery.result`.
    """
    if not ids:
        return []
    by_id = with_list_columns(Episode.objects.filter(pk__in=ids)).in_bulk()
    episodes = [by_id[pk] for pk in ids if pk in by_id]
    running = [episode.pk for episode in episodes if episode.status == "running"]
    figures = so_far(running, list(blind)) if running and blind is not None else {}
    text, lines = names.filter.text, task_lines(episodes)
    snippets = snippets_of(episodes, text) if text and episodes else {}
    labels = dict[int, dict[str, str]]()
    if label_names:
        with_labels = Episode.objects.filter(pk__in=ids).only("labels")
        labels = {episode.pk: episode.labels_object for episode in with_labels}
    rows = []
    for episode in episodes:
        value, latest = episode.returns[names.definition], figures.get(episode.pk)
        definition = definition_of(episode.environment, names.filter.overrides)
        treatment = treatment_of(episode, definition.convention)
        is_zero = episode.status == "ended" and treatment == "zero"
        rows.append(
            EpisodeRow(
                episode=episode,
                summary=lines[episode.pk],
                value=0.0 if is_zero else latest.returns[names.definition] if latest else value,
                is_zero=is_zero,
                is_success=success_of(episode, definition),
                so_far=latest,
                snippet=snippets.get(episode.pk),
                labels=[labels.get(episode.pk, {}).get(name) for name in label_names],
            )
        )
    return rows
