"""Which task a guest of a study plays next, and how far they are.

A task is done by a guest once they have used up an attempt at it. Who gives a task up, or leaves it
for longer than the study allows, has had an attempt, even without a tool call. An episode that
ended because the server or the environment failed uses up none: the guest gets the task again.
Where each task gets k people, a place that somebody has left for an hour, or whose attempt does not
count, goes to somebody else; so does that of a person who was excluded. Quarantined tasks are not
dealt out any longer. Edits change nothing, because the list of a study has contents.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

from django.db import transaction
from django.db.models import BooleanField, Count, Exists, ExpressionWrapper, F, OuterRef, Q
from django.utils import timezone

from episodes.attempts.rule import FAILURES, LEFT, RAN_OUT
from episodes.models import DealtTask, Guest, Play, Study, SuiteTask

HELD = timedelta(hours=1)
"""How long a task is kept for a guest who has not finished it, where each task gets k people."""
STARTING = timedelta(seconds=30)
"""How long another tab of the same guest waits for a session that is being started."""
USES_ATTEMPT = (
    Q(episode__status="ended")
    & ~Q(episode__cause__in=FAILURES)
    & (Q(episode__is_probe=False) | Q(episode__cause=LEFT))
)
"""Condition on the plays that use up an attempt."""
FINISHES = Q(episode__cause="finished") | Q(episode__cause=RAN_OUT, episode__steps_count__gt=0)
"""Condition on those of them that finish their task: to its end, or as far as its time allowed.
Waiting until the time is over without a step does not finish it."""
Outcome = Literal["completed", "incomplete", "no task"]
"""The outcome for a person who has nothing left to play; each has a code of its own."""


@dataclass(frozen=True, slots=True)
class GuestDeck:
    """The tasks of one guest of a study, as they are now."""

    study: Study
    guest: Guest
    dealt: tuple[int, ...]
    """Ids of the tasks that the guest was dealt and that are not quarantined, in the order of
    dealing."""
    attempts: Counter[int]
    """Attempts that the guest has used up, by task."""
    finished_count: int
    """Number of tasks that the guest has finished."""
    running: int | None
    """Episode that the guest plays now."""
    playing: int | None
    """Task of that episode."""
    last: int | None
    """Task that the guest has finished last."""
    fresh: int | None
    """Task that would be dealt next; None if there is none for the guest."""
    size: int
    """Tasks of the study that are not quarantined, or that the guest has played or plays."""

    @property
    def open(self) -> int | None:
        """The first task that the guest was dealt and has no attempt at."""
        return next((task for task in self.dealt if not self.attempts[task]), None)

    @property
    def next(self) -> int | None:
        """The task that the guest plays next, apart from further attempts; None if there is
        none."""
        return self.fresh if self.open is None else self.open

    @property
    def again(self) -> int | None:
        """The task at which the guest has a further attempt."""
        return self.last if self.attempts_left else None

    @property
    def done(self) -> int:
        """Number of tasks at which the guest has used up an attempt."""
        return sum(1 for count in self.attempts.values() if count)

    @property
    def number(self) -> int:
        """Number of the task that the guest plays now or has just played, from 1."""
        tasks = list(self.attempts)  # in the order in which they were done
        task = self.last if self.running is None else self.playing
        return tasks.index(task) + 1 if task in tasks else self.done + 1

    @property
    def total(self) -> int | None:
        """Number of tasks that the guest gets; None where that depends on how others go on."""
        most = self.study.tasks_per_person
        if self.study.people_per_task is not None:
            return most
        return self.size if most is None else min(most, self.size)

    @property
    def pause_minutes(self) -> float:
        """How long the clock of a task may stand still in all."""
        return self.study.pause_seconds / 60

    @property
    def limit_minutes(self) -> float | None:
        """Time that the guest has for each task; None without a limit."""
        return None if self.study.limit_seconds is None else self.study.limit_seconds / 60

    @property
    def is_over(self) -> bool:
        return self.outcome is not None

    @property
    def needed(self) -> int:
        """How many tasks the guest has to finish to complete the study; never more than they
        got."""
        least = self.study.least_finished
        return self.done if least is None else min(least, self.done)

    @property
    def outcome(self) -> Outcome | None:
        """The outcome; None while there is something to play, and if a study was closed before the
        guest had finished enough."""
        if self.running is not None:
            return None
        if self.next is not None:
            least = self.study.least_finished
            if self.study.closed is None or least is None or not self.done:
                return None
            return "completed" if self.finished_count >= least else None
        if not self.done:
            return "no task"
        return "completed" if self.finished_count >= self.needed else "incomplete"

    @property
    def code(self) -> str:
        """The code for the outcome; empty if there is none."""
        codes = {"completed": self.study.completion_code, "incomplete": self.study.incomplete_code}
        codes["no task"] = self.study.no_task_code
        return codes.get(self.outcome or "", "")

    @property
    def attempts_left(self) -> int:
        """Further attempts at the task that the guest has finished last."""
        return (
            max(0, self.study.attempts - self.attempts[self.last]) if self.last is not None else 0
        )


def deck_of(guest: Guest) -> GuestDeck:
    """Return the tasks of a guest, whose invite has its study. Four queries at most."""
    study = guest.invite.study
    assert study is not None
    return next(decks_of(study, [guest]))


def decks_of(study: Study, guests: Sequence[Guest]) -> Iterator[GuestDeck]:
    """Yield the tasks of each of some guests of a study. Four queries at most, however many they
    are."""
    rows = SuiteTask.objects.filter(member=study.member_id, task__state="active").order_by(
        "position"
    )
    tasks = list(rows.values_list("task", flat=True))
    dealt_tasks, plays = (
        defaultdict[int, list[int]](list),
        defaultdict[int | None, list[_PlayedTask]](list),
    )
    for pk, task in DealtTask.objects.filter(guest__in=guests).values_list("guest", "task"):
        dealt_tasks[pk].append(task)
    plays_by_end = Play.objects.filter(guest__in=guests).order_by("episode__ended", "pk")
    finishes = ExpressionWrapper(USES_ATTEMPT & FINISHES, BooleanField())
    plays_by_end = plays_by_end.annotate(
        uses_attempt=ExpressionWrapper(USES_ATTEMPT, BooleanField()), finishes=finishes
    )
    names = ("pk", "episode__task", "episode__status", "uses_attempt", "finishes")
    for pk, *values in plays_by_end.values_list("guest", *names):
        plays[pk].append(_PlayedTask(*values))
    people = {} if study.people_per_task is None else _people_by_task(study)
    for guest in guests:
        yield _deck(study, guest, tasks, dealt_tasks[guest.pk], plays[guest.pk], people)


class _PlayedTask(NamedTuple):
    episode: int
    task: int
    status: str
    uses_attempt: bool
    finishes: bool


def _deck(
    study: Study,
    guest: Guest,
    tasks: Sequence[int],
    dealt_tasks: Sequence[int],
    plays: Sequence[_PlayedTask],
    people: Mapping[int, int],
) -> GuestDeck:
    """Return the tasks of a guest. `tasks`: those of the study; `dealt_tasks`: those that the guest was
    dealt; `people`: how many people have each task.
    """
    order = list(tasks)
    if study.is_shuffled:
        random.Random(f"{study.pk}/{guest.pk}").shuffle(order)  # nosec B311 # an order, not a secret
    study_tasks, had = set(tasks), set(dealt_tasks)
    dealt = tuple(task for task in dealt_tasks if task in study_tasks)
    attempts = [play.task for play in plays if play.uses_attempt]
    running = next((play for play in plays if play.status == "running"), None)
    playing = None if running is None else running.task
    fresh = [task for task in order if task not in had]
    return GuestDeck(
        study=study,
        guest=guest,
        dealt=dealt,
        attempts=Counter(attempts),
        finished_count=len({play.task for play in plays if play.finishes}),
        running=None if running is None else running.episode,
        playing=playing,
        last=attempts[-1] if attempts else None,
        fresh=_fresh(study, fresh, len({*dealt, *attempts}), people),
        size=len({*tasks, *attempts, playing} - {None}),
    )


def deal(guest: Guest, *, again: bool = False) -> DealtTask | None:
    """Return the task that the guest plays next, marked as starting; None if there is none.

    `again`: a further attempt at the last task instead of the next one. Raises: AlreadyStarting.
    """
    assert guest.invite.study_id is not None
    with transaction.atomic():
        # the write makes everybody who is dealt a task of this study wait for each other, also on
        # SQLite
        Study.objects.filter(pk=guest.invite.study_id).update(attempts=F("attempts"))
        deck = deck_of(guest)
        task = deck.again if again else deck.next
        if task is None:
            return None
        row, _ = DealtTask.objects.get_or_create(
            guest=guest, task_id=task, defaults={"study": deck.study}
        )
        now = timezone.now()
        if deck.running is not None or (row.starting is not None and row.starting > now - STARTING):
            raise AlreadyStarting
        row.starting = now
        row.save(update_fields=["starting"])
    return row


class AlreadyStarting(Exception):
    """The guest plays already, or a session is being started in another tab."""


def note_started(row: DealtTask) -> None:
    """Note that the session of a dealt task has started, or has failed to."""
    DealtTask.objects.filter(pk=row.pk).update(starting=None)


def _fresh(study: Study, tasks: Sequence[int], had: int, people: Mapping[int, int]) -> int | None:
    """Return which of `tasks`, in the order of the guest, is dealt next. `had`: how many the guest
    had so far."""
    if study.tasks_per_person is not None and had >= study.tasks_per_person:
        return None
    if (most := study.people_per_task) is None:
        return next(iter(tasks), None)
    return min(
        (task for task in tasks if people.get(task, 0) < most),
        key=lambda task: people.get(task, 0),
        default=None,
    )


def _people_by_task(study: Study) -> dict[int, int]:
    """Return how many people have each task of a study. One query."""
    own = Play.objects.filter(guest=OuterRef("guest"), episode__task=OuterRef("task"))
    attempts = own.filter(USES_ATTEMPT).exclude(episode__cause=LEFT, counts_left=False)
    now = study.closed or timezone.now()  # who had no task left keeps that outcome
    running = Q(episode__status="running") | Q(episode__ended__gte=now)
    reserved_places = Q(created__gt=now - HELD) & ~Exists(own.filter(USES_ATTEMPT))
    rows = study.dealt.filter(reserved_places | Exists(attempts) | Exists(own.filter(running)))
    rows = rows.filter(guest__excluded=None)
    return dict(rows.order_by().values_list("task").annotate(Count("guest")))
