"""Sparse rewards, rewards that are no numbers, and returns outside of the declared range."""

from __future__ import annotations

import math

from django.urls import reverse

from environments.display.numbers import plain
from episodes.doctor.checks import check
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorFinding,
    Evidence,
    no_problem,
    problem,
    too_few,
    too_little,
)
from episodes.doctor.scope import DoctorScope

TOLERANCE = 1e-6
"""By how much a return may be outside of the range, because sums of floats are rounded."""


@check("Rewards that are not a number")
def numberless_rewards(scope: DoctorScope) -> DoctorFinding:
    if not scope.attempts:
        return too_little("Needs an attempt; there is none.")
    numberless = scope.numberless
    if not numberless:
        return no_problem("Every reward is a finite number.")
    return problem(
        f"{len(numberless):,} of the episodes read have a reward that was not a number (NaN or "
        "infinite). Returns lack these rewards, so they are wrong. Find what divides by zero.",
        *(
            Evidence(f"Episode {pk}", reverse("episode", args=[pk]))
            for pk in numberless[:MAX_EVIDENCE]
        ),
    )


@check("Returns outside of the declared range")
def outside_range(scope: DoctorScope) -> DoctorFinding:
    if not scope.attempts:
        return too_little("Needs an attempt; there is none.")
    environment = scope.environment
    if scope.definition.return_ != environment.default_return:
        return too_little(
            f"The range is declared for the return {environment.default_return}; choose that."
        )
    low, high = environment.reward_low - TOLERANCE, environment.reward_high + TOLERANCE
    first, last = plain(environment.reward_low), plain(environment.reward_high)
    values = [attempt.value for attempt in scope.attempts if attempt.value is not None]
    below = sum(value < low for value in values)
    above = sum(value > high for value in values)
    if not below and not above:
        return no_problem(f"None of {len(values):,} returns is outside of {first} to {last}.")
    evidence, successes = [], ""
    if above:
        if scope.definition.is_success(high):
            successes = f" The {above:,} above it count as successes."
        lowest = math.nextafter(high, math.inf)
        evidence.append(scope.link_to(f"Returns above {last}", return_from=lowest))
    if below:
        highest = math.nextafter(low, -math.inf)
        evidence.append(scope.link_to(f"Returns below {first}", return_to=highest))
    return problem(
        f"{below + above:,} of {len(values):,} returns are outside of {first} to {last}; they "
        f"reach from {plain(min(values))} to {plain(max(values))}.{successes} Correct the rewards "
        "or the declared range.",
        *evidence,
    )


@check("Sparse rewards", "sparse", "attempts")
def sparse_rewards(scope: DoctorScope) -> DoctorFinding:
    total = len(scope.attempts)
    if finding := too_few("attempts", total, scope.thresholds["attempts"]):
        return finding
    count = sum(attempt.is_unrewarded for attempt in scope.attempts)
    sentence = f"{count / total:.0%} of attempts have no non-zero reward ({count:,} of {total:,})."
    if count / total < scope.thresholds["sparse"]:
        return no_problem(sentence)
    return problem(
        f"{sentence} An agent learns little from them.",
        scope.link_to(
            "Attempts without a reward", definition="sum", return_from=0.0, return_to=0.0
        ),
    )
