"""Calls that are paid again and again, and rewards of steps that outweigh the end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from django.db.models import Count, Min, QuerySet, Sum, TextField, Value
from django.db.models.functions import Replace
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
from episodes.doctor.scope import MAX_STEPS, DoctorScope
from episodes.models import Step

MIN_KEPT = 1e-6
"""Sum of rewards that is more than an error of rounding."""


@check("Repeated calls are rewarded", "repeats", "repeated", "attempts", is_cause=True)
def repeated_calls(scope: DoctorScope) -> DoctorFinding:
    repeats, minimum = int(scope.thresholds["repeats"]), scope.thresholds["attempts"]
    calls = _repeated(scope.steps, repeats)
    paid_episodes = {call.episode for call in calls}
    groups = defaultdict[int | None, list[int]](list)
    for attempt in scope.attempts_with_steps:
        groups[attempt.run].append(attempt.id)
    most = max(map(len, groups.values()), default=0)
    if finding := too_few("attempts", most, minimum):
        return finding
    run, attempts = max(
        ((run, ids) for run, ids in groups.items() if len(ids) >= minimum),
        key=lambda group: len(paid_episodes.intersection(group[1])) / len(group[1]),
    )
    count, total = len(paid_episodes.intersection(attempts)), len(attempts)
    name = next((row.name for row in scope.attempts_by_run if row and row.pk == run), "")
    of_run = f" of {name}" if name and not scope.run else ""
    sentence = (
        f"{count / total:.0%} of the newest {total:,} attempts{of_run} were rewarded {repeats} "
        "times or more for an identical call"
    )
    if not count or count / total < scope.thresholds["repeated"]:
        return no_problem(f"{sentence}.")
    calls = [call for call in calls if call.episode in set(attempts)]
    finding = problem(
        f"{sentence} (worst: {calls[0].times:,} times, "
        f"{plain(calls[0].amount, 3)} together). Reward it only once.",
        *(
            step_link(call.episode, call.first, f"{call.tool}, paid {call.times} times")
            for call in calls[:MAX_EVIDENCE]
        ),
    )
    return replace(finding, run=name, step=_first_step(scope, repeats))


class RepeatedCall(NamedTuple):
    """A call of an episode that was paid for the same output again and again."""

    episode: int
    first: int
    """Index of its first step."""
    tool: str
    times: int
    amount: float


def _repeated(steps: QuerySet[Step], repeats: int) -> list[RepeatedCall]:
    """Return the calls that are paid as many times or more, most first."""
    # the same output means that the call changed nothing: steps through a maze are paid for
    # where they lead; that the last one also ends the episode makes no difference
    going_on = Replace(
        "output",
        Value('"finished":true}'),
        Value('"finished":false}'),
        output_field=TextField(),
    )
    rows = (
        steps.filter(status="ok", reward__gt=0)
        .annotate(result=going_on)
        .values("episode_id", "tool", "input", "input_blob", "result", "output_blob")
        .annotate(times=Count("pk"), first=Min("index"), total=Sum("reward"))
        .filter(times__gte=repeats)
        .order_by("-times", "-episode_id")
        .values_list("episode_id", "first", "tool", "times", "total")
    )
    calls = [RepeatedCall(*row) for row in rows]
    # a shaped reward takes back what going back had earned: more than one payment has to be kept
    negative = steps.filter(reward__lt=0, episode__in=[call.episode for call in calls])
    costs = dict(negative.values_list("episode_id").annotate(cost=Sum("reward")))
    return [
        call
        for call in calls
        if call.amount * (1 - 1 / call.times) + costs.get(call.episode, 0.0) > MIN_KEPT
    ]


def _first_step(scope: DoctorScope, repeats: int) -> int | None:
    """Return the training step of a run at which the first phase begins in which calls are repeated
    as often as counts, by a few attempts of each phase; None without training steps."""
    [course, *_] = scope.courses
    if not scope.run or course.axis != "step":
        return None
    samples = []
    for phase in course.phases:
        attempts = [
            attempt
            for attempt in scope.attempts
            if attempt.run_step is not None and phase.x <= attempt.run_step <= phase.x_to
        ][: int(scope.thresholds["attempts"])]
        totals = accumulate(attempt.steps for attempt in attempts)
        count = sum(total <= MAX_STEPS // len(course.phases) for total in totals)
        samples.append([attempt.id for attempt in attempts[:count]])
    steps = Step.objects.filter(episode__in=[pk for sample in samples for pk in sample]).order_by()
    paid_episodes = {call.episode for call in _repeated(steps, repeats)}
    least = scope.thresholds["repeated"]
    starts = (
        int(phase.x)
        for phase, sample in zip(course.phases, samples, strict=True)
        if sample and 0 < len(paid_episodes.intersection(sample)) >= least * len(sample)
    )
    return next(starts, None)


@check("Success does not need the final reward", "outweigh", "attempts", is_cause=True)
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
        f"{share:.0%} of successes ({len(early):,} of {len(wins):,}) were reached before the final "
        "reward"
    )
    if share < scope.thresholds["outweigh"] or not early:
        return no_problem(f"{sentence}.")
    largest = sorted(early, key=lambda win: (-win.sum, -win.id))[:MAX_EVIDENCE]
    return problem(
        f"{sentence}. Pay more of the reward at the end, or raise the threshold.",
        *(Evidence(f"Episode {win.id}", reverse("episode", args=[win.id])) for win in largest),
    )
