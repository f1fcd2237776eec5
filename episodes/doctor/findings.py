"""What a check says: a problem, that there is none, or that there is too little data to tell; with
evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from django.urls import reverse

from episodes.doctor.thresholds import THRESHOLDS

MAX_EVIDENCE = 5
"""Tasks, episodes or steps that a finding names; its sentence says how many there are."""

Result = Literal["problem", "too_little_data", "fine"]
RESULTS: tuple[Result, ...] = get_args(Result)
"""In the order of the report."""


class Evidence(NamedTuple):
    """A page that shows what a finding is about."""

    label: str
    address: str
    """Path and query string."""


def step_link(episode: int, index: int, words: str) -> Evidence:
    """Return a link to a step in the replay of its episode."""
    page = reverse("episode", args=[episode])
    return Evidence(f"{words}: episode {episode}, step {index}", f"{page}#step-{index}")


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """What one check says about a scope. The decorator `check` sets the last three fields."""

    result: Result
    sentence: str
    """One sentence or two with the numbers."""
    evidence: Sequence[Evidence] = ()
    run: str = ""
    """Name of the run that it is about, where a check examines each run by itself."""
    step: int | None = None
    """Training step of that run at which the problem begins; None where that is not known."""
    brief: str = ""
    """A short form of the sentence, for lists of runs; empty where they do not tell of it."""
    check: str = ""
    """Name of the check, as the API has it."""
    title: str = ""
    """What the check looks for, as the page has it."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """The thresholds that decided it, by name."""

    @property
    def limits(self) -> list[tuple[str, float]]:
        """The thresholds, each as what it decides and its value."""
        return [(THRESHOLDS[name].words, value) for name, value in self.thresholds.items()]


def problem(sentence: str, *evidence: Evidence) -> DoctorFinding:
    return DoctorFinding("problem", sentence, evidence)


def no_problem(sentence: str) -> DoctorFinding:
    return DoctorFinding("fine", sentence)


def too_little(sentence: str, *evidence: Evidence) -> DoctorFinding:
    return DoctorFinding("too_little_data", sentence, evidence)


def too_few(what: str, count: int, minimum: float) -> DoctorFinding | None:
    """Return the finding where there are fewer than the minimum; None where there are enough."""
    if count >= minimum:
        return None
    return too_little(f"Needs {minimum:,} {what}; there are {count:,}.")
