"""Control: what one part of a value is entered with. `leaves`, `array`, `members` and `choice` have one class a kind.

A control begins in one of three ways: anew (`fresh`), from a value (`fill`), or from what a page sent (`load`). It can
then tell its value and be shown by its template.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from episodes.playtest.forms.schema import Meaning, SchemaDocument

State = Mapping[str, str]
"""What the controls of a page hold: a role's letter and the control's name -> text."""
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FormProblem:
    path: Path
    """Where in the value: names and indexes from the outside in."""
    message: str


class FormPart(Protocol):
    """A slot, as the controls around it know it; see `slot.py`."""

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
    """What makes the parts of a form; it counts them."""

    document: SchemaDocument

    def slot(self, place: FormPlace, schema: Any, *, is_optional: bool = False) -> FormPart: ...
    def number(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FormPlace:
    """Where in a form a part stands."""

    maker: Maker
    name: str = ""
    """From the outside in: `/pNAME` a member, `/i3` an item, `/e0` a member whose name is written, `/b1` a branch."""
    path: Path = ()
    label: str = ""
    depth: int = 0
    refs: frozenset[str] = frozenset()
    """References that led here from the root."""

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
        return replace(self, name=self.name + step, path=(*self.path, part), label=label, depth=self.depth + 1)


class Control(ABC):
    template: ClassVar[str]
    is_group: ClassVar[bool] = False
    """Whether it has parts of its own, which are made only where something is in them."""

    def __init__(self, place: FormPlace, meaning: Meaning) -> None:
        self.place = place
        self.meaning = meaning
        self.schema = meaning.schema
        self.name = place.name

    def fresh(self) -> None:  # noqa: B027 - most are made that way
        """As it is before anybody touched it. The default is the slot's to fill in."""

    @abstractmethod
    def fill(self, value: Any) -> bool:
        """Hold exactly this value; False: it cannot."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Hold what the page's control of this name did."""

    @abstractmethod
    def state(self) -> dict[str, str]:
        """What its elements on the page hold, those of its parts aside: what `load` reads."""

    def parts(self) -> Sequence[FormPart]:
        """The slots within."""
        return []

    @abstractmethod
    def value(self, problems: list[FormProblem]) -> Any:
        """The JSON value; where there is none, NOTHING or the text as it is, with a problem added."""

    def problem(self, message: str) -> FormProblem:
        return FormProblem(self.place.path, message)


def whole_number(schema: Any, key: str) -> int | None:
    """The keyword's value, where it is a count."""
    value = schema.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def words(schema: Any, key: str) -> str:
    """The keyword's text as a page can carry it; empty where it is none."""
    value = schema.get(key)
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""
