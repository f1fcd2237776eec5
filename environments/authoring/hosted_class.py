"""One environment class as this server serves it, whichever SDK it was written for.

Classes of `ors` (0.1.0), of `openreward.environments` (0.1.167) and of this package differ only in
their base classes and message types. Everything that the server needs to know about a class is
collected here once, when the server starts. No instance is created or called in this module;
`environments/runtime/instance.py` does that.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from environments import wire
from environments.authoring.class_arguments import with_arguments
from environments.authoring.declarations import (
    HandControls,
    card_of,
    check_class_methods,
    hand_controls_of,
    listed_tools,
    misspelled_attributes,
    names_of,
    served_name,
    splits_of,
    tools_of,
    toolsets_of,
    unavailable_of,
)
from environments.authoring.hosted_environment import ClassRevision, HostedEnvironment
from environments.authoring.tools import ToolTable
from environments.errors import MAX_QUOTED_CHARACTERS, InvalidRequest, Unhostable, shorten
from environments.wire import ListToolsOutput, Split, TerminalToolSpec, ToolSpec


@dataclass(frozen=True)
class Sdk:
    """The types that environments of one SDK use; `types` is the module that defines its
    messages."""

    name: str
    base: type
    types: Any
    runs_on_one_thread: bool = False

    @property
    def tool_output(self) -> type[BaseModel]:
        output: type[BaseModel] = self.types.ToolOutput
        return output


# module of the SDK's base class, module of its types, whether its own server runs all plain code on
# one thread
_SDKS = {
    "environments": ("environments.authoring.environment", "environments.wire", False),
    "ors": ("ors.environment", "ors.types", True),
    "openreward": ("openreward.environments.environment", "openreward.environments.types", False),
}


def sdk_of(cls: type) -> Sdk | None:
    """Return the SDK whose Environment is a base of `cls`. Import none: an SDK not yet imported has
    no subclasses."""
    for name, (base_module, types_module, one_thread) in _SDKS.items():
        module: ModuleType | None = sys.modules.get(base_module)
        if module is not None and issubclass(cls, module.Environment):
            return Sdk(name, module.Environment, sys.modules[types_module], one_thread)
    return None


ISOLATIONS = (None, "none", "process", "session")
"""Allowed values of a class's `isolation`."""


