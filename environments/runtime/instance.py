"""One live object of an author's class: its construction, setup, prompt, tool calls and teardown.

LocalHost creates an Instance for each session, and live play calls its methods. It does not know
about episodes, records or HTTP.

Divergences from the references: a call with `finished=True` ends the episode only after its output
has been serialised; an empty list of blocks becomes one empty text block; values assigned to an
output after its construction are checked again; rewards that are not finite numbers become null;
the size of a serialised output is limited; a tool that lets a CancelledError escape has failed;
teardown starts after the last thread that runs the instance's code has ended.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from environments import wire
from environments.authoring.declarations import plain_specs
from environments.authoring.hosted_class import HostedClass
from environments.authoring.messages import as_blocks, as_messages
from environments.authoring.tools import Tool, ToolTable, build_toolset, find_tools
from environments.errors import EnvironmentFault, OrsError, ToolError
from environments.limits import Limits
from environments.runtime.author_errors import MAX_PROBLEMS, fault_of, text_of
from environments.runtime.call_outcome import (
    CallOutcome,
    failed,
    faulted,
    refused,
    refused_after_end,
)
from environments.runtime.tool_queue import ToolQueue
from environments.runtime.usercode import OverTime, UserCode

NO_SECRET = (  # nosec B105 # a sentence
    "(The environment found no secret {}. The client can send it, or the operator sets it on the "
    "environment's page in the admin or in ORSWEB_ENVIRONMENT_SECRETS_FILE.)"
)


class Secrets(dict[str, str]):
    """The secrets of a session; `missed` has the names that the author's code did not find."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        super().__init__(secrets)
        self.missed: list[str] = []

    def __missing__(self, name: str) -> str:
        self.missed.append(name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        is_set = super().__contains__(name)
        if not is_set:
            self.missed.append(str(name))
        return is_set

    def get(self, name: str, default: Any = None) -> Any:
        is_set = name in self  # also notes a missing one
        return self[name] if is_set else default


class Instance:
    """One object of an author's class, called by the protocol's rules and torn down exactly
    once."""

    __slots__ = (
        "_building",
        "_class",
        "_code",
        "_env",
        "_is_finished",
        "_limits",
        "_listed_tools",
        "_output_types",
        "_queue",
        "_secrets",
        "_session_toolset",
        "_table",
        "_toolsets",
    )

    def __init__(self, hosted_class: HostedClass, code: UserCode, limits: Limits) -> None:
        self._class, self._code, self._limits = hosted_class, code, limits
        self._table: ToolTable = hosted_class.tools
        # both have the same fields
        self._output_types: Any = (wire.ToolOutput, hosted_class.sdk.tool_output)
        self._session_toolset: type | None = None  # the toolset that /create named
        self._queue = ToolQueue()
        self._env: Any = None
        self._secrets: Secrets | None = None
        self._toolsets: dict[type, Any] | None = None
        self._is_finished = False
        self._listed_tools: list[str] | None = None  # names that the last list_task_tools returned

    # --- life -------------------------------------------------------------------------------------

    async def construct(self, spec: Any, secrets: dict[str, str], toolset: str | None) -> bool:
        """Construct the author's object; return whether it has a `setup`. `toolset`: one that its
        SDK knows, or None.

        Raises: EnvironmentFault.
        """
        self._session_toolset = None if toolset is None else self._class.session_toolsets[toolset]
        self._secrets = Secrets(secrets)
        if self._class.runs_constructor:
            await self._naming_missing(self._code.call(self._build, spec, self._secrets))
        else:
            self._build(spec, self._secrets)
        if self._session_toolset is not None:
            table = find_tools(self._session_toolset, (), self._class.sdk.tool_output)
            self._table = self._class.tools.with_toolset(table, self._session_toolset)
            await self._toolset(self._session_toolset)
        return self._class.overrides("setup")

    def _build(self, spec: Any, secrets: dict[str, str]) -> None:
        """Construct the object, and assign it in the same thread, so that it is torn down even if
        its caller gave up."""
        self._env = self._class.cls(task_spec=spec, secrets=secrets)

    async def set_up(self) -> None:
        """Run the author's `setup`. Raises: EnvironmentFault."""
        await self._naming_missing(self._code.call(self._env.setup))

    async def _naming_missing(self, work: Awaitable[Any]) -> None:
        """Await the author's code. Raises: EnvironmentFault, which names secrets that it missed."""
        try:
            await work
        except EnvironmentFault as fault:
            assert self._secrets is not None
            names = dict.fromkeys(
                [*self._class.declared("required_secrets", ()), *self._secrets.missed]
            )
            if missing := [repr(name) for name in names if name not in self._secrets]:
                text = f"{fault.text} {NO_SECRET.format(', '.join(missing))}".lstrip()
                raise EnvironmentFault(fault.kind, text, fault.trace) from None
            raise

    async def restore(self, state: bytes) -> None:
        """Give the author's `load` what its `save` has returned. Raises: EnvironmentFault."""
        await self._code.call(self._env.load, state)

    async def close(self) -> None:
        """Tear down after the last thread that runs this instance's code has ended or was
        abandoned.

        Raises: EnvironmentFault, which the caller has to log, also when teardown does not end in
        time.
        """
        limit = self._limits.close_wait_seconds
        await self._code.settle(limit)
        env, self._env = self._env, None
        try:
            if env is not None and self._class.overrides("teardown"):
                await self._code.within(limit, self._code.call(env.teardown))
        except OverTime:
            raise EnvironmentFault(
                "TimeoutError", f"teardown took over {limit:g} s and was given up"
            ) from None
        finally:
            await self._code.settle(0)
            self._code.close()

    # --- what the agent reads ---------------------------------------------------------------------

    async def prompt_json(self) -> str:
        """Return the prompt as a JSON array of blocks. Raises: EnvironmentFault."""
        if self._class.overrides("get_prompt"):
            return await self._content_json("get_prompt", wire.BLOCKS)
        return wire.adapted_json(
            wire.BLOCKS, as_blocks(wire.MESSAGES.validate_json(await self.messages_json()))
        )

    async def messages_json(self) -> str:
        """Return the prompt as a JSON array of messages. Raises: EnvironmentFault."""
        if self._class.overrides("get_messages"):
            return await self._content_json("get_messages", wire.MESSAGES)
        return wire.adapted_json(
            wire.MESSAGES, as_messages(wire.BLOCKS.validate_json(await self.prompt_json()))
        )

    async def _content_json(self, method: str, kind: TypeAdapter[Any]) -> str:
        """Return the JSON of what the author's `method` returns. Raises: EnvironmentFault if it is
        not a `kind`."""
        answer = await self._code.call(getattr(self._env, method))
        try:
            return wire.adapted_json(kind, kind.validate_python(wire.plain_blocks(answer)))
        except Exception as error:  # depends on what the author's method returned
            text = f"{method} returned invalid content: {text_of(error)}"
            raise EnvironmentFault(type(error).__name__, text) from None

    async def task_tools_json(self) -> str:
        """Return the tools of this session as JSON of ListToolsOutput. Raises: EnvironmentFault."""
        if not self._class.overrides("list_task_tools"):
            return wire.model_json(self._class.session_tools(self._table, None))
        answer = await self._code.call(self._env.list_task_tools)
        try:
            task_tools = plain_specs(answer)
        except Exception as error:  # depends on what the author's method returned
            text = f"list_task_tools did not return a ListToolsOutput: {text_of(error)}"
            raise EnvironmentFault(type(error).__name__, text) from None
        listing = self._class.session_tools(self._table, task_tools)
        self._listed_tools = [spec.name for spec in listing.tools]
        return wire.model_json(listing)

    # --- what the agent does ----------------------------------------------------------------------

    async def run(self, name: str, arguments: wire.JSONObject) -> CallOutcome:
        """Run one tool call, when it is its turn. Raises only asyncio.CancelledError."""
        tool = self._table.by_name.get(name)
        if tool is None and self._class.dispatches_itself:
            tool = Tool(name, wire.ToolSpec(name=name, description="", input_schema=None))
        if tool is None:
            return self._unknown_tool(name)
        if self._is_finished:
            return refused_after_end(name)
        arrived_at = time.monotonic()
        await self._queue.enter(tool)  # calls of one tool run one after another
        waited_ms = (time.monotonic() - arrived_at) * 1000
        try:
            if self._is_finished:  # by a call that ran while this one waited
                return refused_after_end(name, waited_ms=waited_ms)
            # it overrides `_call_tool`, which calls the tools of the class
            has_own_dispatch = self._class.dispatches_itself and (
                self._session_toolset is None or tool.toolset is not self._session_toolset
            )
            if has_own_dispatch:
                return await self._run_by_class(name, arguments, waited_ms)
            return await self._run_method(tool, arguments, waited_ms)
        except ToolError as error:
            return refused(str(error) or "ToolError", "tool_error", waited_ms=waited_ms)
        except EnvironmentFault as fault:
            return faulted(fault, waited_ms=waited_ms)
        except OverTime:
            await self._code.abandon_unawaited()
            text = (
                f"{name!r} ran longer than {self._limits.tool_timeout_seconds:g} s "
                "(ORSWEB_TOOL_TIMEOUT)"
            )
            return failed(text, "timeout", waited_ms=waited_ms)
        finally:
            self._queue.leave(tool)

    def _unknown_tool(self, name: str) -> CallOutcome:
        """Return the refusal of an unknown tool, with the tools that were listed to the agent.

        A class that overrides `list_task_tools` is not asked again just for this message.
        """
        names = self._listed_tools
        if names is None:
            task_tools: list[wire.ToolSpec] | None = None
            if self._class.overrides("list_task_tools"):
                task_tools = []
            listing = self._class.session_tools(self._table, task_tools)
            names = [spec.name for spec in listing.tools]
        options = ", ".join(sorted(each for each in names if each in self._table.by_name))
        has = f"this session has: {options}" if options else "this session has no tools"
        return refused(f"{name!r} is not a valid tool; {has}", "not_found")

    async def _run_by_class(
        self, name: str, arguments: wire.JSONObject, waited_ms: float
    ) -> CallOutcome:
        """Call the class's own `_call_tool`. Raises: ToolError, EnvironmentFault, OverTime."""
        answer = (await self._call(self._env._call_tool, name, arguments)).root
        if answer.ok:
            return self._output(name, answer.output, waited_ms)
        return refused(
            answer.error, getattr(answer, "reason", None) or "tool_error", waited_ms=waited_ms
        )

    async def _run_method(
        self, tool: Tool, arguments: wire.JSONObject, waited_ms: float
    ) -> CallOutcome:
        """Check the input and run the method. Raises: ToolError, EnvironmentFault, OverTime."""
        values: tuple[Any, ...] = ()
        try:
            if tool.input_check is not None:
                if problem := tool.input_check.problem(arguments):
                    return refused(problem, "input_validation", waited_ms=waited_ms)
                values = (arguments,)
            elif tool.input_model is not None:
                values = (tool.input_model(**arguments),)
        except ValidationError as error:
            # Python's repr, as the references send it; formatting a very long list would block
            # the event loop
            count = error.error_count()
            problems = str(error.errors()) if count <= MAX_PROBLEMS else f"[{count} problems]"
            text = f"Tool input validation error: {problems}"
            return refused(text, "input_validation", waited_ms=waited_ms)
        # from a validator of the author's, or for a key that is not a keyword
        except Exception as error:
            return faulted(fault_of(error), waited_ms=waited_ms)
        owner = self._env if tool.toolset is None else await self._toolset(tool.toolset)
        return self._output(
            tool.name, await self._call(getattr(owner, tool.name), *values), waited_ms
        )

    async def _call(self, method: Any, *arguments: Any) -> Any:
        """Return the result of the author's method. Raises: ToolError, EnvironmentFault, OverTime
        after `tool_timeout_seconds`."""
        limit, recoverable = self._limits.tool_timeout_seconds, self._class.recoverable_errors
        work = self._code.call(method, *arguments, passing=(ToolError, *recoverable))
        try:
            return await (work if limit is None else self._code.within(limit, work))
        except (OrsError, OverTime):
            raise
        except recoverable as error:
            raise ToolError(f"{type(error).__name__}: {text_of(error)}") from None

    async def _toolset(self, cls: type) -> Any:
        if self._toolsets is None:
            self._toolsets, self._building = {}, asyncio.Lock()
        # one object of each toolset, even if two of its tools are called first together
        async with self._building:
            if cls not in self._toolsets:
                self._toolsets[cls] = await self._code.call(build_toolset, cls, self._env)
        return self._toolsets[cls]

    def _output(self, name: str, answer: Any, waited_ms: float) -> CallOutcome:
        """Check and serialise a tool's output. The episode ends only if that succeeds."""
        if not isinstance(answer, self._output_types):
            text = f"{name!r} returned {type(answer).__name__}; expected ToolOutput"
            return failed(text, "TypeError", waited_ms=waited_ms)
        if self._is_finished:  # a concurrent call has ended the episode
            return refused_after_end(name, waited_ms=waited_ms)
        try:
            if not answer.blocks:
                answer = answer.model_copy(
                    update={"blocks": [self._class.sdk.types.TextBlock(text="")]}
                )
            if not isinstance(answer.blocks, list) or not isinstance(answer.finished, bool):
                # serialising alone would accept null, or text as a sequence
                answer = wire.revalidate(answer)
            answer, text = wire.checked_json(answer)
            reward = None if answer.reward is None else float(answer.reward)
        except ValidationError as error:
            text = f"{name!r} returned a ToolOutput with invalid values ({text_of(error)})"
            return failed(text, "TypeError", waited_ms=waited_ms)
        except Exception as error:  # depends on what the author put into metadata
            return faulted(fault_of(error), waited_ms=waited_ms)
        if len(text) > self._limits.max_result_bytes:
            limit = self._limits.max_result_bytes
            return failed(
                f"{name!r} returned {len(text)} bytes; ORSWEB_MAX_RESULT_BYTES allows {limit}",
                "result_size",
                waited_ms=waited_ms,
            )
        self._is_finished = bool(answer.finished)
        reason = wire.NO_NUMBER if reward is not None and not math.isfinite(reward) else ""
        return CallOutcome(
            "ok",
            text,
            None if reason else reward,
            self._is_finished,
            reason=reason,
            waited_ms=waited_ms,
        )

    async def score(self, candidates: list[wire.GroupCandidate]) -> str:
        """Return the JSON `{"scores": [...]}` with one score per candidate, in order. Raises:
        EnvironmentFault."""
        answers = await self._code.call(self._env.score_group, self._class.candidates(candidates))
        try:
            return scores_json([_score(answer) for answer in answers], len(candidates))
        except Exception as error:  # depends on what the author's method returned
            raise EnvironmentFault(type(error).__name__, text_of(error)) from None


def _score(answer: Any) -> wire.GroupScore:
    """Return the score that an author's code returned: a GroupScore of any SDK, or a number.
    Raises: TypeError, ValueError.
    """
    plain = answer.model_dump() if isinstance(answer, BaseModel) else {"reward": float(answer)}
    return wire.GroupScore.model_validate(plain)


def scores_json(scores: Sequence[wire.GroupScore], count: int) -> str:
    """Return the JSON `{"scores": [...]}`. Raises: ValueError unless there are `count` finite
    scores."""
    if len(scores) != count:
        raise ValueError(f"score_group returned {len(scores)} scores for {count} candidates")
    for score in scores:
        if not math.isfinite(score.reward):
            raise ValueError(
                f"score_group returned the reward {score.reward}; it must be a finite number"
            )
    return wire.value_json({"scores": [score.model_dump() for score in scores]})
