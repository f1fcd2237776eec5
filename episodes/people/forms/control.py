"""Base class of the controls with which people enter the parts of a value, and the interfaces
between parts of a form.

A control gets its content in one of three ways: as an empty control (`fresh`), from a value
(`fill`) or from a page's state (`load`). Then it has a `value` and can be rendered by its template.
`fields`, `groups` and `choice` have a class for each kind of control.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from episodes.people.forms.schema import Meaning, SchemaDocument

State = Mapping[str, str]
"""Content of the controls on a page: the letter of a role and the control's name -> text."""
Path = tuple[str | int, ...]
"""Names and indexes that lead to a part of a value, from the outside in."""


@dataclass(frozen=True, slots=True)
class FormProblem:
    """A problem with a value of the form."""

    path: Path
    """The part of the value that the message is about."""
    message: str


class FormPart(Protocol):
    """A slot (`slot.py`) as the controls around it use it."""

    place: FormPlace
    meaning: Meaning
    control: Control | None

    def fresh(self) -> None: ...
    def begin(self) -> None: ...
    def fill(self, value: Any) -> None: ...
    def load(self, state: State) -> None: ...
    def value(self, problems: list[FormProblem]) -> Any: ...
    def problem(self, message: str) -> FormProblem: ...


class Maker(Protocol):
    """A form as its parts use it: it makes and counts them."""

    document: SchemaDocument
    is_plain: bool
    """Whether the form is for lay people."""

    def slot(self, place: FormPlace, schema: Any, *, is_optional: bool = False) -> FormPart: ...
    def number(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FormPlace:
    """The position of a part in its form."""

    maker: Maker
    name: str = ""
    """From the outside in: `/pNAME` a member, `/i3` an item, `/e0` a member with an entered name,
    `/b1` a branch."""
    path: Path = ()
    label: str = ""
    depth: int = 0
    refs: frozenset[str] = frozenset()
    """References that were followed from the root to this part."""

    def member(self, name: str) -> FormPlace:
        escaped = name.replace("~", "~0").replace("/", "~1")
        return self._within(f"/p{escaped}", name, name)

    def item(self, index: int) -> FormPlace:
        return self._within(f"/i{index}", index, str(index + 1))

    def entry(self, index: int, name: str) -> FormPlace:
        return self._within(f"/e{index}", name, name)

    def branch(self, index: int, refs: frozenset[str]) -> FormPlace:
        return replace(self, name=f"{self.name}/b{index}", refs=self.refs | refs)

    def _within(self, step: str, part: str | int, label: str) -> FormPlace:
        return replace(
            self, name=self.name + step, path=(*self.path, part), label=label, depth=self.depth + 1
        )


class Control(ABC):
    """A control for one part of a value."""

    template: ClassVar[str]
    is_group: ClassVar[bool] = False
    """Whether the control has parts of its own, which are made only when they have content."""

    def __init__(self, place: FormPlace, meaning: Meaning) -> None:
        self.place = place
        self.meaning = meaning
        self.schema = meaning.schema
        self.name = place.name

    def fresh(self) -> None:  # noqa: B027 - most controls start empty
        """Become the control before anybody has used it. The slot fills in the schema's default."""

    @abstractmethod
    def fill(self, value: Any) -> bool:
        """Take exactly this value; False if the control cannot represent it."""

    def carry_text(self, text: str) -> None:  # noqa: B027 - most controls hold no text
        """Take a text or number from another branch of a union, if it fits."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Take the content of the page's control with this name."""

    @abstractmethod
    def state(self) -> dict[str, str]:
        """Return the content of the control on a page, without its parts, as `load` reads it."""

    def parts(self) -> Sequence[FormPart]:
        """Return the slots inside the control."""
        return []

    @abstractmethod
    def value(self, problems: list[FormProblem]) -> Any:
        """Return the JSON value. Without a valid one, add a problem to `problems` and return
        NOTHING or the text."""

    def problem(self, message: str) -> FormProblem:
        return FormProblem(self.place.path, message)


def whole_number(schema: Any, key: str) -> int | None:
    """Return the value of a keyword that is a count; None for other values."""
    value = schema.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def words(schema: Any, key: str) -> str:
    """Return the text of a keyword in characters that a page can show; empty for other values."""
    value = schema.get(key)
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""
