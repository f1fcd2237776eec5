"""Calls that are paid again and again, and rewards of steps that outweigh the end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from django.db.models import Count, Min, Sum
from django.urls import reverse

from environments.display.numbers import plain
from episodes.doctor.checks import check
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorFinding,
    Evidence,
    no_problem,
    problem,
    step_link,
    too_few,
)
from episodes.doctor.scope import DoctorScope

MIN_KEPT = 1e-6
"""Sum of rewards that is more than an error of rounding."""


@check("Repeated calls are rewarded", "repeats", "repeated", "attempts")
def repeated_calls(scope: DoctorScope) -> DoctorFinding:
    repeats, minimum = int(scope.thresholds["repeats"]), scope.thresholds["attempts"]
    # the same output means that the call changed nothing: steps through a maze are paid for where
    # they lead
    rows = (
        scope.steps.filter(status="ok", reward__gt=0)
        .values("episode_id", "tool", "input", "input_blob", "output", "output_blob")
        .annotate(times=Count("pk"), first=Min("index"), total=Sum("reward"))
        .filter(times__gte=repeats)
        .order_by("-times", "-episode_id")
        .values_list("episode_id", "first", "tool", "times", "total")
    )
    calls = list(rows)
    # a shaped reward takes back what going back had earned: more than one payment has to be kept
    negative = scope.steps.filter(reward__lt=0, episode__in=[row[0] for row in calls])
    costs = dict(negative.values_list("episode_id").annotate(cost=Sum("reward")))
    calls = [
        (pk, first, tool, times, amount)
        for pk, first, tool, times, amount in calls
        if amount * (1 - 1 / times) + costs.get(pk, 0.0) > MIN_KEPT
    ]
    paid = {row[0] for row in calls}
    groups = defaultdict[int | None, list[int]](list)
    for attempt in scope.attempts_with_steps:
        groups[attempt.run].append(attempt.id)
    most = max(map(len, groups.values()), default=0)
    if finding := too_few("attempts", most, minimum):
        return finding
    run, attempts = max(
        ((run, ids) for run, ids in groups.items() if len(ids) >= minimum),
        key=lambda group: len(paid.intersection(group[1])) / len(group[1]),
    )
    count, total = len(paid.intersection(attempts)), len(attempts)
    name = next((row.name for row in scope.attempts_by_run if row and row.pk == run), "")
    of_run = f" of {name}" if name and not scope.run else ""
    sentence = (
        f"{count / total:.0%} of the newest {total:,} attempts{of_run} were rewarded {repeats} "
        "times or more for an identical call"
    )
    if not count or count / total < scope.thresholds["repeated"]:
        return no_problem(f"{sentence}.")
    calls = [row for row in calls if row[0] in set(attempts)]
    _, _, _, times, amount = calls[0]
    finding = problem(
        f"{sentence} (worst: {times:,} times, {plain(amount, 3)} together). Reward it only once.",
        *(
            step_link(pk, first, f"{tool}, paid {times} times")
            for pk, first, tool, times, _ in calls[:MAX_EVIDENCE]
        ),
    )
    return replace(finding, run=name)


@check("Rewards of steps that outweigh the end", "outweigh", "attempts")
def outweighing_steps(scope: DoctorScope) -> DoctorFinding:
    definition = scope.definition
    if definition.return_ != "sum":
        return no_problem(
            f"The return is the {definition.return_} of the rewards, so rewards of steps "
            "do not add up to it."
        )
    wins = [attempt for attempt in scope.attempts if definition.is_success(attempt.sum)]
    if finding := too_few("successes", len(wins), scope.thresholds["attempts"]):
        return finding
    early = [win for win in wins if definition.is_success(win.sum - (win.last or 0.0))]
    share = len(early) / len(wins)
    sentence = (
        f"In {len(early):,} of {len(wins):,} successes ({share:.0%}) the rewards before the last "
        "one are a success already"
    )
    if share < scope.thresholds["outweigh"] or not early:
        return no_problem(f"{sentence}.")
    largest = sorted(early, key=lambda win: (-win.sum, -win.id))[:MAX_EVIDENCE]
    return problem(
        f"{sentence}. An agent does not need the end.",
        *(Evidence(f"Episode {win.id}", reverse("episode", args=[win.id])) for win in largest),
    )
