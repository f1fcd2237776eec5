"""What an environment class declares about itself: its name, splits, tools and availability, read
and checked once.

`hosted_class.py` calls these functions when the class is hosted. Each of them raises Unhostable,
with one sentence that says what to change, when a declaration is wrong.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from os.path import commonprefix
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError

from environments import wire
from environments.authoring.reserved_names import CONTRACT, RESERVED_NAMES
from environments.authoring.tools import ToolTable, find_tools
from environments.errors import MAX_QUOTED_CHARACTERS, Unhostable, describe, explained, shorten
from environments.wire import Split, ToolSpec

MAX_NAME_CHARACTERS = 200
"""Longest name of an environment or a split: the width of their database columns."""
MAX_CARD_BYTES = 200_000
_OWN_DIRECTORY = Path(__file__).resolve().parents[2]


class HandControl(BaseModel):
    """A button, and perhaps a key, that makes one call when a person plays."""

    model_config = ConfigDict(extra="forbid")

    label: str = Field(min_length=1, max_length=40)
    tool: str
    input: dict[str, Any] = {}
    key: str = Field(default="", max_length=30)
    """The key as browsers name it, such as "ArrowUp", "p" or "Shift+ArrowUp"; empty for a button without a key."""


class HandMark(BaseModel):
    """How an environment's text marks what can be pressed: a number between two marks, such as `[3] Shop`."""

    model_config = ConfigDict(extra="forbid")

    open: str = Field(min_length=1, max_length=10)
    close: str = Field(min_length=1, max_length=10)
    tool: str
    argument: str
    """The argument of the tool that gets the number, as text."""


class HandControls(BaseModel):
    """How people play an environment by hand, as its `hand_controls()` says."""

    model_config = ConfigDict(extra="forbid")

    controls: list[HandControl] = Field(default=[], max_length=40)
    drawing: Literal["", "image", "text"] = ""
    """What stays in view: the newest image, the newest text, or nothing."""
    marks: list[HandMark] = Field(default=[], max_length=10)
    """What people can press in the text that stays in view."""


def check_class_methods(cls: type) -> None:
    """Check that the methods called on the class are class methods. Raises: Unhostable."""
    for method in (
        "name",
        "list_splits",
        "list_tasks",
        "num_tasks",
        "get_task",
        "get_task_range",
        "list_tools",
        "hand_controls",
    ):
        function = inspect.getattr_static(cls, method, None)
        if not inspect.isfunction(function):
            continue
        if next(iter(inspect.signature(function).parameters), "") in ("self", "cls"):
            raise Unhostable(
                f"{cls.__name__}.{method}() must be a class method; put @classmethod above it."
            )


def served_name(cls: type, alias: str | None) -> str:
    """Return the name in URLs, in lower case: `alias`, or what the class's `name()` returns."""
    name = alias if alias is not None else _ask(cls, "name")
    if not isinstance(name, str) or not name:
        raise Unhostable(
            f"{cls.__name__}.name() returned {_short_repr(name)}; return a non-empty string."
        )
    return check_name(str(name), "serve it as other_name=module:Class")


def check_name(name: str, remedy: str) -> str:
    """Return `name` in lower case. `remedy` says how to choose another. Raises: Unhostable if no
    environment may have it."""
    name = name.lower()
    _check_length("Environment", name, remedy)
    if not name.strip(".") or not all(char.isalnum() or char in "-_.~" for char in name):
        raise Unhostable(
            f"Environment name {name!r} cannot be part of a URL; use letters, digits, "
            "'-', '_' and '.'."
        )
    if name in RESERVED_NAMES:
        raise Unhostable(f"Environment name {name!r} is reserved by the server; {remedy}.")
    return name


def toolsets_of(cls: type) -> tuple[type, ...]:
    """Return the classes in the attribute `toolsets`; empty if it is not declared."""
    toolsets = getattr(cls, "toolsets", None) or ()
    if not isinstance(toolsets, Sequence) or not all(
        isinstance(toolset, type) for toolset in toolsets
    ):
        raise Unhostable(
            f"{cls.__name__}.toolsets must be a tuple of classes, such as (MyToolset,)."
        )
    return tuple(toolsets)


