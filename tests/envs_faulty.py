"""Environments that fail: Raises in its tools, Failing… elsewhere, Leaky with a secret in the
message.

Counter records what was done to it, in order.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from typing import Any, ClassVar

from environments import (
    Blocks,
    GroupCandidate,
    JSONObject,
    ListToolsOutput,
    Message,
    TextBlock,
    ToolError,
    ToolOutput,
    tool,
)
from environments.runtime.call_outcome import MAX_ERROR_CHARACTERS
from tests.envs_base import Size, Small, Text, said


class Raises(Small):
    """One tool per way in which a tool can go wrong, and `echo`, which does not."""

    recoverable_errors = (LookupError,)

    @tool
    async def echo(self, args: Text) -> ToolOutput:
        """Say it again."""
        return said(args.text, 0.1)

    @tool
    async def fault(self) -> ToolOutput:
        """Raise RuntimeError("the valve is stuck")."""
        raise RuntimeError("the valve is stuck")

    @tool
    def sync_fault(self) -> ToolOutput:
        """The same from plain code."""
        raise RuntimeError("the valve is stuck")

    @tool
    async def silent_fault(self) -> ToolOutput:
        """Raise an exception without a message."""
        raise ValueError

    @tool
    async def long_fault(self) -> ToolOutput:
        """Raise an exception whose message is a megabyte."""
        raise RuntimeError("é" * 500_000)

    @tool
    async def recoverable(self) -> ToolOutput:
        """Raise ToolError("try the other door")."""
        raise ToolError("try the other door")

    @tool
    async def lookup(self) -> ToolOutput:
        """Raise one of the class's recoverable_errors."""
        raise KeyError("no such door")

    @tool
    async def cancelled(self) -> ToolOutput:
        """Let a cancellation escape."""
        raise asyncio.CancelledError

    @tool
    def sync_cancelled(self) -> ToolOutput:
        """The same from plain code."""
        raise asyncio.CancelledError

    @tool
    def leaves(self) -> ToolOutput:
        """Call sys.exit() in effect."""
        raise SystemExit(3)

    @tool
    def stops(self) -> ToolOutput:
        """Raise StopIteration, which no future can carry."""
        raise StopIteration("over")

    @tool
    async def wrong_type(self) -> ToolOutput:
        """Return a string."""
        return "text"  # type: ignore[return-value]

    @tool
    async def nothing(self) -> ToolOutput:
        """Return None."""
        return None  # type: ignore[return-value]

    @tool
    async def nan_reward(self) -> ToolOutput:
        """A reward that is not a number."""
        return said("nan", float("nan"))

    @tool
    async def infinite_reward(self) -> ToolOutput:
        """A reward beyond all numbers."""
        return said("infinite", float("inf"))

    @tool
    async def nan_metadata(self) -> ToolOutput:
        """Metadata without a strict JSON form."""
        return said("nan", loss=float("nan"), losses=[float("-inf"), 1.0])

    @tool
    async def no_blocks(self) -> ToolOutput:
        """An empty list of blocks."""
        return ToolOutput(blocks=[], reward=0.1)

    @tool
    async def surrogate(self) -> ToolOutput:
        """Half a character."""
        return said("half \ud800 a character", 0.1)

    @tool
    async def nul(self) -> ToolOutput:
        """A character that PostgreSQL's text refuses."""
        return said("nul \x00 here", 0.1, key="\x00")

    @tool
    async def blanks(self) -> ToolOutput:
        """White space of every kind, and line separators, around chunk edges."""
        return said("\u2028 \u0085\t\r\n" * 3000, 0.1)

    @tool
    async def huge(self, args: Size) -> ToolOutput:
        """So many letters."""
        return said("x" * args.size_bytes, 0.1)

    @tool
    async def unserialisable(self) -> ToolOutput:
        """Finish with metadata that has no JSON form."""
        return said("odd", 1.0, finished=True, odd=object())


