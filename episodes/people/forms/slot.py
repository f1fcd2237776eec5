"""The slot of one value in a form: whether the value is given, null, left out or folded, and its
control.

For environments, absent, null and empty are three different values, so forms keep them apart.
"""

from __future__ import annotations

import json
from typing import Any, Literal, get_args

from environments.display.schema_fields import kind_of, limits_of
from episodes.people.forms.choice import Choice
from episodes.people.forms.control import Control, FormPlace, FormProblem, Maker, State, words
from episodes.people.forms.fields import (
    Boolean,
    Constant,
    NumberControl,
    OptionsControl,
    Raw,
    Scalar,
    TextControl,
)
from episodes.people.forms.groups import Array, Members
from episodes.people.forms.schema import Kind, Meaning
from episodes.people.forms.values import NOTHING

Presence = Literal["given", "null", "absent", "folded"]
MAX_DEPTH = 16
"""Levels of a form. Deeper values are entered as JSON."""
_CLASSES: dict[Kind, type[Control]] = {
    **{
        "text": TextControl,
        "number": NumberControl,
        "scalar": Scalar,
        "boolean": Boolean,
        "options": OptionsControl,
    },
    **{"constant": Constant, "nothing": Constant, "array": Array, "object": Members, "raw": Raw},
}
_CHOICES = {"given": "send", "null": "null", "absent": "leave out"}
_HOLD_NULL = ("options", "constant", "nothing", "raw")


