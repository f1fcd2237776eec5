"""The decorators with which authors mark tools, and the search for tools in a class and its
toolsets.

The decorators set the attributes that both SDKs use, so one search works for classes of both SDKs
and of this package. It reads the class only, never an instance, so a property that happens to have
the name of a tool is not executed. Sources: `ors/environment.py` 0.1.0,
`openreward/environments/authoring/environment.py` 0.1.167.

Divergences from the references: tools marked `shared=False` are listed among a session's tools when
the class does not override `list_task_tools`, as the specification says; a toolset is constructed
without its environment only if its constructor takes no argument, so that a TypeError of its own
code is reported; a toolset without a sandbox raises an error only when the sandbox is used
(toolsets of `ors` have none).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, get_type_hints, overload

from pydantic import BaseModel

from environments.authoring.input_check import InputCheck
from environments.errors import Unhostable
from environments.wire import TerminalToolSpec, ToolOutput, ToolSpec

Fn = TypeVar("Fn", bound=Callable[..., Any])


@overload
def tool(fn: Fn) -> Fn: ...
@overload
def tool(
    *,
    shared: bool = True,
    concurrent: bool = False,
    exclusive: bool = False,
    input_schema: Mapping[str, Any] | None = None,
) -> Callable[[Fn], Fn]: ...
def tool(
    fn: Any = None,
    *,
    shared: bool = True,
    concurrent: bool = False,
    exclusive: bool = False,
    input_schema: Mapping[str, Any] | None = None,
) -> Any:
    """Mark a method as a tool. It takes no parameter or a single pydantic model, and returns
    `ToolOutput`.

    The method's docstring becomes the tool's description and the model's JSON Schema its input
    schema. Within a session, calls of one tool run one at a time.

    `shared=False`: the tool is offered only in sessions, not listed for the class.
    `concurrent=True`: calls may overlap; do not use it for a tool that gives rewards.
    `exclusive=True`: a call waits for all running calls of the session and holds back new ones.

    `input_schema`: a JSON Schema of an object, for a method that takes the input as a dict instead
    of a model. What it forbids is refused before the method is called.
    """

    def mark(function: Fn) -> Fn:
        if isinstance(function, property):
            raise TypeError("@tool marks a method, not a property; remove @property")
        for name, value in (
            ("", True),
            ("_shared", shared),
            ("_concurrent", concurrent),
            ("_exclusive", exclusive),
        ):
            setattr(function, f"_env_tool{name}", value)
        if input_schema is not None:
            function._env_tool_schema = input_schema  # type: ignore[attr-defined]
        return function

    return mark if fn is None else mark(fn)


def terminal(fn: Fn) -> Fn:
    """Mark a tool as the terminal one: it receives the assistant's final plain message and is not
    listed to agents."""
    fn._env_tool_terminal = True  # type: ignore[attr-defined]
    return fn


class Toolset:
    """Base class for tools that several environments share.

    A toolset is constructed once per instance of the environment, which it receives as its
    argument, when one of its tools is first called. `self.sandbox` is the environment's attribute
    `sandbox_attr`, if it is set by then.
    """

    sandbox: Any

    def __init__(self, env: Any, sandbox_attr: str = "sandbox") -> None:
        self.env = env
        if (sandbox := getattr(env, sandbox_attr, None)) is not None:
            self.sandbox = sandbox

    def __getattr__(self, name: str) -> Any:
        """Explain a missing sandbox; called only for attributes that are not set."""
        if name == "sandbox":
            raise AttributeError(
                f"Toolset {type(self).__name__} has no sandbox; let the environment set one "
                "(self.sandbox, or the name given as sandbox_attr) in its constructor or setup"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def name(cls) -> str:
        return cls.__name__


def build_toolset(cls: type, env: Any) -> Any:
    """Return a toolset for the instance `env`, which its constructor gets if it takes an argument.

    Raises: what the constructor raises, including a TypeError of its own code.
    """
    try:
        inspect.signature(cls).bind(env)
    except TypeError:
        return cls()
    except ValueError:  # a constructor written in C may have no signature
        pass
    return cls(env)


@dataclass(frozen=True, slots=True)
class Tool:
    """One callable tool of a class.

    `toolset` is the class that defines it, or None for the environment itself. `input_model` is
    None for a tool without parameters. `runs_alone` is true for exclusive and terminal tools.
    """

    name: str
    spec: ToolSpec
    input_model: type[BaseModel] | None = None
    input_check: InputCheck | None = None
    """Of a tool that is declared by a JSON Schema and takes a dict."""
    toolset: type | None = None
    shared: bool = True
    concurrent: bool = False
    runs_alone: bool = False


@dataclass(frozen=True)
class ToolTable:
    """All tools of one class: by name for calls, in listing order for `/tools` and
    `/task_tools`."""

    by_name: dict[str, Tool]
    shared: list[ToolSpec]
    task_specific: list[ToolSpec]
    terminal: TerminalToolSpec | None
    collisions: dict[str, str] = field(default_factory=dict)
    """Name of each tool that both the class and a toolset define -> name of that toolset."""
    skipped: dict[str, str] = field(default_factory=dict)
    """`Class.method` of each method that is marked with @tool but is not a tool -> the reason."""

    def with_toolset(self, other: ToolTable, toolset: type) -> ToolTable:
        """Return this table with the tools of a session's toolset, which replace those of the same
        name."""
        theirs = {name: replace(tool, toolset=toolset) for name, tool in other.by_name.items()}
        return ToolTable(
            {**self.by_name, **theirs},
            shared=[*(spec for spec in self.shared if spec.name not in theirs), *other.shared],
            task_specific=[spec for spec in self.task_specific if spec.name not in theirs],
            terminal=other.terminal or self.terminal,
        )


def find_tools(cls: type, toolsets: tuple[type, ...], output_type: type) -> ToolTable:
    """Return the tools of `cls` and of its toolsets; `output_type` is the ToolOutput of its SDK.

    Raises: Unhostable for a malformed terminal tool.
    """
    skip_reasons: dict[str, str] = {}
    by_name = {tool.name: tool for tool in _tools_in(cls, None, output_type, skip_reasons)}
    collisions: dict[str, str] = {}
    for toolset in toolsets:
        for tool in _tools_in(toolset, toolset, output_type, skip_reasons):
            if tool.name in by_name and by_name[tool.name].toolset is None:
                collisions[tool.name] = toolset.__name__
            by_name.setdefault(tool.name, tool)
    terminal = _terminal_of([cls, *toolsets], by_name)
    tools = [tool for name, tool in by_name.items() if terminal is None or name != terminal.name]
    return ToolTable(
        by_name,
        shared=[tool.spec for tool in tools if tool.shared],
        task_specific=[tool.spec for tool in tools if not tool.shared],
        terminal=terminal,
        collisions=collisions,
        skipped=skip_reasons,
    )


def _tools_in(
    owner: type, toolset: type | None, output_type: type, skip_reasons: dict[str, str]
) -> Iterator[Tool]:
    """Yield the tools of a class by name, and add marked methods that are no tools to
    `skip_reasons`."""
    for name in dir(owner):
        raw = inspect.getattr_static(owner, name, None)
        function = raw.__func__ if isinstance(raw, staticmethod | classmethod) else raw
        if not callable(function) or not getattr(function, "_env_tool", False):
            if reason := _reason_against_mark(raw):
                skip_reasons[f"{owner.__name__}.{name}"] = reason
            continue
        real = inspect.unwrap(function)
        hints = get_type_hints(real, include_extras=True)
        parameters = [p for p in inspect.signature(real).parameters if p not in ("self", "cls")]
        schema = getattr(function, "_env_tool_schema", None)
        reason = _reason_against(hints, parameters, output_type, has_schema=schema is not None)
        if reason:
            skip_reasons[f"{owner.__name__}.{name}"] = reason
            continue
        model = hints[parameters[0]] if parameters and schema is None else None
        check = None if schema is None else InputCheck(f"{owner.__name__}.{name}", schema)
        input_schema = None if check is None else check.schema
        if model is not None:
            input_schema = model.model_json_schema()
        runs_alone = getattr(function, "_env_tool_terminal", False) or getattr(
            function, "_env_tool_exclusive", False
        )
        yield Tool(
            name=name,
            spec=ToolSpec(
                name=name,
                description=(function.__doc__ or "").strip(),
                input_schema=input_schema,
            ),
            input_model=model,
            input_check=check,
            toolset=toolset,
            shared=bool(getattr(function, "_env_tool_shared", True)),
            concurrent=bool(getattr(function, "_env_tool_concurrent", False)) and not runs_alone,
            runs_alone=bool(runs_alone),
        )


def _reason_against_mark(raw: Any) -> str:
    """Return why an attribute that is no function is not a tool; empty if it isn't marked as
    one."""
    if isinstance(raw, staticmethod | classmethod) and getattr(raw, "_env_tool", False):
        return f"@tool is above @{type(raw).__name__}; put it below"
    if isinstance(raw, property | cached_property):
        getter = raw.fget if isinstance(raw, property) else raw.func
        if getattr(getter, "_env_tool", False) or getattr(raw, "_env_tool", False):
            return "it is a property; make it a method"
    return ""


def _reason_against(
    hints: dict[str, Any], parameters: list[str], output_type: type, *, has_schema: bool
) -> str:
    """Return why a method with this signature is not a tool; empty if it is."""
    if "return" not in hints:
        return "it lacks `-> ToolOutput`"
    if hints["return"] not in (output_type, ToolOutput):
        return f"it returns {_type_name(hints['return'])}, not {_type_name(output_type)}"
    count = len(parameters)
    if has_schema:
        if count == 1:
            return ""
        return f"it has an input_schema and takes {count} parameters, not one"
    if count > 1:
        return f"it takes {count} parameters; take one pydantic model or nothing"
    for name in parameters:
        kind = hints.get(name)
        if not (inspect.isclass(kind) and issubclass(kind, BaseModel)):
            claim = f"is {_type_name(kind)}" if name in hints else "has no annotation"
            return f"its parameter {name} {claim}; it must be a pydantic model"
    return ""


def _type_name(kind: Any) -> str:
    return "None" if kind is type(None) else inspect.formatannotation(kind)


def _terminal_of(owners: list[type], by_name: dict[str, Tool]) -> TerminalToolSpec | None:
    functions: dict[str, Any] = {}
    for owner in owners:
        for name in dir(owner):
            function = inspect.getattr_static(owner, name, None)
            if getattr(function, "_env_tool_terminal", False):
                if name in functions and functions[name] is not function:
                    raise Unhostable(
                        f"{owner.__name__}.{name}: a second @terminal tool of that name; keep one."
                    )
                functions[name] = function
    if not functions:
        return None
    if len(functions) > 1:
        raise Unhostable(
            f"{owners[0].__name__} has several @terminal tools ({', '.join(functions)}); "
            "keep at most one."
        )
    [(name, function)] = functions.items()
    label = f"@terminal tool {owners[0].__name__}.{name}"
    if name not in by_name:
        raise Unhostable(
            f"{label} is not a tool: add @tool, take one pydantic model or nothing, and annotate "
            "the return value as ToolOutput."
        )
    if getattr(function, "_env_tool_concurrent", False):
        raise Unhostable(f"{label} cannot be concurrent; it grades the episode.")
    model, check = by_name[name].input_model, by_name[name].input_check
    fields = list(check.schema.get("properties", {})) if check else []
    if model:
        fields = list(model.model_fields)
    if len(fields) > 1:
        raise Unhostable(
            f"{label} takes the final message, so its input model may have one field, not "
            f"{len(fields)} ({', '.join(fields)})."
        )
    return TerminalToolSpec(
        name=name, arg=fields[0] if fields else None, description=by_name[name].spec.description
    )
