"""HostedClass: one environment class as this server serves it, whichever SDK it was written for.

Classes of `ors` (0.1.0), of `openreward.environments` (0.1.167) and of this package differ in their base classes and
message types only; what a session needs to know of a class is gathered here once, when the server starts. Nothing in
this module runs an author's instance: that is the runtime's.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import structlog
from pydantic import BaseModel

from environments import wire
from environments.authoring.declarations import (
    check_class_methods,
    listed_tools,
    served_name,
    splits_of,
    tools_of,
    toolsets_of,
    unavailable_of,
)
from environments.authoring.tools import ToolTable
from environments.errors import MAX_QUOTED_CHARACTERS, InvalidRequest, Unavailable, Unhostable, shorten
from environments.wire import ListToolsOutput, Split, TerminalToolSpec, ToolSpec

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Sdk:
    """The types that one SDK's environments use; `types` is the module with its messages."""

    name: str
    base: type
    types: Any
    runs_on_one_thread: bool = False

    @property
    def tool_output(self) -> type[BaseModel]:
        output: type[BaseModel] = self.types.ToolOutput
        return output


# module of the SDK's base class, module of its types, whether its own server runs all plain code on one thread
_SDKS = {
    "environments": ("environments.authoring.environment", "environments.wire", False),
    "ors": ("ors.environment", "ors.types", True),
    "openreward": ("openreward.environments.environment", "openreward.environments.types", False),
}


def sdk_of(cls: type) -> Sdk | None:
    """The SDK whose Environment `cls` derives from. None is imported: one that nobody imported has no subclasses."""
    for name, (base_module, types_module, one_thread) in _SDKS.items():
        module: ModuleType | None = sys.modules.get(base_module)
        if module is not None and issubclass(cls, module.Environment):
            return Sdk(name, module.Environment, sys.modules[types_module], one_thread)
    return None


