"""Groups of a run without variance, from which a group-relative update learns nothing, and whether
they get more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from django.urls import reverse

from environments.filtering.parameters import WholeRange
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
from episodes.figures.curves.change_points import change_points
from episodes.figures.curves.curve_points import CurvePoint, curve

MAX_POINTS = 120
"""Parts of the training whose groups are counted; a part is a training step unless there are
more."""


@check("Groups without variance", "flat", "flat_rise", "groups")
def flat_groups(scope: DoctorScope) -> DoctorFinding:
    if scope.run is None:
        return too_little(
            "Groups are the episodes of a run at one task in one training step; choose a run.",
            *(
                Evidence(run.name, scope.address(run=run.name))
                for run in scope.attempts_by_run
                if run
            ),
        )
    points = curve(scope.episodes, scope.definition, "step", points=MAX_POINTS).points
    points = [point for point in points if point.groups]
    groups, flat = sum(point.groups or 0 for point in points), _flat(points)
    what = "groups of two returns or more"
    if finding := too_few(what, groups, scope.thresholds["groups"]):
        return finding
    share = flat / groups
    sentence = f"In {flat:,} of {groups:,} groups ({share:.0%}) all returns are equal"
    step: int | None = None
    least = scope.thresholds["flat_rise"]
    shares = [_share([point]) for point in points]
    places = change_points([shares], [point.groups or 0 for point in points])
    phases = [points[start:beyond] for start, beyond in pairwise([0, *places, len(points)])]
    flattest = max(range(len(phases)), key=lambda place: _share(phases[place]))
    late = _share(phases[flattest])
    before = [place for place in range(flattest) if 0 < late - _share(phases[place]) >= least]
    if before:
        phase = phases[flattest]
        step, last = int(phase[0].x), int(phase[-1].x_to)
        early = min(_share(phases[place]) for place in before)
        where = f"from training step {step:,} on"
        if flattest < len(phases) - 1:
            where = f"in training steps {step:,} to {last:,}"
        sentence += f"; {where} {late:.0%} instead of {early:.0%}"
    if share < scope.thresholds["flat"] and step is None:
        return no_problem(f"{sentence}.")
    evidence = []
    points.sort(key=lambda point: (-(point.flat_groups or 0), -point.x))
    for point in points[:MAX_EVIDENCE]:
        low, high = int(point.x), int(point.x_to)
        if low == high:
            page = reverse("run_groups", args=[scope.run.pk])
            evidence.append(Evidence(f"Groups of step {low}", f"{page}?step={low}"))
        else:
            label = f"Attempts of steps {low} to {high}"
            evidence.append(scope.link_to(label, step=WholeRange(low, high)))
    finding = problem(f"{sentence}. An update that compares them learns nothing.", *evidence)
    return replace(finding, run=scope.run.name, step=step)


def _flat(points: Sequence[CurvePoint]) -> int:
    return sum(point.flat_groups or 0 for point in points)


def _share(points: Sequence[CurvePoint]) -> float:
    return _flat(points) / sum(point.groups or 0 for point in points)
