"""What a check says: a problem, that all is well, or that there is too little data to tell; with
evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Literal, NamedTuple, Protocol, TypeVar

from django.urls import reverse

from episodes.doctor.thresholds import DoctorThresholds

MAX_EVIDENCE = 5
"""Tasks, episodes or steps that a finding names; its sentence says how many there are."""

Result = Literal["problem", "too_little_data", "fine"]
RESULTS: tuple[Result, ...] = ("problem", "too_little_data", "fine")
"""In the order of the page."""


class Evidence(NamedTuple):
    """A page that shows what a finding is about."""

    label: str
    address: str
    """Path and query string."""


def episode_link(episode: int) -> Evidence:
    return Evidence(f"Episode {episode}", reverse("episode", args=[episode]))


def step_link(episode: int, index: int, words: str) -> Evidence:
    """Return a link to a step in the replay of its episode."""
    return Evidence(
        f"{words}: episode {episode}, step {index}",
        f"{reverse('episode', args=[episode])}#step-{index}",
    )


class DoctorVerdict(NamedTuple):
    """What a check found, before it has the check's name."""

    result: Result
    sentence: str
    """One sentence or two with the numbers."""
    evidence: Sequence[Evidence] = ()


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """What one check says about a scope."""

    check: str
    """Name of the check, as the API has it."""
    title: str
    """What the check looks for, as the page has it."""
    thresholds: Mapping[str, float]
    """The thresholds that decided it, by name."""
    result: Result
    sentence: str
    evidence: Sequence[Evidence]


def problem(sentence: str, *evidence: Evidence) -> DoctorVerdict:
    return DoctorVerdict("problem", sentence, evidence)


def fine(sentence: str) -> DoctorVerdict:
    return DoctorVerdict("fine", sentence)


def too_little(sentence: str, *evidence: Evidence) -> DoctorVerdict:
    return DoctorVerdict("too_little_data", sentence, evidence)


class _HasThresholds(Protocol):
    @property
    def thresholds(self) -> DoctorThresholds: ...


ExaminedT = TypeVar("ExaminedT", bound=_HasThresholds)


def check(
    title: str, *thresholds: str
) -> Callable[[Callable[[ExaminedT], DoctorVerdict]], Callable[[ExaminedT], DoctorFinding]]:
    """Return a decorator that makes a finding of a verdict; the check has the name of the
    function."""

    def decorate(
        look: Callable[[ExaminedT], DoctorVerdict],
    ) -> Callable[[ExaminedT], DoctorFinding]:
        @wraps(look)
        def found(scope: ExaminedT) -> DoctorFinding:
            verdict = look(scope)
            used = {name: getattr(scope.thresholds, name) for name in thresholds}
            return DoctorFinding(
                look.__name__, title, used, verdict.result, verdict.sentence, verdict.evidence
            )

        return found

    return decorate
