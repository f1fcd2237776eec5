"""Checks of tools: names, descriptions and input schemas, also of those that only sessions list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from environments.checking.check_state import CheckState, canonical
from environments.schemas.callable_names import uncallable_names
from environments.schemas.inputs import Inputs, Unproducible
from environments.schemas.object_schemas import is_of_objects, unsent_schemas
from environments.wire import ListToolsOutput


async def check_tools(state: CheckState) -> None:
    listing = await state.environment.tools()
    try:
        ListToolsOutput.model_validate(listing)
    except ValueError as error:
        state.report.fail("listing", f"The response of /tools is not a list of tools: {error}")
        return
    state.tools, names = _tools_in(listing), [tool["name"] for tool in listing["tools"]]
    state.report.ok("listing", f"It lists {', '.join(names) or 'no shared tool'}.")
    counts = Counter(tool["name"] for tool in state.tools)
    problems = [
        f"Tool name {name!r} is used {count} times; give each tool its own name."
        for name, count in counts.items()
        if count > 1
    ]
    state.report.judge("distinct names", problems, "No name is used twice.")
    _judge(state, state.tools)
    if state.local is not None:
        problems = [
            f"{method} is marked with @tool but is not a tool: {reason}."
            for method, reason in state.local.hosted.tools.skipped.items()
        ]
        state.report.judge(
            "marked methods", problems, "Every method marked with @tool is a tool.", "warning"
        )


def check_session_tools(state: CheckState, listings: Sequence[dict[str, Any]]) -> None:
    """Check the tools that sessions list, and that are not those which the environment lists
    without one."""
    own = dict[str, Any]()
    for listing in listings:
        own |= {canonical(tool): tool for tool in _tools_in(listing)}
    for tool in state.tools:
        own.pop(canonical(tool), None)
    if own:
        _judge(state, list(own.values()))


def _tools_in(listing: dict[str, Any]) -> list[Any]:
    """Return the tools of a ListToolsOutput, the terminal tool among them."""
    return [
        *listing["tools"],
        *([listing["terminal_tool"]] if listing.get("terminal_tool") else []),
    ]


def _judge(state: CheckState, tools: list[Any]) -> None:
    problems = uncallable_names(dict.fromkeys(tool["name"] for tool in tools))
    state.report.judge(
        "callable names", problems, "The APIs of models accept every name.", "warning"
    )
    silent = [
        f"Tool {tool['name']!r} has no description, which is what agents read about it; write a "
        "docstring."
        for tool in tools
        if not (tool["description"] or "").strip()
    ]
    state.report.judge("described", silent, "Every tool has a description.", "warning")
    problems, unsent, unproducible = [], list[str](), []
    for tool in (tool for tool in tools if "input_schema" in tool):
        schema, label = tool["input_schema"], f"Input schema of tool {tool['name']!r}"
        if schema is not None and not is_of_objects(schema):
            problems.append(
                f"{label} is of type {schema.get('type')!r}; a tool's input is always an object."
            )
            continue
        unsent += unsent_schemas({tool["name"]: schema})
        try:
            inputs = Inputs(schema, state.random(f"schema/{tool['name']}"))
        except Unproducible as error:
            problems.append(f"{label} cannot be used: {error}.")
            continue
        try:
            inputs.valid()
        except Unproducible as error:
            unproducible.append(
                f"{label}: no input could be made for it ({error}); play this tool by hand."
            )
    state.report.judge(
        "valid schemas", problems, "Every input schema is a JSON Schema of an object."
    )
    state.report.judge(
        "portable schemas", unsent, "The APIs of models accept every schema.", "warning"
    )
    state.report.judge(
        "producible inputs",
        unproducible,
        "Inputs can be made for every schema.",
        "warning",
    )
