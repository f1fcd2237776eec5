"""TaskQuery: one task with its figures and a page of its episodes, as parameters ask for it.

By the environment's own definition the recorder stores the figures of all attempts
(TaskStatistics). By any other, and for one revision, they are counted from the newest episodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from django.db.models import QuerySet

from environments import conf
from environments.filtering.filters import query_string
from environments.filtering.parameters import definition_in, given, whole
from environments.models import Task, Viewer
from environments.scoring.convention import ENVIRONMENT_FAILURES
from environments.scoring.definition import DEFINITION_PARAMETERS, Definition, definition_of
from environments.scoring.task_buckets import Thresholds, bucket_of
from environments.scoring.task_statistics import MAX_KEYS, Statistics, TaskResult, statistics_of
from episodes.attempts.endings import rows_of
from episodes.attempts.rule import KIND, NO_ROLLOUTS
from episodes.attempts.summary import EndedReturn, figures_from, returns_counted, returns_sketch
from episodes.figures.revision_choice import RevisionChoice
from episodes.models import Episode

MAX_NEWEST = 10_000
EPISODES_PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class TaskEpisodes:
    """One page of the episodes of a task, newest first."""

    episodes: Sequence[Episode]
    older: int | None
    """Id before which the next page starts; None on the last one."""


@dataclass(frozen=True, slots=True)
class TaskQuery:
    task: Task
    """With its environment."""
    viewer: Viewer
    definition: Definition
    revision: RevisionChoice
    before: int | None
    """Id of the last episode of the previous page; None for the first page."""

    PARAMETERS: ClassVar = (*DEFINITION_PARAMETERS, "revision", "before")

    @classmethod
    def parse(cls, parameters: Mapping[str, str], task: Task, viewer: Viewer) -> Self:
        """Return the query in an address. Raises: BadFilter."""
        return cls(
            task,
            viewer,
            definition_of(task.environment, definition_in(parameters)),
            RevisionChoice.parse(parameters, viewer),
            given(parameters, "before", whole),
        )

    def statistics(self) -> tuple[Statistics, int | None]:
        """Return the statistics, and the number of episodes that were read if there may be older
        ones; otherwise None."""
        if self.revision.ids or self.definition != definition_of(self.task.environment):
            return statistics_at(self.task, self.definition, conf.thresholds(), self.revision.ids)
        return statistics_of(self.task, conf.thresholds()), None

    def all_episodes(self) -> QuerySet[Episode]:
        """Return the episodes that the viewer sees, of all pages."""
        rows = Episode.objects.seen_by(self.viewer).filter(task=self.task)
        return rows.filter(revision__in=self.revision.ids) if self.revision.ids else rows

    def episodes(self) -> TaskEpisodes:
        rows = self.all_episodes()
        if self.before is not None:
            rows = rows.filter(pk__lt=self.before)
        rows = rows.select_related("environment", "split", "run", "play").order_by("-pk")
        page = list(rows[: EPISODES_PER_PAGE + 1])
        episodes, has_more = page[:EPISODES_PER_PAGE], len(page) > EPISODES_PER_PAGE
        return TaskEpisodes(episodes, episodes[-1].pk if has_more else None)

    def to_query(self) -> str:
        """Return the query string of the Episodes page that lists the episodes."""
        return query_string(task=self.task.pk, revision=self.revision.name)


def statistics_at(
    task: Task, definition: Definition, thresholds: Thresholds, revisions: Collection[int] = ()
) -> tuple[Statistics, int | None]:
    """Return the statistics of a task, and the number of episodes read if there may be older ones;
    otherwise None.

    People are left out, as in TaskStatistics.

    `revisions`: ids of the revisions whose episodes count; empty: those of all. One query.
    """
    newest = Episode.objects.filter(task=task).exclude(player="human").order_by("-pk")
    newest = newest.filter(revision__in=revisions) if revisions else newest
    columns = ("status", KIND, "run__name", "model", definition.column)
    rows = rows_of(newest.values_list(*columns)[:MAX_NEWEST])
    rollouts = [row[1:] for row in rows if row[0] == "ended" and row[1] not in NO_ROLLOUTS]
    runs, models = (defaultdict[str, list[EndedReturn]](list) for _ in range(2))
    for kind, run, model, value in rollouts:
        runs[run or ""].append((kind, value))
        models[model].append((kind, value))

    def result(key: str, endings: Sequence[EndedReturn]) -> TaskResult:
        returns = returns_counted(endings, definition.convention)
        figures, sketch = figures_from(endings, definition), returns_sketch(returns)
        rate = figures["successes"] / len(returns) if returns else 0.0
        failures = sum(kind in ENVIRONMENT_FAILURES for kind, _ in endings)
        return TaskResult(
            key=key,
            low=sketch[0][0] if sketch else None,
            high=sketch[-1][0] if sketch else None,
            bucket=bucket_of(len(returns), failures, rate, thresholds),
            **figures,
        )

    def results(endings_by_name: Mapping[str, Sequence[EndedReturn]]) -> tuple[TaskResult, ...]:
        """Return the figures of names with an attempt, most attempts first, then by name."""
        parts = [result(name, endings) for name, endings in endings_by_name.items() if name]
        parts = [part for part in parts if part.n]
        return tuple(sorted(parts, key=lambda part: (-part.n, part.key))[:MAX_KEYS])

    overall = result("", [(kind, value) for kind, *_, value in rollouts])
    statistics = Statistics(overall=overall, runs=results(runs), models=results(models))
    return statistics, MAX_NEWEST if len(rows) == MAX_NEWEST else None
