"""What people have played in a study: every episode with whether it counts, and how far each person
is.

A person can be excluded, with a reason: no figure counts what they played, or play from then on.
Their episodes stay, marked, and so do they in the list of people. Figures that are read from
episodes follow the mark at once. Of what the follower derives, only the counts of activity have
people's plays by kind of ending.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper
from django.utils import timezone

from environments import security_log
from environments.scoring.definition import definition_of
from episodes.attempts.rule import RAN_OUT, kind_of
from episodes.attempts.summary import returns_counted
from episodes.models import Episode, Guest, Play, Study, SuiteTask
from episodes.people.studies.dealing import USES_ATTEMPT, GuestDeck, decks_of
from episodes.rollups.activity import ActivityPart
from episodes.rollups.changed_episodes import counted_anew

MAX_REASON_CHARACTERS = 200
MAX_GUESTS = 1_000
"""Guests that the page of a study lists, the newest ones."""


@dataclass(frozen=True, slots=True)
class StudyPlay:
    """An episode of a study."""

    study: Study
    play: Play
    """With its episode and guest."""
    number: int | None
    """Number of the task in the study, from 1; None for a task that is not in its list."""
    attempt: int
    """Which attempt of the person at the task it is, from 1; 0 if it uses up none."""
    counts: bool
    """Whether it is in the figures, by the rule of attempts: a first attempt that ended as the
    study asks."""
    return_: float | None
    is_success: bool | None
    """None if it does not count or has no return."""

    @property
    def seconds(self) -> float | None:
        """Time from the start to the last answer, without pauses; the whole time for the task where
        it ran out."""
        limit = self.study.limit_seconds
        return limit if limit is not None and self.episode.cause == RAN_OUT else self.play.seconds

    @property
    def episode(self) -> Episode:
        return self.play.episode


@dataclass(frozen=True, slots=True)
class StudyPlays:
    """Episodes of a study, of which figures only have those that count."""

    plays: Sequence[StudyPlay]

    @property
    def counted(self) -> list[StudyPlay]:
        return [play for play in self.plays if play.counts]

    @property
    def successes(self) -> int:
        return sum(bool(play.is_success) for play in self.plays)

    @property
    def mean(self) -> float | None:
        values = [play.return_ for play in self.counted if play.return_ is not None]
        return sum(values) / len(values) if values else None

    @property
    def median_seconds(self) -> float | None:
        seconds = [play.seconds for play in self.counted if play.seconds is not None]
        return median(seconds) if seconds else None


@dataclass(frozen=True, slots=True)
class GuestLine(StudyPlays):
    """The episodes of a guest of a study."""

    deck: GuestDeck

    @property
    def running(self) -> StudyPlay | None:
        return next((play for play in self.plays if play.episode.status == "running"), None)


@dataclass(frozen=True, slots=True)
class StudyResults(StudyPlays):
    guests: Sequence[GuestLine]
    tasks: int
    """Tasks of the study."""
    complete: int
    """Tasks with as many counted people as the study asks for; with one at least where it asks for
    no number."""

    @property
    def excluded(self) -> list[tuple[Guest, int]]:
        """People who were excluded, each with the number of episodes that do not count for it."""
        numbers = Counter(play.play.guest_id for play in self.plays if play.play.is_excluded)
        guests = {play.play.guest_id: play.play.guest for play in self.plays}
        return [(guest, count) for pk, count in numbers.items() if (guest := guests[pk])]


def results_of(study: Study) -> StudyResults:
    """Return the results of a study, which has its environment. Seven queries."""
    plays = list(plays_of(study))
    newest = (
        Guest.objects.filter(invite__study=study).select_related("invite__study").order_by("-pk")
    )
    guests = list(newest[:MAX_GUESTS])
    by_guest = defaultdict[int | None, list[StudyPlay]](list)
    for play in plays:
        by_guest[play.play.guest_id].append(play)
    decks = decks_of(study, guests)
    people = Counter(play.episode.task_id for play in plays if play.counts)
    people_needed = study.people_per_task or 1
    return StudyResults(
        plays=plays,
        guests=[GuestLine(by_guest[deck.guest.pk], deck) for deck in decks],
        tasks=study.member.tasks_count,
        complete=sum(count >= people_needed for count in people.values()),
    )


def plays_of(study: Study) -> Iterator[StudyPlay]:
    """Yield the episodes of a study, oldest first. Two queries."""
    places = SuiteTask.objects.filter(member=study.member_id).values_list("task", "position")
    numbers = {task: position + 1 for task, position in places}
    definition = definition_of(study.environment)
    treatments = definition.convention.treatments
    attempts = Counter[tuple[int | None, int]]()
    rows = Play.objects.filter(guest__invite__study=study).select_related(
        "episode", "guest__invite"
    )
    for play in rows.annotate(
        uses_attempt=ExpressionWrapper(USES_ATTEMPT, BooleanField())
    ).order_by("pk"):
        episode = play.episode
        key = (play.guest_id, episode.task_id)
        uses = bool(play.uses_attempt)
        attempts[key] += uses
        counts = uses and attempts[key] == 1 and treatments[kind_of(episode)] != "out"
        value = episode.returns[definition.return_]
        if counts:
            value = next(
                iter(returns_counted([(episode.cause, value)], definition.convention)), None
            )
        is_success = definition.is_success(value) if counts and value is not None else None
        attempt = attempts[key] if uses else 0
        yield StudyPlay(
            study, play, numbers.get(episode.task_id), attempt, counts, value, is_success
        )


def exclude(guest: Guest, reason: str, author: str) -> None:
    """Exclude a person, or give another reason. `guest` has its invite with its study."""
    note = f"{reason} ({author})"[:300]
    _mark(guest, is_excluded=True, excluded=guest.excluded or timezone.now(), exclusion=note)
    security_log.note(
        "study_changed", f"study {guest.invite.study}", detail=f"excluded {guest.label}: {note}"
    )


def include(guest: Guest) -> None:
    """Count a person again who was excluded."""
    _mark(guest, is_excluded=False, excluded=None, exclusion="")
    security_log.note(
        "study_changed", f"study {guest.invite.study}", detail=f"counts {guest.label} again"
    )


def _mark(guest: Guest, *, is_excluded: bool, **values: object) -> None:
    # the follower reads no others
    episodes = Episode.objects.filter(play__guest=guest, end_number__isnull=False)
    with transaction.atomic(), counted_anew(episodes, [ActivityPart()]):
        Play.objects.filter(guest=guest).update(is_excluded=is_excluded)
        Guest.objects.filter(pk=guest.pk).update(**values)
