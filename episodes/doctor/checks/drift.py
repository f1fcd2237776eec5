"""What changes while the return rises, from the first to the last third of the episodes."""

from __future__ import annotations

import math

from environments.display.numbers import plain
from episodes.doctor.checks import check
from episodes.doctor.findings import DoctorFinding, no_problem, problem, too_little
from episodes.doctor.scope import DoctorScope

STANDARD_ERRORS = 2
"""Standard errors of the difference that a rise has to exceed."""


@check("Rising return without success", "rise", "success_rise", "attempts")
def reward_without_success(scope: DoctorScope) -> DoctorFinding:
    if finding := _too_few_returns(scope):
        return finding
    first, last = scope.thirds[0], scope.thirds[-1]
    returns = _returns(scope)
    if not _is_rising(scope):
        return no_problem(f"The mean return {_no_rise(scope)}: it goes {returns}.")
    before, after = first.success or 0.0, last.success or 0.0
    rates = f"success goes from {before:.0%} to {after:.0%}"
    rise = scope.thresholds["success_rise"]
    if after - before >= rise or before > 1 - rise:
        return no_problem(f"The mean return rises {returns}, and {rates}.")
    return problem(
        f"The mean return rises {returns}, but {rates}. Agents may collect rewards "
        "without doing the task.",
        scope.link_to_third("The first third", first),
        scope.link_to_third("The last third", last),
    )


@check("Length that drifts with the return", "growth", "rise", "attempts")
def length_with_reward(scope: DoctorScope) -> DoctorFinding:
    if finding := _too_few_returns(scope):
        return finding
    first, last = scope.thirds[0], scope.thirds[-1]
    before, after = first.length_mean or 0.0, last.length_mean or 0.0
    lengths = (
        f"attempts have {before:.1f} steps in the first third of the episodes and {after:.1f} in "
        "the last"
    )
    if not _is_rising(scope):
        return no_problem(f"The mean return {_no_rise(scope)}; {lengths}.")
    if after < scope.thresholds["growth"] * before or after <= before:
        return no_problem(f"The mean return rises, and {lengths}.")
    longest = math.floor(last.length_p90 or 0)
    return problem(
        f"The mean return rises {_returns(scope)}, and {lengths}. Rewards may pay for length.",
        scope.link_to_third("The longest of the last third", last, steps_from=longest),
        scope.link_to_third("The first third", first),
    )


def _too_few_returns(scope: DoctorScope) -> DoctorFinding | None:
    minimum, thirds = scope.thresholds["attempts"], scope.thirds
    least = min(third.scored for third in thirds) if len(thirds) == 3 else 0
    if least >= minimum:
        return None
    return too_little(
        f"This needs {minimum:,} attempts with a return in each third of the "
        f"episodes; one has {least:,}."
    )


def _is_rising(scope: DoctorScope) -> bool:
    """Return whether the mean return rises by as much as counts."""
    first, last = scope.thirds[0], scope.thirds[-1]
    if first.mean is None or last.mean is None:
        return False
    width = scope.environment.reward_high - scope.environment.reward_low or 1.0
    rise, noise = last.mean - first.mean, math.hypot(first.error or 0.0, last.error or 0.0)
    return rise >= scope.thresholds["rise"] * width and rise > STANDARD_ERRORS * noise


def _no_rise(scope: DoctorScope) -> str:
    first, last = scope.thirds[0], scope.thirds[-1]
    if (last.mean or 0.0) > (first.mean or 0.0):
        return "rises too little to count"
    return "does not rise"


def _returns(scope: DoctorScope) -> str:
    first, last = (plain(third.mean or 0.0, 3) for third in (scope.thirds[0], scope.thirds[-1]))
    return f"from {first} in the first third of the episodes to {last} in the last"
