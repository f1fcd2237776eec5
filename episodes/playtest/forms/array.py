"""Array: a control with a slot for each item; a tuple has a schema of its own for each of the first ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from episodes.playtest.forms.control import Control, Part, Place, Problem, State, whole_number
from episodes.playtest.forms.document import Meaning
from episodes.playtest.forms.values import NOTHING

MOST_ITEMS = 200
MOST_AT_FIRST = 20


class Array(Control):
    template: ClassVar[str] = "playtest/form_array.html"
    is_group = True

    def __init__(self, place: Place, meaning: Meaning) -> None:
        super().__init__(place, meaning)
        items = self.schema.get("items", True)
        prefix = items if isinstance(items, list) else self.schema.get("prefixItems")  # a list: draft 7 and before
        self.prefix: list[Any] = prefix[:MOST_ITEMS] if isinstance(prefix, list) else []
        self.rest: Any = self.schema.get("additionalItems", True) if isinstance(items, list) else items
        self.slots: list[Part] = []

    @property
    def can_add(self) -> bool:
        most = whole_number(self.schema, "maxItems")
        allowed = MOST_ITEMS if most is None else min(most, MOST_ITEMS)
        return len(self.slots) < (allowed if self.rest is not False else min(allowed, len(self.prefix)))

    @property
    def can_remove(self) -> bool:
        return len(self.slots) > (whole_number(self.schema, "minItems") or 0)

    @property
    def moves_from(self) -> int:
        """Index of the first item that can change places: those of a tuple cannot."""
        return len(self.prefix)

    def fresh(self) -> None:
        count = whole_number(self.schema, "minItems")
        count = len(self.prefix) if count is None else count
        self.slots = [self._slot(index) for index in range(min(count, MOST_AT_FIRST))]
        for slot in self.slots:
            slot.fresh()

    def fill(self, value: Any) -> bool:
        if not isinstance(value, list) or len(value) > MOST_ITEMS:
            return False
        self.slots = [self._slot(index) for index in range(len(value))]
        for slot, item in zip(self.slots, value, strict=True):
            slot.fill(item)
        return True

    def load(self, state: State) -> None:
        count = state.get(f"n{self.name}", "0")
        count = count if count.isdecimal() and len(count) < 5 else "0"
        self.slots = [self._slot(index) for index in range(min(int(count), MOST_ITEMS))]
        for slot in self.slots:
            slot.load(state)

    def state(self) -> dict[str, str]:
        return {f"n{self.name}": str(len(self.slots))}

    def value(self, problems: list[Problem]) -> Any:
        values = [slot.value(problems) for slot in self.slots]
        return [value for value in values if value is not NOTHING]

    def parts(self) -> Sequence[Part]:
        return self.slots

    def add(self) -> Part | None:
        """One more item, as it is at first; None: there may be no more."""
        if not self.can_add:
            return None
        self.slots.append(self._slot(len(self.slots)))
        self.slots[-1].begin()
        return self.slots[-1]

    def _slot(self, index: int) -> Part:
        schema = self.prefix[index] if index < len(self.prefix) else self.rest
        return self.place.maker.slot(self.place.item(index), schema)
