"""The episodes of runs that are compared: of the training steps that all of them have reached, or
of each run the newest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from django.db.models import Q, QuerySet

from environments.filtering.parameters import WholeRange
from environments.models import Viewer
from episodes.attempts.rule import ENDED, AttemptQuerySet
from episodes.figures.curves.zoomed_range import WHOLE, Range
from episodes.models import Episode, Run
from episodes.models.privacy import own_records

MAX_EPISODES = 40_000
"""Episodes that are read of all runs together: 20,000 of each of two take 0.1 s a run."""


@dataclass(frozen=True, slots=True)
class ComparedEpisodes:
    condition: Q = field(default_factory=Q)
    """What a split, a revision and the viewer leave of them."""
    steps: WholeRange | None = None
    """Training steps; None: episodes are not matched by training step."""
    floors: Mapping[int, int] = field(default_factory=dict)
    """Id above which episodes are read, by run of which some are not."""
    note: str = ""
    """A sentence about what is not read, or not matched; may be empty."""

    @classmethod
    def newest(cls, runs: Sequence[Run], viewer: Viewer) -> Self:
        """Return the newest episodes of each run. A query for each run."""
        most, floors = MAX_EPISODES // len(runs), dict[int, int]()
        for run in runs:
            ids = Episode.objects.filter(own_records(viewer), run=run).order_by("-pk")
            if floor := ids.values_list("pk", flat=True)[most : most + 1].first():
                floors[run.pk] = floor
        note = f"Only the newest {most:,} episodes of each run are read." if floors else ""
        return cls(own_records(viewer), floors=floors, note=note)

    @classmethod
    def of_common_steps(
        cls, runs: Sequence[Run], viewer: Viewer, zoom: Range = WHOLE
    ) -> Self | None:
        """Return the episodes of the training steps that all runs have reached, within `zoom`; None
        if a run has none. Three queries for each run."""
        lows, highs = list[int](), list[int]()
        for run in runs:
            steps = _steps(run, viewer).filter(ENDED)
            first = steps.order_by("run_step", "pk").first()
            last = steps.order_by("-run_step", "-pk").first()
            if first is None or last is None:
                return None
            lows.append(first)
            highs.append(last)
        low, high = max(lows), min(highs)
        if low > high:
            reason = "The runs have no training step in common, so all of their steps are compared."
            every = cls.newest(runs, viewer)
            return replace(every, note=f"{reason} {every.note}".strip())
        low = low if zoom.low is None else min(high, max(low, round(zoom.low)))
        high = high if zoom.high is None else max(low, min(high, round(zoom.high)))
        most, note = MAX_EPISODES // len(runs), ""
        for run in runs:
            # without a condition on endings the index has all that is read
            steps = _steps(run, viewer).filter(run_step__range=(low, high))
            newest = steps.order_by("-run_step", "-pk")
            if (step := newest[most : most + 1].first()) is not None:
                low = min(high, step + 1)
                note = f"Earlier steps are left out, to read {most:,} episodes of each run at most."
        return cls(own_records(viewer), WholeRange(low, high), note=note)

    def of(self, run: Run) -> AttemptQuerySet[Episode]:
        """Return the rollouts of the run."""
        rollouts = Episode.objects.rollouts().filter(self.condition, run=run)
        if self.steps is not None:
            return rollouts.filter(run_step__range=self.steps)
        return rollouts.filter(pk__gt=self.floors.get(run.pk, 0))

    def within(self, condition: Q) -> Self:
        """Return those that meet the condition."""
        return replace(self, condition=self.condition & condition)


def _steps(run: Run, viewer: Viewer) -> QuerySet[Episode, int | None]:
    """Return the training steps of the run's episodes."""
    episodes = Episode.objects.filter(own_records(viewer), run=run, run_step__isnull=False)
    return episodes.values_list("run_step", flat=True)
