"""Direct calls: an environment's methods called by its base class or by its author, where no session calls them.

Source: openreward 0.1.167, `run_user_callable` and `Environment._call_tool`. Sessions have their own way, with turns,
threads of the server's and a record: `environments/runtime/instance.py`. What async code of a session calls here runs on
those threads too, for a session is torn down only after the last thread that runs its code has ended.
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
    """Where the session whose code is running has its plain functions called."""

    call: Callable[..., Awaitable[Any]]
    loop: asyncio.AbstractEventLoop
    """The only one on which `call` may be awaited; an author's code may have loops of its own."""


THREADS: ContextVar[Threads | None] = ContextVar("THREADS", default=None)
"""None outside of sessions. Contexts are copied into threads and tasks, so it may be another loop's."""


async def called(fn: Callable[..., Any], *args: Any, inline: bool = False) -> Any:
    """What `fn(*args)` returns, awaited if need be. A plain function runs beside the loop unless `inline`."""
    result = fn(*args) if inline or inspect.iscoroutinefunction(fn) else await _beside(fn, *args)
    return await result if inspect.isawaitable(result) else result


async def _beside(fn: Callable[..., Any], *args: Any) -> Any:
    threads = THREADS.get()
    is_here = threads is not None and threads.loop is asyncio.get_running_loop()
    return await (threads.call if threads is not None and is_here else _in_a_thread)(fn, *args)


async def _in_a_thread(fn: Callable[..., Any], *args: Any) -> Any:
    """In one of its own: the loop's few would be shared by all."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="environment")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, fn, *args)
    finally:
        thread.shutdown(wait=False)


async def call_tool(env: Any, tool: Tool, arguments: JSONObject) -> RunToolOutput:
    """Run one tool on the instance `env`. The first output with `finished=True` is the last.

    Raises: what the tool raises; TypeError when it returns something else than a ToolOutput.
    """
    if env._episode_finished:
        return _over(tool.name)
    try:
        values = () if tool.input_model is None else (tool.input_model(**arguments),)
    except ValidationError as error:
        text = f"Tool input validation error: {error.errors()}"
        return RunToolOutput(RunToolError(error=text, reason="input_validation"))
    owner = env if tool.toolset is None else build_toolset(tool.toolset, env)
    answer = await called(getattr(owner, tool.name), *values, inline=env.own_thread)
    if not isinstance(answer, ToolOutput):
        raise TypeError(f"{tool.name!r} returned {type(answer).__name__}; expected ToolOutput")
    if env._episode_finished:  # by a call that ran beside this one
        return _over(tool.name)
    env._episode_finished = answer.finished
    return RunToolOutput(RunToolSuccess(output=answer))


def _over(name: str) -> RunToolOutput:
    text = (
        f"{name!r} was not run: the episode has finished (a tool returned finished=True), "
        "so no further tool calls are accepted."
    )
    return RunToolOutput(RunToolError(error=text, reason="episode_finished"))
