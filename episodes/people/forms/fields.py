"""The fields of a tool's form, made from the JSON Schema of its input.

Schemas come from authors of environments, so any keyword can have any value. What has no field of
its own is entered as JSON, and the environment has the last word on every input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from environments.database.storable import storable
from environments.display.schema_fields import kind_of, limits_of, resolved
from episodes.people.forms.values import (
    NOTHING,
    is_plain,
    is_same,
    json_text,
    parsed_json,
    parsed_number,
    preview,
)

Schema = dict[str, Any]
Kind = Literal["text", "number", "text or number", "choice", "lines", "json"]
MAX_FIELDS = 200
"""Fields of one form. An input with more members is entered as JSON."""
MAX_OPTIONS = 500
MIN_LONG_CHARACTERS = 20_000
"""A text that may be longer than this gets a large field, regardless of its name."""
_LONG_NAMES = frozenset(
    {
        "body",
        "code",
        "content",
        "contents",
        "diff",
        "document",
        "essay",
        "explanation",
        "file_text",
        "html",
        "latex",
        "markdown",
        "message",
        "new_str",
        "old_str",
        "patch",
        "program",
        "script",
        "source",
        "sql",
        "tex",
    }
)
_KINDS: dict[Any, Kind] = {
    "string": "text",
    "number": "number",
    "integer": "number",
    "boolean": "choice",
}
_MAX_SEGMENTS = 5
_MAX_SEGMENT_CHARACTERS = 36


@dataclass(frozen=True, slots=True)
class Field:
    """A field for one member of an input. Its content is a text; "" means that nothing is
    entered."""

    name: str
    kind: Kind
    schema: Schema
    """Schema of the member, without references and without null."""
    is_required: bool
    is_nullable: bool
    hint: str
    """Type and limits in a few words; may be empty."""

    def value(self, text: str) -> Any:
        """Return the value of a text, NOTHING to leave the member out. Raises: ValueError, with a
        sentence."""
        if not text:
            return self._empty_value()
        match self.kind:
            case "number":
                return parsed_number(text)
            case "text or number":
                return self._text_or_number(text)
            case "choice":
                return self._option(text)
            case "lines":
                return text.split("\n")
            case "json":
                return parsed_json(text)
            case "text":
                return text

    def _empty_value(self) -> Any:
        if not self.is_required:
            return NOTHING
        if self.is_nullable and self.kind != "choice":
            return None
        if self.kind in ("text", "text or number"):
            return ""
        return [] if self.kind == "lines" else NOTHING

    def _text_or_number(self, text: str) -> str | float:
        try:
            number = parsed_number(text)
        except ValueError:
            return text
        return number if isinstance(number, int) or "number" in self.schema["type"] else text

    def _option(self, text: str) -> Any:
        options = self._options
        index = int(text) if text.isdecimal() and len(text) < 5 else len(options)
        if index >= len(options):
            raise ValueError(f"Choose one of {', '.join(self.labels[:12])}.")
        return options[index]

    def text(self, value: Any) -> str | None:
        """Return the text that stands for `value`; None if the field cannot hold it."""
        try:
            match self.kind:
                case "choice":
                    indexes = (
                        str(at) for at, option in enumerate(self._options) if is_same(option, value)
                    )
                    text = next(indexes, "")
                case "json":
                    text = json_text(value)
                case "lines" if isinstance(value, list):
                    text = "\n".join(map(str, value))
                case _:
                    text = "" if value is None else str(value)
            result = self.value(text)
        except ValueError:
            return None
        is_held = is_plain(text) and result is not NOTHING and is_same(result, value)
        return text if is_held else None

    # --- rendering --------------------------------------------------------------------------------

    @property
    def initial(self) -> str:
        """Text of the schema's default, or of the only option."""
        if self.kind == "choice" and self.is_required and len(self._options) == 1:
            return "0"
        default = self.schema.get("default")
        return "" if default is None else self.text(default) or ""

    @property
    def _options(self) -> list[Any]:
        options = _options_of(self.schema) or [True, False]
        return [*options, None] if self.is_nullable and None not in options else options

    @property
    def labels(self) -> list[str]:
        """The options as a page shows them."""
        return [value if _is_word(value) else preview(value) for value in self._options]

    @property
    def is_segmented(self) -> bool:
        """Return whether the options are few and short enough for a row of buttons."""
        characters = sum(map(len, self.labels))
        return len(self.labels) <= _MAX_SEGMENTS and characters <= _MAX_SEGMENT_CHARACTERS

    @property
    def is_long(self) -> bool:
        """Return whether the field is large, so that Enter starts a new line."""
        if self.kind != "text":
            return self.kind in ("lines", "json")
        limit = self.schema.get("maxLength")
        has_room = isinstance(limit, int) and limit > MIN_LONG_CHARACTERS
        return has_room or self.name.lower() in _LONG_NAMES

    @property
    def rows(self) -> int:
        return min(24, max(3, self.initial.count("\n") + 2)) if self.is_long else 1

    @property
    def name_json(self) -> str:
        """The name as JSON, which the page compares with the paths of problems."""
        return json.dumps(self.name, ensure_ascii=False)

    @property
    def placeholder(self) -> str:
        examples = self.schema.get("examples")
        example = examples[0] if isinstance(examples, list) and examples else None
        if isinstance(example, str | int | float) and is_plain(str(example)):
            return f"e.g. {example}"
        return {"json": "JSON", "lines": "One per line"}.get(self.kind, "")

    @property
    def description(self) -> str:
        description = self.schema.get("description")
        return storable(description) if isinstance(description, str) else ""


