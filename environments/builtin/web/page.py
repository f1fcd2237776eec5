"""A page of the bundled site as a person or an agent reads it: lines of text with numbered links,
fields and buttons.

`site.py` creates pages; `web.py` shows them and clicks on them. There is no HTML: agents read this
text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from environments.errors import ToolError, shorten

LEGEND = "[n] is a link, {n} a field, <n> a button."
MAX_LISTING_CHARACTERS = 900
"""Characters of what a page has, in a refusal."""


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    url: str


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a page; with empty `choices` it takes any text."""

    name: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Button:
    """A button; `action` is sent to the site together with the fields of the page."""

    label: str
    action: str


Control = Link | Field | Button
Part = str | Control
Row = Sequence[Part]


@dataclass(frozen=True)
class Page:
    """`rows` of text and controls; a row that is text alone may be a heading that starts with #."""

    title: str
    rows: list[Row]
    controls: list[Control] = field(init=False)
    """Controls in order of appearance; the number of a control is its position, from 1."""

    def __post_init__(self) -> None:
        controls = [part for row in self.rows for part in row if not isinstance(part, str)]
        object.__setattr__(self, "controls", controls)

    @property
    def fields(self) -> list[Field]:
        return [control for control in self.controls if isinstance(control, Field)]

    def text(self, url: str, values: Mapping[str, str]) -> str:
        """Return the page as text; `values` replaces what the site put in its fields."""
        numbers = iter(range(1, len(self.controls) + 1))
        lines = ["  ".join(_part_text(part, numbers, values) for part in row) for row in self.rows]
        return "\n".join([self.title, url, "", *lines])

    def clickable(self, target: str) -> Link | Button:
        """Return the link or button with that number or text. Raises: ToolError naming what the page has."""
        match = self._find(
            target, [control for control in self.controls if not isinstance(control, Field)]
        )
        if isinstance(match, Field):
            raise ToolError(f"{match.label!r} is a field; use `type` to fill it in.")
        return match

    def field(self, target: str) -> Field:
        """Return the field with that number or label. Raises: ToolError naming the fields of the page."""
        control = self._find(target, self.fields)
        if not isinstance(control, Field):
            raise ToolError(
                f"{control.label!r} isn't a field; use `click` for it. {self._listing(self.fields)}"
            )
        return control

    def _find(self, target: str, among: Sequence[Control]) -> Control:
        """Find a control by number, or one of `among` by text: the whole label, else the only one that has it."""
        number = target.strip("[]{}<> ")
        if number.isdecimal():
            if 1 <= int(number) <= len(self.controls):
                return self.controls[int(number) - 1]
            raise ToolError(
                f"There is no number {shorten(number, 20)} on this page. {self._listing(among)}"
            )
        label = target.strip().casefold()
        exact = [control for control in among if control.label.casefold() == label]
        matches = exact or [
            control for control in among if label and label in control.label.casefold()
        ]
        if not matches:
            raise ToolError(
                f"There is no {shorten(target, 80)!r} on this page. {self._listing(among)}"
            )
        if len(set(matches)) > 1:
            raise ToolError(
                f"{shorten(target, 80)!r} fits several; name one by its number. "
                f"{self._listing(matches)}"
            )
        return matches[0]

    def _listing(self, among: Sequence[Control]) -> str:
        if not among:
            return "It has no field to fill in."
        labels = [_label(control, self.controls.index(control) + 1) for control in among]
        return shorten(f"It has: {', '.join(labels)}.", MAX_LISTING_CHARACTERS)


def _label(control: Control, number: int) -> str:
    marks = {Link: "[]", Field: "{}", Button: "<>"}[type(control)]
    return f"{marks[0]}{number}{marks[1]} {control.label}"


def _part_text(part: Part, numbers: Iterator[int], values: Mapping[str, str]) -> str:
    if isinstance(part, str):
        return part
    label = _label(part, next(numbers))
    if not isinstance(part, Field):
        return label
    choices = f" ({' | '.join(part.choices)})" if part.choices else ""
    return f"{label}{choices}: {values.get(part.name, part.value) or '____'}"
