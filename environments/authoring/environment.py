"""The base class of environments: the complete contract between an author and the server.

Names and semantics are those of `ors.Environment` (0.1.0) and `openreward.environments.Environment`
(0.1.167), so a class written for either of them works here once its import line is changed.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from environments import command_line
from environments.authoring.direct_calls import call_function, call_tool
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

Calls = Iterable[tuple[str, JSONObject]] | AsyncIterable[tuple[str, JSONObject]]
"""Tool calls in order, each as the tool's name and its input."""


class Environment:
    """Something an agent can play: tasks to choose from, a prompt to read, tools to call, rewards
    to earn.

    One instance plays one episode. The server constructs it with a task, awaits `setup`, answers
    the agent's calls with the methods marked `@tool`, and calls `teardown` exactly once at the end,
    however the episode ends. An episode is over when a tool returns `finished=True`; no tool runs
    after that.

    Methods may be plain or async. Plain methods run on threads of the server, so slow ones do not
    delay other sessions. Within an instance, calls of one tool never overlap; calls of different
    tools may, unless marked `exclusive`.

    A tool raises `ToolError` (or a type in `recoverable_errors`) for a failure that the agent can
    act on. Any other exception is a fault of the environment: it is reported to the agent as such
    and never counted as a reward of 0.
    """

    toolsets: ClassVar[Sequence[type]] = ()
    """Classes whose `@tool` methods are offered in addition to the environment's own."""

    own_thread: ClassVar[bool] = False
    """True: all code of an instance, plain and async, runs in one thread with an event loop of its
    own. Set it when the environment uses objects that are bound to the thread or the loop that
    created them. With isolation = "session" that is the main thread of the session's process, which
    `signal.alarm` needs."""

    isolation: ClassVar[str | None] = None
    """Where sessions are played: "process" in worker processes, so that a crash or code that holds
    the interpreter stops no other environment; "session" each in a process of its own; "none" in
    the server's process. None: as ORSWEB_WORKERS says, which by default is in the server's
    process."""

    sessions_at_once: ClassVar[int | None] = None
    """The most sessions that the class bears at the same time, on each server. One more waits until
    one ends, and is refused with 429 after ORSWEB_QUOTA_WAIT seconds. None: as many as
    ORSWEB_MAX_SESSIONS allows."""

    python: ClassVar[str] = ""
    """Path of another interpreter that plays the class, in worker processes; it has `orsweb-author`
    installed, and packages that the server need not have. A class that the server cannot import is
    served as `module:Class@path`."""

    resources: ClassVar[Mapping[str, float]] = {}
    """What a worker process of the class needs of a machine of a Ray cluster: "CPU" (1 by default),
    "GPU", "memory" in bytes, and names that the cluster's operator has chosen. Without a cluster it
    has no effect."""

    replayable: ClassVar[bool] = False
    """Whether the same calls on the same task have the same outcomes in a new instance. A session
    then survives a restart of the server, and the end of its worker process: its calls are made
    again, and their outcomes compared."""

    fixed_tasks: ClassVar[bool] = False
    """Whether what `list_tasks` returns depends on the class's code alone: not on data files, time,
    network, environment variables or packages that `revision_packages` does not name, nor on
    modules imported by name while it runs. A server then calls it again only when the environment's
    revision or Python has changed, and so starts faster, unless some of the code cannot be read. A
    subclass has to say so itself."""

    snapshot_every: ClassVar[int] = 1
    """Number of calls from one snapshot to the next, for a class that defines
    `def save(self) -> bytes` and `def load(self, state: bytes) -> None`, plain or async. A session
    then comes back, even if the class is not replayable: a new instance is constructed and set up
    for the same task, and `load` gets what `save` returned last. Calls after the last snapshot are
    made again if the class is replayable; otherwise the session ends. `save` runs while no call
    does. It must not return secrets, nor more than 4 MB."""

    recoverable_errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions that are treated like `ToolError` when a tool raises them: the agent gets their
    text and may go on."""

    default_return: ClassVar[str] = "sum"
    """How an episode's return is computed from its rewards: "sum", "last" (the last non-null one),
    "max" or "mean"."""

    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """Lowest and highest possible return of an episode; colours and charts are scaled by it."""

    success_threshold: ClassVar[float] = 0.9
    """An episode counts as successful when its return is above this value."""

    convention: ClassVar[Mapping[str, str]] = {}
    """How figures count rollouts that did not end by the agent's play, by kind of ending: `no_call`
    (the agent called no tool) "zero" or "out", `expired` "keep", "zero" or "out", `interrupted` and
    `env_error` "out" or "zero". "zero" is a return of 0, "out" leaves them out; the first of each
    is the default."""

    hidden_fields: ClassVar[Sequence[str]] = ()
    """Keys of a task whose values the prompt must not reveal, such as its answer;
    `check_environment` checks this."""

    revision_packages: ClassVar[Sequence[str]] = ()
    """Names of installed packages whose versions are part of the environment's revision, such as
    `("numpy",)`."""

    title_field: ClassVar[str] = ""
    """The key of a task that holds its title on pages, such as "instance_id". Empty: its question,
    prompt, goal or title, else its longest text. Markdown is left out of titles."""

    task_schema: ClassVar[Any] = None
    """The format of a task's spec: a pydantic model or a JSON Schema (dict), or a class method that
    returns one.

    Specs that people edit or import are checked against it. Classes of other SDKs declare it by an
    attribute of this name. The description of the environment comes from its card: `<module>.md` or
    `README.md` next to the module, or else its docstring."""

    _episode_finished = False
    """Whether the episode of an instance whose tools are called directly is over; the server does
    not use it."""

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        """Store the task. Subclasses use `secrets` as they need; the server never stores them in
        the clear."""
        self.task_spec = task_spec

    def setup(self) -> Awaitable[None] | None:
        """Prepare what the tools need. The agent's first call waits until this has returned."""
        return None

    def teardown(self) -> Awaitable[None] | None:
        """Release what the constructor and `setup` took."""
        return None

    def get_prompt(self) -> Blocks | Awaitable[Blocks]:
        """Return the task as text and images. By default it is derived from `get_messages`;
        override one of the two."""
        if type(self).get_messages is Environment.get_messages:
            raise NotImplementedError(
                f"{type(self).__name__} must implement get_prompt() or get_messages()."
            )

        async def prompt() -> Blocks:
            return as_blocks(await call_function(self.get_messages, inline=self.own_thread))

        return prompt()

    def get_messages(self) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """Return the task as a conversation with roles. By default it is the prompt as a single
        user message."""
        if type(self).get_prompt is Environment.get_prompt:
            raise NotImplementedError(
                f"{type(self).__name__} must implement get_prompt() or get_messages()."
            )

        async def messages() -> Sequence[Message]:
            return as_messages(await call_function(self.get_prompt, inline=self.own_thread))

        return messages()

    def list_task_tools(self) -> ListToolsOutput:
        """Return the tools that this task offers in addition to the shared ones.

        By default these are all tools marked `shared=False`.
        """
        return ListToolsOutput(tools=[])

    @classmethod
    def list_tools(cls) -> ListToolsOutput:
        """Return the tools that every task offers, with those of the toolsets and without the
        terminal tool."""
        table = _table(cls)
        return ListToolsOutput(
            tools=list(table.shared),
            terminal_tool=table.terminal,
            supports_score_group=cls.score_group is not Environment.score_group,
            message_block_types=list(MESSAGE_BLOCK_TYPES),
        )

    @classmethod
    def terminal_tool(cls) -> TerminalToolSpec | None:
        """Return the tool that receives the assistant's final plain message, if the class has
        one."""
        return cls.list_tools().terminal_tool

    @classmethod
    def is_assistant_message_final(cls) -> bool:
        """Return whether a plain message of the assistant ends the episode: it does if there is a
        terminal tool."""
        return cls.terminal_tool() is not None

    async def call_terminal_tool(self, message: str = "") -> RunToolOutput:
        """Call the terminal tool with `message` (without, if it takes no parameter). For use
        without a server.

        Raises: ValueError when the class has no terminal tool, and what the tool raises.
        """
        ending = self.terminal_tool()
        if ending is None:
            raise ValueError(
                f"Environment {self.name()!r} has no @terminal tool; mark one with @terminal."
            )
        tool = _table(type(self)).by_name[ending.name]
        return await call_tool(self, tool, {} if ending.arg is None else {ending.arg: message})

    def score_group(
        self, candidates: Sequence[GroupCandidate]
    ) -> Sequence[GroupScore | float] | Awaitable[Sequence[GroupScore | float]]:
        """Return rewards for several finished answers to this task, one per candidate, in their
        order. Optional."""
        raise NotImplementedError

    @classmethod
    def hand_controls(cls) -> JSONObject | None:
        """Return the buttons and keys with which people play in the browser, and what stays in
        view. Optional.

        `{"controls": [{"label": "Up", "key": "ArrowUp", "tool": "move", "input": {"direction":
        "up"}}, …],
        "drawing": "image"}`: a control of a tool that a task does not offer is not shown. `drawing`
        is "image" or "text", the newest of which stays in view, or "" for neither; `"marks":
        [{"open": "[", "close": "]", "tool": "click", "argument": "target"}]` makes `[3] Shop` in
        that text a button that calls `click` with "3", or opens its form with "3" if `click` needs
        more.
        None: people use the forms of the tools.
        """
        return None

    # The next two are called by `check_environment` alone; a server has no way to call them.

    def oracle(self) -> Calls | Awaitable[Calls]:
        """Return the calls that earn the top of `reward_range` in this task, or yield them one by
        one. Optional.

        It may use everything in the task. Each call is made before the next one is requested, so a
        generator can choose by the state of its own instance. Calls after the end of the episode
        are not requested.
        """
        raise NotImplementedError

    def exploits(self) -> Mapping[str, Calls]:
        """Return ways to be paid without solving this task, by name: none may earn more than doing
        nothing. Optional.

        Each is played in a session of its own, in which this method is called again.
        """
        raise NotImplementedError

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        """Return the class's splits. A bare name other than train, validation and test gets the
        type validation."""
        raise NotImplementedError

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject] | Awaitable[Sequence[JSONObject]]:
        """Return every task of a split, in order.

        Raise NotImplementedError when num_tasks and get_task are overridden.
        """
        raise NotImplementedError

    @classmethod
    async def num_tasks(cls, split: str) -> int:
        """Return the number of tasks in the split."""
        return len(await _list_tasks(cls, split))

    @classmethod
    async def get_task(cls, split: str, index: int) -> JSONObject:
        """Return the task at `index`; a negative index counts from the end. Raises: IndexError if
        there is none."""
        return (await _list_tasks(cls, split))[index]

    @classmethod
    async def get_task_range(
        cls, split: str, start: int | None = None, stop: int | None = None
    ) -> list[JSONObject]:
        """Return the tasks from `start` up to but not including `stop`, both clamped as in a
        slice."""
        indexes = range(await _awaited(cls.num_tasks(split)))[start:stop]
        return [await _awaited(cls.get_task(split, index)) for index in indexes]

    @classmethod
    def unavailable(cls) -> str | None:
        """Return why this machine cannot run the environment, as a sentence with the fix; None or
        empty if it can.

        The server calls this once, when it starts. An unavailable environment is listed with its
        tasks, but every request to open a session is refused with this sentence.
        """
        return None

    @classmethod
    def name(cls) -> str:
        """Return the name under which the class is served; the server converts it to lower case."""
        return cls.__name__


class Server:
    """Stands for the server class that both SDKs export, so that an author's module can import it.

    It cannot be constructed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        raise RuntimeError(
            f"orsweb serves environments with: {command_line.command('serve module:Class')}"
        )


def _table(cls: Any) -> ToolTable:
    """Return the tools of `cls`. Raises: ValueError for a name that both the class and a toolset
    use; Unhostable."""
    table = _find_tools(cls)
    for name, toolset in table.collisions.items():
        raise ValueError(
            f"Tool name collision: {name!r} is in both {cls.__name__} and toolset {toolset!r}"
        )
    return table


@cache
def _find_tools(cls: Any) -> ToolTable:
    return find_tools(cls, tuple(cls.toolsets), ToolOutput)


async def _list_tasks(cls: type[Environment], split: str) -> Sequence[JSONObject]:
    tasks: Sequence[JSONObject] = await _awaited(cls.list_tasks(split))
    return tasks


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
