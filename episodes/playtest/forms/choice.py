"""Choice: one of several ways in which a value may be, and the control of that way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from environments.display.schema_fields import kind_of
from episodes.playtest.forms.branch_match import has_own_constant, matches
from episodes.playtest.forms.control import Control, FormPart, FormPlace, FormProblem, State, words
from episodes.playtest.forms.groups import Members
from episodes.playtest.forms.schema import Meaning
from episodes.playtest.forms.values import NOTHING, is_plain, shown

Make = Callable[[FormPlace, Meaning], Control]


class Choice(Control):
    template: ClassVar[str] = "playtest/form_choice.html"
    is_group = True

    def __init__(self, place: FormPlace, meaning: Meaning, make: Make) -> None:
        super().__init__(place, meaning)
        self.make = make
        self.chosen: int | None = None
        self.way: Control | None = None

    @property
    def options(self) -> list[str]:
        """What the ways are called; told apart by number where their names do not."""
        names = [self._named(branch) for branch in self.meaning.branches]
        return [name if names.count(name) == 1 else f"{name} ({at + 1})" for at, name in enumerate(names)]

    @property
    def description(self) -> str:
        return words(self.meaning.branches[self.chosen].schema, "description") if self.chosen is not None else ""

    def fresh(self) -> None:
        """The first way is chosen, unless it leads in a circle."""
        inner = [index for index, one in enumerate(self.meaning.branches) if not one.refs & self.place.refs]
        if inner:
            self._take(inner[0]).fresh()

    def fill(self, value: Any) -> bool:
        branches = self.meaning.branches
        document = self.place.maker.document
        fitting = [at for at, one in enumerate(branches) if matches(document, one.schema, value)]
        meant = [at for at, one in enumerate(branches) if has_own_constant(document, one.schema, value)]
        return any(self._take(index).fill(value) for index in [*fitting, *meant, *range(len(branches))])

    def load(self, state: State) -> None:
        chosen = state.get(f"c{self.name}", "")
        if chosen.isdecimal() and len(chosen) < 4 and int(chosen) < len(self.meaning.branches):
            self._take(int(chosen)).load(state)

    def state(self) -> dict[str, str]:
        chosen = "" if self.chosen is None else str(self.chosen)
        return {f"c{self.name}": chosen, **(self.way.state() if self.way else {})}

    def parts(self) -> Sequence[FormPart]:
        return self.way.parts() if self.way else []

    def value(self, problems: list[FormProblem]) -> Any:
        if self.way is None:
            problems.append(self.problem(f"Choose what it is: {', '.join(self.options)}."))
            return NOTHING
        return self.way.value(problems)

    def choose(self, index: int) -> None:
        """Another way, which keeps of what was entered what it can."""
        kept = self.way.value([]) if self.way else NOTHING
        control = self._take(min(max(index, 0), len(self.meaning.branches) - 1))
        control.fresh()
        if kept is not NOTHING:
            self._carry(control, kept)

    def _carry(self, control: Control, kept: Any) -> None:
        document = self.place.maker.document
        if isinstance(kept, dict) and isinstance(control, Members):
            for name, slot in zip(control.named, control.slots, strict=True):
                if name in kept and matches(document, slot.meaning.schema, kept[name]):
                    slot.fill(kept[name])
        elif matches(document, control.schema, kept) and not control.fill(kept):
            control.fresh()

    def _take(self, index: int) -> Control:
        branch = self.meaning.branches[index]
        self.chosen, self.way = index, self.make(self.place.branch(index, branch.refs), branch)
        return self.way

    def _named(self, branch: Meaning) -> str:
        schema = branch.schema
        if title := words(schema, "title"):
            return title[:60] if is_plain(title) else shown(title)
        members = schema.get("properties")
        for name, member in members.items() if isinstance(members, dict) else ():
            if isinstance(member, dict) and "const" in member:
                return f"{name}: {shown(member['const'], 40)}"[:60]
        kind = (
            kind_of(schema, self.place.maker.document.root) if isinstance(self.place.maker.document.root, dict) else ""
        )
        named = f" with {', '.join(members)}" if kind == "object" and isinstance(members, dict) and members else ""
        return f"{kind or 'anything'}{named}"[:60]
