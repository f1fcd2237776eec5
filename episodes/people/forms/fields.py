"""Controls without parts: text, number, text or number, boolean, a list of options, a constant,
JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any, ClassVar

from episodes.people.forms.control import Control, FormProblem, State, whole_number, words
from episodes.people.forms.values import (
    NOTHING,
    NUMBER,
    is_plain,
    is_same,
    json_text,
    number_text,
    parsed_json,
    parsed_number,
    shown,
)

MIN_LONG_CHARACTERS = 20_000
"""A text that may be longer than this gets a large field, regardless of its name."""
_LONG_NAMES = {
    "code",
    "program",
    "script",
    "source",
    "body",
    "content",
    "contents",
    "markdown",
    "html",
    "patch",
    "diff",
}
_LONG_NAMES |= {
    "essay",
    "explanation",
    "message",
    "document",
    "file_text",
    "new_str",
    "old_str",
    "sql",
    "tex",
    "latex",
}
_LONG_FORMATS = {"multiline", "textarea", "text", "markdown", "html", "code", "json"}
_NATIVE = {
    "date": ("date", re.compile(r"\d{4}-\d\d-\d\d")),
    "time": ("time", re.compile(r"\d\d:\d\d(:\d\d)?")),
    "date-time": ("datetime-local", re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")),
    "email": ("email", re.compile(r".*")),
    "uri": ("url", re.compile(r".*")),
}
"""Format -> type of the browser's field, and the texts that it shows."""
_EXAMPLES = {
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "email": "name@example.org",
    "uri": "https://example.org",
}
_MAX_SEGMENTS = 5
_MAX_SEGMENT_CHARACTERS = 36


class TextControl(Control):
    """A text in one line, or in a large field."""

    template: ClassVar[str] = "people/form_text.html"
    text = ""

    @property
    def is_long(self) -> bool:
        """Return whether the field is large, so that Enter starts a new line."""
        last = next((part for part in reversed(self.place.path) if isinstance(part, str)), "")
        return (
            last.lower() in _LONG_NAMES
            or words(self.schema, "format") in _LONG_FORMATS
            or "contentMediaType" in self.schema
            or (whole_number(self.schema, "maxLength") or 0) > MIN_LONG_CHARACTERS
        )

    @property
    def placeholder(self) -> str:
        examples = self.schema.get("examples")
        first = (
            examples[0]
            if isinstance(examples, list) and examples
            else _EXAMPLES.get(words(self.schema, "format"))
        )
        return (
            f"e.g. {first}" if isinstance(first, str | int | float) and is_plain(str(first)) else ""
        )

    @property
    def input_type(self) -> str:
        """Return the type of the browser's field for the format, such as "date"; empty if it can't
        show the text."""
        native, texts = _NATIVE.get(words(self.schema, "format"), ("", re.compile("")))
        return (
            native
            if native and (not self.text or texts.fullmatch(self.text)) and "\n" not in self.text
            else ""
        )

    @property
    def is_utc(self) -> bool:
        """Return whether the field has a date and a time, which are sent as those of UTC."""
        return self.input_type == "datetime-local"

    def fill(self, value: Any) -> bool:
        if not isinstance(value, str) or not is_plain(value):
            return False
        self.text = value
        if words(self.schema, "format") == "date-time" and value.endswith("Z"):
            self.text = value[:-1]
            if self.value([]) != value:
                self.text = value
        return bool(self.value([]) == value)

    def carry_text(self, text: str) -> None:
        if is_plain(text):
            self.text = text

    def load(self, state: State) -> None:
        self.text = state.get(f"v{self.name}", "")

    def state(self) -> dict[str, str]:
        return {f"v{self.name}": self.text}

    def value(self, problems: list[FormProblem]) -> Any:
        kind = self.input_type if self.text else ""
        if kind not in ("time", "datetime-local"):
            return self.text
        seconds = "" if self.text.count(":") == 2 else ":00"  # browsers leave out those that are 0
        return f"{self.text}{seconds}{'Z' if kind == 'datetime-local' else ''}"


class NumberControl(TextControl):
    """A number, entered as text."""

    template = "people/form_number.html"

    @property
    def is_whole(self) -> bool:
        return self.schema.get("type") == "integer"

    def carry_text(self, text: str) -> None:
        if NUMBER.fullmatch(text.strip()):
            self.text = text.strip()

    def fill(self, value: Any) -> bool:
        if not _is_number(value):
            return False
        self.text = number_text(value)
        return True

    def value(self, problems: list[FormProblem]) -> Any:
        try:
            return parsed_number(self.text)
        except ValueError as error:
            problems.append(self.problem(str(error)))
            return self.text or NOTHING


