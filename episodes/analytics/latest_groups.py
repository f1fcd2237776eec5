"""The latest groups of all runs: which were played last, with the spread of their returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from environments.models import Task, Viewer
from environments.models.viewer import visible_environments
from environments.scoring.convention import Coverage
from environments.scoring.definition import DefinitionOverrides, definition_of
from environments.scoring.returns import RETURNS, Return
from episodes.analytics.groups import Spread, spread_of
from episodes.attempts.rule import KIND
from episodes.attempts.summary import coverage_from, returns_counted
from episodes.models import Episode, Run
from episodes.models.privacy import outside_seals

MAX_GROUPS = 50
MAX_READ = 2_000
"""Newest episodes among which groups are looked for."""


class LatestGroupKey(NamedTuple):
    run: int
    run_step: int
    task: int


class _Member(NamedTuple):
    has_ended: bool
    kind: str
    returns: dict[Return, float | None]


@dataclass(frozen=True, slots=True)
class LatestGroup:
    run: Run
    run_step: int
    task: Task
    return_: Return
    """Return of the definition of the task's environment, unless another is given."""
    episodes: int
    """Episodes, including those that are not counted."""
    coverage: Coverage
    spread: Spread


def latest_groups(viewer: Viewer, overrides: DefinitionOverrides) -> Sequence[LatestGroup]:
    """Return the MAX_GROUPS groups with the newest episodes, newest first, each by the definition
    of its environment.

    Groups of runs in training steps; those without a step are on the page of their run. Five
    queries.
    """
    with_step = Episode.objects.filter(
        visible_environments(viewer),
        outside_seals(viewer),
        run__isnull=False,
        run_step__isnull=False,
    )
    newest = Episode.objects.order_by("-pk").values_list("pk", flat=True)
    floor = next(iter(newest[MAX_READ : MAX_READ + 1]), 0)
    found = with_step.filter(pk__gt=floor).order_by("-pk").values_list("run", "run_step", "task")
    keys = [LatestGroupKey._make(key) for key in dict.fromkeys(found)]
    seen = (
        Run.objects.seen_by(viewer)
        .filter(pk__in={key.run for key in keys})
        .defer("config", "notes")
    )
    runs = seen.in_bulk()
    keys = [key for key in keys if key.run in runs][:MAX_GROUPS]
    tasks = Task.objects.select_related("environment").in_bulk([key.task for key in keys])
    members = _members(keys)
    return [
        _group(runs[key.run], key, tasks[key.task], members[key], overrides)
        for key in keys
        if key.task in tasks
    ]


def _members(keys: Sequence[LatestGroupKey]) -> dict[LatestGroupKey, list[_Member]]:
    """Return all episodes of the groups. One query, along the index of training steps."""
    runs, steps, tasks = ({key[place] for key in keys} for place in range(3))
    rows = Episode.objects.filter(run__in=runs, run_step__in=steps, task__in=tasks)
    members: dict[LatestGroupKey, list[_Member]] = {key: [] for key in keys}
    columns: tuple[Any, ...] = ("status", KIND, *(f"return_{name}" for name in RETURNS))
    for run, step, task, status, kind, *returns in rows.values_list(
        "run", "run_step", "task", *columns
    ):
        if (key := LatestGroupKey(run, step, task)) in members:
            members[key].append(
                _Member(status == "ended", kind, dict(zip(RETURNS, returns, strict=True)))
            )
    return members


def _group(
    run: Run,
    key: LatestGroupKey,
    task: Task,
    members: Sequence[_Member],
    overrides: DefinitionOverrides,
) -> LatestGroup:
    definition = definition_of(task.environment, overrides)
    endings = [
        (member.kind, member.returns[definition.return_]) for member in members if member.has_ended
    ]
    values = [
        value for value in returns_counted(endings, definition.convention) if value is not None
    ]
    coverage = coverage_from(endings, definition.convention)
    return LatestGroup(
        run, key.run_step, task, definition.return_, len(members), coverage, spread_of(values)
    )
