"""Controls with parts: `Array`, a slot for each item, and `Members`, a slot for each member of an
object."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from episodes.people.forms.control import (
    Control,
    FormPart,
    FormPlace,
    FormProblem,
    State,
    whole_number,
)
from episodes.people.forms.schema import Meaning
from episodes.people.forms.values import NOTHING, is_plain, shown

MAX_ITEMS = 200
MAX_AT_FIRST = 20
"""Items of an empty form; `minItems` may ask for more."""
MAX_ENTRIES = 100
_FREE = ("patternProperties", "if", "dependentSchemas", "propertyNames", "minProperties")
"""Keywords about members that `properties` does not name."""


class Array(Control):
    """A list. The first items of a tuple have schemas of their own (`prefix`)."""

    template: ClassVar[str] = "people/form_array.html"
    is_group = True

    def __init__(self, place: FormPlace, meaning: Meaning) -> None:
        super().__init__(place, meaning)
        items = self.schema.get("items", True)
        # a list in draft 7 and earlier
        prefix = items if isinstance(items, list) else self.schema.get("prefixItems")
        self.prefix: list[Any] = prefix[:MAX_ITEMS] if isinstance(prefix, list) else []
        self.rest: Any = (
            self.schema.get("additionalItems", True) if isinstance(items, list) else items
        )
        self.slots: list[FormPart] = []

    @property
    def can_add(self) -> bool:
        most = whole_number(self.schema, "maxItems")
        allowed = MAX_ITEMS if most is None else min(most, MAX_ITEMS)
        return len(self.slots) < (
            allowed if self.rest is not False else min(allowed, len(self.prefix))
        )

    @property
    def can_remove(self) -> bool:
        return len(self.slots) > (whole_number(self.schema, "minItems") or 0)

    @property
    def moves_from(self) -> int:
        """Index of the first item that can be moved. The items of a tuple can't."""
        return len(self.prefix)

    def fresh(self) -> None:
        count = whole_number(self.schema, "minItems")
        count = len(self.prefix) if count is None else count
        self.slots = [self._slot(index) for index in range(min(count, MAX_AT_FIRST))]
        for slot in self.slots:
            slot.fresh()

    def fill(self, value: Any) -> bool:
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            return False
        self.slots = [self._slot(index) for index in range(len(value))]
        for slot, item in zip(self.slots, value, strict=True):
            slot.fill(item)
        return True

    def load(self, state: State) -> None:
        count = state.get(f"n{self.name}", "0")
        count = count if count.isdecimal() and len(count) < 5 else "0"
        self.slots = [self._slot(index) for index in range(min(int(count), MAX_ITEMS))]
        for slot in self.slots:
            slot.load(state)

    def state(self) -> dict[str, str]:
        return {f"n{self.name}": str(len(self.slots))}

    def value(self, problems: list[FormProblem]) -> Any:
        values = [slot.value(problems) for slot in self.slots]
        return [value for value in values if value is not NOTHING]

    def parts(self) -> Sequence[FormPart]:
        return self.slots

    def add(self) -> FormPart | None:
        """Add an empty item; None if there may be no more."""
        if not self.can_add:
            return None
        self.slots.append(self._slot(len(self.slots)))
        self.slots[-1].begin()
        return self.slots[-1]

    def _slot(self, index: int) -> FormPart:
        schema = self.prefix[index] if index < len(self.prefix) else self.rest
        return self.place.maker.slot(self.place.item(index), schema)


@dataclass(slots=True)
class Entry:
    """A member whose name is entered."""

    name: str
    slot: FormPart


