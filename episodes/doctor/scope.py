"""What the reward doctor examines: an environment, or its episodes in a split or run; and what its
checks read of it.

Checks over time read rollups where the scope has them. Everything else is read from the newest
MAX_EPISODES ended episodes and from the steps of the newest of those, so a page costs the same with
a million episodes as with ten thousand. These leave out the splits that are sealed for the reader,
because findings lead to their episodes. Each part is read once, by the first check that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse

from environments.filtering.parameters import BadFilter, given, words
from environments.models import Environment, Split, Viewer
from environments.scoring.definition import Definition
from episodes.analytics.curve import CurvePoint, curve
from episodes.analytics.scopes import Scope, floor_of, scope_of_filter
from episodes.attempts.conventions import parts_in_address
from episodes.attempts.rule import KIND
from episodes.doctor.findings import Evidence
from episodes.doctor.thresholds import DoctorThresholds
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode, Run, Step
from episodes.models.privacy import outside_seals

MAX_EPISODES = 10_000
"""Ended episodes that are read, the newest ones."""
MAX_STEPS = 10_000
"""Steps that are read, those of the newest attempts."""

MAX_RUNS = 5
"""Runs that the doctor of an environment leads to."""


class SampledAttempt(NamedTuple):
    """An attempt of the newest ones, as it counts by the convention."""

    id: int
    task: int
    split: int | None
    run: int | None
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


@dataclass(frozen=True)
class DoctorScope:
    """The episodes that are examined, and by what thresholds."""

    environment: Environment
    split: Split | None
    run: Run | None
    filter: EpisodeFilter
    """Filter of the episodes."""
    definition: Definition
    thresholds: DoctorThresholds

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
        split, run = (given(query, name, words) for name in ("split", "run"))
        asked = EpisodeFilter(environment=environment.name, split=split, run=run, viewer=viewer)
        named = NamedRows.of(asked)
        if named.unknown:
            name, text = ("run", run) if run is not None and named.run is None else ("split", split)
            raise BadFilter(name, text, named.unknown.rstrip("."))
        return cls(
            environment, named.split, named.run, asked, definition, DoctorThresholds.parse(query)
        )

    @property
    def is_whole_environment(self) -> bool:
        return self.split is None and self.run is None

    @cached_property
    def episodes(self) -> Scope:
        """The episodes as a scope of figures."""
        return self.part()

    def part(self, **changes: Any) -> Scope:
        """Return these episodes with a changed filter as a scope of figures."""
        asked = replace(self.filter, **changes)
        return scope_of_filter(asked, NamedRows.of(asked))

    @cached_property
    def thirds(self) -> Sequence[CurvePoint]:
        """The figures of the first, the middle and the last third of the episodes; fewer if there
        are few episodes."""
        return curve(self.episodes, self.definition, points=3).points

    @property
    def is_bounded(self) -> bool:
        """Return whether there may be older attempts than those that were read."""
        return len(self._newest) == MAX_EPISODES

    @cached_property
    def attempts(self) -> list[SampledAttempt]:
        """The attempts among the newest MAX_EPISODES ended episodes, newest first."""
        treatments = self.definition.convention.treatments
        found = list[SampledAttempt]()
        for pk, task, split, run, kind, ran, refused, *returns in self._newest:
            if (treatment := treatments.get(kind, "keep")) != "out":
                value, total, last, most = (0.0, 0.0, 0.0, 0.0) if treatment == "zero" else returns
                found.append(
                    SampledAttempt(pk, task, split, run, ran + refused, value, total, last, most)
                )
        return found

    @cached_property
    def _newest(self) -> list[tuple[Any, ...]]:
        """The newest MAX_EPISODES ended episodes, newest first. Two queries at most."""
        scope = self.episodes
        rows: QuerySet[Episode] = scope.episodes.filter(
            outside_seals(self.filter.viewer), status="ended"
        )
        if not scope.has_blocks:
            rows = rows.filter(pk__gt=floor_of(scope))
        columns = (
            "steps_count",
            "refused_count",
            self.definition.column,
            "return_sum",
            "return_last",
            "return_max",
        )
        return list(
            rows.order_by("-pk").values_list("pk", "task_id", "split_id", "run_id", KIND, *columns)[
                :MAX_EPISODES
            ]
        )

    @cached_property
    def steps_read(self) -> list[SampledAttempt]:
        """The newest attempts that have MAX_STEPS steps together."""
        found, left = list[SampledAttempt](), MAX_STEPS
        for attempt in self.attempts:
            left -= attempt.steps
            if left < 0:
                break
            found.append(attempt)
        return found

    @cached_property
    def recent_runs(self) -> list[str]:
        """Names of the runs of the newest attempts, MAX_RUNS at most, newest first."""
        recent = list(
            dict.fromkeys(attempt.run for attempt in self.attempts if attempt.run is not None)
        )[:MAX_RUNS]
        names = (
            Run.objects.seen_by(self.filter.viewer).filter(pk__in=recent).values_list("pk", "name")
        )
        return [name for _, name in sorted(names, key=lambda row: recent.index(row[0]))]

    def address(self, **changes: str) -> str:
        """Return the address of the doctor's page for these episodes with changed parameters."""
        kept = {name: text for name, text in self.filter.values().items() if name != "environment"}
        page = reverse("doctor", args=[self.environment.name])
        return f"{page}?{urlencode({**kept, **self.thresholds.values(), **changes})}"

    @property
    def steps(self) -> QuerySet[Step]:
        return Step.objects.filter(episode__in=[one.id for one in self.steps_read]).order_by()

    def listed(self, label: str, **changes: Any) -> Evidence:
        """Return the list of those attempts that a changed filter finds."""
        asked = replace(
            self.filter, **{"ending": "attempt", "definition": self.definition.return_, **changes}
        )
        parts = parts_in_address(self.definition.convention, self.environment)
        return Evidence(label, f"{reverse('episodes')}?{asked.to_query(**parts)}")

    def of_third(self, label: str, third: CurvePoint, **changes: Any) -> Evidence:
        """Return the list of the attempts of one third."""
        return self.listed(label, ends_from=third.first_end, ends_to=third.last_end, **changes)