class Slot:
    """One value in a form. `control` is None while a value with parts is not given."""

    def __init__(
        self, maker: Maker, place: FormPlace, schema: Any, *, is_optional: bool = False
    ) -> None:
        self.maker = maker
        self.place = place
        self.is_optional = is_optional
        meaning = maker.document.meaning(schema)
        self.meaning = Meaning("raw", meaning.schema) if place.depth > MAX_DEPTH else meaning
        self.presence: Presence = "given"
        self.control: Control | None = None
        self.id = f"{maker.number()}"
        self.inner = FormPlace(
            maker, place.name, place.path, place.label, place.depth, place.refs | meaning.refs
        )

    # --- content ----------------------------------------------------------------------------------

    def fresh(self) -> None:
        """Take the schema's default, or be empty: an optional value is left out, a recursive one is
        folded."""
        default = self.meaning.schema.get("default", NOTHING)
        if default is not NOTHING and default is not None and self._try(default):
            return
        if self.is_optional:
            self._without("absent")
        elif self.meaning.is_nullable and (self.is_group or default is None):
            self._without("null")
        elif self.meaning.kind in ("array", "object") and self.meaning.refs & self.place.refs:
            self._without("folded")
        else:
            self.include()

    def begin(self) -> None:
        """Become an empty slot whose value is given, because the person has added it."""
        self.fresh()
        if self.presence != "given":
            self.include()

    def include(self) -> None:
        """Give the value, with an empty control."""
        self.presence, self.control = "given", self._new_control()
        self.control.fresh()

    def fill(self, value: Any) -> None:
        """Take exactly this value, as JSON if the control cannot represent it."""
        if value is NOTHING:
            self._without("absent")
        elif value is None and self.meaning.kind not in _HOLD_NULL:
            self._without("null")
        elif not self._try(value):
            self.take_raw(value)

    def load(self, state: State) -> None:
        """Take the state of a page."""
        presence = state.get(f"s{self.place.name}", "given")
        self.presence = presence if presence in get_args(Presence) else "given"  # type: ignore[assignment]
        if f"r{self.place.name}" in state:
            self.control = Raw(self.inner, self.meaning)
        elif self.presence != "given" and self.is_group:
            self.control = None
        else:
            self.control = self._new_control()
        if self.control:
            self.control.load(state)

    # --- reading and switching to JSON ------------------------------------------------------------

    def value(self, problems: list[FormProblem]) -> Any:
        """Return the JSON value, or NOTHING; problems are added to `problems`."""
        if self.presence == "given" and self.control:
            return self.control.value(problems)
        if self.presence == "folded":
            problems.append(self.problem("Open this and fill it in."))
        return None if self.presence == "null" else NOTHING

    def problem(self, message: str) -> FormProblem:
        return FormProblem(self.place.path, message)

    def take_raw(self, value: Any) -> None:
        """Show `value` as JSON in a text field, which is empty for NOTHING."""
        self.presence, self.control = "given", Raw(self.inner, self.meaning)
        if value is not NOTHING:
            self.control.fill(value)

    def take(self, value: Any) -> bool:
        """Take `value` in the control of the schema. Returns False and changes nothing if that
        cannot represent it."""
        before = self.presence, self.control
        if value is None and self.meaning.kind not in _HOLD_NULL:
            self._without("null")
            return True
        if self._try(value):
            return True
        self.presence, self.control = before
        return False

    def _try(self, value: Any) -> bool:
        self.presence, self.control = "given", self._new_control()
        return self.control.fill(value)

    def _without(self, presence: Presence) -> None:
        self.presence = presence
        self.control = None if self.is_group else self._new_control()
        if self.control:
            self.control.fresh()

    def _new_control(self) -> Control:
        return control_of(self.inner, self.meaning)

    # --- rendering --------------------------------------------------------------------------------

    @property
    def is_group(self) -> bool:
        return self.meaning.kind in ("array", "object", "choice")

    @property
    def is_fieldset(self) -> bool:
        """Return whether the parts have a frame of their own."""
        return self.is_group and not self.is_raw and bool(self.place.path)

    @property
    def has_label(self) -> bool:
        """Return whether a label can point at the element. Groups of buttons and constants have no
        such element."""
        is_buttons = isinstance(self.control, OptionsControl) and self.control.is_segmented
        return (
            (not self.is_group or self.is_raw)
            and not is_buttons
            and not isinstance(self.control, Constant)
        )

    @property
    def path_text(self) -> str:
        """The path as compact JSON, which the page compares with the paths of problems."""
        return json.dumps(self.place.path, ensure_ascii=False, separators=(",", ":"))

    @property
    def is_raw(self) -> bool:
        """Return whether the value is shown as JSON although the schema has a control for it."""
        return isinstance(self.control, Raw) and self.meaning.kind != "raw"

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Key and label of each allowed presence; empty if the value has to be given."""
        allowed = {"given", self.presence}
        allowed |= {"null"} if self.meaning.is_nullable else set()
        allowed |= {"absent"} if self.is_optional else set()
        if len(allowed - {"folded"}) < 2 or not self.place.path:
            return []
        return [(key, text) for key, text in _CHOICES.items() if key in allowed]

    @property
    def description(self) -> str:
        return words(self.meaning.schema, "description")

    @property
    def title(self) -> str:
        """The schema's title, if it says more than the label."""
        title = words(self.meaning.schema, "title")
        plain = title.lower().replace(" ", "_")
        return "" if plain in (self.place.label.lower(), "") or not self.place.label else title

    @property
    def hint(self) -> str:
        """Kind and limits of the value in a few words."""
        root, schema = self.maker.document.root, self.meaning.schema
        kind = kind_of(schema, root if isinstance(root, dict) else {})
        is_shown = self.meaning.kind in ("number", "text", "array", "scalar") and kind != "text"
        limits = limits_of(
            {key: schema[key] for key in schema if not self._is_visible_otherwise(key)}
        )
        return ", ".join(part for part in (kind if is_shown else "", limits) if part)

    def _is_visible_otherwise(self, key: str) -> bool:
        """Return whether the form already shows what this keyword says."""
        schema = self.meaning.schema
        if self.maker.is_plain and key in ("pattern", "maxLength", "contentMediaType"):
            return True  # a problem says it in words
        is_tuple = key in ("minItems", "maxItems") and "prefixItems" in schema
        return key == "default" or is_tuple or (key == "minLength" and schema[key] == 1)


def control_of(place: FormPlace, meaning: Meaning) -> Control:
    """Return a new control for `meaning`."""
    if meaning.kind == "choice":
        return Choice(place, meaning, control_of)
    return _CLASSES[meaning.kind](place, meaning)
