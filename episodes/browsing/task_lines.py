"""What lists show of the task of an episode: its name by its place in a split, and its content in one
line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from environments.display.task_line import summary, summary_field
from environments.display.visible import visible
from environments.service import hidden_fields
from environments.tasks.task_facts import names_in_splits
from episodes.models import Episode, Rollout


def name_tasks(episodes: Iterable[Episode]) -> None:
    """Set `task_place` of episodes: the task's place in the split that was played, else in another.

    A few hundred episodes at most. As many queries as `names_in_splits` takes.
    """
    by_place = defaultdict[tuple[int, int | None], list[Episode]](list)
    for episode in episodes:
        by_place[episode.task_id, episode.split_id].append(episode)
    for place, name in (names_in_splits(by_place) if by_place else {}).items():
        for episode in by_place[place]:
            episode.task_place = name


def name_tasks_of_rollouts(rollouts: Iterable[Rollout]) -> None:
    """Set `task_place` of the episodes of rollouts whose clients named no index, as `name_tasks`
    does."""
    name_tasks(
        rollout.certain_episode
        for rollout in rollouts
        if rollout.task_index is None and rollout.certain_episode
    )


def task_line_of(episode: Episode) -> str:
    """Return the episode's task in one line. The episode comes from `with_list_columns`."""
    return task_lines([episode])[episode.pk]


def task_lines(episodes: Iterable[Episode]) -> dict[int, str]:
    """Return the tasks' lines by episode id; each line and each environment's schema are made once.

    The episodes have `head`, as `with_list_columns` annotates it.
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
    """Set `task_place` and `task_words` of episodes that come from `with_list_columns`."""
    name_tasks(episodes)
    lines = task_lines(episodes)
    for episode in episodes:
        episode.task_words = lines[episode.pk]
