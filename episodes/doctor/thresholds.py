"""Thresholds of the reward doctor: what counts as a problem. Each is a parameter of its page;
docs/reward-doctor.md says what they decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from environments.display.numbers import digits_of
from environments.filtering.parameters import BadFilter, given, real, whole_from


@dataclass(frozen=True, slots=True)
class Threshold:
    name: str
    default: float
    """An integer if its values are."""
    words: str
    """What it decides."""
    low: float
    """Its least value."""
    high: float

    def parse(self, name: str, text: str) -> float:
        """Return the value that a parameter means. Raises: BadFilter."""
        if isinstance(self.default, int):
            return whole_from(math.ceil(self.low), math.floor(self.high))(name, text)
        value = real(name, text)
        if not self.low <= value <= self.high:
            limits = f"{digits_of(self.low)} to {digits_of(self.high)}"
            example = f"{self.default:g}"
            raise BadFilter(name, text, f"it has to be a number from {limits}, such as {example}")
        return value


def count(name: str, default: int, words: str, low: int = 1) -> Threshold:
    return Threshold(name, default, words, low, 1_000_000)


def share(name: str, default: float, words: str) -> Threshold:
    return Threshold(name, default, words, 0.0, 1.0)


def factor(name: str, default: float, words: str) -> Threshold:
    return Threshold(name, default, words, 1.0, 1_000_000.0)


THRESHOLDS = {
    threshold.name: threshold
    for threshold in (
        count(
            "attempts",
            30,
            "attempts that a check of episodes needs; checks over time need them in each phase",
        ),
        count("tasks", 5, "tasks with enough attempts that a check of tasks needs"),
        count("unused", 100, "attempts without a call after which a tool counts as never called"),
        count("calls", 50, "calls of a tool that the check of refused calls needs"),
        count("groups", 10, "groups that the check of groups needs"),
        share("sparse", 0.95, "share of attempts without a reward other than 0"),
        share(
            "rise",
            0.1,
            "rise of the mean return, as a share of the declared range, that counts as rising",
        ),
        share("success_rise", 0.02, "rise of the success rate that keeps up with a rising return"),
        share(
            "fall",
            0.2,
            "fall of the success rate, or of the return as a share of the declared range, that "
            "counts as a collapse",
        ),
        factor("growth", 2.0, "factor by which episodes get longer while the return rises"),
        share("unsolved", 0.5, "share of tasks that nobody solves"),
        share("solved", 0.8, "share of tasks that everybody solves"),
        share("refused", 0.5, "share of the calls of a tool that are refused"),
        share("flat", 0.5, "share of groups in which all returns are equal"),
        share("flat_rise", 0.2, "rise of that share from one phase to a later one"),
        count(
            "repeats",
            3,
            "times that the same call with the same output is paid in an attempt",
            low=2,
        ),
        share("repeated", 0.05, "share of attempts with such calls"),
        share(
            "outweigh",
            0.2,
            "share of successes in which the rewards before the last one are a success already",
        ),
        factor("scale", 10.0, "factor between the largest returns of large and small tasks"),
        share("cut", 0.05, "share of outputs that were cut"),
        share("gap", 0.2, "difference of success between the train and the test splits"),
    )
}
"""By name, which is the parameter that sets it. Checks add their own."""


def parse_thresholds(query: Mapping[str, str]) -> dict[str, float]:
    """Return the thresholds of an address; those that it does not name have their defaults.
    Raises: BadFilter."""
    values = {}
    for name, threshold in THRESHOLDS.items():
        value = given(query, name, threshold.parse)
        values[name] = threshold.default if value is None else value
    return values
