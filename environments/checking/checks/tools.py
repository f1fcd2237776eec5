"""Checks of the list of tools: names, descriptions and input schemas."""

from __future__ import annotations

from collections import Counter
from typing import Any

from environments.authoring.callable_tools import uncallable_names
from environments.checking.check_state import CheckState
from environments.checking.inputs import Inputs, Unproducible
from environments.wire import ListToolsOutput

SUBJECT = "tools"


async def check_tools(state: CheckState) -> None:
    listing = await state.checked.tools()
    try:
        ListToolsOutput.model_validate(listing)
    except ValueError as error:
        state.report.fail(SUBJECT, "listing", f"The response of /tools is not a list of tools: {error}")
        return
    tools = listing["tools"]
    state.report.ok(SUBJECT, "listing", f"It lists {', '.join(tool['name'] for tool in tools) or 'no shared tool'}.")
    _check_names(state, listing)
    _check_schemas(state, tools)
    _check_skipped(state)


def _check_names(state: CheckState, listing: dict[str, Any]) -> None:
    tools = [*listing["tools"], *([listing["terminal_tool"]] if listing.get("terminal_tool") else [])]
    counts = Counter(tool["name"] for tool in tools)
    repeated = [
        f"Tool name {name!r} is used {count} times; give each tool its own name."
        for name, count in counts.items()
        if count > 1
    ]
    state.report.judge(SUBJECT, "distinct names", repeated, "No name is used twice.")
    problems = uncallable_names(counts)
    state.report.judge(SUBJECT, "callable names", problems, "The APIs of models accept every name.", "warning")
    undescribed = [
        f"Tool {tool['name']!r} has no description, which is what agents read about it; write a docstring."
        for tool in tools
        if not (tool["description"] or "").strip()
    ]
    state.report.judge(SUBJECT, "described", undescribed, "Every tool has a description.", "warning")


def _check_schemas(state: CheckState, tools: list[dict[str, Any]]) -> None:
    problems, unproducible = [], []
    for tool in tools:
        schema, label = tool["input_schema"], f"Input schema of tool {tool['name']!r}"
        if schema is not None and schema.get("type") != "object":
            problems.append(f"{label} is of type {schema.get('type')!r}; a tool's input is always an object.")
            continue
        try:
            inputs = Inputs(schema, state.random(f"schema/{tool['name']}"))
        except Unproducible as error:
            problems.append(f"{label} cannot be used: {error}.")
            continue
        try:
            inputs.valid()
        except Unproducible as error:
            unproducible.append(f"{label}: no input could be made for it ({error}); play this tool by hand.")
    state.report.judge(SUBJECT, "valid schemas", problems, "Every input schema is a JSON Schema of an object.")
    state.report.judge(SUBJECT, "producible inputs", unproducible, "Inputs can be made for every schema.", "warning")


def _check_skipped(state: CheckState) -> None:
    if state.local is None:
        return
    skipped = state.local.hosted.tools.skipped.items()
    problems = [f"{method} is marked with @tool but is not a tool: {reason}." for method, reason in skipped]
    state.report.judge(SUBJECT, "marked methods", problems, "Every method marked with @tool is a tool.", "warning")
