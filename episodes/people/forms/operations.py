"""Operations that a page requests on a form: adding and moving items, choosing a branch, switching
to JSON and back.

`answer.py` calls them. Items are removed and moved by name in the state that the page sent, before
the form loads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from episodes.people.forms.choice import Choice
from episodes.people.forms.control import FormProblem, State
from episodes.people.forms.fields import Raw
from episodes.people.forms.form import Form
from episodes.people.forms.groups import Array, Members
from episodes.people.forms.slot import Slot
from episodes.people.forms.values import parsed_json


class Unworkable(ValueError):
    """The operation is impossible: the page is out of date, or the message is faulty. The text is
    for players."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation at the slot named `at`."""

    do: str
    """Name of the operation: show, include, add, remove, up, down, choose, raw, form, reset,
    refresh, set."""
    at: str = ""
    choice: int = 0
    """Index of the branch, for `choose`."""
    text: str = ""
    """The value as JSON, for `set`."""


@dataclass(frozen=True, slots=True)
class FormOutcome:
    """The result of an operation."""

    problems: list[FormProblem]
    """Problems because of which nothing was done; empty if the form has changed."""
    focus: str | None = None
    """Name of the slot that gets the focus; None to leave it where it is."""


_NEIGHBOUR = {"up": -1, "down": 1}


def operate(form: Form, state: State, operation: Operation) -> FormOutcome:
    """Load the page's `state` into `form` and carry out `operation`.

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
        raise Unworkable("This part of the form no longer exists. Choose the tool again.")
    return _ACTIONS.get(operation.do, _unknown)(form, slot, operation)


def _set(form: Form, text: str) -> FormOutcome:
    try:
        form.fill(parsed_json(text))
    except ValueError as error:
        raise Unworkable(str(error)) from None
    return FormOutcome([], focus="")


# --- operations at a slot -------------------------------------------------------------------------


def _include(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    slot.include()
    return FormOutcome([], focus=slot.place.name)


def _add(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    control = slot.control.branch_control if isinstance(slot.control, Choice) else slot.control
    added = control.add() if isinstance(control, Array | Members) else None
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
    limits = f" ({slot.hint})" if slot.hint else ""
    return FormOutcome(
        [slot.problem(f"The form has no field for this value{limits}. Change it, or reset it.")]
    )


def _reset(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    slot.begin()
    return FormOutcome([], focus=slot.place.name)


def _refresh(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    return FormOutcome([])


def _unknown(form: Form, slot: Slot, operation: Operation) -> FormOutcome:
    raise Unworkable(
        f"Unknown operation {operation.do[:40]!r}; use {', '.join(_ACTIONS)}, show, set, remove, "
        "up or down."
    )


_ACTIONS: Mapping[str, Callable[[Form, Slot, Operation], FormOutcome]] = {
    **{"include": _include, "add": _add, "choose": _choose, "refresh": _refresh},
    **{"raw": _raw, "form": _form, "reset": _reset},
}


# --- moving items ---------------------------------------------------------------------------------

_LAST = re.compile(r"(.*)/([ie])([0-9]{1,4})", re.DOTALL)


def _shift(form: Form, state: State, operation: Operation) -> FormOutcome:
    """Remove an item, or swap it with its neighbour."""
    match = _LAST.fullmatch(operation.at)
    if not match:
        raise Unworkable("Only items and members with an entered name can be moved or removed.")
    holder, before, index = match[1], f"{match[1]}/{match[2]}", int(match[3])
    count = _count(state, holder)
    other = index + _NEIGHBOUR.get(operation.do, 0)
    if not (0 <= index < count and 0 <= other < count):
        raise Unworkable(
            "This item can't be moved further." if index < count else "This item no longer exists."
        )
    if operation.do == "remove":
        places = {at: at - 1 if at > index else at for at in range(count) if at != index}
        state = {**_with_moved(state, before, places), f"n{holder}": str(count - 1)}
        focus = f"{before}{min(index, count - 2)}" if count > 1 else _slot_name(match[1])
    else:
        places = {at: {index: other, other: index}.get(at, at) for at in range(count)}
        state, focus = _with_moved(state, before, places), f"{before}{other}"
    form.load(state)
    return FormOutcome([], focus=focus)


def _with_moved(state: State, before: str, places: dict[int, int]) -> dict[str, str]:
    """Return `state` with the items below `before` at the indexes in `places` (old -> new); others
    are dropped."""
    moved: dict[str, str] = {}
    for key, text in state.items():
        name, slash, rest = key[1 + len(before) :].partition("/")
        if not (key[1:].startswith(before) and name.isdecimal() and len(name) < 5):
            moved[key] = text
        elif int(name) in places:
            moved[f"{key[0]}{before}{places[int(name)]}{slash}{rest}"] = text
    return moved


def _count(state: State, holder: str) -> int:
    count = state.get(f"n{holder}", "")
    return int(count) if count.isdecimal() and len(count) < 5 else 0


def _slot_name(name: str) -> str:
    """Return the name of the slot of a control; for a branch of a choice, the slot of the
    choice."""
    return re.sub(r"(?:/b[0-9]+)+\Z", "", name)
