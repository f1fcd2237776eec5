"""Sparse rewards, and returns outside of the declared range."""

from __future__ import annotations

import math
from collections.abc import Sequence

from environments.display.numbers import plain
from episodes.doctor.findings import DoctorVerdict, check, fine, problem, too_little
from episodes.doctor.scope import DoctorScope, SampledAttempt

TOLERANCE = 1e-6
"""By how much a return may be outside of the range, because sums of floats are rounded."""


def lacking(
    scope: DoctorScope, least: int | None = None, *, among: Sequence[SampledAttempt] | None = None
) -> DoctorVerdict | None:
    """Return the verdict on a scope with too few attempts; None if there are enough.

    `least`: how many are needed; None: the threshold's. `among`: the attempts that count; None: all
    that were read.
    """
    needed = scope.thresholds.attempts if least is None else least
    there = len(scope.attempts if among is None else among)
    return (
        too_little(f"This needs {needed:,} attempts and has {there:,}.") if there < needed else None
    )


@check("Sparse rewards", "sparse", "attempts")
def sparse_rewards(scope: DoctorScope) -> DoctorVerdict:
    if verdict := lacking(scope):
        return verdict
    attempts = scope.attempts
    count = sum(attempt.is_unrewarded for attempt in attempts)
    said = (
        f"{count:,} of {len(attempts):,} attempts ({count / len(attempts):.0%}) have no reward "
        "other than 0."
    )
    if count / len(attempts) < scope.thresholds.sparse:
        return fine(said)
    unrewarded = scope.listed(
        "Attempts without a reward", definition="sum", return_from=0.0, return_to=0.0
    )
    return problem(f"{said} An agent learns little from them.", unrewarded)


@check("Returns outside of the declared range")
def outside_range(scope: DoctorScope) -> DoctorVerdict:
    if not scope.attempts:
        return too_little("This needs an attempt and has none.")
    environment = scope.environment
    low, high = environment.reward_low - TOLERANCE, environment.reward_high + TOLERANCE
    if scope.definition.return_ != environment.default_return:
        return too_little(
            f"The range is declared for the return {environment.default_return}; choose that."
        )
    values = [attempt.value for attempt in scope.attempts if attempt.value is not None]
    below, above = (
        [value for value in values if value < low],
        [value for value in values if value > high],
    )
    span = f"{plain(environment.reward_low)} to {plain(environment.reward_high)}"
    if not below and not above:
        return fine(f"None of {len(values):,} returns is outside of {span}.")
    evidence = []
    if above:
        evidence.append(
            scope.listed(
                f"Returns above {plain(environment.reward_high)}",
                return_from=math.nextafter(high, math.inf),
            )
        )
    if below:
        evidence.append(
            scope.listed(
                f"Returns below {plain(environment.reward_low)}",
                return_to=math.nextafter(low, -math.inf),
            )
        )
    seen = f"from {plain(min(values))} to {plain(max(values))}"
    sentence = (
        f"{len(below) + len(above):,} of {len(values):,} returns are outside of {span}; they reach "
        f"{seen}."
    )
    return problem(f"{sentence} Correct the rewards or the declared range.", *evidence)