_WITHOUT_MEMBERS = frozenset(
    {"type", "title", "description", "required", "$schema", "$id", "$defs"}
)
"""Keywords of an object that say nothing about its members."""


def fields_of(schema: Any) -> list[Field] | None:
    """Return the fields of an input, in the schema's order; None if it is entered as JSON."""
    if not isinstance(schema, dict):
        return None
    root = resolved(schema, schema)
    members, names = root.get("properties"), root.get("required")
    if members is None and root.get("type", "object") == "object":
        is_empty = not root.get("additionalProperties") and (
            root.keys() <= _WITHOUT_MEMBERS | {"additionalProperties"}
        )
        return [] if is_empty else None
    if not isinstance(members, dict) or len(members) > MAX_FIELDS:
        return None
    if not all(map(is_plain, members)):
        return None
    names = names if isinstance(names, list) else []
    return [_field(name, part, schema, name in names) for name, part in members.items()]


def _field(name: str, part: Any, root: Schema, is_required: bool) -> Field:
    own = _flat(part, root)
    alternatives = list(_alternatives(own, root))
    others = [schema for schema in alternatives if schema.get("type") != "null"]
    own = {key: value for key, value in own.items() if key not in ("type", "anyOf", "oneOf")}
    kinds = [_kind(schema, root) for schema in others]
    kind: Kind = "json"
    if len(others) == 1:
        kind, schema = kinds[0], {**others[0], **own}
    elif set(kinds) == {"text", "number"}:
        types = [schema["type"] for schema in others]
        kind, schema = "text or number", {**others[kinds.index("text")], **own, "type": types}
    else:
        schema = _flat(part, root)
    is_nullable = len(others) < len(alternatives)
    return Field(name, kind, schema, is_required, is_nullable, _hint(kind, schema, root))


def _flat(part: Any, root: Schema) -> Schema:
    """Return a schema with the target of its reference; older pydantic wraps that in `allOf`."""
    schema = resolved(part, root) if isinstance(part, dict) else {}
    match schema.get("allOf"):
        case [dict() as only]:
            own = {key: value for key, value in schema.items() if key != "allOf"}
            return {**resolved(only, root), **own}
    return schema


def _alternatives(schema: Schema, root: Schema) -> Iterator[Schema]:
    """Yield the schemas of which a value has to fit one."""
    branches = schema.get("anyOf", schema.get("oneOf"))
    types = schema.get("type")
    if isinstance(branches, list):
        for branch in branches:
            yield _flat(branch, root)
    elif isinstance(types, list):
        for name in types:
            yield {**schema, "type": name}
    else:
        yield schema


def _kind(schema: Schema, root: Schema) -> Kind:
    options = _options_of(schema)
    if options is not None:
        is_choice = isinstance(options, list) and 0 < len(options) <= MAX_OPTIONS
        return "choice" if is_choice else "json"
    name = schema.get("type")
    if name == "array" and _flat(schema.get("items"), root).get("type") == "string":
        return "lines"
    return _KINDS.get(name, "json") if isinstance(name, str) else "json"


def _options_of(schema: Schema) -> Any:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _hint(kind: Kind, schema: Schema, root: Schema) -> str:
    name = "" if kind == "choice" else kind_of(schema, root)
    limits = {key: value for key, value in schema.items() if key != "default"}
    if limits.get("minLength") == 1:
        del limits["minLength"]  # an empty field is reported anyway
    return ", ".join(part for part in (name if name != "text" else "", limits_of(limits)) if part)


def _is_word(value: Any) -> bool:
    """Return whether `value` is a text that cannot be mistaken for other JSON when it is shown
    without quotes."""
    if not isinstance(value, str) or len(value) > 60 or value != value.strip() or not value:
        return False
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return is_plain(value)
    return False