def names_of(cls: type, attribute: str) -> tuple[str, ...]:
    """Return the names in a class attribute such as `hidden_fields`; empty if it is missing."""
    names = getattr(cls, attribute, None)
    label = f"{cls.__name__}.{attribute}"
    if isinstance(names, str):
        raise Unhostable(
            f"{label} is the text {_short_repr(names)}; write a tuple of names, such "
            f"as ({names!r},)."
        )
    if names is None:
        return ()
    if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
        raise Unhostable(
            f'{label} is {_short_repr(names)}; write a tuple of names, such as ("answer",).'
        )
    return tuple(names)


def misspelled_attributes(cls: type, base: type) -> list[str]:
    """Return a sentence for each attribute that is probably a misspelled one of the contract.

    `base`: the Environment of its SDK, whose own attributes are left out.
    """
    names = {
        name
        for owner in cls.__mro__
        if owner is not base and issubclass(owner, base)
        for name in vars(owner)
    }
    sentences = []
    for name in sorted(names - CONTRACT - set(dir(base))):
        if getattr(inspect.getattr_static(cls, name), "_env_tool", False):
            continue
        similar = (other for other in sorted(CONTRACT - names) if _is_one_edit_away(name, other))
        if suggestion := next(similar, ""):
            sentences.append(
                f"{cls.__name__}.{name} is no attribute that a server reads; did you mean "
                f"{suggestion}?"
            )
    return sentences


def _is_one_edit_away(name: str, other: str) -> bool:
    """Return whether `other` is `name` with one letter left out, added, replaced or swapped with
    the next."""
    start = len(commonprefix([name, other]))  # noqa: RUF071  (by characters, as here)
    mine, theirs = name[start:], other[start:]
    is_swapped = mine[:2] == theirs[1::-1] and mine[2:] == theirs[2:]
    return name != other and (
        mine[1:] == theirs[1:] or mine[1:] == theirs or mine == theirs[1:] or is_swapped
    )


def tools_of(cls: type, toolsets: tuple[type, ...], output: type[BaseModel]) -> ToolTable:
    """Return the tools of the class and its toolsets; `output` is the ToolOutput type of its
    SDK."""
    try:
        return find_tools(cls, toolsets, output)
    except NameError as error:
        raise Unhostable(
            f"{cls.__name__} has a tool whose annotations cannot be resolved ({error})."
        ) from error
    except PydanticUserError as error:
        raise Unhostable(
            f"{cls.__name__} has a tool whose input has no JSON Schema: {error.message}."
        ) from error


def splits_of(cls: type) -> list[Split]:
    """Return the splits that `list_splits()` returns, in order; empty if it is not implemented."""
    label = f"{cls.__name__}.list_splits()"
    try:
        answer = _ask(cls, "list_splits")
        if not isinstance(answer, Iterable):
            example = "return a list of names or Split(name, type), such as ['train']"
            raise Unhostable(f"{label} returned {_short_repr(answer)}; {example}.")
        splits = []
        for item in [answer] if isinstance(answer, str) else answer:
            if isinstance(item, str):
                kind = item if item in get_args(wire.SplitType) else "validation"
                splits.append(Split(name=item, type=kind))  # type: ignore[arg-type]
            else:
                fields = item.model_dump() if isinstance(item, BaseModel) else item
                splits.append(Split.model_validate(fields))
    except NotImplementedError:
        return []
    except Unhostable:
        raise
    except ValidationError as error:
        raise Unhostable(
            f"{label} must return names or Split(name, type); {error.error_count()} wrong values."
        ) from error
    except (Exception, SystemExit) as error:  # iterating may run the author's code
        raise Unhostable(f"{label} raised {explained(error)}.") from error
    for split in splits:
        _check_length("Split", split.name, "shorten it")
    names = [split.name for split in splits]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Unhostable(f"{label} returns {twice!r} twice; name each split once.")
    return splits


