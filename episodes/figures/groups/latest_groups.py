"""The latest groups of all runs, or of those of an environment, a split or a run: which were played
last, with the spread of their returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar, NamedTuple, Self

from environments.filtering.parameters import chosen, definition_in, given
from environments.models import Environment, Task, Viewer
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    DefinitionOverrides,
    definitions_of,
)
from episodes.attempts.endings import rows_of
from episodes.figures.groups.groups import GroupLine, read_lines
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode, Run

MAX_GROUPS = 50
MAX_RUNS = 6
MAX_READ = 4_000
"""Newest episodes of the environment, split or run, or of all, among which groups are looked
for."""
STATES: Mapping[str, Callable[[GroupLine], bool]] = {
    "mixed": lambda line: line.is_mixed,
    "flat": lambda line: line.spread.is_flat,
    "failing": lambda line: line.coverage.failures > 0,
}
"""Conditions on groups by the values of `state`; a failing one may also be mixed or flat."""


class LatestGroup(NamedTuple):
    line: GroupLine
    task: Task
    run: Run
    run_step: int


@dataclass(frozen=True, slots=True)
class FlatShare:
    """How many of a run's latest groups are flat."""

    run: Run
    groups: int
    flat: int
    first_step: int
    last_step: int
    by_step: Sequence[float]
    """Share of flat groups in each training step that has groups, oldest first, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class LatestGroups:
    groups: Sequence[LatestGroup]
    """MAX_GROUPS at most, newest first."""
    count: int
    """Number of all groups among the episodes that were read."""
    count_by_state: Mapping[str, int]
    """The number of those by state."""
    flat_shares: Sequence[FlatShare]
    """Of MAX_RUNS runs at most, those with the newest groups first."""
    unknown: str
    """Sentences about names in the filter that do not exist; empty when all exist."""


@dataclass(frozen=True, slots=True)
class LatestGroupsQuery:
    filter: EpisodeFilter
    """Of an environment, a split or a run."""
    overrides: DefinitionOverrides
    state: str | None = None
    """One of STATES; None: groups of all."""

    PARAMETERS: ClassVar = ("environment", "split", "run", "state", *DEFINITION_PARAMETERS)

    @classmethod
    def parse(cls, parameters: Mapping[str, str], viewer: Viewer) -> Self:
        """Return the query in an address. Raises: BadFilter."""
        names = ("environment", "split", "run")
        of = {name: parameters[name] for name in names if parameters.get(name)}
        state = given(parameters, "state", chosen(tuple(STATES)))
        return cls(EpisodeFilter.parse(of, viewer), definition_in(parameters), state)

    def result(self) -> LatestGroups:
        """Return the groups with the newest episodes, each by the definition of its environment.

        Groups of runs in training steps; those without a step are on the page of their run. Five
        queries, and one for each name in the filter.
        """
        rows = NamedRows.of(self.filter)
        with_step = rows.episodes().filter(run__isnull=False, run_step__isnull=False)
        newest = with_step.filter(pk__gt=_floor(rows)).order_by("-pk")
        columns = newest.values_list("run", "run_step", "task", "environment")
        keys = dict.fromkeys(rows_of(columns))
        runs = Run.objects.seen_by(self.filter.viewer).defer("config", "notes")
        runs_by_id = runs.in_bulk({run for run, *_ in keys})
        places = [key for key in keys if key[0] in runs_by_id]
        environments = Environment.objects.filter(pk__in={key[3] for key in places})
        # along the index of training steps
        members = Episode.objects.filter(
            run__in={run for run, *_ in places},
            run_step__in={step for _, step, *_ in places},
            task__in={task for _, _, task, _ in places},
        )
        definitions = definitions_of(list(environments), self.overrides)
        lines = read_lines(members, ("run_id", "run_step", "task_id"), definitions)
        holds = STATES[self.state] if self.state else bool
        chosen_places = [key[:3] for key in places if holds(lines[key[:3]])][:MAX_GROUPS]
        tasks = Task.objects.select_related("environment")
        tasks_by_id = tasks.in_bulk({task for _, _, task in chosen_places})
        return LatestGroups(
            groups=[
                LatestGroup(lines[run, step, task], tasks_by_id[task], runs_by_id[run], step)
                for run, step, task in chosen_places
                if task in tasks_by_id
            ],
            count=len(places),
            count_by_state={
                state: sum(holds(lines[key[:3]]) for key in places)
                for state, holds in STATES.items()
            },
            flat_shares=_flat_shares(
                [(runs_by_id[run], step, lines[run, step, task]) for run, step, task, _ in places]
            ),
            unknown=rows.unknown,
        )


def _flat_shares(groups: Sequence[tuple[Run, int, GroupLine]]) -> list[FlatShare]:
    """Return the shares of runs with these groups, each with its training step, newest first."""
    by_run = defaultdict[Run, dict[int, list[bool]]](lambda: defaultdict(list))
    for run, step, line in groups:
        by_run[run][step].append(line.spread.is_flat)
    return [
        FlatShare(
            run,
            sum(map(len, by_step.values())),
            sum(map(sum, by_step.values())),
            min(by_step),
            max(by_step),
            [fmean(by_step[step]) for step in sorted(by_step)],
        )
        for run, by_step in list(by_run.items())[:MAX_RUNS]
    ]


def _floor(rows: NamedRows) -> int:
    """Return the id above which there are MAX_READ episodes of what the filter names; 0: all."""
    place: dict[str, Any] = {}  # of which an index has the episodes in order
    if rows.run:
        place["run"] = rows.run
    elif rows.split and not rows.split.is_curated:
        place["split"] = rows.split
    elif rows.environment:
        place["environment"] = rows.environment
    ids = Episode.objects.filter(pk__gt=0, **place).order_by("-pk").values_list("pk", flat=True)
    return next(iter(ids[MAX_READ : MAX_READ + 1]), 0)