class Working(Small):
    """Has one tool that works; subclasses define what fails."""

    @tool
    async def finish(self) -> ToolOutput:
        """End the episode."""
        return said("bye", 0.5, finished=True)

    def teardown(self) -> Awaitable[None] | None:
        self.note("teardown")
        return None


class FailingConstructor(Working):
    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        raise RuntimeError("the constructor gave up")


class FailingSetup(Working):
    async def setup(self) -> None:
        raise RuntimeError("the setup gave up")


class FailingPrompt(Working):
    def get_prompt(self) -> Blocks:
        raise RuntimeError("the prompt gave up")


class FailingTeardown(Working):
    def teardown(self) -> Awaitable[None] | None:
        self.note("teardown")
        raise RuntimeError("the teardown gave up")


class Leaky(Working):
    """Raises exceptions with its secret `token`: in the methods that the task's list `fails` names, and in `check`."""

    recoverable_errors = (ValueError,)

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.token = secrets.get("token", "")
        self.fails = list(task_spec.get("fails", ()))

    def get_prompt(self) -> Blocks:
        self._maybe_fail("prompt")
        if "content" in self.fails:
            return [self.token] * 2000  # type: ignore[list-item]
        if "model" in self.fails:
            TextBlock(text=[self.token])  # type: ignore[arg-type]
        if "cut" in self.fails:
            raise RuntimeError("x" * (MAX_ERROR_CHARACTERS - 30) + self.token)
        return [TextBlock(text="hello")]

    async def get_messages(self) -> Sequence[Message]:
        self._maybe_fail("messages")
        return [Message(role="user", blocks=[TextBlock(text="hello")])]

    def list_task_tools(self) -> ListToolsOutput:
        self._maybe_fail("task_tools")
        return [self.token] if "listing" in self.fails else ListToolsOutput(tools=[])  # type: ignore[return-value]

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> Sequence[float]:
        self._maybe_fail("score_group")
        return [0.0 for _ in candidates]

    @tool
    async def rest(self) -> ToolOutput:
        """Nothing comes of it."""
        return said("rested")

    @tool
    async def check(self) -> ToolOutput:
        """Find the token to be no text, which agents may be told."""
        return said(Text(text=[self.token]).text)  # type: ignore[arg-type]

    def _maybe_fail(self, where: str) -> None:
        """Raise once for each time that the task names the method."""
        if where in self.fails:
            self.fails.remove(where)
            raise RuntimeError(f"{where} refused {self.token}")


class Counter(Small):
    """Records everything that is done to it in its log file and, in this process, in `Counter.events[task id]`."""

    events: ClassVar[defaultdict[str, list[str]]] = defaultdict(list)

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.calls = 0
        self.note("constructor")

    def note(self, event: str) -> None:
        super().note(event)
        self.events[str(self.task_spec.get("id"))].append(event)

    async def setup(self) -> None:
        self.note("setup")

    def teardown(self) -> None:
        self.note("teardown")

    def get_prompt(self) -> Blocks:
        self.note("prompt")
        return [TextBlock(text="Count.")]

    @tool
    async def count(self) -> ToolOutput:
        """Return the number of calls so far, including this one, each with a reward of 1."""
        return self._counted("count")

    @tool
    def sync_count(self) -> ToolOutput:
        """The same in plain code."""
        return self._counted("sync_count")

    @tool
    async def mutate(self) -> ToolOutput:
        """Change the task object, which must stay this session's own."""
        spec: Any = self.task_spec
        spec["changed"] = spec.get("changed", 0) + 1
        return said(str(spec["changed"]))

    @tool
    async def finish(self) -> ToolOutput:
        """End the episode."""
        self.note("finish")
        return said(str(self.calls), 0.0, finished=True)

    def _counted(self, name: str) -> ToolOutput:
        self.calls += 1
        self.note(name)
        return said(str(self.calls), 1.0)
