"""Groups of a run without variance, from which a group-relative update learns nothing, and whether they get more."""

from __future__ import annotations

from collections.abc import Sequence

from django.urls import reverse

from episodes.analytics.curve import CurvePoint, curve
from episodes.doctor.findings import DoctorVerdict, Evidence, check, fine, problem, too_little
from episodes.doctor.scope import DoctorScope
from episodes.models import Run


@check("Groups without variance", "flat", "flat_rise", "groups")
def flat_groups(scope: DoctorScope) -> DoctorVerdict:
    if scope.run is None:
        runs = [Evidence(name, scope.address(run=name)) for name in scope.recent_runs]
        return too_little("Groups are the rollouts of a run at one task in one training step; choose a run.", *runs)
    points = curve(scope.episodes, scope.definition, "step", points=3).points
    judged = [point for point in points if point.groups]
    groups, flat = (sum(getattr(one, name) or 0 for one in judged) for name in ("groups", "flat_groups"))
    if groups < scope.thresholds.groups:
        needed = scope.thresholds.groups
        return too_little(f"This needs {needed:,} groups of two returns or more and has {groups:,}.")
    shares = [one.flat_share or 0.0 for one in judged]
    sentence = f"In {flat:,} of {groups:,} groups ({flat / groups:.0%}) all returns are equal"
    if len(shares) > 1:
        sentence += f"; the share goes from {shares[0]:.0%} early in training to {shares[-1]:.0%} late"
    is_rising = shares[-1] - shares[0] >= scope.thresholds.flat_rise and shares[-1] > shares[0]
    if flat / groups < scope.thresholds.flat and not is_rising:
        return fine(f"{sentence}.")
    return problem(f"{sentence}. An update that compares them learns nothing.", *_steps(scope.run, judged))


def _steps(run: Run, points: Sequence[CurvePoint]) -> list[Evidence]:
    """Return the groups of the last training step of each part with flat groups, the latest first."""
    groups = reverse("run_groups", args=[run.pk])
    last = [int(point.x_to) for point in reversed(points) if point.flat_groups]
    return [Evidence(f"Groups of step {step}", f"{groups}?step={step}") for step in last]
