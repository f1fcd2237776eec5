"""What the reward doctor examines: an environment, or its episodes in a split or run; and what its
checks read of it.

Checks over time read rollups where the scope has them. Everything else is read from the newest
MAX_EPISODES ended episodes and from the steps of some of those, so a page costs the same with
a million episodes as with ten thousand. These leave out the splits that are sealed for the reader,
because findings lead to their episodes. Each part is read once, by the first check that needs it.

Runs are of different models, so the checks that compare times, calls or splits examine each of the
newest runs by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse

from environments.database.json_rows import among
from environments.display.numbers import digits_of
from environments.filtering.parameters import BadFilter, WholeRange, any_text, given
from environments.models import Environment, Split, Viewer
from environments.scoring.convention import ENVIRONMENT_FAILURES, NUMBERLESS_KINDS
from environments.scoring.definition import Definition
from episodes.attempts.conventions import parts_in_address
from episodes.attempts.rule import KIND
from episodes.doctor.findings import Evidence
from episodes.doctor.thresholds import THRESHOLDS, parse_thresholds
from episodes.figures.block_queries import Axis
from episodes.figures.curves.change_points import MIN_POINTS
from episodes.figures.curves.curve_points import curves
from episodes.figures.curves.phases import Phase, phases_of
from episodes.figures.scopes import Scope, floor_of, scope_of_filter
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Run, Step
from episodes.models.privacy import outside_seals

MAX_EPISODES = 10_000
"""Ended episodes that are read, the newest ones."""
MAX_STEPS = 10_000
"""Steps that are read, those of the newest attempts of each run."""
MAX_RUNS = 10
"""Runs of an environment that are examined each, the newest ones."""


class SampledAttempt(NamedTuple):
    """An attempt of the newest ones, as it counts by the convention."""

    id: int
    task: int
    split: int | None
    run: int | None
    model: str
    run_step: int | None
    steps: int
    """Steps with refused ones."""
    value: float | None
    """Return by the definition in force."""
    sum: float
    last: float | None
    max: float | None

    def is_success(self, definition: Definition) -> bool:
        return definition.is_success(self.value)

    @property
    def is_unrewarded(self) -> bool:
        """Return whether it has no reward other than 0."""
        return self.sum == 0 and not self.max


@dataclass(frozen=True, slots=True)
class Course:
    """How the figures of a run, or of all episodes where there is no run, went over time."""

    run: Run | None
    axis: Axis
    """By training step, or by episode where there are few training steps."""
    phases: Sequence[Phase]

    @property
    def scored(self) -> int:
        return sum(phase.scored for phase in self.phases)


def courses_of(scopes: Mapping[Run, Scope], definition: Definition) -> list[Course]:
    """Return the course of each run. `scopes`: the episodes of it that count."""
    lines = curves(list(scopes.values()), definition, "step", needs_groups=False)
    by_run = {
        run: line for run, line in zip(scopes, lines, strict=True) if len(line.points) >= MIN_POINTS
    }
    rest = [run for run in scopes if run not in by_run]
    others = curves([scopes[run] for run in rest], definition, needs_groups=False) if rest else []
    by_run |= zip(rest, others, strict=True)
    return [Course(run, by_run[run].axis, phases_of(by_run[run].points)) for run in scopes]


@dataclass(frozen=True)
class DoctorScope:
    """The episodes that are examined, and by what thresholds."""

    environment: Environment
    split: Split | None
    run: Run | None
    filter: EpisodeFilter
    """Filter of the episodes."""
    definition: Definition
    thresholds: Mapping[str, float]
    """By name."""

    @classmethod
    def of(
        cls,
        environment: Environment,
        query: Mapping[str, str],
        definition: Definition,
        viewer: Viewer,
    ) -> Self:
        """Return the scope that an address names by `split`, `run` and thresholds.

        Raises: BadFilter, also for a split or a run that does not exist.
        """
        split, run = (given(query, name, any_text) for name in ("split", "run"))
        filters = EpisodeFilter(environment=environment.name, split=split, run=run, viewer=viewer)
        rows = NamedRows.of(filters)
        if rows.unknown:
            name, text = ("run", run) if run is not None and rows.run is None else ("split", split)
            raise BadFilter(name, text, rows.unknown.rstrip("."))
        thresholds = parse_thresholds(query)
        return cls(environment, rows.split, rows.run, filters, definition, thresholds)

    @property
    def is_whole_environment(self) -> bool:
        return self.split is None and self.run is None

    @cached_property
    def episodes(self) -> Scope:
        """The episodes as a scope of figures."""
        return self._of_run(self.run)

    def _of_run(self, run: Run | None) -> Scope:
        """Return those of these episodes that a run played, or all, as a scope of figures."""
        filters = replace(self.filter, run=run.name if run else None)
        condition, _ = filters.condition_and_unknown_names()
        rows = NamedRows(filters, self.environment, self.split, run, condition, unknown="")
        return scope_of_filter(filters, rows)

    @cached_property
    def courses(self) -> list[Course]:
        """The course of each run; of all episodes together where there is no run."""
        runs = [self.run] if self.run else list(filter(None, self.attempts_by_run))
        if not runs:
            [line] = curves([self.episodes], self.definition, needs_groups=False)
            return [Course(None, line.axis, phases_of(line.points))]
        return courses_of({run: self._of_run(run) for run in runs}, self.definition)

    @property
    def is_bounded(self) -> bool:
        """Return whether there may be older attempts than those that were read."""
        return len(self._newest) == MAX_EPISODES

    @cached_property
    def attempts(self) -> list[SampledAttempt]:
        """The attempts among the newest MAX_EPISODES ended episodes, newest first."""
        treatments = self.definition.convention.treatments
        attempts = []
        for pk, task, split, run, model, step, kind, steps, refusals, *returns in self._newest:
            treatment = treatments.get(kind, "keep")
            if treatment != "out":
                values = [0.0] * 4 if treatment == "zero" else returns
                attempts.append(
                    SampledAttempt(pk, task, split, run, model, step, steps + refusals, *values)
                )
        return attempts

    @cached_property
    def failures(self) -> Mapping[int, Mapping[int, str]]:
        """The newest ended episodes that a failure of the environment ended: their causes by task
        and id, newest first."""
        failures: dict[int, dict[int, str]] = defaultdict(dict)
        for pk, task, _split, _run, _model, _step, kind, *_ in self._newest:
            if kind in ENVIRONMENT_FAILURES:
                failures[task][pk] = kind
        return failures

    @cached_property
    def numberless(self) -> list[int]:
        """The newest ended episodes with a reward that was not a number, newest first."""
        return [
            pk
            for pk, _task, _split, _run, _model, _step, kind, *_ in self._newest
            if kind in NUMBERLESS_KINDS
        ]

    @cached_property
    def _newest(self) -> list[tuple[Any, ...]]:
        """The newest MAX_EPISODES ended episodes, newest first. Two queries at most."""
        scope = self.episodes
        rows = scope.episodes.filter(outside_seals(self.filter.viewer), status="ended")
        if not scope.has_blocks:
            rows = rows.filter(pk__gt=floor_of(scope))
        columns = (
            "pk",
            "task_id",
            "split_id",
            "run_id",
            "model",
            "run_step",
            KIND,
            "steps_count",
            "refused_count",
            self.definition.column,
            "return_sum",
            "return_last",
            "return_max",
        )
        return list(rows.order_by("-pk").values_list(*columns)[:MAX_EPISODES])

    @cached_property
    def attempts_by_run(self) -> dict[Run | None, list[SampledAttempt]]:
        """The attempts of each of the newest MAX_RUNS runs, and those of no run; newest first."""
        by_run = defaultdict[int | None, list[SampledAttempt]](list)
        for attempt in self.attempts:
            by_run[attempt.run].append(attempt)
        ids = list(filter(None, by_run))[:MAX_RUNS]
        runs = Run.objects.seen_by(self.filter.viewer).in_bulk(ids)
        groups: dict[Run | None, list[SampledAttempt]] = {
            runs[pk]: by_run[pk] for pk in ids if pk in runs
        }
        return groups | ({None: by_run[None]} if None in by_run else {})

    @cached_property
    def attempts_with_steps(self) -> list[SampledAttempt]:
        """The newest attempts of each run that have its share of MAX_STEPS steps together, whose
        steps are read."""
        result, budget = list[SampledAttempt](), MAX_STEPS
        groups = sorted(
            self.attempts_by_run.values(),
            key=lambda attempts: sum(attempt.steps for attempt in attempts),
        )
        for place, attempts in enumerate(groups):
            totals = accumulate(attempt.steps for attempt in attempts)
            count = sum(total <= budget // (len(groups) - place) for total in totals)
            result += attempts[:count]
            budget -= sum(attempt.steps for attempt in attempts[:count])
        return result

    @property
    def steps(self) -> QuerySet[Step]:
        episodes = [attempt.id for attempt in self.attempts_with_steps]
        return Step.objects.filter(among("episode", episodes)).order_by()

    def address(self, **changes: str) -> str:
        """Return the address of the doctor's page for these episodes with changed parameters."""
        filters = {
            name: text for name, text in self.filter.values().items() if name != "environment"
        }
        page = reverse("doctor", args=[self.environment.name])
        return f"{page}?{urlencode({**filters, **self.own_thresholds, **changes})}"

    @property
    def own_thresholds(self) -> dict[str, str]:
        """The thresholds that are not the defaults, as parameters of an address."""
        return {
            name: digits_of(value)
            for name, value in self.thresholds.items()
            if value != THRESHOLDS[name].default
        }

    def link_to(self, label: str, **changes: Any) -> Evidence:
        """Return a link to the list of those attempts that a changed filter finds."""
        values = {"ending": "attempt", "definition": self.definition.return_, **changes}
        parts = parts_in_address(self.definition.convention, self.environment)
        query = replace(self.filter, **values).to_query(**parts)
        return Evidence(label, f"{reverse('episodes')}?{query}")

    def link_to_phase(self, label: str, course: Course, phase: Phase, **changes: Any) -> Evidence:
        """Return a link to the list of the attempts of one phase."""
        if course.run:
            changes["run"] = course.run.name
        if course.axis == "step":
            changes["step"] = WholeRange(int(phase.x), int(phase.x_to))
        else:
            changes |= {"ends_from": phase.first_end, "ends_to": phase.last_end}
        return self.link_to(label, **changes)
