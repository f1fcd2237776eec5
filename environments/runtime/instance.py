"""Session: one live environment. Constructs it, sets it up, runs its tools by the protocol's rules, tears it down once.

Driven by LocalHost; knows nothing of episodes, records or HTTP.

Divergences from the references: a finishing call latches the end only after its output could be serialised; an empty
list of blocks becomes one empty text block; what was assigned to an output after it was made is checked again; rewards
that are no finite number become null; a serialised output has a longest length; a tool that lets a CancelledError
escape has failed; teardown comes after the last thread that runs the session's code has ended.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from environments import wire
from environments.authoring.declarations import plain_specs
from environments.authoring.hosted_class import HostedClass
from environments.authoring.messages import as_blocks, as_messages
from environments.authoring.tools import Tool, ToolTable, build_toolset, find_tools
from environments.errors import EnvironmentFault, OrsError, ToolError
from environments.runtime.limits import Limits
from environments.runtime.outcome import CallOutcome, failed, faulted, refused
from environments.runtime.tool_turns import Gate
from environments.runtime.usercode import MAX_PROBLEMS, UserCode, fault_of, text_of


class Instance:
    __slots__ = (
        "_building",
        "_code",
        "_extra",
        "_gate",
        "_hosted",
        "_instance",
        "_is_finished",
        "_limits",
        "_output_types",
        "_table",
        "_told_tools",
        "_toolsets",
    )

    def __init__(self, hosted: HostedClass, code: UserCode, limits: Limits) -> None:
        self._hosted, self._code, self._limits = hosted, code, limits
        self._table: ToolTable = hosted.tools
        self._output_types: Any = (wire.ToolOutput, hosted.sdk.tool_output)  # whatever its SDK, it has the same fields
        self._extra: type | None = None  # the toolset that /create asked for by name
        self._gate = Gate()
        self._instance: Any = None
        self._toolsets: dict[type, Any] | None = None
        self._is_finished = False
        self._told_tools: list[str] | None = None  # by list_task_tools, when it was asked last

    # --- life ---------------------------------------------------------------------------------------------------------

    async def construct(self, spec: Any, secrets: dict[str, str], toolset: str | None) -> None:
        """Build the instance; `toolset` is one that the class's SDK knows. Raises: EnvironmentFault."""
        self._extra = None if toolset is None else self._hosted.session_toolsets[toolset]
        if self._hosted.runs_constructor:
            await self._code.call(self._build, spec, secrets)
        else:
            self._build(spec, secrets)
        if self._extra is not None:
            theirs = find_tools(self._extra, (), self._hosted.sdk.tool_output)
            self._table = self._hosted.tools.with_toolset(theirs, self._extra)
            await self._toolset(self._extra)

    def _build(self, spec: Any, secrets: dict[str, str]) -> None:
        """Keep the instance in its thread: one that comes too late for its caller has to be torn down all the same."""
        self._instance = self._hosted.cls(task_spec=spec, secrets=secrets)

    @property
    def has_setup(self) -> bool:
        return self._hosted.overrides("setup")

    async def set_up(self) -> None:
        """Raises: EnvironmentFault."""
        await self._code.call(self._instance.setup)

    async def close(self) -> None:
        """Tear down, once the session's last thread has ended or was given up. Faults are the caller's to log.

        Raises: EnvironmentFault, also when teardown does not end in time.
        """
        limit = self._limits.close_wait_seconds
        await self._code.settle(limit)
        instance, self._instance = self._instance, None
        try:
            if instance is not None and self._hosted.overrides("teardown"):
                await _within(limit, self._code.call(instance.teardown))
        except TimeoutError:
            raise EnvironmentFault("TimeoutError", f"teardown took over {limit:g} s and was given up") from None
        finally:
            await self._code.settle(0)
            self._code.close()

    # --- what the agent reads -----------------------------------------------------------------------------------------

    async def prompt_json(self) -> str:
        """JSON array of blocks. Raises: EnvironmentFault."""
        if self._hosted.overrides("get_prompt"):
            return await self._checked("get_prompt", wire.BLOCKS)
        return wire.adapted_json(wire.BLOCKS, as_blocks(wire.MESSAGES.validate_json(await self.messages_json())))

    async def messages_json(self) -> str:
        """JSON array of messages. Raises: EnvironmentFault."""
        if self._hosted.overrides("get_messages"):
            return await self._checked("get_messages", wire.MESSAGES)
        return wire.adapted_json(wire.MESSAGES, as_messages(wire.BLOCKS.validate_json(await self.prompt_json())))

    async def _checked(self, method: str, kind: TypeAdapter[Any]) -> str:
        answer = await self._code.call(getattr(self._instance, method))
        try:
            return wire.adapted_json(kind, kind.validate_python(wire.plain_blocks(answer)))
        except Exception as error:  # whatever the author put there
            text = f"{method} returned no valid content: {text_of(error)}"
            raise EnvironmentFault(type(error).__name__, text) from None

    async def task_tools_json(self) -> str:
        """JSON of ListToolsOutput for this session. Raises: EnvironmentFault."""
        listed = None
        if self._hosted.overrides("list_task_tools"):
            listed = self._specs(await self._code.call(self._instance.list_task_tools))
        listing = self._hosted.session_tools(self._table, listed)
        if listed is not None:
            self._told_tools = [spec.name for spec in listing.tools]
        return wire.model_json(listing)

    def _specs(self, listing: Any) -> list[wire.ToolSpec]:
        try:
            return plain_specs(listing)
        except Exception as error:  # whatever the author returned
            text = f"list_task_tools returned no ListToolsOutput: {text_of(error)}"
            raise EnvironmentFault(type(error).__name__, text) from None

    # --- what the agent does ------------------------------------------------------------------------------------------

    async def run(self, name: str, arguments: wire.JSONObject) -> CallOutcome:
        """Run one tool call by the session's rules. Never raises but for cancellation."""
        tool = self._table.by_name.get(name)
        if tool is None and self._hosted.dispatches_itself:
            tool = Tool(name, wire.ToolSpec(name=name, description="", input_schema=None))
        if tool is None:
            return self._unknown(name)
        if self._is_finished:
            return _over(name, 0.0)
        arrived = time.monotonic()
        await self._gate.enter(tool)
        waited_ms = (time.monotonic() - arrived) * 1000
        try:
            if self._is_finished:  # by a call this one was queued behind
                return _over(name, waited_ms)
            return await self._run_alone(tool, arguments, waited_ms)
        finally:
            self._gate.leave(tool)

    def _unknown(self, name: str) -> CallOutcome:
        """Names the tools that the agent was told of; a class that decides itself is not asked for a refusal's sake."""
        told = self._told_tools
        if told is None:
            decides = self._hosted.overrides("list_task_tools")
            told = [spec.name for spec in self._hosted.session_tools(self._table, [] if decides else None).tools]
        known = ", ".join(sorted(one for one in told if one in self._table.by_name))
        has = f"this session has: {known}" if known else "this session has no tools"
        return refused(f"{name!r} is not a valid tool; {has}", "not_found")

    async def _run_alone(self, tool: Tool, arguments: wire.JSONObject, waited_ms: float) -> CallOutcome:
        try:
            if self._hosted.dispatches_itself and (self._extra is None or tool.toolset is not self._extra):
                return await self._run_by_class(tool.name, arguments, waited_ms)
            return await self._run_method(tool, arguments, waited_ms)
        except ToolError as error:
            return refused(str(error) or "ToolError", "tool_error", waited_ms=waited_ms)
        except EnvironmentFault as fault:
            return faulted(fault, waited_ms=waited_ms)
        except TimeoutError:
            await self._code.abandon_unawaited()
            limit = self._limits.tool_timeout_seconds
            text = f"{tool.name!r} ran longer than {limit:g} s (ORSWEB_TOOL_TIMEOUT)"
            return failed(text, "timeout", waited_ms=waited_ms)

    async def _run_by_class(self, name: str, arguments: wire.JSONObject, waited_ms: float) -> CallOutcome:
        """What the class's own `_call_tool` comes to. Raises: as `_limited`."""
        answer = (await self._limited(self._instance._call_tool, (name, arguments))).root
        if answer.ok:
            return self._output(name, answer.output, waited_ms)
        return refused(answer.error, getattr(answer, "reason", None) or "tool_error", waited_ms=waited_ms)

    async def _run_method(self, tool: Tool, arguments: wire.JSONObject, waited_ms: float) -> CallOutcome:
        """Check the input and run the method. Raises: as `_limited`."""
        values: tuple[BaseModel, ...] = ()
        try:
            if tool.input_model is not None:
                values = (tool.input_model(**arguments),)
        except ValidationError as error:
            return refused(f"Tool input validation error: {_problems(error)}", "input_validation", waited_ms=waited_ms)
        except Exception as error:  # a validator of the author's, or a key that is no keyword
            return faulted(fault_of(error), waited_ms=waited_ms)
        owner = self._instance if tool.toolset is None else await self._toolset(tool.toolset)
        return self._output(tool.name, await self._limited(getattr(owner, tool.name), values), waited_ms)

    async def _limited(self, method: Any, arguments: tuple[Any, ...]) -> Any:
        """What the author's method returns. Raises: ToolError, EnvironmentFault, TimeoutError (our limit's alone)."""
        limit = self._limits.tool_timeout_seconds
        if limit is None:
            return await self._call(method, arguments)
        return await _within(limit, self._call(method, arguments))

    async def _call(self, method: Any, arguments: tuple[Any, ...]) -> Any:
        recoverable = self._hosted.recoverable_errors
        try:
            return await self._code.call(method, *arguments, passing=(ToolError, *recoverable))
        except OrsError:
            raise
        except recoverable as error:
            raise ToolError(f"{type(error).__name__}: {text_of(error)}") from None

    async def _toolset(self, cls: type) -> Any:
        if self._toolsets is None:
            self._toolsets, self._building = {}, asyncio.Lock()
        async with self._building:  # one of each, though two of its tools may be the first at the same time
            if cls not in self._toolsets:
                self._toolsets[cls] = await self._code.call(build_toolset, cls, self._instance)
        return self._toolsets[cls]

    def _output(self, name: str, answer: Any, waited_ms: float) -> CallOutcome:
        """Check and serialise; only then may it end the episode."""
        if not isinstance(answer, self._output_types):
            text = f"{name!r} returned {type(answer).__name__}; expected ToolOutput"
            return failed(text, "TypeError", waited_ms=waited_ms)
        if self._is_finished:  # a concurrent call ended the episode meanwhile; the first end wins
            return _over(name, waited_ms)
        try:
            if not answer.blocks:
                answer = answer.model_copy(update={"blocks": [self._hosted.sdk.types.TextBlock(text="")]})
            if not isinstance(answer.blocks, list) or not isinstance(answer.finished, bool):
                answer = wire.revalidate(answer)  # a serialiser would let null, and text for a sequence, pass
            answer, text = wire.checked_json(answer)
            reward = None if answer.reward is None else float(answer.reward)
        except ValidationError as error:
            text = f"{name!r} returned a ToolOutput that was changed into none ({text_of(error)})"
            return failed(text, "TypeError", waited_ms=waited_ms)
        except Exception as error:  # whatever the author put into metadata
            return faulted(fault_of(error), waited_ms=waited_ms)
        if len(text) > self._limits.max_result_bytes:
            most = self._limits.max_result_bytes
            return failed(
                f"{name!r} returned {len(text)} bytes; ORSWEB_MAX_RESULT_BYTES allows {most}",
                "result_size",
                waited_ms=waited_ms,
            )
        self._is_finished = bool(answer.finished)
        finite = reward if reward is not None and math.isfinite(reward) else None
        return CallOutcome("ok", text, finite, self._is_finished, waited_ms=waited_ms)

    async def score(self, candidates: list[wire.GroupCandidate]) -> str:
        """JSON `{"scores": [...]}`, one per candidate in order. Raises: EnvironmentFault."""
        scores = await self._code.call(self._instance.score_group, self._hosted.candidates(candidates))
        try:
            checked = [_score(one) for one in scores]
            if len(checked) != len(candidates):
                raise ValueError(f"score_group returned {len(checked)} scores for {len(candidates)} candidates")
            return wire.value_json({"scores": [score.model_dump() for score in checked]})
        except Exception as error:  # whatever the author returned
            raise EnvironmentFault(type(error).__name__, text_of(error)) from None