class HostedClass:
    """One environment class under the name it is served by.

    `tools` is its table of tools, `splits` what `list_splits` declared, `unavailable` why this machine cannot run it
    (empty: it can).
    """

    def __init__(self, cls: type, alias: str | None = None) -> None:
        """Raises: Unhostable with one sentence that says what to change."""
        sdk = sdk_of(cls) if isinstance(cls, type) else None
        if sdk is None:
            raise Unhostable(f"{cls!r} is not an Environment class; derive it from environments.Environment.")
        _unmark_bases(cls)
        check_class_methods(cls)
        self.cls, self.sdk = cls, sdk
        self.name = served_name(cls, alias)
        self.toolsets: tuple[type, ...] = toolsets_of(cls)
        self.tools: ToolTable = tools_of(cls, self.toolsets, sdk.tool_output)
        self.splits: list[Split] = splits_of(cls)
        self._check()
        self.unavailable: str = unavailable_of(cls)
        _ = self.class_tools  # asked now: an author's own list_tools may raise
        for tool, reason in self.tools.skipped.items():
            log.warning("tool_skipped", tool=tool, reason=reason)

    def _check(self) -> None:
        """Raises: Unhostable for the first thing that an author has to change."""
        self._check_tools()
        self._check_content()
        self._check_constructor()

    def _check_tools(self) -> None:
        label = self.cls.__name__
        if self.tools.collisions:
            [tool, toolset] = next(iter(self.tools.collisions.items()))
            raise Unhostable(f"Tool name collision: {tool!r} is in both {label} and toolset {toolset!r}; rename one.")
        if not self.tools.by_name and not self.dispatches_itself:
            reasons = "; ".join(f"{tool}: {reason}" for tool, reason in self.tools.skipped.items())
            found = f" ({reasons})" if reasons else ""
            raise Unhostable(
                f"{label} has no tools{found}; mark at least one method that returns ToolOutput with @tool."
            )

    def _check_content(self) -> None:
        label = self.cls.__name__
        if not self.splits:
            raise Unhostable(f"{label} has no splits; let list_splits() return at least one, such as ['train'].")
        if not self.overrides("get_prompt") and not self.overrides("get_messages"):
            raise Unhostable(f"{label} has no prompt; implement get_prompt() or get_messages().")
        if missing := getattr(self.cls, "__abstractmethods__", None):
            raise Unhostable(f"{label} cannot be constructed; implement {', '.join(sorted(missing))}.")
        if not self.overrides("list_tasks") and not (self.overrides("num_tasks") and self.overrides("get_task")):
            raise Unhostable(f"{label} has no tasks; implement list_tasks(), or num_tasks() and get_task().")

    def _check_constructor(self) -> None:
        label = self.cls.__name__
        try:
            signature = inspect.signature(self.cls)
        except (TypeError, ValueError):  # a constructor written in C may tell nothing of its parameters
            return
        try:
            signature.bind(task_spec={}, secrets={})
        except TypeError as error:
            raise Unhostable(
                f"{label} cannot be constructed as {label}(task_spec=…, secrets=…): {error}; let __init__ take both."
            ) from error

    def overrides(self, method: str) -> bool:
        """Whether the class, and not its SDK's base class, defines `method`."""
        theirs, base = getattr(self.cls, method, None), getattr(self.sdk.base, method, None)
        return getattr(theirs, "__func__", theirs) is not getattr(base, "__func__", base)

    @cached_property
    def own_thread(self) -> bool:
        """Whether the plain code of a session runs in one thread, with a loop of its own.

        By default for an `ors` class with plain code: its own server runs everything on one thread, so what a plain
        constructor made may be bound to it. A class whose code is all async shares the server's loop, and may share
        clients and locks between sessions.
        """
        declared = getattr(self.cls, "own_thread", None)
        return bool(declared) if declared is not None else self.sdk.runs_on_one_thread and self._has_plain_code

    @cached_property
    def own_loop(self) -> bool:
        """Whether the async code of a session runs in its thread too.

        Where a class only asks for it by default, its constructor or setup must be its own: elsewhere nothing is made
        that plain and async code would share.
        """
        makes_state = self.runs_constructor or self.overrides("setup")
        return self.own_thread and (makes_state or getattr(self.cls, "own_thread", None) is not None)

    @property
    def _has_plain_code(self) -> bool:
        ours = ("setup", "teardown", "get_prompt", "get_messages", "list_task_tools", "score_group")
        methods = [getattr(self.cls, name) for name in ours if hasattr(self.cls, name) and self.overrides(name)]
        methods += [getattr(tool.toolset or self.cls, tool.name) for tool in self.tools.by_name.values()]
        plain = [method for method in methods if not inspect.iscoroutinefunction(inspect.unwrap(method))]
        return bool(plain) or self.runs_constructor

    @cached_property
    def recoverable_errors(self) -> tuple[type[Exception], ...]:
        return tuple(getattr(self.cls, "recoverable_errors", ()))

    @cached_property
    def runs_constructor(self) -> bool:
        """Whether constructing runs the author's code; the bases' own constructors only assign."""
        return self.overrides("__init__") or self.overrides("__new__")

    @cached_property
    def dispatches_itself(self) -> bool:
        """Whether a class of an SDK replaces its base's dispatch, for tools that are no methods."""
        return hasattr(self.sdk.base, "_call_tool") and self.overrides("_call_tool")

    @cached_property
    def session_toolsets(self) -> dict[str, type]:
        """Toolsets that `toolset_name` of /create may name; only openreward has a registry of them."""
        if self.sdk.name != "openreward":
            return {}
        return dict(importlib.import_module("openreward.toolsets").BUILTIN_TOOLSETS)

    def check_available(self) -> None:
        """Raises: Unavailable with the class's own sentence."""
        if self.unavailable:
            raise Unavailable(self.name, self.unavailable)

    def check_toolset(self, name: str | None) -> None:
        """Raises: InvalidRequest for a toolset_name that the class's SDK does not know."""
        if name is not None and name not in self.session_toolsets:
            known = sorted(self.session_toolsets)
            reason = f"; {self.name!r} is a class of {self.sdk.name}, which has no toolsets to choose from"
            raise InvalidRequest(
                f"unknown toolset {shorten(name, MAX_QUOTED_CHARACTERS)!r}; valid options are {known}{'' if known else reason}"
            )

    @cached_property
    def supports_score_group(self) -> bool:
        return hasattr(self.cls, "score_group") and self.overrides("score_group")

    @cached_property
    def class_tools(self) -> ListToolsOutput:
        """Answer of GET /{env}/tools."""
        listed = self.tools.shared
        if self.overrides("list_tools"):
            listed = listed_tools(self.cls)
        return self._listing(listed, self.tools.terminal)

    @cached_property
    def tools_json(self) -> str:
        return wire.model_json(self.class_tools)

    def session_tools(self, table: ToolTable, task_tools: Sequence[ToolSpec] | None) -> ListToolsOutput:
        """Answer of GET /{env}/task_tools: every tool once, the terminal one hidden.

        `table` is the session's; `task_tools` None: the class does not override list_task_tools.
        """
        shared = self.class_tools.tools if table is self.tools else table.shared
        more = table.task_specific if task_tools is None else task_tools
        by_name = {spec.name: spec for spec in [*more, *shared]}  # a shared one wins
        names = dict.fromkeys(spec.name for spec in [*shared, *more])
        hidden = table.terminal.name if table.terminal else None
        return self._listing([by_name[name] for name in names if name != hidden], table.terminal)

    def _listing(self, specs: Sequence[ToolSpec], ending: TerminalToolSpec | None) -> ListToolsOutput:
        return ListToolsOutput(
            tools=list(specs),
            terminal_tool=ending,
            supports_score_group=self.supports_score_group,
            message_block_types=wire.MESSAGE_BLOCK_TYPES,
        )

    def candidates(self, group: Sequence[wire.GroupCandidate]) -> list[Any]:
        """`group` in the types of the class's own SDK."""
        theirs = getattr(self.sdk.types, "GroupCandidate", wire.GroupCandidate)
        return [theirs.model_validate(candidate.model_dump()) for candidate in group]


def _unmark_bases(cls: type) -> None:
    """Take zope.interface's mark off the standard library's base classes.

    Importing twisted, as daphne does, leaves a `__provides__` on `abc.ABC` that `dir` names and getattr refuses; both
    SDKs' `list_tools` stumble over it (ors 0.1.0, openreward 0.1.167). It only says what the class itself provides.
    """
    for base in cls.__mro__:
        if base.__module__ in ("abc", "collections.abc") and "__provides__" in vars(base):
            delattr(base, "__provides__")
