"""Which run an episode belongs to: runs by title, as the recorder's thread remembers them.

An episode says a title, and perhaps a step, a model, an id of its client's own, or that it resumes.
It goes to the newest run of that title that it continues, or begins the next one
(docs/decisions/0048-runs-are-executions.md). What is remembered is forgotten when a trainer
describes a
run or another server begins one, and, beside other servers, after REREAD_SECONDS.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import OuterRef, Subquery

from environments import conf
from environments.database.storable import storable
from environments.runtime.records import RunInfo
from episodes.models import Episode, Run
from episodes.models.runs import MAX_RUN_NAME_CHARACTERS
from episodes.runs.change_counter import advance

MAX_LATE_STEPS = 8
"""How many steps an episode may be behind the newest one of its run: trainers play several at
once."""
QUIET_SECONDS = 600.0
"""After this time without an episode, any step back begins the next run, and an older run is
over."""
MAX_CANDIDATES = 20
"""Runs of a title, the newest ones, that an episode may belong to."""
REREAD_SECONDS = 1.0
"""Beside other servers, what they recorded of a run is read this often."""


@dataclass(slots=True)
class KnownRun:
    id: int
    title: str
    name: str
    number: int
    model: str
    is_over: bool
    is_described: bool
    """Whether a trainer has described it, who then says when it has another model."""
    step: int | None
    """Current training step, as far as a trainer has reported it."""
    last_step: int | None
    """Highest training step of its episodes; of a described run, the current one."""
    last: float
    """Start of its newest episode, or the last report of its trainer; 0 if there is none."""

    def continues_at(self, step: int, now: float) -> bool:
        """Return whether an episode at `step` may be of this run, rather than go back in it."""
        if self.last_step is None or step >= self.last_step:
            return True
        if not is_late(self.id, step, self.last_step):
            return False
        if self.is_near(step) and not self.is_quiet(now):
            return True
        running = Episode.objects.filter(status="running").values("pk")
        return Episode.objects.filter(pk__in=running, run=self.id).exists()

    def is_near(self, step: int, pace: int = 1) -> bool:
        """Return whether `step` is at most MAX_LATE_STEPS away, counted in steps of `pace`."""
        return self.last_step is None or abs(step - self.last_step) <= MAX_LATE_STEPS * pace

    def pace(self) -> int:
        """Return how far apart its two newest steps are: 10 for a trainer that counts in tens."""
        before = None if self.last_step is None else _step_before(self.id, self.last_step)
        return 1 if self.last_step is None or before is None else self.last_step - before

    def is_quiet(self, now: float) -> bool:
        return now - self.last > QUIET_SECONDS


def is_late(run: int, step: int, last_step: int) -> bool:
    """Return whether `step` is so few steps before the one that a run has reached that it came
    late.

    Trainers that count in tens are late by more than MAX_LATE_STEPS: theirs is the step that the
    run played before.
    """
    if last_step - step <= MAX_LATE_STEPS:
        return True
    return _step_before(run, last_step) == step


def _step_before(run: int, last_step: int) -> int | None:
    """Return the last step below `last_step` that a run has played; None if there is none."""
    earlier = Episode.objects.filter(run=run, run_step__lt=last_step).order_by("-run_step")
    return earlier.values_list("run_step", flat=True).first()


class KnownRuns:
    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], tuple[float, list[KnownRun]]] = {}
        """When they were read, and the newest runs, by title and the id that their client gave."""

    def __len__(self) -> int:
        return len(self._runs)

    def clear(self) -> None:
        self._runs.clear()

    def run_of(self, about: RunInfo, start: float) -> KnownRun | None:
        """Return the run of an episode that started at this moment; None if its client names
        none."""
        title = storable(about.name, MAX_RUN_NAME_CHARACTERS)
        if not title:
            return None
        model = storable(about.model, 200)
        runs = self._named(title, storable(about.own_id, 200))
        is_chosen = bool(about.own_id or about.is_resumed or (runs and runs[0].title != title))
        run = runs[0] if runs and is_chosen else _continued(runs, about.step, model, start)
        run = run or self._begin(runs, title, about, start)
        if about.is_resumed and run.is_over:
            Run.objects.filter(pk=run.id).update(state="running")
            run.is_over = False
        if model and not run.model:
            Run.objects.filter(pk=run.id, model="").update(model=model)
            run.model = model
        if about.step is not None and (run.last_step is None or about.step > run.last_step):
            run.last_step = about.step
        run.last = max(run.last, start)
        return run

    def _named(self, title: str, own_id: str) -> list[KnownRun]:
        read_at, runs = self._runs.get((title, own_id), (0.0, None))
        if runs is None or (
            conf.is_one_of_several() and time.monotonic() > read_at + REREAD_SECONDS
        ):
            runs = runs_named(title, own_id)
            self._runs[title, own_id] = time.monotonic(), runs
        return runs

    def _begin(self, runs: list[KnownRun], title: str, about: RunInfo, start: float) -> KnownRun:
        """Return the next run of the title, which is the newest of `runs` from now on."""
        own_id = storable(about.own_id, 200)
        newest = runs[0].number if runs else 0
        row, _ = Run.objects.begin(
            title,
            None if own_id else newest + 1,
            own_id=own_id,
            model=storable(about.model, 200),
            created=datetime.fromtimestamp(start, UTC),
        )
        run = _known(row)
        runs.insert(0, run)
        if row.number > 1:  # other servers remember older runs of this title
            transaction.on_commit(advance)
        return run


def _continued(
    runs: Sequence[KnownRun], step: int | None, model: str, now: float
) -> KnownRun | None:
    """Return the run of `runs`, newest first, that an episode continues; None if it begins
    another."""
    runs = [run for run in runs if not run.is_over]
    if model:
        same = [run for run in runs if run.model == model]
        runs = same or [run for run in runs if run.is_described or not run.model]
    if step is None:
        return runs[0] if runs else None
    fitting = [run for run in runs if run.continues_at(step, now)]
    for run in fitting:
        if not run.is_near(step):
            continue
        # an older one only while it plays, and unless the newest may have got there at the same
        # pace
        if run is runs[0] or not (run.is_quiet(now) or runs[0].is_near(step, run.pace())):
            return run
    return fitting[0] if fitting else None


def runs_named(title: str, own_id: str) -> list[KnownRun]:
    """Return the newest runs of a title, newest first, or the one of this name; `own_id`: only
    those with it."""
    rows = Run.objects.named(title)
    if own_id:
        rows = rows.filter(own_id=own_id)
    episodes = Episode.objects.filter(run=OuterRef("pk"))
    with_step = episodes.filter(run_step__isnull=False).order_by("-run_step")
    rows = rows.defer("config", "notes").annotate(
        last_step=Subquery(with_step.values("run_step")[:1]),
        last=Subquery(episodes.order_by("-pk").values("created")[:1]),
    )
    return [_known(row) for row in rows[:MAX_CANDIDATES]]


def _known(row: Run) -> KnownRun:
    is_described = row.updated is not None
    last_step, last = getattr(row, "last_step", None), getattr(row, "last", None)
    return KnownRun(
        id=row.pk,
        title=row.title,
        name=row.name,
        number=row.number,
        model=row.model,
        is_over=row.is_over,
        is_described=is_described,
        step=row.step,
        last_step=row.step if is_described and row.step is not None else last_step,
        last=max((moment.timestamp() for moment in (last, row.updated) if moment), default=0.0),
    )