class Members(Control):
    """An object: a slot for each member that the schema names, and entries for other members."""

    template: ClassVar[str] = "people/form_members.html"
    is_group = True

    def __init__(self, place: FormPlace, meaning: Meaning) -> None:
        super().__init__(place, meaning)
        members = self.schema.get("properties")
        self.named: dict[str, Any] = dict(members) if isinstance(members, dict) else {}
        required = self.schema.get("required")
        self.required = [str(name) for name in required] if isinstance(required, list) else []
        for name in self.required:
            self.named.setdefault(name, self._schema_of(name))
        self.slots: list[FormPart] = []
        self.entries: list[Entry] = []

    @property
    def can_add(self) -> bool:
        """Return whether members that the schema does not name can be added.

        It has to allow them, or to say nothing about members. A tool whose schema says nothing has
        no fields.
        """
        others = self.schema.get("additionalProperties")
        is_silent = "properties" not in self.schema and not self.named and self.place.depth > 0
        is_free = bool(self.schema.keys() & set(_FREE)) or is_silent
        return (
            (others not in (None, False) or is_free)
            and len(self.entries) < MAX_ENTRIES
            and not self._is_closed
        )

    @property
    def has_optional(self) -> bool:
        """Return whether a named member can be left out; plain forms fold those."""
        return any(name not in self.required for name in self.named)

    @property
    def _is_closed(self) -> bool:
        return (
            self.schema.get("additionalProperties") is False
            and "patternProperties" not in self.schema
        )

    def fresh(self) -> None:
        self.slots = [self._slot(name) for name in self.named]
        for slot in self.slots:
            slot.fresh()

    def fill(self, value: Any) -> bool:
        others = (
            [name for name in value if name not in self.named] if isinstance(value, dict) else []
        )
        if (
            not isinstance(value, dict)
            or len(others) > MAX_ENTRIES
            or not all(map(is_plain, others))
        ):
            return False
        self.slots = [self._slot(name) for name in self.named]
        for slot, name in zip(self.slots, self.named, strict=True):
            slot.fill(value.get(name, NOTHING))
        self.entries = [self._entry(index, name) for index, name in enumerate(others)]
        for entry in self.entries:
            entry.slot.fill(value[entry.name])
        return True

    def load(self, state: State) -> None:
        self.slots = [self._slot(name) for name in self.named]
        count = state.get(f"n{self.name}", "0")
        count = count if count.isdecimal() and len(count) < 5 else "0"
        names = [
            state.get(f"k{self.name}/e{index}", "") for index in range(min(int(count), MAX_ENTRIES))
        ]
        self.entries = [self._entry(index, name) for index, name in enumerate(names)]
        for slot in self.parts():
            slot.load(state)

    def state(self) -> dict[str, str]:
        names = {f"k{entry.slot.place.name}": entry.name for entry in self.entries}
        return {f"n{self.name}": str(len(self.entries)), **names}

    def value(self, problems: list[FormProblem]) -> Any:
        found = {
            name: slot.value(problems) for name, slot in zip(self.named, self.slots, strict=True)
        }
        for entry in self.entries:
            if entry.name in found:
                problems.append(
                    entry.slot.problem(
                        f"There is another member named {shown(entry.name)}. Rename one."
                    )
                )
            found[entry.name] = entry.slot.value(problems)
        return {name: value for name, value in found.items() if value is not NOTHING}

    def parts(self) -> Sequence[FormPart]:
        return [*self.slots, *(entry.slot for entry in self.entries)]

    def add(self) -> FormPart | None:
        """Add an entry without a name; None if there may be no more."""
        if not self.can_add:
            return None
        self.entries.append(self._entry(len(self.entries), ""))
        self.entries[-1].slot.begin()
        return self.entries[-1].slot

    def _slot(self, name: str) -> FormPart:
        return self.place.maker.slot(
            self.place.member(name), self.named[name], is_optional=name not in self.required
        )

    def _entry(self, index: int, name: str) -> Entry:
        return Entry(
            name, self.place.maker.slot(self.place.entry(index, name), self._schema_of(name))
        )

    def _schema_of(self, name: str) -> Any:
        """Return the schema of a member that `properties` does not name."""
        patterns = self.schema.get("patternProperties")
        found = (
            [one for pattern, one in patterns.items() if _matches(pattern, name)]
            if isinstance(patterns, dict)
            else []
        )
        if not found:
            others = self.schema.get("additionalProperties", True)
            return True if others is False else others
        return found[0] if len(found) == 1 else {"allOf": found}


def _matches(pattern: str, name: str) -> bool:
    try:
        return bool(re.search(pattern, name))
    except re.error:
        return False