class Scalar(TextControl):
    """A text or a number in one field. Digits are a number unless the person chooses text."""

    template = "people/form_scalar.html"
    reading = "auto"

    def fill(self, value: Any) -> bool:
        if not isinstance(value, str) and not _is_number(value):
            return False
        self.text = value if isinstance(value, str) else number_text(value)
        is_number = self._reads_as_number(self.text)
        self.reading = "text" if isinstance(value, str) and is_number else "auto"
        return is_plain(self.text) and (isinstance(value, str) or is_number)

    def load(self, state: State) -> None:
        super().load(state)
        self.reading = "text" if state.get(f"t{self.name}") == "text" else "auto"

    def state(self) -> dict[str, str]:
        return {**super().state(), f"t{self.name}": self.reading}

    def value(self, problems: list[FormProblem]) -> Any:
        is_number = self.reading == "auto" and self._reads_as_number(self.text)
        return parsed_number(self.text) if is_number else self.text

    def _reads_as_number(self, text: str) -> bool:
        """Return whether `text` is a number that the schema allows."""
        if not NUMBER.fullmatch(text):
            return False
        try:
            return isinstance(parsed_number(text), int) or "number" in self.schema["type"]
        except ValueError:
            return False


class Boolean(Control):
    """True or false, as a checkbox."""

    template = "people/form_boolean.html"
    is_true = False

    def fill(self, value: Any) -> bool:
        self.is_true = value is True
        return isinstance(value, bool)

    def load(self, state: State) -> None:
        self.is_true = state.get(f"v{self.name}") == "true"

    def state(self) -> dict[str, str]:
        return {f"v{self.name}": "true" if self.is_true else "false"}

    def value(self, problems: list[FormProblem]) -> Any:
        return self.is_true


class OptionsControl(Control):
    """One of a list of values, as buttons if they are few and short."""

    template = "people/form_options.html"
    chosen: int | None = None

    @property
    def options(self) -> list[str]:
        return [one if _is_word(one) else shown(one) for one in self.schema["enum"]]

    @property
    def is_segmented(self) -> bool:
        return (
            len(self.options) <= _MAX_SEGMENTS
            and sum(map(len, self.options)) <= _MAX_SEGMENT_CHARACTERS
        )

    def fill(self, value: Any) -> bool:
        options = enumerate(self.schema["enum"])
        self.chosen = next((index for index, one in options if is_same(one, value)), None)
        return self.chosen is not None

    def load(self, state: State) -> None:
        chosen = state.get(f"v{self.name}", "")
        is_one = chosen.isdecimal() and len(chosen) < 5 and int(chosen) < len(self.schema["enum"])
        self.chosen = int(chosen) if is_one else None

    def state(self) -> dict[str, str]:
        return {} if self.chosen is None else {f"v{self.name}": str(self.chosen)}

    def value(self, problems: list[FormProblem]) -> Any:
        if self.chosen is None:
            problems.append(self.problem(f"Choose one of {', '.join(self.options[:12])}."))
            return NOTHING
        return self.schema["enum"][self.chosen]


class Constant(Control):
    """A value that cannot be changed. For the type "null", it is null."""

    template = "people/form_constant.html"

    @property
    def text(self) -> str:
        return shown(self.schema.get("const"), 200)

    def fill(self, value: Any) -> bool:
        return is_same(value, self.schema.get("const"))

    def load(self, state: State) -> None:
        pass

    def state(self) -> dict[str, str]:
        return {}

    def value(self, problems: list[FormProblem]) -> Any:
        return self.schema.get("const")


class Raw(Control):
    """JSON in a text field: for a part without a control of its own, and for the JSON view."""

    template = "people/form_raw.html"
    text = ""

    def fill(self, value: Any) -> bool:
        self.text = json_text(value)
        return True

    def load(self, state: State) -> None:
        self.text = state.get(f"r{self.name}", "")

    def state(self) -> dict[str, str]:
        return {f"r{self.name}": self.text}

    def value(self, problems: list[FormProblem]) -> Any:
        try:
            return parsed_json(self.text)
        except ValueError as error:
            problems.append(self.problem(str(error)))
            return self.text or NOTHING

    @property
    def rows(self) -> int:
        return min(24, max(3, self.text.count("\n") + 2))


def _is_number(value: Any) -> bool:
    """Return whether `value` is a number that JSON can represent."""
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, int | float) and not isinstance(value, bool) and is_finite


def _is_word(value: Any) -> bool:
    """Return whether `value` is a text that cannot be mistaken for other JSON when it is shown
    without quotes."""
    if (
        not isinstance(value, str)
        or not value.strip() == value != ""
        or not is_plain(value)
        or len(value) > 60
    ):
        return False
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return True
    return False
