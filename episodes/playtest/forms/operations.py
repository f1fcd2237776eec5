"""What a page asks of a form: one more item, another branch, the raw view, the value. Pure; `answer.py` speaks for it.

Items are removed and moved in what the page sent, by name, before anything is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from episodes.playtest.forms.choice import Choice
from episodes.playtest.forms.control import FormProblem, State
from episodes.playtest.forms.fields import Raw
from episodes.playtest.forms.form import Form
from episodes.playtest.forms.groups import Array, Members
from episodes.playtest.forms.slot import Slot
from episodes.playtest.forms.values import parsed_json


class Unworkable(ValueError):
    """The operation makes no sense here: the page is not as it was, or not ours. Its text is for whoever plays."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`do` at the slot of this name."""

    do: str
    """One of show, include, add, remove, up, down, choose, raw, form, anew, refresh, set."""
    at: str = ""
    choice: int = 0
    """For `choose`: the index of the branch."""
    text: str = ""
    """For `set`: the value as JSON."""


@dataclass(frozen=True, slots=True)
class FormOutcome:
    problems: list[FormProblem]
    """Why nothing was done; the page stays as it is."""
    focus: str | None = None
    """Name of the slot where work goes on; None: where it was."""


_NEIGHBOUR = {"up": -1, "down": 1}


def operate(form: Form, state: State, operation: Operation) -> FormOutcome:
    """Load what the page holds, do what it asks, and tell where the focus goes.

    Raises: Unworkable, TooLarge.
    """
    if operation.do == "show":
        form.fresh()
        return FormOutcome([])
    if operation.do == "set":
        return _set(form, operation.text)
    if operation.do in ("remove", "up", "down"):
        return _shift(form, state, operation)
    form.load(state)
    slot = form.at(operation.at)
    if slot is None:
        raise Unworkable("This part of the form is gone; choose the tool anew.")
    return _ACTIONS.get(operation.do, _unknown)(form, slot, operation)


def _set(form: Form, text: str) -> FormOutcome:
    try:
        form.fill(parsed_json(text))
    except ValueError as error:
        raise Unworkable(str(error)) from None
    return FormOutcome([], focus="")


# --- what goes on at a slot ------------------------------------------------------------------------------------------


def _include(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    slot.include()
    return FormOutcome([], focus=slot.place.name)


def _add(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    way = slot.control.way if isinstance(slot.control, Choice) else slot.control
    added = way.add() if isinstance(way, Array | Members) else None
    if added is None:
        raise Unworkable("No more can be added here.")
    return FormOutcome([], focus=added.place.name)


def _choose(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    if not isinstance(slot.control, Choice):
        raise Unworkable("There is nothing to choose here.")
    slot.control.choose(operation.choice)
    return FormOutcome([])


def _raw(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    slot.take_raw(slot.value([]))
    return FormOutcome([], focus=slot.place.name)


def _form(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    if not isinstance(slot.control, Raw):
        return FormOutcome([], focus=slot.place.name)
    try:
        value = parsed_json(slot.control.text)
    except ValueError as error:
        return FormOutcome([slot.problem(str(error))])
    if slot.take(value):
        return FormOutcome([], focus=slot.place.name)
    asked = f" ({slot.hint})" if slot.hint else ""
    return FormOutcome([slot.problem(f"The form has no field that could hold this{asked}; change it, or start anew.")])


def _anew(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    slot.begin()
    return FormOutcome([], focus=slot.place.name)


def _refresh(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    return FormOutcome([])


def _unknown(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    raise Unworkable(
        f"A form cannot {operation.do[:40]!r}; it can {', '.join(_ACTIONS)}, show, set, remove, up and down."
    )


_ACTIONS: Mapping[str, Callable[[Form, Slot, Operation], FormOutcome]] = {
    **{"include": _include, "add": _add, "choose": _choose, "refresh": _refresh},
    **{"raw": _raw, "form": _form, "anew": _anew},
}


# --- items that move -------------------------------------------------------------------------------------------------

_LAST = re.compile(r"(.*)/([ie])([0-9]{1,4})", re.DOTALL)


def _shift(form: Form, state: State, operation: Operation) -> FormOutcome:
    """An item removed, or in its neighbour's place."""
    found = _LAST.fullmatch(operation.at)
    if not found:
        raise Unworkable("Only items and members with names of their own can be moved or removed.")
    holder, before, index = found[1], f"{found[1]}/{found[2]}", int(found[3])
    count = _count(state, holder)
    other = index + _NEIGHBOUR.get(operation.do, 0)
    if not (0 <= index < count and 0 <= other < count):
        raise Unworkable("This item cannot go there." if index < count else "This item is gone.")
    if operation.do == "remove":
        places = {at: at - 1 if at > index else at for at in range(count) if at != index}
        state = {**_moved(state, before, places), f"n{holder}": str(count - 1)}
        focus = f"{before}{min(index, count - 2)}" if count > 1 else _slot_name(found[1])
    else:
        places = {at: {index: other, other: index}.get(at, at) for at in range(count)}
        state, focus = _moved(state, before, places), f"{before}{other}"
    form.load(state)
    return FormOutcome([], focus=focus)


def _moved(state: State, before: str, places: dict[int, int]) -> dict[str, str]:
    """`state` with what stands at BEFORE+index where `places` says; what it does not name is dropped."""
    found: dict[str, str] = {}
    for key, text in state.items():
        name, slash, rest = key[1 + len(before) :].partition("/")
        if not (key[1:].startswith(before) and name.isdecimal()):
            found[key] = text
        elif int(name) in places:
            found[f"{key[0]}{before}{places[int(name)]}{slash}{rest}"] = text
    return found


def _count(state: State, holder: str) -> int:
    told = state.get(f"n{holder}", "")
    return int(told) if told.isdecimal() and len(told) < 5 else 0


def _slot_name(name: str) -> str:
    """The slot that a control's name belongs to: that of the choice, for one of its branches."""
    return re.sub(r"(?:/b[0-9]+)+\Z", "", name)
