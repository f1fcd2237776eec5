"""Tools that are never called, tools whose calls are mostly refused, and outputs that a limit
cut."""

from __future__ import annotations

from functools import reduce
from operator import or_

from django.db.models import Count, Q

from environments.display import parts
from episodes.doctor.checks import check
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorFinding,
    no_problem,
    problem,
    step_link,
    too_few,
    too_little,
)
from episodes.doctor.scope import DoctorScope
from episodes.figures.environments.tool_figures import tool_figures
from episodes.models import Episode

MAX_LISTS = 200
"""Newest attempts among which a list of tools is looked for."""
CUT_MARKS = (
    "truncated",
    "(cut after",
    "output was cut",
    "output too long",
    "characters omitted",
    "bytes omitted",
    "lines omitted",
)
"""Words by which an output says that it was cut, in any case."""
CUT_REASON = "result_size"
"""`Step.reason` of a result beyond the server's limit (ORSWEB_MAX_RESULT_BYTES)."""
MAX_LONG_OUTPUTS = 100
"""Outputs of more than 8,192 characters that are searched, the newest ones."""
MAX_LONG_BYTES = 100_000
"""Size up to which such an output is searched."""


@check("Tools that are never called", "unused")
def unused_tools(scope: DoctorScope) -> DoctorFinding:
    attempts = scope.attempts if scope.is_whole_environment else scope.attempts_with_steps
    if finding := too_few("attempts", len(attempts), scope.thresholds["unused"]):
        return finding
    newest = [attempt.id for attempt in scope.attempts[:MAX_LISTS]]
    rows = Episode.objects.filter(pk__in=newest, tools__isnull=False).select_related("tools")
    episode = rows.order_by("-pk").first()
    tools = parts.tools(episode.tools.text) if episode and episode.tools else []
    if not tools:
        return too_little("Needs an agent that asked for the list of tools; none did.")
    calls = _calls(scope)
    idle = [tool.name for tool in tools if tool.name not in calls]
    if not idle:
        return no_problem(f"All {len(tools)} tools are used.")
    return problem(
        f"{len(idle)} of {len(tools)} tools are never called: {', '.join(idle)}.",
        scope.link_to("Attempts"),
    )


@check("Tools that are mostly refused", "refused", "calls")
def refused_tools(scope: DoctorScope) -> DoctorFinding:
    minimum, calls = scope.thresholds["calls"], _calls(scope)
    shares = {
        tool: refusals / count for tool, (count, refusals) in calls.items() if count >= minimum
    }
    if not shares:
        most = max((count for count, _ in calls.values()), default=0)
        return too_little(f"Needs a tool with {minimum:,} calls; the most of any is {most:,}.")
    bad = [tool for tool, share in shares.items() if share >= scope.thresholds["refused"] and share]
    if not bad:
        worst = max(shares, key=lambda tool: shares[tool])
        return no_problem(f"Most refused tool: {worst} ({shares[worst]:.0%}).")
    counts = "; ".join(f"{tool} in {calls[tool][1]:,} of {calls[tool][0]:,} calls" for tool in bad)
    steps = scope.steps.filter(tool__in=bad, status="refused").order_by("-episode", "index")
    return problem(
        f"Agents are mostly refused: {counts}.",
        scope.link_to("Attempts with an error", error=True),
        *(
            step_link(*step)
            for step in steps.values_list("episode_id", "index", "tool")[:MAX_EVIDENCE]
        ),
    )


@check("Outputs cut by limits", "cut", "calls")
def cut_outputs(scope: DoctorScope) -> DoctorFinding:
    too_large = scope.steps.filter(reason=CUT_REASON)
    short = scope.steps.filter(status="ok", output_blob=None)
    marks = reduce(or_, [Q(output__icontains=mark) for mark in CUT_MARKS])
    long = (
        scope.steps.filter(output_blob__isnull=False, output_blob__size_bytes__lte=MAX_LONG_BYTES)
        .select_related("output_blob")
        .order_by("-episode_id", "-index")[:MAX_LONG_OUTPUTS]
    )
    total = short.count() + too_large.count() + len(long)
    if finding := too_few("outputs", total, scope.thresholds["calls"]):
        return finding
    cut = [
        *(too_large | short.filter(marks)).values_list("episode_id", "index", "tool"),
        *(
            (step.episode_id, step.index, step.tool)
            for step in long
            if any(mark in step.output_json.lower() for mark in CUT_MARKS)
        ),
    ]
    share = len(cut) / total
    sentence = f"{len(cut):,} of {total:,} outputs ({share:.0%}) were cut or refused for their size"
    if not cut or share < scope.thresholds["cut"]:
        return no_problem(f"{sentence}.")
    return problem(
        f"{sentence}. Agents may miss what they need.",
        *(step_link(*step) for step in sorted(cut, reverse=True)[:MAX_EVIDENCE]),
    )


def _calls(scope: DoctorScope) -> dict[str, tuple[int, int]]:
    """Return calls and refused calls by tool: of a whole environment all of them, else those of the
    steps that were read."""
    if scope.is_whole_environment:
        figures = tool_figures(scope.environment)
        return {tool.tool: (tool.calls, tool.refused) for tool in figures if tool.tool}
    refusals = Count("pk", filter=Q(status="refused"))
    rows = scope.steps.values_list("tool").annotate(calls=Count("pk"), refusals=refusals)
    return {tool: (calls, refusals) for tool, calls, refusals in rows if tool}
