"""Environment: the contract between an author and the server, complete and in one place.

Names and semantics are those of `ors.Environment` (0.1.0) and `openreward.environments.Environment` (0.1.167), so that
changing the import line of a class written for either is enough.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from functools import cache
from typing import Any, ClassVar

from environments import command_line
from environments.authoring.direct_calls import call_tool, called
from environments.authoring.messages import as_blocks, as_messages
from environments.authoring.tools import ToolTable, find_tools
from environments.wire import (
    MESSAGE_BLOCK_TYPES,
    Blocks,
    GroupCandidate,
    GroupScore,
    JSONObject,
    ListToolsOutput,
    Message,
    RunToolOutput,
    Split,
    TerminalToolSpec,
    ToolOutput,
)


class Environment:
    """Something an agent can play: tasks to choose from, a prompt to read, tools to call, rewards to earn.

    One instance plays one episode. The server constructs it with a task, awaits `setup`, answers the agent's calls with
    the methods marked `@tool`, and calls `teardown` exactly once at the end, whatever the end was. An episode is over
    when a tool answers `finished=True`; no tool runs after that.

    Methods may be plain or async. Plain ones run on threads of the server's own and delay nobody else. An instance's
    calls of one tool never overlap; different tools may, unless marked `exclusive`.

    What tools may raise: `ToolError` (or a type in `recoverable_errors`) for a failure the agent can act on; anything
    else is a fault of the environment, told to the agent as such and never counted as a reward of 0.
    """

    toolsets: ClassVar[Sequence[type]] = ()
    """Classes whose `@tool` methods are offered beside the environment's own."""

    own_thread: ClassVar[bool] = False
    """True: all code of one session, plain and async, runs in one thread with an event loop of its own, for objects
    that are bound to the thread or the loop that made them."""

    recoverable_errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions that a tool may raise like `ToolError`: the agent gets their text and may go on."""

    default_return: ClassVar[str] = "sum"
    """The episode's return: "sum", "last" (last non-null), "max" or "mean" of its rewards."""

    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """Lowest and highest return of an episode; colours and charts are scaled by it."""

    success_threshold: ClassVar[float] = 0.9
    """An episode succeeded when its return is above this."""

    hidden_fields: ClassVar[Sequence[str]] = ()
    """Keys of a task whose values the prompt must not say, such as its answer; `check_environment` looks for them."""

    task_schema: ClassVar[Any] = None
    """What a task's spec looks like: a pydantic model or a JSON Schema (dict), or a class method that returns one.
    Specs that people edit or import are checked against it; classes of other SDKs declare it by an attribute of this
    name. What the environment is stands on its card: `<module>.md` or `README.md` beside the module, else the
    docstring."""

    _episode_finished = False
    """Of an instance whose tools were called directly; a session keeps its own account."""

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        """Keeps the task; secrets are the subclass's business and are never stored by the server."""
        self.task_spec = task_spec

    def setup(self) -> Awaitable[None] | None:
        """Prepare what the tools need. Agents' first calls wait for it."""
        return None

    def teardown(self) -> Awaitable[None] | None:
        """Release what the constructor and `setup` took."""
        return None

    def get_prompt(self) -> Blocks | Awaitable[Blocks]:
        """The task as text and images. Override this or `get_messages`, from which it is made by default."""
        if type(self).get_messages is Environment.get_messages:
            raise NotImplementedError(f"{type(self).__name__} must implement get_prompt() or get_messages().")
        return self._prompt_of_messages()

    async def _prompt_of_messages(self) -> Blocks:
        return as_blocks(await called(self.get_messages, inline=self.own_thread))

    def get_messages(self) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """The task as a conversation with roles. By default the prompt as one user message."""
        if type(self).get_prompt is Environment.get_prompt:
            raise NotImplementedError(f"{type(self).__name__} must implement get_prompt() or get_messages().")
        return self._messages_of_prompt()

    async def _messages_of_prompt(self) -> Sequence[Message]:
        return as_messages(await called(self.get_prompt, inline=self.own_thread))

    def list_task_tools(self) -> ListToolsOutput:
        """The tools of this task beyond the shared ones, decided by whoever overrides it; empty here.

        A class that does not override it offers every tool marked `shared=False`.
        """
        return ListToolsOutput(tools=[])

    @classmethod
    def list_tools(cls) -> ListToolsOutput:
        """The tools of the class, its toolsets' included: those that every task has, without the terminal one."""
        table = _table(cls)
        return ListToolsOutput(
            tools=list(table.shared),
            terminal_tool=table.terminal,
            supports_score_group=cls.score_group is not Environment.score_group,
            message_block_types=list(MESSAGE_BLOCK_TYPES),
        )

    @classmethod
    def terminal_tool(cls) -> TerminalToolSpec | None:
        """The tool that receives the assistant's final plain message, if the class has one."""
        return cls.list_tools().terminal_tool

    @classmethod
    def is_assistant_message_final(cls) -> bool:
        """Whether a plain message of the assistant ends the episode: where there is a terminal tool."""
        return cls.terminal_tool() is not None

    async def call_terminal_tool(self, message: str = "") -> RunToolOutput:
        """Hand `message` to the terminal tool; one without a parameter is called without it. For use without a server.

        Raises: ValueError when there is none, and what the tool raises.
        """
        ending = self.terminal_tool()
        if ending is None:
            raise ValueError(f"Environment {self.name()!r} has no @terminal tool; mark one with @terminal.")
        tool = _table(type(self)).by_name[ending.name]
        return await call_tool(self, tool, {} if ending.arg is None else {ending.arg: message})

    def score_group(
        self, candidates: Sequence[GroupCandidate]
    ) -> Sequence[GroupScore | float] | Awaitable[Sequence[GroupScore | float]]:
        """Rewards for several finished answers to this task, one per candidate and in order. Optional."""
        raise NotImplementedError

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        """The class's splits. A bare name other than train, validation and test is of type validation."""
        raise NotImplementedError

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject] | Awaitable[Sequence[JSONObject]]:
        """Every task of a split, in order. Raise NotImplementedError when num_tasks and get_task are overridden."""
        raise NotImplementedError

    @classmethod
    async def num_tasks(cls, split: str) -> int:
        """How many tasks the split has."""
        return len(await _listed(cls, split))

    @classmethod
    async def get_task(cls, split: str, index: int) -> JSONObject:
        """The task at `index`; negative ones count from the end. Raises: IndexError beyond either end."""
        return (await _listed(cls, split))[index]

    @classmethod
    async def get_task_range(cls, split: str, start: int | None = None, stop: int | None = None) -> list[JSONObject]:
        """Tasks from `start` to before `stop`, both clamped like a slice's."""
        indexes = range(await _settled(cls.num_tasks(split)))[start:stop]
        return [await _settled(cls.get_task(split, index)) for index in indexes]

    @classmethod
    def unavailable(cls) -> str | None:
        """Why this machine cannot run the environment, as a sentence with the fix; empty or None: it can.

        Asked once, when the server starts. An unavailable environment is listed with its tasks, and every attempt to
        open a session is refused with this sentence.
        """
        return None

    @classmethod
    def name(cls) -> str:
        """The name under which the class is served, before lower-casing."""
        return cls.__name__


class Server:
    """Stands where both SDKs export their server, so that an author's module imports; it cannot be constructed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise RuntimeError(f"orsweb serves environments with: {command_line.command('serve module:Class')}")


@cache
def _found(cls: Any) -> ToolTable:
    return find_tools(cls, tuple(cls.toolsets), ToolOutput)


def _table(cls: Any) -> ToolTable:
    """Raises: ValueError for a name that both the class and a toolset use; Unhostable as `find_tools`."""
    table = _found(cls)
    for name, toolset in table.collisions.items():
        raise ValueError(f"Tool name collision: {name!r} is in both {cls.__name__} and toolset {toolset!r}")
    return table


async def _listed(cls: type[Environment], split: str) -> Sequence[JSONObject]:
    tasks: Sequence[JSONObject] = await _settled(cls.list_tasks(split))
    return tasks


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
