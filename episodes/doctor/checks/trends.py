"""What changes while the return rises, from the first to the last third of the episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from environments.display.numbers import plain
from episodes.analytics.curve import CurvePoint
from episodes.doctor.findings import DoctorVerdict, check, fine, problem, too_little
from episodes.doctor.scope import DoctorScope

STANDARD_ERRORS = 2
"""Standard errors of the difference that a rise has to exceed."""


def _lacking(scope: DoctorScope) -> DoctorVerdict | None:
    needed, thirds = scope.thresholds.attempts, scope.thirds
    least = min((third.scored for third in thirds), default=0) if len(thirds) == 3 else 0
    if least >= needed:
        return None
    return too_little(
        f"This needs {needed:,} attempts with a return in each third of the "
        f"episodes; one has {least:,}."
    )


def _rise(scope: DoctorScope, thirds: Sequence[CurvePoint]) -> float | None:
    """Return by how much the mean return rises; None if it does not rise by as much as counts."""
    first, last = thirds[0], thirds[-1]
    if first.mean is None or last.mean is None:
        return None
    width = scope.environment.reward_high - scope.environment.reward_low or 1.0
    rise, noise = last.mean - first.mean, math.hypot(first.error or 0.0, last.error or 0.0)
    return (
        rise if rise >= scope.thresholds.rise * width and rise > STANDARD_ERRORS * noise else None
    )


def _no_rise(first: CurvePoint, last: CurvePoint) -> str:
    return (
        "rises too little to count" if (last.mean or 0.0) > (first.mean or 0.0) else "does not rise"
    )


def _means(first: CurvePoint, last: CurvePoint) -> str:
    before, after = (plain(one.mean or 0.0, 3) for one in (first, last))
    return f"from {before} in the first third of the episodes to {after} in the last"


@check("Rising return without success", "rise", "success_rise", "attempts")
def reward_without_success(scope: DoctorScope) -> DoctorVerdict:
    if verdict := _lacking(scope):
        return verdict
    first, last = scope.thirds[0], scope.thirds[-1]
    if _rise(scope, scope.thirds) is None:
        return fine(f"The mean return {_no_rise(first, last)}: it goes {_means(first, last)}.")
    before, after = first.success or 0.0, last.success or 0.0
    rates = f"success goes from {before:.0%} to {after:.0%}"
    if (
        after - before >= scope.thresholds.success_rise
        or before > 1 - scope.thresholds.success_rise
    ):
        return fine(f"The mean return rises {_means(first, last)}, and {rates}.")
    return problem(
        f"The mean return rises {_means(first, last)}, but {rates}. Agents may collect rewards "
        "without doing the task.",
        scope.of_third("The first third", first),
        scope.of_third("The last third", last),
    )


@check("Length that drifts with the return", "growth", "rise", "attempts")
def length_with_reward(scope: DoctorScope) -> DoctorVerdict:
    if verdict := _lacking(scope):
        return verdict
    first, last = scope.thirds[0], scope.thirds[-1]
    before, after = first.length_mean or 0.0, last.length_mean or 0.0
    lengths = (
        f"attempts have {before:.1f} steps in the first third of the episodes and {after:.1f} in "
        "the last"
    )
    if _rise(scope, scope.thirds) is None:
        return fine(f"The mean return {_no_rise(first, last)}; {lengths}.")
    if after < scope.thresholds.growth * before or after <= before:
        return fine(f"The mean return rises, and {lengths}.")
    return problem(
        f"The mean return rises {_means(first, last)}, and {lengths}. Rewards may pay for length.",
        scope.of_third(
            "The longest of the last third", last, steps_from=math.floor(last.length_p90 or 0)
        ),
        scope.of_third("The first third", first),
    )
