"""Checks of a server for what the protocol promises beyond tasks and tools. They are not run for
classes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from environments.checking.check_state import CheckState, same
from environments.checking.checked_environment import Broken, RequestRefused
from environments.checking.remote import RemoteEnvironment, RemoteSeat, new_name
from environments.schemas.inputs import Inputs, Unproducible

_TOOL_KEYS = {"name", "description", "input_schema"}
_OUTPUT_KEYS = {"blocks", "metadata", "reward", "finished"}


class Unreachable(Exception):
    """The server does not respond, or does not have the environment; the message is one
    sentence."""


async def check_reach(state: CheckState) -> None:
    """Find the environment on the server. Raises: Unreachable."""
    server = _door(state)
    try:
        names = await server.ask("GET", "/list_environments")
    except (Broken, RequestRefused) as error:
        raise Unreachable(
            f"The server cannot be checked: {error} Start it, or correct --url or --api-key."
        ) from error
    if not isinstance(names, list) or not names:
        raise Unreachable(
            f"GET /list_environments returned {names!r}; it has to be a list of names."
        )
    if server.name and server.name.lower() not in [str(name).lower() for name in names]:
        raise Unreachable(
            f"The server has no environment {server.name!r}; it has {', '.join(map(repr, names))}."
        )
    server.name = server.name or str(names[0])
    state.report.ok(
        "reached",
        f"The server has {', '.join(map(repr, names))}; {server.name!r} is checked.",
    )


async def check_health(state: CheckState) -> None:
    answer = await _door(state).ask("GET", "/health")
    state.report.expect(
        "health",
        answer == {"status": "ok"},
        f'GET /health returned {answer!r}; it has to be {{"status": "ok"}}.',
        "It reports that it is healthy.",
    )


async def check_keys(state: CheckState) -> None:
    """Check that answers have all keys, because both SDKs' clients construct their types from them
    and require some."""
    listing = await state.environment.tools()
    odd = [
        f"Tool {tool.get('name')!r} has the keys {sorted(tool)}; clients accept exactly "
        f"{sorted(_TOOL_KEYS)}."
        for tool in listing.get("tools", [])
        if set(tool) != _TOOL_KEYS
    ]
    state.report.judge(
        "keys of a tool", odd, "Every tool has exactly the keys that clients accept."
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
        state.report.judge("keys of an output", short, "Every output has all of its keys.")


async def check_refusals(state: CheckState) -> None:
    """Send requests that must be refused, and compare the status of each response."""
    server = _door(state)
    unknown = {"X-Session-ID": new_name()}
    split = {"split": new_name()}
    create, call = {"env_name": server.name}, {"name": "x", "input": {}}
    foreign = {"env_name": new_name(), "task_spec": {}}
    requests: list[tuple[str, str, str, Any, dict[str, str], int]] = [
        ("a call without a session", "POST", f"/{server.name}/call", call, {}, 400),
        ("a prompt of an unknown session", "GET", f"/{server.name}/prompt", None, unknown, 404),
        ("a ping of an unknown session", "POST", "/ping", {}, unknown, 404),
        ("an unknown split", "POST", f"/{server.name}/num_tasks", split, {}, 400),
        ("a session without a task", "POST", "/create", create, unknown, 422),
        ("an unknown environment", "POST", "/create", foreign, unknown, 404),
    ]
    problems = []
    for what, method, path, body, headers, status in requests:
        reply = await server.request(method, path, body, headers)
        if reply.status != status:
            problems.append(
                f"{method} {path} for {what} was answered with status {reply.status}; the protocol "
                f"requires {status}."
            )
    state.report.judge(
        "refusals",
        problems,
        "Requests without a session, split or task are refused with the right status.",
    )


async def check_session(state: CheckState) -> None:
    if not state.samples:
        return state.report.skip("session", "No session could be opened.")
    server, sample = _door(state), state.samples[0]
    sid = await server.new_session()
    headers = {"X-Session-ID": sid}
    body = {"env_name": server.name, "split": sample.split, "index": sample.index}
    answer = await server.ask("POST", "/create", body, headers)
    report = state.report
    report.expect(
        "create by index",
        answer == {"sid": sid},
        f'POST /create returned {answer!r}; it has to be {{"sid": "{sid}"}}.',
        "A session opens by split and index.",
    )
    await server.ask("POST", "/ping", {}, headers)
    again = (await server.request("POST", "/create", body, headers)).status
    report.expect(
        "one session per id",
        again != 200,
        "A second /create of a live session was accepted; answer 400.",
        f"A second /create of a live session is refused with status {again}.",
    )
    await _check_call(state, RemoteSeat(server, sid))
    await server.ask("POST", "/delete", {}, headers)
    twice = (await server.request("POST", "/delete", {}, headers)).status
    report.expect(
        "delete twice",
        twice == 200,
        f"A second /delete was answered with status {twice}; clients repeat it: answer 200.",
        "A second /delete is answered like the first.",
    )


async def _check_call(state: CheckState, seat: RemoteSeat) -> None:
    """Check the order of a stream's events, and that a call can be joined again by its task_id."""
    await seat.prompt()
    tools = (await seat.tools())["tools"]
    if not tools:
        return state.report.skip("stream", "The session has no tool to call.")
    try:
        body = {
            "name": tools[0]["name"],
            "input": Inputs(tools[0]["input_schema"], state.random("stream")).valid(),
        }
    except Unproducible:
        return state.report.skip("stream", "No input could be made for the first tool.")
    answer, reply = await seat.call_with(body)
    names = [event for event, _ in reply.events]
    fits = names[:1] == ["task_id"] and set(names[1:-1]) <= {"chunk"}
    state.report.expect(
        "stream",
        fits,
        f"The events of a call are {names[:5]}; send task_id first, then chunks, then end.",
        "A call's stream is task_id, chunks, end.",
    )
    if not fits:
        return
    again, _ = await seat.call_with({**body, "task_id": reply.events[0][1]})
    state.report.expect(
        "rejoining a call",
        again.status == answer.status and same(again.output, answer.output),
        "A call that was repeated with its task_id had a different result; it must not run again.",
        "A call's result is sent again for its task_id.",
    )


def _door(state: CheckState) -> RemoteEnvironment:
    assert isinstance(state.environment, RemoteEnvironment)
    return state.environment


CHECKS: list[tuple[str, Callable[[CheckState], Awaitable[None]]]] = [
    ("protocol", check_health),
    ("protocol", check_keys),
    ("protocol", check_refusals),
    ("protocol", check_session),
]
