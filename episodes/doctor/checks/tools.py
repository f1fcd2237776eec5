"""Tools that are never called, and tools whose calls are mostly refused."""

from __future__ import annotations

from django.db.models import Count, Q

from environments.display import parts
from episodes.analytics.environment import tool_figures
from episodes.doctor.checks.rewards import lacking
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorVerdict,
    Evidence,
    check,
    fine,
    problem,
    step_link,
    too_little,
)
from episodes.doctor.scope import DoctorScope
from episodes.models import Episode

MAX_LISTS = 200
"""Newest attempts among which a list of tools is looked for."""


def _tools(scope: DoctorScope) -> list[str]:
    """Return the names of the tools that the newest agent got; empty if nothing recorded says
    so."""
    newest = [attempt.id for attempt in scope.attempts[:MAX_LISTS]]
    found = (
        Episode.objects.filter(pk__in=newest, tools__isnull=False)
        .select_related("tools")
        .order_by("-pk")
        .first()
    )
    return [tool.name for tool in parts.tools(found.tools.text)] if found and found.tools else []


def _calls(scope: DoctorScope) -> dict[str, tuple[int, int]]:
    """Return calls and refused calls by tool: of a whole environment all of them, else those of the
    steps read."""
    if scope.is_whole_environment:
        return {
            one.tool: (one.calls, one.refused)
            for one in tool_figures(scope.environment)
            if one.tool
        }
    refused = Count("pk", filter=Q(status="refused"))
    counted = scope.steps.values_list("tool").annotate(calls=Count("pk"), refused=refused)
    return {tool: (calls, refused) for tool, calls, refused in counted if tool}


@check("Tools that are never called", "unused")
def unused_tools(scope: DoctorScope) -> DoctorVerdict:
    read = scope.attempts if scope.is_whole_environment else scope.steps_read
    if verdict := lacking(scope, scope.thresholds.unused, among=read):
        return verdict
    tools = _tools(scope)
    if not tools:
        return too_little("This needs an agent that asked for the list of tools; none did.")
    calls = _calls(scope)
    unused = [tool for tool in tools if tool not in calls]
    if not unused:
        return fine(f"Every tool is called ({len(tools)}).")
    names = ", ".join(unused)
    return problem(
        f"{len(unused)} of {len(tools)} tools are never called: {names}.", scope.listed("Attempts")
    )


@check("Tools that are mostly refused", "refused", "calls")
def refused_tools(scope: DoctorScope) -> DoctorVerdict:
    needed, calls = scope.thresholds.calls, _calls(scope)
    judged = {tool: counts for tool, counts in calls.items() if counts[0] >= needed}
    if not judged:
        most = max((count for count, _ in calls.values()), default=0)
        return too_little(f"This needs a tool with {needed:,} calls; the most of any is {most:,}.")
    shares = {tool: refused / count for tool, (count, refused) in judged.items()}
    bad = [tool for tool, share in shares.items() if share >= scope.thresholds.refused and share]
    if not bad:
        worst = max(shares, key=lambda tool: shares[tool])
        return fine(
            f"Of the calls of {worst}, {shares[worst]:.0%} are refused, and no more of any "
            "other tool."
        )
    said = "; ".join(f"{tool} in {judged[tool][1]:,} of {judged[tool][0]:,} calls" for tool in bad)
    refused = scope.listed("Attempts with an error", error=True)
    return problem(f"Agents are mostly refused: {said}.", refused, *_refusals(scope, bad))


def _refusals(scope: DoctorScope, tools: list[str]) -> list[Evidence]:
    """Return some refused calls among the steps read."""
    rows = scope.steps.filter(tool__in=tools, status="refused").order_by("-episode", "index")
    return [
        step_link(*row) for row in rows.values_list("episode_id", "index", "tool")[:MAX_EVIDENCE]
    ]
