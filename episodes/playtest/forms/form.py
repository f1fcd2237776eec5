"""Form: a tool's input as controls: begun anew, from a value or from what a page's controls hold; and back into JSON.

    form = Form(schema)            the schema of a tool's input
    form.fill(value)               or form.fresh(), or form.load(state)
    form.value() -> (value, problems)

Nothing here knows of a request or a page; `operating.py` acts on it, `rendering.py` shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from episodes.playtest.forms.control import FormPlace, FormProblem, State
from episodes.playtest.forms.schema import SchemaDocument
from episodes.playtest.forms.slot import Slot

MAX_SLOTS = 600
"""Of one form. What has more is JSON as a whole."""


class TooLarge(Exception):
    """The form would have more controls than a page can bear."""


class Form:
    def __init__(self, schema: Any, prefix: str = "form") -> None:
        """`prefix` begins the ids of the page's elements."""
        self.document = SchemaDocument(schema)
        self.prefix = prefix
        self._begin()

    def _begin(self) -> None:
        self.slots: list[Slot] = []
        self.root = self.slot(FormPlace(self, refs=frozenset(["#"])), self.document.root)

    # --- making, as parts ask for it ---------------------------------------------------------------------------------

    def slot(self, place: FormPlace, schema: Any, *, is_optional: bool = False) -> Slot:
        slot = Slot(self, place, schema, is_optional=is_optional)
        self.slots.append(slot)
        return slot

    def number(self) -> int:
        """Raises: TooLarge."""
        if len(self.slots) >= MAX_SLOTS:
            raise TooLarge
        return len(self.slots)

    # --- how it begins -----------------------------------------------------------------------------------------------

    def fresh(self) -> None:
        self._begin()
        try:
            self.root.fresh()
        except TooLarge:
            self._only_raw({})

    def fill(self, value: Any) -> None:
        """Hold exactly `value`, parsed JSON."""
        self._begin()
        try:
            self.root.fill(value)
        except TooLarge:
            self._only_raw(value)

    def take(self, value: Any) -> bool:
        """As `fill`; False, and JSON as a whole: the schema's controls cannot hold it."""
        self.fill(value)
        return not self.root.is_raw

    def load(self, state: State) -> None:
        """Hold what the page sent. Raises: TooLarge."""
        self._begin()
        self.root.load(state)

    def _only_raw(self, value: Any) -> None:
        self._begin()
        self.root.take_raw(value)

    # --- what it holds -----------------------------------------------------------------------------------------------

    def value(self) -> tuple[Any, list[FormProblem]]:
        """The value, and what cannot be read of it; with problems it is the nearest there is, NOTHING for nothing."""
        problems: list[FormProblem] = []
        return self.root.value(problems), problems

    def state(self) -> dict[str, str]:
        """What a page's controls hold when this is shown: the same that `load` reads."""
        return dict(entry for slot in _slots(self.root) for entry in _state_of(slot))

    def at(self, name: str) -> Slot | None:
        """The slot of this name, as the page knows it."""
        return next((slot for slot in _slots(self.root) if slot.place.name == name), None)


def _slots(slot: Slot) -> Iterator[Slot]:
    """A slot and all within it."""
    yield slot
    for inner in slot.control.parts() if slot.control else ():
        if isinstance(inner, Slot):  # as all are; controls know them as Part only
            yield from _slots(inner)


def _state_of(slot: Slot) -> Iterator[tuple[str, str]]:
    if slot.choices or slot.presence != "given":
        yield f"s{slot.place.name}", slot.presence
    if slot.control:
        yield from slot.control.state().items()
