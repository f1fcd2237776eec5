"""Single returns far outside of those of other attempts at the same task."""

from __future__ import annotations

from collections import defaultdict

from django.urls import reverse

from environments.display.numbers import plain
from episodes.attempts.sketches import OUTLIER, sketch_of, usual_size
from episodes.doctor.checks import check
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorFinding,
    Evidence,
    no_problem,
    problem,
    too_little,
)
from episodes.doctor.scope import DoctorScope, SampledAttempt
from episodes.doctor.thresholds import factor

MIN_ATTEMPTS = 4
"""Attempts at a task of which one can be called an outlier."""


@check(
    "Returns far outside of others at the same task",
    factor(
        "outlier", OUTLIER, "distance of a return from all others at its task, in usual returns"
    ),
)
def outlying_returns(scope: DoctorScope) -> DoctorFinding:
    attempts_by_task = defaultdict[int, list[tuple[float, SampledAttempt]]](list)
    for attempt in scope.attempts:
        if attempt.value is not None:
            attempts_by_task[attempt.task].append((attempt.value, attempt))
    tasks = [attempts for attempts in attempts_by_task.values() if len(attempts) >= MIN_ATTEMPTS]
    if not tasks:
        return too_little(f"Needs a task with {MIN_ATTEMPTS} attempts; there is none.")
    usual = usual_size(sketch_of(value for attempts in tasks for value, _ in attempts))
    outliers = list[tuple[float, float, SampledAttempt]]()
    for attempts in tasks:
        attempts.sort(key=lambda pair: pair[0])
        for (value, attempt), (nearest, _), (farthest, _) in (
            (attempts[-1], attempts[-2], attempts[0]),
            (attempts[0], attempts[1], attempts[-1]),
        ):
            size = max(usual, abs(nearest), abs(farthest))
            distance = abs(value / size - nearest / size) if size else 0.0
            if distance >= scope.thresholds["outlier"]:
                outliers.append((distance, value, attempt))
    if not outliers:
        count = f"{len(tasks):,} task{'' if len(tasks) == 1 else 's'}"
        return no_problem(f"No return is far outside of the others at its task, in {count}.")
    outliers.sort(key=lambda outlier: -outlier[0])
    return problem(
        f"{len(outliers):,} attempt{' has' if len(outliers) == 1 else 's have'} a return far outside "
        f"of all others at the same task, such as {plain(outliers[0][1])}. It can outweigh all "
        "others in a mean: find out how it was paid.",
        *(
            Evidence(f"Episode {attempt.id}: {plain(value)}", reverse("episode", args=[attempt.id]))
            for _, value, attempt in outliers[:MAX_EVIDENCE]
        ),
    )
