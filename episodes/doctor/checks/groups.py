"""Groups of a run without variance, from which a group-relative update learns nothing, and whether
they get more."""

from __future__ import annotations

from collections.abc import Sequence

from django.urls import reverse

from environments.filtering.parameters import WholeRange
from episodes.analytics.curve import CurvePoint, curve
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorVerdict,
    Evidence,
    check,
    fine,
    problem,
    too_little,
)
from episodes.doctor.scope import DoctorScope
from episodes.models import Run

MAX_POINTS = 120
"""Parts of the training whose groups are counted; a part is a training step unless there are
more."""


@check("Groups without variance", "flat", "flat_rise", "groups")
def flat_groups(scope: DoctorScope) -> DoctorVerdict:
    if scope.run is None:
        runs = [Evidence(name, scope.address(run=name)) for name in scope.recent_runs]
        return too_little(
            "Groups are the rollouts of a run at one task in one training step; choose a run.",
            *runs,
        )
    points = curve(scope.episodes, scope.definition, "step", points=MAX_POINTS).points
    judged = [point for point in points if point.groups]
    groups, flat = _counts(judged)
    if groups < scope.thresholds.groups:
        needed = scope.thresholds.groups
        return too_little(
            f"This needs {needed:,} groups of two returns or more and has {groups:,}."
        )
    sentence = f"In {flat:,} of {groups:,} groups ({flat / groups:.0%}) all returns are equal"
    third, is_rising = len(judged) // 3, False
    if third:
        early, late = (
            part[1] / part[0] for part in (_counts(judged[:third]), _counts(judged[-third:]))
        )
        sentence += (
            f"; the share goes from {early:.0%} in the first third of training to {late:.0%} in "
            "the last"
        )
        is_rising = late > early and late - early >= scope.thresholds.flat_rise
    if flat / groups < scope.thresholds.flat and not is_rising:
        return fine(f"{sentence}.")
    return problem(
        f"{sentence}. An update that compares them learns nothing.",
        *_flattest(scope, scope.run, judged),
    )


def _counts(points: Sequence[CurvePoint]) -> tuple[int, int]:
    """Return the number of groups, and of flat ones."""
    return sum(one.groups or 0 for one in points), sum(one.flat_groups or 0 for one in points)


def _flattest(scope: DoctorScope, run: Run, points: Sequence[CurvePoint]) -> list[Evidence]:
    """Return the training steps with most flat groups; the episodes of those that share a point."""
    found = list[Evidence]()
    for point in sorted(points, key=lambda one: (-(one.flat_groups or 0), -one.x))[:MAX_EVIDENCE]:
        low, high = int(point.x), int(point.x_to)
        if low == high:
            address = f"{reverse('run_groups', args=[run.pk])}?step={low}"
            found.append(Evidence(f"Groups of step {low}", address))
        else:
            found.append(
                scope.listed(f"Attempts of steps {low} to {high}", step=WholeRange(low, high))
            )
    return found
