"""Checks of a server for what the protocol promises beyond tasks and tools. They are not run for
classes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from environments.checking.check_state import CheckState, same
from environments.checking.checked_environment import Broken, RequestRefused
from environments.checking.inputs import Inputs, Unproducible
from environments.checking.remote import RemoteEnvironment, RemoteSeat, new_name

SUBJECT = "protocol"
_TOOL_KEYS = {"name", "description", "input_schema"}
_OUTPUT_KEYS = {"blocks", "metadata", "reward", "finished"}


class Unreachable(Exception):
    """The server does not respond, or does not have the environment; the message is one
    sentence."""


async def check_reach(state: CheckState) -> None:
    """Find the environment on the server. Raises: Unreachable."""
    checked = _door(state)
    try:
        names = await checked.ask("GET", "/list_environments")
    except (Broken, RequestRefused) as error:
        raise Unreachable(
            f"The server cannot be checked: {error} Start it, or correct --url or --api-key."
        ) from error
    if not isinstance(names, list) or not names:
        raise Unreachable(
            f"GET /list_environments returned {names!r}; it has to be a list of names."
        )
    if checked.name and checked.name.lower() not in [str(name).lower() for name in names]:
        raise Unreachable(
            f"The server has no environment {checked.name!r}; it has {', '.join(map(repr, names))}."
        )
    checked.name = checked.name or str(names[0])
    state.report.ok(
        SUBJECT,
        "reached",
        f"The server has {', '.join(map(repr, names))}; {checked.name!r} is checked.",
    )


async def check_health(state: CheckState) -> None:
    answer = await _door(state).ask("GET", "/health")
    problems = (
        []
        if answer == {"status": "ok"}
        else [f'GET /health returned {answer!r}; it has to be {{"status": "ok"}}.']
    )
    state.report.judge(SUBJECT, "health", problems, "It reports that it is healthy.")


async def check_keys(state: CheckState) -> None:
    """Check that answers have all keys, because both SDKs' clients construct their types from them
    and require some."""
    listing = await state.checked.tools()
    odd = [
        f"Tool {tool.get('name')!r} has the keys {sorted(tool)}; clients accept exactly "
        f"{sorted(_TOOL_KEYS)}."
        for tool in listing.get("tools", [])
        if set(tool) != _TOOL_KEYS
    ]
    state.report.judge(
        SUBJECT, "keys of a tool", odd, "Every tool has exactly the keys that clients accept."
    )
    outputs = [
        move.answer.output
        for episode in state.episodes
        for move in episode.moves
        if move.answer.output
    ]
    short = [
        f"A tool's output lacks {sorted(_OUTPUT_KEYS - set(output))}; send all keys, with null for "
        "missing values."
        for output in outputs
        if not set(output) >= _OUTPUT_KEYS
    ]
    if outputs:
        state.report.judge(SUBJECT, "keys of an output", short, "Every output has all of its keys.")


async def check_refusals(state: CheckState) -> None:
    """Send requests that must be refused, and compare the status of each response."""
    checked = _door(state)
    unknown = {"X-Session-ID": new_name()}
    split = {"split": new_name()}
    requests: list[tuple[str, str, str, Any, dict[str, str], tuple[int, ...]]] = [
        (
            "a call without a session",
            "POST",
            f"/{checked.name}/call",
            {"name": "x", "input": {}},
            {},
            (400,),
        ),
        ("a prompt of an unknown session", "GET", f"/{checked.name}/prompt", None, unknown, (404,)),
        ("a ping of an unknown session", "POST", "/ping", {}, unknown, (404,)),
        ("an unknown split", "POST", f"/{checked.name}/num_tasks", split, {}, (400,)),
        (
            "a session without a task",
            "POST",
            "/create",
            {"env_name": checked.name},
            unknown,
            (422,),
        ),
        (
            "an unknown environment",
            "POST",
            "/create",
            {"env_name": new_name(), "task_spec": {}},
            unknown,
            (404,),
        ),
    ]
    problems = []
    for what, method, path, body, headers, statuses in requests:
        reply = await checked.request(method, path, body, headers)
        if reply.status not in statuses:
            words = " or ".join(map(str, statuses))
            problems.append(
                f"{method} {path} for {what} was answered with status {reply.status}; the protocol "
                f"requires {words}."
            )
    state.report.judge(
        SUBJECT,
        "refusals",
        problems,
        "Requests without a session, split or task are refused with the right status.",
    )


async def check_session(state: CheckState) -> None:
    if not state.samples:
        return state.report.skip(SUBJECT, "session", "No session could be opened.")
    checked, sample = _door(state), state.samples[0]
    sid = await checked.new_session()
    headers = {"X-Session-ID": sid}
    body = {"env_name": checked.name, "split": sample.split, "index": sample.index}
    answer = await checked.ask("POST", "/create", body, headers)
    problems = (
        []
        if answer == {"sid": sid}
        else [f'POST /create returned {answer!r}; it has to be {{"sid": "{sid}"}}.']
    )
    state.report.judge(SUBJECT, "create by index", problems, "A session opens by split and index.")
    await checked.ask("POST", "/ping", {}, headers)
    if (again := (await checked.request("POST", "/create", body, headers)).status) == 200:
        state.report.fail(
            SUBJECT,
            "one session per id",
            "A second /create of a live session was accepted; answer 400.",
        )
    else:
        state.report.ok(
            SUBJECT,
            "one session per id",
            f"A second /create of a live session is refused with status {again}.",
        )
    await _check_call(state, RemoteSeat(checked, sid))
    await checked.ask("POST", "/delete", {}, headers)
    twice = (await checked.request("POST", "/delete", {}, headers)).status
    problems = (
        []
        if twice == 200
        else [f"A second /delete was answered with status {twice}; clients repeat it: answer 200."]
    )
    state.report.judge(
        SUBJECT, "delete twice", problems, "A second /delete is answered like the first."
    )


async def _check_call(state: CheckState, seat: RemoteSeat) -> None:
    """Check the order of a stream's events, and that a call can be joined again by its task_id."""
    await seat.prompt()
    tools = (await seat.tools())["tools"]
    if not tools:
        return state.report.skip(SUBJECT, "stream", "The session has no tool to call.")
    try:
        body = {
            "name": tools[0]["name"],
            "input": Inputs(tools[0]["input_schema"], state.random("stream")).valid(),
        }
    except Unproducible:
        return state.report.skip(SUBJECT, "stream", "No input could be made for the first tool.")
    answer, reply = await seat.call_with(body)
    names = [event for event, _ in reply.events]
    fits = names[:1] == ["task_id"] and set(names[1:-1]) <= {"chunk"}
    problems = (
        []
        if fits
        else [f"The events of a call are {names[:5]}; send task_id first, then chunks, then end."]
    )
    state.report.judge(SUBJECT, "stream", problems, "A call's stream is task_id, chunks, end.")
    if not fits:
        return
    again, _ = await seat.call_with({**body, "task_id": reply.events[0][1]})
    is_same = again.status == answer.status and same(again.output, answer.output)
    problems = (
        []
        if is_same
        else [
            "A call that was repeated with its task_id had a different result; it "
            "must not run again."
        ]
    )
    state.report.judge(
        SUBJECT, "rejoining a call", problems, "A call's result is sent again for its task_id."
    )


def _door(state: CheckState) -> RemoteEnvironment:
    assert isinstance(state.checked, RemoteEnvironment)
    return state.checked


CHECKS: list[tuple[str, Callable[[CheckState], Awaitable[None]]]] = [
    (SUBJECT, check_health),
    (SUBJECT, check_keys),
    (SUBJECT, check_refusals),
    (SUBJECT, check_session),
]
