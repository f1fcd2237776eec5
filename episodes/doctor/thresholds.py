"""Thresholds of the reward doctor. Each is a parameter of its page; docs/reward-doctor.md says what
they decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from environments.display.numbers import digits_of
from environments.filtering.parameters import BadFilter, given, real, whole_from


class ThresholdMeaning(NamedTuple):
    """What a threshold decides, and which values it can have."""

    words: str
    least: float
    most: float


def _count(default: int, words: str, least: int = 1) -> Any:
    return field(default=default, metadata={"meaning": ThresholdMeaning(words, least, 1_000_000)})


def _share(default: float, words: str) -> Any:
    return field(default=default, metadata={"meaning": ThresholdMeaning(words, 0.0, 1.0)})


def _factor(default: float, words: str) -> Any:
    return field(default=default, metadata={"meaning": ThresholdMeaning(words, 1.0, 1_000_000.0)})


@dataclass(frozen=True, slots=True)
class DoctorThresholds:
    """What counts as a problem. A finding says by which of them it was made."""

    attempts: int = _count(
        30, "attempts that a check of episodes needs; checks over time need them in each third"
    )
    tasks: int = _count(5, "tasks with enough attempts that a check of tasks needs")
    unused: int = _count(100, "attempts without a call after which a tool counts as never called")
    calls: int = _count(50, "calls of a tool that the check of refused calls needs")
    groups: int = _count(10, "groups that the check of groups needs")
    sparse: float = _share(0.95, "share of attempts without a reward other than 0")
    rise: float = _share(
        0.1, "rise of the mean return, as a share of the declared range, that counts as rising"
    )
    success_rise: float = _share(
        0.02, "rise of the success rate that keeps up with a rising return"
    )
    growth: float = _factor(2.0, "factor by which episodes get longer while the return rises")
    unsolved: float = _share(0.5, "share of tasks that nobody solves")
    solved: float = _share(0.8, "share of tasks that everybody solves")
    refused: float = _share(0.5, "share of the calls of a tool that are refused")
    flat: float = _share(0.5, "share of groups in which all returns are equal")
    flat_rise: float = _share(
        0.2, "rise of that share from the first to the last third of training"
    )
    repeats: int = _count(
        3, "times that the same call with the same output is paid in an attempt", least=2
    )
    repeated: float = _share(0.05, "share of attempts with such calls")
    outweigh: float = _share(
        0.2, "share of successes in which the rewards before the last one are a success already"
    )
    scale: float = _factor(10.0, "factor between the largest returns of large and small tasks")
    cut: float = _share(0.05, "share of outputs that were cut")
    gap: float = _share(0.2, "difference of success between the train and the test splits")

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> DoctorThresholds:
        """Return the thresholds of an address; those that it does not name have their defaults.
        Raises: BadFilter."""
        values = {
            one.name: given(query, one.name, _parser(one.metadata["meaning"], one.default))
            for one in fields(cls)
        }
        return cls(**{name: value for name, value in values.items() if value is not None})

    def values(self) -> dict[str, str]:
        """Return those that are not the defaults as parameters of an address."""
        own = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        return {
            name: digits_of(value) for name, (value, default) in own.items() if value != default
        }


THRESHOLDS = tuple(one.name for one in fields(DoctorThresholds))
"""Names of the thresholds, which are the parameters that set them."""
MEANINGS: Mapping[str, ThresholdMeaning] = {
    one.name: one.metadata["meaning"] for one in fields(DoctorThresholds)
}


def _parser(meaning: ThresholdMeaning, default: Any) -> Any:
    least, most = meaning.least, meaning.most
    if isinstance(default, int):
        return whole_from(math.ceil(least), math.floor(most))

    def parse(name: str, text: str) -> float:
        value = real(name, text)
        if not least <= value <= most:
            limits = f"{digits_of(least)} to {digits_of(most)}"
            raise BadFilter(name, text, f"it has to be a number from {limits}, such as {default:g}")
        return value

    return parse
