"""Calls that are paid again and again, rewards of steps that outweigh the end, and outputs that a
limit cut."""

from __future__ import annotations

from functools import reduce
from operator import or_

from django.db.models import Count, Min, Q, Sum

from environments.display.numbers import plain
from episodes.doctor.checks.rewards import lacking
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorVerdict,
    check,
    episode_link,
    fine,
    problem,
    step_link,
    too_little,
)
from episodes.doctor.scope import DoctorScope

CUT_MARKS = (
    *("truncated", "(cut after", "output was cut", "output too long"),
    *("characters omitted", "bytes omitted", "lines omitted"),
)
"""Words by which an output says that it was cut, in any case."""
CUT_REASON = "result_size"
"""`Step.reason` of a result beyond the server's limit (ORSWEB_MAX_RESULT_BYTES)."""
LEAST_KEPT = 1e-6
"""Sum of rewards that is more than an error of rounding."""
MAX_LONG_OUTPUTS = 100
"""Outputs of more than 8,192 characters that are searched, the newest ones."""
MAX_LONG_BYTES = 100_000
"""Size up to which such an output is searched."""


@check("The same call repeated and paid", "repeats", "repeated", "attempts")
def repeated_calls(scope: DoctorScope) -> DoctorVerdict:
    if verdict := lacking(scope, among=scope.steps_read):
        return verdict
    # the same output means that the call changed nothing: steps through a maze are paid for where
    # they lead
    same = ("episode_id", "tool", "input", "input_blob", "output", "output_blob")
    paid = scope.steps.filter(status="ok", reward__gt=0).values(*same)
    paid = paid.annotate(times=Count("pk"), first=Min("index"), total=Sum("reward"))
    rows = paid.filter(times__gte=scope.thresholds.repeats).order_by("-times", "-episode_id")
    found = _kept(scope, list(rows.values_list("episode_id", "first", "tool", "times", "total")))
    count, read = len({row[0] for row in found}), len(scope.steps_read)
    times = scope.thresholds.repeats
    sentence = (
        f"In {count:,} of {read:,} attempts ({count / read:.0%}) the same call with the same output"
    )
    if not count or count / read < scope.thresholds.repeated:
        return fine(f"{sentence} is paid {times} times or more.")
    links = [
        step_link(pk, first, f"{tool}, paid {many} times")
        for pk, first, tool, many, _ in found[:MAX_EVIDENCE]
    ]
    most = f"the most is {found[0][3]:,} times, for {plain(found[0][4], 3)} together"
    return problem(f"{sentence} is paid {times} times or more; {most}. Pay a call once.", *links)


def _kept(
    scope: DoctorScope, found: list[tuple[int, int, str, int, float]]
) -> list[tuple[int, int, str, int, float]]:
    """Return those of which more than one payment was kept: a shaped reward takes back what going
    back had earned."""
    negative = scope.steps.filter(reward__lt=0, episode__in=[row[0] for row in found])
    costs = dict(negative.values_list("episode_id").annotate(cost=Sum("reward")))
    return [row for row in found if row[4] * (1 - 1 / row[3]) + costs.get(row[0], 0.0) > LEAST_KEPT]


@check("Rewards of steps that outweigh the end", "outweigh", "attempts")
def outweighing_steps(scope: DoctorScope) -> DoctorVerdict:
    definition, needed = scope.definition, scope.thresholds.attempts
    if definition.return_ != "sum":
        return fine(
            f"The return is the {definition.return_} of the rewards, so rewards of steps "
            "do not add up to it."
        )
    wins = [attempt for attempt in scope.attempts if definition.is_success(attempt.sum)]
    if len(wins) < needed:
        return too_little(f"This needs {needed:,} successes and has {len(wins):,}.")
    before = [win for win in wins if definition.is_success(win.sum - (win.last or 0.0))]
    share = len(before) / len(wins)
    counts = f"{len(before):,} of {len(wins):,} successes ({share:.0%})"
    sentence = f"In {counts} the rewards before the last one are a success already"
    if share < scope.thresholds.outweigh or not before:
        return fine(f"{sentence}.")
    links = [
        episode_link(one.id)
        for one in sorted(before, key=lambda one: (-one.sum, -one.id))[:MAX_EVIDENCE]
    ]
    return problem(f"{sentence}. An agent does not need the end.", *links)


@check("Outputs cut by limits", "cut", "calls")
def cut_outputs(scope: DoctorScope) -> DoctorVerdict:
    steps, place = scope.steps, ("episode_id", "index", "tool")
    refused = steps.filter(reason=CUT_REASON)
    short = steps.filter(status="ok", output_blob=None)
    marked = short.filter(reduce(or_, [Q(output__icontains=mark) for mark in CUT_MARKS]))
    long = steps.filter(output_blob__isnull=False, output_blob__size_bytes__lte=MAX_LONG_BYTES)
    long_read = list(
        long.select_related("output_blob").order_by("-episode_id", "-index")[:MAX_LONG_OUTPUTS]
    )
    long_cut = [
        (one.episode_id, one.index, one.tool) for one in long_read if _is_cut(one.output_json)
    ]
    read = short.count() + refused.count() + len(long_read)
    if read < scope.thresholds.calls:
        return too_little(f"This needs {scope.thresholds.calls:,} outputs and has {read:,}.")
    found = sorted([*(refused | marked).values_list(*place), *long_cut], reverse=True)
    sentence = (
        f"{len(found):,} of {read:,} outputs ({len(found) / read:.0%}) were cut or refused for "
        "their size"
    )
    if not found or len(found) / read < scope.thresholds.cut:
        return fine(f"{sentence}.")
    links = [step_link(*one) for one in found[:MAX_EVIDENCE]]
    return problem(f"{sentence}. Agents may miss what they need.", *links)


def _is_cut(output: str) -> bool:
    return any(mark in output.lower() for mark in CUT_MARKS)
