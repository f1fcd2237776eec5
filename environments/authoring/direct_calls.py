"""Calls of an environment's methods by its base class or directly by its author, without a server.

The server calls an instance's methods through `environments/runtime/instance.py`, which adds turns,
threads and a record. When async code of such an instance calls a function of this module, that runs
on the server's threads too, because an instance is torn down only after the last thread that runs
its code has ended.

Source: openreward 0.1.167, `run_user_callable` and `Environment._call_tool`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, NamedTuple

from pydantic import ValidationError

from environments.authoring.tools import Tool, build_toolset
from environments.wire import JSONObject, RunToolError, RunToolOutput, RunToolSuccess, ToolOutput


class Threads(NamedTuple):
    """Runs the plain functions of the instance whose code is being executed."""

    call: Callable[..., Awaitable[Any]]
    loop: asyncio.AbstractEventLoop
    """The only loop on which `call` may be awaited; an author's code may run loops of its own."""


THREADS: ContextVar[Threads | None] = ContextVar("THREADS", default=None)
"""The threads of the running instance; None outside of one. Threads and tasks inherit it with their
context, so code that runs on another loop may find it too."""


async def call_function(fn: Callable[..., Any], *args: Any, inline: bool = False) -> Any:
    """Return the result of `fn(*args)`, awaited if necessary. A plain function runs in a thread
    unless `inline`."""
    if inline or inspect.iscoroutinefunction(fn):
        result = fn(*args)
    else:
        result = await _call_in_thread(fn, *args)
    return await result if inspect.isawaitable(result) else result


async def _call_in_thread(fn: Callable[..., Any], *args: Any) -> Any:
    threads, loop = THREADS.get(), asyncio.get_running_loop()
    if threads is not None and threads.loop is loop:
        return await threads.call(fn, *args)
    # a thread of its own: slow functions would exhaust the few threads of the loop's executor
    executor = ThreadPoolExecutor(1, thread_name_prefix="environment")
    try:
        return await loop.run_in_executor(executor, fn, *args)
    finally:
        executor.shutdown(wait=False)


async def call_tool(env: Any, tool: Tool, arguments: JSONObject) -> RunToolOutput:
    """Run one tool on the instance `env`. After an output with `finished=True` no other tool runs.

    Raises: what the tool raises; TypeError when it does not return a ToolOutput.
    """
    if env._episode_finished:
        return _refusal_after_end(tool.name)
    if tool.input_check is not None and (problem := tool.input_check.problem(arguments)):
        return RunToolOutput(RunToolError(error=problem, reason="input_validation"))
    values: tuple[Any, ...] = (arguments,) if tool.input_check else ()
    try:
        if tool.input_model is not None:
            values = (tool.input_model(**arguments),)
    except ValidationError as error:
        text = f"Tool input validation error: {error.errors()}"
        return RunToolOutput(RunToolError(error=text, reason="input_validation"))
    owner = env if tool.toolset is None else build_toolset(tool.toolset, env)
    answer = await call_function(getattr(owner, tool.name), *values, inline=env.own_thread)
    if not isinstance(answer, ToolOutput):
        raise TypeError(f"{tool.name!r} returned {type(answer).__name__}; expected ToolOutput")
    if env._episode_finished:  # by a call that ran at the same time
        return _refusal_after_end(tool.name)
    env._episode_finished = answer.finished
    return RunToolOutput(RunToolSuccess(output=answer))


def _refusal_after_end(name: str) -> RunToolOutput:
    text = (
        f"{name!r} was not run: the episode has finished (a tool returned finished=True), "
        "so no further tool calls are accepted."
    )
    return RunToolOutput(RunToolError(error=text, reason="episode_finished"))
