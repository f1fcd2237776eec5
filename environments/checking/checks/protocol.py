"""Checks of a server's manners: what the protocol promises beyond tasks and tools. For servers elsewhere only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from environments.checking.bench import Bench, same
from environments.checking.door import Broken, DoorRefused
from environments.checking.inputs import Inputs, Unproducible
from environments.checking.remote import RemoteDoor, RemoteSeat, new_name

SUBJECT = "protocol"
_TOOL_KEYS = {"name", "description", "input_schema"}
_OUTPUT_KEYS = {"blocks", "metadata", "reward", "finished"}


class Unreachable(Exception):
    """There is no server, or not this environment on it; the message is one sentence."""


async def check_reach(bench: Bench) -> None:
    """Find the environment. Raises: Unreachable."""
    door = _door(bench)
    try:
        names = await door.ask("GET", "/list_environments")
    except (Broken, DoorRefused) as error:
        raise Unreachable(f"The server cannot be checked: {error} Start it, or correct --url or --api-key.") from error
    if not isinstance(names, list) or not names:
        raise Unreachable(f"GET /list_environments told {names!r}; it has to be a list of names.")
    if door.name and door.name.lower() not in [str(name).lower() for name in names]:
        raise Unreachable(f"The server has no environment {door.name!r}; it has {', '.join(map(repr, names))}.")
    door.name = door.name or str(names[0])
    bench.report.ok(SUBJECT, "reached", f"The server has {', '.join(map(repr, names))}; {door.name!r} is checked.")


async def check_health(bench: Bench) -> None:
    answer = await _door(bench).ask("GET", "/health")
    problems = [] if answer == {"status": "ok"} else [f'GET /health told {answer!r}; it has to be {{"status": "ok"}}.']
    bench.report.judge(SUBJECT, "health", problems, "It says that it is well.")


async def check_keys(bench: Bench) -> None:
    """Both SDK clients build their types from the keys that arrive, and index what they expect."""
    listing = await bench.door.tools()
    odd = [
        f"Tool {tool.get('name')!r} has the keys {sorted(tool)}; clients take exactly {sorted(_TOOL_KEYS)}."
        for tool in listing.get("tools", [])
        if set(tool) != _TOOL_KEYS
    ]
    bench.report.judge(SUBJECT, "keys of a tool", odd, "Every tool has exactly the keys that clients take.")
    outputs = [move.answer.output for played in bench.episodes for move in played.moves if move.answer.output]
    short = [
        f"A tool's output lacks {sorted(_OUTPUT_KEYS - set(output))}; send all keys, null where there is nothing."
        for output in outputs
        if not set(output) >= _OUTPUT_KEYS
    ]
    bench.report.judge(SUBJECT, "keys of an output", short, "Every output has all of its keys.")


async def check_refusals(bench: Bench) -> None:
    """What must be refused, and with which status."""
    door = _door(bench)
    unknown = {"X-Session-ID": new_name()}
    split = {"split": new_name()}
    expected: list[tuple[str, str, str, Any, dict[str, str], tuple[int, ...]]] = [
        ("a call without a session", "POST", f"/{door.name}/call", {"name": "x", "input": {}}, {}, (400,)),
        ("a prompt of an unknown session", "GET", f"/{door.name}/prompt", None, unknown, (404,)),
        ("a ping of an unknown session", "POST", "/ping", {}, unknown, (404,)),
        ("an unknown split", "POST", f"/{door.name}/num_tasks", split, {}, (400,)),
        ("a session without a task", "POST", "/create", {"env_name": door.name}, unknown, (422,)),
        ("an unknown environment", "POST", "/create", {"env_name": new_name(), "task_spec": {}}, unknown, (404,)),
    ]
    problems = []
    for what, method, path, body, headers, allowed in expected:
        reply = await door.request(method, path, body, headers)
        if reply.status not in allowed:
            wanted = " or ".join(map(str, allowed))
            problems.append(f"{method} {path} for {what} was answered with {reply.status}; the protocol says {wanted}.")
    bench.report.judge(SUBJECT, "refusals", problems, "What has no session, split or task is refused as it must be.")


async def check_session(bench: Bench) -> None:
    if not bench.samples:
        return bench.report.skip(SUBJECT, "session", "No session could be opened.")
    door, sample = _door(bench), bench.samples[0]
    sid = await door.new_session()
    headers = {"X-Session-ID": sid}
    body = {"env_name": door.name, "split": sample.split, "index": sample.index}
    told = await door.ask("POST", "/create", body, headers)
    problems = [] if told == {"sid": sid} else [f'POST /create told {told!r}; it has to be {{"sid": "{sid}"}}.']
    bench.report.judge(SUBJECT, "create by index", problems, "A session opens by split and index.")
    await door.ask("POST", "/ping", {}, headers)
    if (again := (await door.request("POST", "/create", body, headers)).status) == 200:
        bench.report.fail(SUBJECT, "one session an id", "A second /create of a live session was accepted; answer 400.")
    else:
        bench.report.ok(SUBJECT, "one session an id", f"A second /create of a live session is refused with {again}.")
    await _check_call(bench, RemoteSeat(door, sid))
    await door.ask("POST", "/delete", {}, headers)
    twice = (await door.request("POST", "/delete", {}, headers)).status
    problems = [] if twice == 200 else [f"A second /delete was answered with {twice}; clients repeat it: answer 200."]
    bench.report.judge(SUBJECT, "delete twice", problems, "A second /delete is answered like the first.")


async def _check_call(bench: Bench, seat: RemoteSeat) -> None:
    """The order of a stream's events, and the result told again for its task_id."""
    await seat.prompt()
    tools = (await seat.tools())["tools"]
    if not tools:
        return bench.report.skip(SUBJECT, "stream", "The session has no tool to call.")
    try:
        body = {"name": tools[0]["name"], "input": Inputs(tools[0]["input_schema"], bench.random("stream")).valid()}
    except Unproducible:
        return bench.report.skip(SUBJECT, "stream", "No input could be made for the first tool.")
    answer, reply = await seat.call_with(body)
    names = [event for event, _ in reply.events]
    fits = names[:1] == ["task_id"] and set(names[1:-1]) <= {"chunk"}
    problems = (
        [] if fits else [f"The events of a call are {names[:5]}; task_id comes first, then chunks, then the end."]
    )
    bench.report.judge(SUBJECT, "stream", problems, "A call's stream is task_id, chunks, end.")
    if not fits:
        return
    again, _ = await seat.call_with({**body, "task_id": reply.events[0][1]})
    is_same = again.status == answer.status and same(again.output, answer.output)
    problems = (
        [] if is_same else ["A call that was repeated with its task_id had another result; it must not run again."]
    )
    bench.report.judge(SUBJECT, "rejoining a call", problems, "A call's result is told again for its task_id.")


def _door(bench: Bench) -> RemoteDoor:
    assert isinstance(bench.door, RemoteDoor)
    return bench.door


CHECKS: list[tuple[str, Callable[[Bench], Awaitable[None]]]] = [
    (SUBJECT, check_health),
    (SUBJECT, check_keys),
    (SUBJECT, check_refusals),
    (SUBJECT, check_session),
]