def _problems(error: ValidationError) -> str:
    """Python's repr of pydantic's list, as clients know it; not of a list so long that it would hold up the server."""
    count = error.error_count()
    return str(error.errors()) if count <= MAX_PROBLEMS else f"[{count} problems]"


def _score(answer: Any) -> wire.GroupScore:
    """Raises: TypeError, ValueError."""
    plain = answer.model_dump() if isinstance(answer, BaseModel) else {"reward": float(answer)}
    score = wire.GroupScore.model_validate(plain)
    if not math.isfinite(score.reward):
        raise ValueError(f"score_group returned the reward {score.reward}; it must be a finite number")
    return score


def _over(name: str, waited_ms: float) -> CallOutcome:
    text = (
        f"{name!r} was not run: the episode has finished (a tool returned finished=True), "
        "so no further tool calls are accepted."
    )
    return refused(text, "episode_finished", waited_ms=waited_ms)


async def _within(seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
    """What `work` returns. It has a task of its own, which is left behind should it swallow its cancellation.

    Raises: TimeoutError, and what `work` raises.
    """
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_forget)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
    if not task.done():
        raise TimeoutError
    return await task


def _forget(task: asyncio.Task[Any]) -> None:
    """Look at what a task raised that was left behind, or asyncio would log it, secrets and all."""
    if not task.cancelled():
        task.exception()
