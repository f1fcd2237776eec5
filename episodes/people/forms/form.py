"""A form: a tool's input as controls, made from its schema, filled with a value or a page's state,
and read as JSON.

    form = Form(schema)            the schema of a tool's input
    form.fill(value)               or form.fresh(), or form.load(state)
    form.value() -> (value, problems)

There are no requests or pages here; `operations.py` changes forms, `answer.py` renders them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from episodes.people.forms.control import FormPlace, FormProblem, State
from episodes.people.forms.schema import SchemaDocument
from episodes.people.forms.slot import Slot

MAX_SLOTS = 600
"""Slots of one form. An input with more is entered as JSON."""


class TooLarge(Exception):
    """The form would have more than MAX_SLOTS slots."""


class Form:
    def __init__(self, schema: Any, prefix: str = "form", *, is_plain: bool = False) -> None:
        """Create the form; `prefix` is put before the ids of elements on the page.

        A plain form is for lay people: it folds optional fields and does not speak of JSON.
        """
        self.is_plain = is_plain
        self.document = SchemaDocument(schema)
        self.prefix = prefix
        self._clear()

    def _clear(self) -> None:
        self.slots: list[Slot] = []
        self.root = self.slot(FormPlace(self, refs=frozenset(["#"])), self.document.root)

    # --- the Maker of its parts -------------------------------------------------------------------

    def slot(self, place: FormPlace, schema: Any, *, is_optional: bool = False) -> Slot:
        slot = Slot(self, place, schema, is_optional=is_optional)
        self.slots.append(slot)
        return slot

    def number(self) -> int:
        """Return the number of slots so far. Raises: TooLarge."""
        if len(self.slots) >= MAX_SLOTS:
            raise TooLarge
        return len(self.slots)

    # --- content ----------------------------------------------------------------------------------

    def fresh(self) -> None:
        """Become the form before anybody has used it."""
        self._clear()
        try:
            self.root.fresh()
        except TooLarge:
            self._only_raw({})

    def fill(self, value: Any) -> None:
        """Take exactly `value`, which is parsed JSON."""
        self._clear()
        try:
            self.root.fill(value)
        except TooLarge:
            self._only_raw(value)

    def take(self, value: Any) -> bool:
        """Take exactly `value`; False if it had to be entered as JSON, because the controls cannot
        represent it."""
        self.fill(value)
        return not self.root.is_raw

    def load(self, state: State) -> None:
        """Take the state of a page. Raises: TooLarge."""
        self._clear()
        self.root.load(state)

    def _only_raw(self, value: Any) -> None:
        self._clear()
        self.root.take_raw(value)

    # --- reading ----------------------------------------------------------------------------------

    def value(self) -> tuple[Any, list[FormProblem]]:
        """Return the value and its problems. With problems, the value is the best approximation, or
        NOTHING."""
        problems: list[FormProblem] = []
        return self.root.value(problems), problems

    def state(self) -> dict[str, str]:
        """Return the content of the page's controls when the form is shown, as `load` reads it."""
        return dict(entry for slot in _slots(self.root) for entry in _state_of(slot))

    def at(self, name: str) -> Slot | None:
        """Return the slot with that name on the page; None if there is none."""
        return next((slot for slot in _slots(self.root) if slot.place.name == name), None)


def _slots(slot: Slot) -> Iterator[Slot]:
    """Yield a slot and all slots inside it."""
    yield slot
    for inner in slot.control.parts() if slot.control else ():
        if isinstance(inner, Slot):  # all are; controls know them as FormPart
            yield from _slots(inner)


def _state_of(slot: Slot) -> Iterator[tuple[str, str]]:
    if slot.choices or slot.presence != "given":
        yield f"s{slot.place.name}", slot.presence
    if slot.control:
        yield from slot.control.state().items()
