"""Calls that are paid again and again, and rewards of steps that outweigh the end."""

from __future__ import annotations

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


@check("The same call repeated and paid", "repeats", "repeated", "attempts")
def repeated_calls(scope: DoctorScope) -> DoctorFinding:
    total, repeats = len(scope.attempts_with_steps), int(scope.thresholds["repeats"])
    if finding := too_few("attempts", total, scope.thresholds["attempts"]):
        return finding
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
    count = len({row[0] for row in calls})
    sentence = (
        f"In {count:,} of {total:,} attempts ({count / total:.0%}) the same call with the same "
        f"output is paid {repeats} times or more"
    )
    if not count or count / total < scope.thresholds["repeated"]:
        return no_problem(f"{sentence}.")
    _, _, _, times, amount = calls[0]
    return problem(
        f"{sentence}; the most is {times:,} times, for {plain(amount, 3)} together. Pay a call once.",
        *(
            step_link(pk, first, f"{tool}, paid {times} times")
            for pk, first, tool, times, _ in calls[:MAX_EVIDENCE]
        ),
    )


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