def unavailable_of(cls: type) -> str:
    """Return the sentence that the class method `unavailable` returns, on one line; empty if the
    class is available.

    A class of any SDK may have that method.
    """
    if not isinstance(inspect.getattr_static(cls, "unavailable", None), classmethod | staticmethod):
        return ""
    reason = _ask(cls, "unavailable")
    if not isinstance(reason, str | None):
        raise Unhostable(
            f"{cls.__name__}.unavailable() returned {reason!r}; return a sentence, or None."
        )
    return " ".join((reason or "").split())


def hand_controls_of(cls: type) -> HandControls:
    """Return what the class method `hand_controls` returns; a class of any SDK may have it."""
    if not isinstance(
        inspect.getattr_static(cls, "hand_controls", None), classmethod | staticmethod
    ):
        return HandControls()
    answer = _ask(cls, "hand_controls")
    try:
        return HandControls() if answer is None else HandControls.model_validate(answer)
    except ValidationError as error:
        raise Unhostable(
            f"{cls.__name__}.hand_controls() returned {_short_repr(answer)}, which can't be "
            f"used: {describe(error)}. "
            'Return {"controls": [{"label": …, "tool": …, "input": {…}, "key": …}], "drawing": '
            '"image"}.'
        ) from error


def card_of(cls: type) -> str:
    """Return the Markdown text about `cls` (its "card"); empty if there is none.

    It is in `<module>.md` next to the module of the class, or else in `README.md` in the same
    directory, but never in this server's own README.
    """
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if not file:
        return ""
    module = Path(file).resolve()
    directory = module.parent
    stem = directory.name if module.stem == "__init__" else module.stem
    names = [f"{stem}.md"] if directory == _OWN_DIRECTORY else [f"{stem}.md", "README.md"]
    for name in names:
        with suppress(OSError), (directory / name).open("rb") as card:
            text = card.read(MAX_CARD_BYTES).decode("utf-8", "replace").replace("\0", "").strip()
            if text:
                return text
    return ""


def plain_schema(schema: Any) -> dict[str, Any]:
    """Return a declared `task_schema` as a JSON Schema: it may be a pydantic model, or a method
    that returns one.

    Raises: TypeError, and whatever the author's code raises.
    """
    if inspect.ismethod(schema) or inspect.isfunction(schema):
        schema = schema()
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        schema = schema.model_json_schema()
    if not isinstance(schema, dict):
        raise TypeError(
            f"it is {type(schema).__name__}, not a pydantic model or a JSON Schema as a dict"
        )
    return schema


def listed_tools(cls: type) -> list[ToolSpec]:
    """Return the tools that the class's own `list_tools()` returns."""
    listing = _ask(cls, "list_tools")
    try:
        return plain_specs(listing)
    except Exception as error:  # whatever the author returned
        raise Unhostable(
            f"{cls.__name__}.list_tools() must return a ListToolsOutput, not "
            f"{_short_repr(listing)}."
        ) from error


def plain_specs(listing: Any) -> list[ToolSpec]:
    """Return the tools of any SDK's ListToolsOutput as this server's ToolSpecs."""
    return [ToolSpec.model_validate(spec.model_dump()) for spec in listing.tools]


def _ask(cls: type, method: str) -> Any:
    """Return the return value of a class method of the author's. Raises: NotImplementedError,
    Unhostable."""
    label = f"{cls.__name__}.{method}()"
    try:
        answer = getattr(cls, method)()
    except NotImplementedError:
        raise
    except (Exception, SystemExit) as error:
        raise Unhostable(f"{label} raised {explained(error)}.") from error
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # otherwise Python warns that it was never awaited
        raise Unhostable(f"{label} is async; make it a plain method.")
    return answer


def _short_repr(value: Any) -> str:
    """Return the repr of what an author's method returned, shortened and on one line."""
    return " ".join(shorten(repr(value), MAX_QUOTED_CHARACTERS).split())


def _check_length(kind: str, name: str, remedy: str) -> None:
    if len(name) > MAX_NAME_CHARACTERS:
        raise Unhostable(
            f"{kind} name {shorten(name, 40)!r} has {len(name)} characters, but at most "
            f"{MAX_NAME_CHARACTERS} are "
            f"allowed; {remedy}."
        )
