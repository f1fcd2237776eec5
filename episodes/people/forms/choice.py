"""The control of a union: a choice between its branches, and the control of the chosen branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from environments.display.schema_fields import kind_of
from episodes.people.forms.branch_match import has_own_constant, matches
from episodes.people.forms.control import Control, FormPart, FormPlace, FormProblem, State, words
from episodes.people.forms.groups import Members
from episodes.people.forms.schema import Meaning
from episodes.people.forms.values import NOTHING, is_plain, number_text, shown

Make = Callable[[FormPlace, Meaning], Control]


class Choice(Control):
    """A choice between the branches of a union. `branch_control` is None before one is chosen."""

    template: ClassVar[str] = "people/form_choice.html"
    is_group = True

    def __init__(self, place: FormPlace, meaning: Meaning, make: Make) -> None:
        super().__init__(place, meaning)
        self.make = make
        self.chosen: int | None = None
        self.branch_control: Control | None = None

    @property
    def options(self) -> list[str]:
        """Names of the branches, numbered where they are equal."""
        names = [self._name_of(branch) for branch in self.meaning.branches]
        return [
            name if names.count(name) == 1 else f"{name} ({at + 1})"
            for at, name in enumerate(names)
        ]

    @property
    def description(self) -> str:
        return (
            words(self.meaning.branches[self.chosen].schema, "description")
            if self.chosen is not None
            else ""
        )

    def fresh(self) -> None:
        """Choose the first branch that is not recursive, if there is one."""
        inner = [
            index
            for index, one in enumerate(self.meaning.branches)
            if not one.refs & self.place.refs
        ]
        if inner:
            self._take(inner[0]).fresh()

    def fill(self, value: Any) -> bool:
        branches = self.meaning.branches
        document = self.place.maker.document
        matching = [at for at, one in enumerate(branches) if matches(document, one.schema, value)]
        by_constant = [
            at for at, one in enumerate(branches) if has_own_constant(document, one.schema, value)
        ]
        return any(
            self._take(index).fill(value)
            for index in [*matching, *by_constant, *range(len(branches))]
        )

    def load(self, state: State) -> None:
        chosen = state.get(f"c{self.name}", "")
        if chosen.isdecimal() and len(chosen) < 4 and int(chosen) < len(self.meaning.branches):
            self._take(int(chosen)).load(state)

    def state(self) -> dict[str, str]:
        chosen = "" if self.chosen is None else str(self.chosen)
        return {
            f"c{self.name}": chosen,
            **(self.branch_control.state() if self.branch_control else {}),
        }

    def parts(self) -> Sequence[FormPart]:
        return self.branch_control.parts() if self.branch_control else []

    def value(self, problems: list[FormProblem]) -> Any:
        if self.branch_control is None:
            problems.append(self.problem(f"Choose one of: {', '.join(self.options)}."))
            return NOTHING
        return self.branch_control.value(problems)

    def choose(self, index: int) -> None:
        """Choose another branch, which keeps what it can of the entered value."""
        value = self.branch_control.value([]) if self.branch_control else NOTHING
        control = self._take(min(max(index, 0), len(self.meaning.branches) - 1))
        control.fresh()
        if value is not NOTHING:
            self._carry(control, value)

    def _carry(self, control: Control, value: Any) -> None:
        """Take what fits of `value`: members by name, also within members, items of a list, and
        text as a number."""
        document = self.place.maker.document
        if isinstance(value, dict) and isinstance(control, Members):
            for name, slot in zip(control.named, control.slots, strict=True):
                if name in value:
                    self._carry_into(slot, value[name])
        elif matches(document, control.schema, value):
            if not control.fill(value):
                control.fresh()
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            control.carry_text(value if isinstance(value, str) else number_text(value))

    def _carry_into(self, slot: FormPart, value: Any) -> None:
        if matches(self.place.maker.document, slot.meaning.schema, value):
            slot.fill(value)
        elif slot.control is not None:
            self._carry(slot.control, value)

    def _take(self, index: int) -> Control:
        branch = self.meaning.branches[index]
        self.chosen, self.branch_control = (
            index,
            self.make(self.place.branch(index, branch.refs), branch),
        )
        return self.branch_control

    def _name_of(self, branch: Meaning) -> str:
        schema = branch.schema
        if title := words(schema, "title"):
            return title[:60] if is_plain(title) else shown(title)
        members = schema.get("properties")
        for name, member in members.items() if isinstance(members, dict) else ():
            if isinstance(member, dict) and "const" in member:
                return f"{name}: {shown(member['const'], 40)}"[:60]
        kind = (
            kind_of(schema, self.place.maker.document.root)
            if isinstance(self.place.maker.document.root, dict)
            else ""
        )
        named = (
            f" with {', '.join(members)}"
            if kind == "object" and isinstance(members, dict) and members
            else ""
        )
        return f"{kind or 'anything'}{named}"[:60]