class HostedClass(HostedEnvironment):
    """An environment class and the name under which it is served.

    `tools` is its table of tools, `splits` what `list_splits()` returned, `unavailable` the reason
    why this machine cannot run it (empty: it can).
    """

    def __init__(
        self, cls: type, alias: str | None = None, arguments: str = "", directory: str = ""
    ) -> None:
        """`arguments`: values of attributes, as in `class_arguments.py`. `directory`: the
        repository, if it has one of its own.

        Raises: Unhostable with one sentence that says what to change.
        """
        sdk = sdk_of(cls) if isinstance(cls, type) else None
        if sdk is None:
            raise Unhostable(
                f"{cls!r} is not an Environment class; derive it from environments.Environment."
            )
        for base in cls.__mro__:
            # zope.interface, which daphne imports with twisted, leaves on `abc.ABC` a
            # `__provides__` that `dir` lists and getattr refuses; `list_tools` of both SDKs fails
            # on it (ors 0.1.0, openreward 0.1.167)
            if base.__module__ in ("abc", "collections.abc") and "__provides__" in vars(base):
                delattr(base, "__provides__")
        self.named_class = cls
        """The class that its name leads to; `cls` is a subclass of it if there are arguments."""
        cls = with_arguments(cls, sdk.base, arguments) if arguments else cls
        self.cls, self.sdk = cls, sdk
        self.toolsets: tuple[type, ...] = toolsets_of(cls)
        self.tools: ToolTable = tools_of(cls, self.toolsets, sdk.tool_output)
        self._check_tools()
        check_class_methods(cls)
        self.name = served_name(cls, alias)
        self.identity = f"{cls.__module__}:{cls.__qualname__}{'?' if arguments else ''}{arguments}"
        self.origin = f"{directory}:{self.identity}" if directory else self.identity
        self.splits: list[Split] = splits_of(cls)
        self._check_settings()
        self._check_implementation()
        self.misspelled: list[str] = misspelled_attributes(cls, sdk.base)
        """A sentence for each attribute that is probably meant to be another one."""
        self.unavailable: str = unavailable_of(cls)
        self.hand_controls: HandControls = hand_controls_of(cls)
        # set by `revision.note_revisions` when the server starts
        self.revision: ClassRevision | None = None
        _ = self.class_tools  # computed now, because an author's own list_tools may raise
        if self.tools.skipped or self.misspelled:
            # late, because it is a third of what worker processes would take to start
            import structlog

            log = structlog.get_logger(__name__)
            for tool, reason in self.tools.skipped.items():
                log.warning("tool_skipped", tool=tool, reason=reason)
            for sentence in self.misspelled:
                log.warning("attribute_unknown", reason=sentence)

    def _check_tools(self) -> None:
        label = self.cls.__name__
        for name, tool in self.tools.by_name.items():
            is_own = tool.toolset is None  # a toolset may use these names
            if is_own and (name == "task_spec" or callable(getattr(self.sdk.base, name, None))):
                kind = "an attribute" if name == "task_spec" else "a method"
                raise Unhostable(
                    f"{label}.{name} is a tool, but every environment has {kind} of that name; "
                    "rename the tool."
                )
        for name, toolset in self.tools.collisions.items():
            raise Unhostable(
                f"Tool name collision: {name!r} is in both {label} and toolset "
                f"{toolset!r}; rename one."
            )
        if not self.tools.by_name and not self.dispatches_itself:
            reasons = "; ".join(f"{tool}: {reason}" for tool, reason in self.tools.skipped.items())
            detail = f" ({reasons})" if reasons else ""
            raise Unhostable(
                f"{label} has no tools{detail}; mark at least one method that returns ToolOutput "
                "with @tool."
            )

    def _check_settings(self) -> None:
        """Check the values of the attributes that a server reads. Raises: Unhostable."""
        label = self.cls.__name__
        if self.isolation not in ISOLATIONS:
            options = ", ".join(map(repr, ISOLATIONS[1:]))
            raise Unhostable(
                f"{label}.isolation is {self.isolation!r}; use one of {options}, or None."
            )
        wrong_amounts = {
            name: amount
            for name, amount in self.resources.items()
            if not isinstance(name, str) or not isinstance(amount, int | float) or amount < 0
        }
        if wrong_amounts:
            raise Unhostable(
                f"{label}.resources has {wrong_amounts!r}; use a name such as 'CPU', 'GPU' or "
                "'memory' (bytes) for each amount, a number of at least 0."
            )
        count = self.sessions_at_once
        if count is not None and (
            not isinstance(count, int) or isinstance(count, bool) or count < 1
        ):
            raise Unhostable(
                f"{label}.sessions_at_once is {count!r}; use a whole number of at least 1, or None."
            )
        every = getattr(self.cls, "snapshot_every", 1)
        if not isinstance(every, int) or every < 1:
            raise Unhostable(
                f"{label}.snapshot_every is {every!r}; use the number of calls from one snapshot "
                "to the next."
            )
        if every > 1 and not self.saves:
            raise Unhostable(
                f"{label} has snapshot_every, but not both save() and load(state); define them."
            )
        for attribute in ("hidden_fields", "revision_packages", "required_secrets"):
            names_of(self.cls, attribute)
        if not isinstance(title_field := self.declared("title_field", ""), str):
            raise Unhostable(
                f"{label}.title_field is {title_field!r}; use the name of one field of a task."
            )

    def _check_implementation(self) -> None:
        """Check that the class has splits, tasks, a prompt and a constructor. Raises:
        Unhostable."""
        label = self.cls.__name__
        if not self.splits:
            raise Unhostable(
                f"{label} has no splits; let list_splits() return at least one, such as ['train']."
            )
        if not self.overrides("get_prompt") and not self.overrides("get_messages"):
            raise Unhostable(f"{label} has no prompt; implement get_prompt() or get_messages().")
        if missing := getattr(self.cls, "__abstractmethods__", None):
            raise Unhostable(
                f"{label} cannot be constructed; implement {', '.join(sorted(missing))}."
            )
        if not self.overrides("list_tasks") and not (
            self.overrides("num_tasks") and self.overrides("get_task")
        ):
            raise Unhostable(
                f"{label} has no tasks; implement list_tasks(), or num_tasks() and get_task()."
            )
        try:
            signature = inspect.signature(self.cls)
        except (TypeError, ValueError):  # a constructor written in C may have no signature
            return
        try:
            signature.bind(task_spec={}, secrets={})
        except TypeError as error:
            raise Unhostable(
                f"{label} cannot be constructed as {label}(task_spec=…, secrets=…): {error}; let "
                "__init__ take both."
            ) from error

    @cached_property
    def description(self) -> str:
        """The docstring of the class or of a base that is not its SDK's; else the first paragraph
        of the card."""
        for cls in self.cls.__mro__[: self.cls.__mro__.index(self.sdk.base)]:
            if text := inspect.cleandoc(vars(cls).get("__doc__") or ""):
                return text
        paragraphs = (
            text.strip()
            for text in re.sub(r"^#.*\n?", "\n", self.card, flags=re.MULTILINE).split("\n\n")
        )
        return next((text for text in paragraphs if text and text[0].isalnum()), self.card)

    @property
    def card(self) -> str:
        return card_of(self.cls)

    @property
    def has_own_prompt(self) -> bool:
        return self.overrides("get_prompt")

    @property
    def has_own_messages(self) -> bool:
        return self.overrides("get_messages")

    @cached_property
    def hidden_fields(self) -> frozenset[str]:
        return frozenset(names_of(self.cls, "hidden_fields"))

    def declared(self, name: str, default: Any) -> Any:
        """Return the class attribute `name`, or `default`."""
        return getattr(self.cls, name, default)

    def overrides(self, method: str) -> bool:
        """Return whether the class, rather than the base class of its SDK, defines `method`."""
        own, base = getattr(self.cls, method, None), getattr(self.sdk.base, method, None)
        return getattr(own, "__func__", own) is not getattr(base, "__func__", base)

    @property
    def isolation(self) -> str | None:
        """Where sessions are played: `none` (in the server's process), `process` (in worker
        processes), `session` (each in one of its own), or None, as the operator says.
        """
        isolation: str | None = getattr(self.cls, "isolation", None)
        return isolation

    @property
    def resources(self) -> dict[str, float]:
        """What a worker process of the class needs of a machine of a cluster, by name. A tool may
        have that name."""
        resources = getattr(self.cls, "resources", {})
        return dict(resources) if isinstance(resources, Mapping) else {}

    @property
    def has_fixed_tasks(self) -> bool:
        # a subclass may list tasks in another way
        return bool(vars(self.named_class).get("fixed_tasks", False))

    @property
    def replayable(self) -> bool:
        """Return whether the same calls on the same task have the same outcomes in a new
        instance."""
        return bool(getattr(self.cls, "replayable", False))

    @cached_property
    def saves(self) -> bool:
        """Return whether the class defines `save()` and `load(state)`. Tools and other methods may
        have these names."""
        for name, arguments in (("save", ("self",)), ("load", ("self", "state"))):
            tool, method = self.tools.by_name.get(name), getattr(self.cls, name, None)
            if (tool is not None and tool.toolset is None) or not inspect.isfunction(method):
                return False
            try:
                inspect.signature(method).bind(*arguments)
            except TypeError:
                return False
        return True

    @property
    def snapshot_every(self) -> int:
        """Number of calls from one snapshot to the next."""
        return int(getattr(self.cls, "snapshot_every", 1))

    @property
    def sessions_at_once(self) -> int | None:
        number: int | None = getattr(self.cls, "sessions_at_once", None)
        return number

    @property
    def python(self) -> str:
        """The interpreter that plays the class, as the class names it; empty: this one. A tool may
        have that name."""
        python = getattr(self.cls, "python", "")
        return python if isinstance(python, str) else ""

    @cached_property
    def own_thread(self) -> bool:
        """Return whether the plain code of an instance runs in one thread with a loop of its own.

        This is the default for an `ors` class with plain code: the `ors` server runs everything on
        one thread, so objects that a plain constructor creates may be bound to that thread. A class
        whose code is all async shares the server's loop, and may share clients and locks between
        instances.
        """
        own_thread = getattr(self.cls, "own_thread", None)
        if own_thread is not None:
            return bool(own_thread)
        has_plain_code = any(map(_is_plain, self._methods)) or self.runs_constructor
        return self.sdk.runs_on_one_thread and has_plain_code

    @cached_property
    def own_loop(self) -> bool:
        """Return whether the async code of an instance runs in its own thread too.

        A class that has an own thread only by default must also define a constructor or `setup`:
        without them it creates nothing that plain and async code would share. In a process of its
        own a session has no loop to share.
        """
        makes_state = self.runs_constructor or self.overrides("setup")
        is_alone = self.isolation == "session"
        return self.own_thread and (
            is_alone or makes_state or getattr(self.cls, "own_thread", None) is not None
        )

    @cached_property
    def runs_loop(self) -> bool:
        """Return whether the thread of an instance runs an event loop all the time, since async
        code runs in it."""
        return self.own_loop and not all(map(_is_plain, self._methods))

    @property
    def _methods(self) -> list[Any]:
        """The author's methods that run for an instance."""
        names = ["setup", "teardown", "get_prompt", "get_messages", "list_task_tools"]
        names = [name for name in [*names, "score_group"] if self.overrides(name)]
        if self.saves:
            names += ["save", "load"]
        tools = self.tools.by_name.values()
        return [
            *(getattr(self.cls, name) for name in names),
            *(getattr(tool.toolset or self.cls, tool.name) for tool in tools),
        ]

    @cached_property
    def recoverable_errors(self) -> tuple[type[Exception], ...]:
        return tuple(getattr(self.cls, "recoverable_errors", ()))

    @cached_property
    def runs_constructor(self) -> bool:
        """Return whether construction runs the author's code; the constructors of the base classes
        only assign."""
        return self.overrides("__init__") or self.overrides("__new__")

    @cached_property
    def dispatches_itself(self) -> bool:
        """Return whether a class of an SDK overrides `_call_tool`, so that its tools need not be
        methods."""
        return hasattr(self.sdk.base, "_call_tool") and self.overrides("_call_tool")

    @cached_property
    def session_toolsets(self) -> dict[str, type]:
        """The toolsets that `toolset_name` of /create may name, by name; only openreward has a
        registry of them."""
        if self.sdk.name != "openreward":
            return {}
        return dict(importlib.import_module("openreward.toolsets").BUILTIN_TOOLSETS)

    def check_toolset(self, name: str | None) -> None:
        """Raise InvalidRequest if the SDK of the class has no toolset called `name`. None is always
        accepted."""
        check_toolset(self.name, self.sdk.name, self.session_toolsets, name)

    @cached_property
    def supports_score_group(self) -> bool:
        return self.overrides("score_group")

    @cached_property
    def class_tools(self) -> ListToolsOutput:
        """The response to GET /{env}/tools."""
        tools = listed_tools(self.cls) if self.overrides("list_tools") else self.tools.shared
        return self._listing(tools, self.tools.terminal)

    @cached_property
    def tools_json(self) -> str:
        return wire.model_json(self.class_tools)

    @property
    def tool_schemas(self) -> dict[str, Any]:
        own = {
            spec.name: spec.input_schema for spec in [*self.tools.shared, *self.tools.task_specific]
        }
        return {**dict.fromkeys(self.tools.by_name), **own, **super().tool_schemas}

    def session_tools(
        self, table: ToolTable, task_tools: Sequence[ToolSpec] | None
    ) -> ListToolsOutput:
        """Return the response to GET /{env}/task_tools: every tool once, without the terminal tool.

        `table` holds the tools of the session. `task_tools` is None when the class does not
        override list_task_tools.
        """
        shared_tools = self.class_tools.tools if table is self.tools else table.shared
        if task_tools is None:
            task_tools = table.task_specific
        # shared tools come first and win
        by_name = {spec.name: spec for spec in [*shared_tools, *task_tools, *shared_tools]}
        if table.terminal is not None:
            by_name.pop(table.terminal.name, None)
        return self._listing(list(by_name.values()), table.terminal)

    def _listing(
        self, specs: Sequence[ToolSpec], terminal: TerminalToolSpec | None
    ) -> ListToolsOutput:
        return ListToolsOutput(
            tools=list(specs),
            terminal_tool=terminal,
            supports_score_group=self.supports_score_group,
            message_block_types=wire.MESSAGE_BLOCK_TYPES,
        )

    def candidates(self, group: Sequence[wire.GroupCandidate]) -> list[Any]:
        """Return `group` converted to the types of the SDK that the class was written for."""
        theirs = getattr(self.sdk.types, "GroupCandidate", wire.GroupCandidate)
        return [theirs.model_validate(candidate.model_dump()) for candidate in group]


def check_toolset(environment: str, sdk: str, toolsets: Iterable[str], name: str | None) -> None:
    """Raise InvalidRequest if `name` is not among the `toolsets` of an environment's SDK. None is
    always accepted."""
    options = sorted(toolsets)
    if name is not None and name not in options:
        reason = f"; {environment!r} is a class of {sdk}, which has no toolsets to choose from"
        quote = shorten(name, MAX_QUOTED_CHARACTERS)
        raise InvalidRequest(
            f"unknown toolset {quote!r}; valid options are {options}{'' if options else reason}"
        )


def _is_plain(method: Any) -> bool:
    return not inspect.iscoroutinefunction(inspect.unwrap(method))
