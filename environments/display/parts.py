"""What environments and agents said (prompts, blocks, tools), as labelled values that templates
show.

The input may be hostile, huge or malformed: texts are cut to `MAX_SHOWN_CHARACTERS`, and what has
no known form is shown as text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic_core import from_json

from environments.display.images import IMAGE_TYPES, image_problem
from environments.display.schema_fields import SchemaField, fields_of

MAX_SHOWN_CHARACTERS = 20_000
"""Characters of one text that a page shows, with a link to the whole text."""

MAX_SHORT_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Part:
    """A text or an image with a label."""

    kind: Literal["text", "json", "image"]
    text: str
    """The text, indented JSON, or the data: URI of an image."""
    label: str = ""
    omitted: int = 0
    """Number of characters that were cut off the end."""

    @property
    def is_short(self) -> bool:
        """Return whether the text fits on one line with its label."""
        return (
            self.kind != "image"
            and len(self.text) <= MAX_SHORT_CHARACTERS
            and "\n" not in self.text
        )


@dataclass(frozen=True, slots=True)
class ToolPart:
    name: str
    description: str
    schema: str
    """Indented JSON Schema of the input; empty if there are no parameters."""

    @property
    def fields(self) -> list[SchemaField]:
        """The fields of the schema; empty if it does not describe an object with named members."""
        return fields_of(read_json(self.schema))


def fields(text: str, limit: int = MAX_SHOWN_CHARACTERS) -> list[Part]:
    """Return the members of a JSON object, strings as text and other values as JSON; any other text
    as one part.

    Each text is cut to `limit` characters.
    """
    value = read_json(text)
    if not text or value == {}:
        return []
    if not isinstance(value, dict):
        return [_value("", value, limit)]
    return [_value(str(name), member, limit) for name, member in value.items()]


def blocks(value: Any, limit: int = MAX_SHOWN_CHARACTERS) -> list[Part]:
    """Return text and image blocks as parts, and blocks of other types as JSON."""
    if not isinstance(value, list):
        return [_value("", value, limit)]
    return [_block(block, limit) for block in value]


def prompt(text: str, limit: int = MAX_SHOWN_CHARACTERS) -> list[Part]:
    """Return a prompt, which is a list of blocks or of messages; parts of messages are labelled
    with the role."""
    value = read_json(text)
    if not isinstance(value, list):
        return [_value("", value, limit)] if text else []
    parts = list[Part]()
    for item in value:
        if isinstance(item, dict) and "role" in item and isinstance(item.get("blocks"), list):
            role = str(item["role"])
            for part in blocks(item["blocks"], limit):
                parts.append(part if part.label else replace(part, label=role))
        else:
            parts.append(_block(item, limit))
    return parts


def tools(text: str) -> list[ToolPart]:
    """Return the tools of a list as the agent received it, with the terminal tool last."""
    value = read_json(text)
    listing = value if isinstance(value, dict) else {"tools": value}
    items = listing.get("tools")
    items = [*items] if isinstance(items, list) else []
    items.append(listing.get("terminal_tool"))
    return [_tool(item) for item in items if isinstance(item, dict)]


def _block(block: Any, limit: int) -> Part:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return _text(block["text"], "", "text", limit)
    if kind == "image":
        media, data = block.get("mimeType"), block.get("data")
        if problem := image_problem(media, data, IMAGE_TYPES):
            return _value(f"Not shown as an image: {problem}.", block, limit)
        return Part("image", f"data:{media};base64,{data}", media)
    return _value("", block, limit)


def _tool(item: dict[str, Any]) -> ToolPart:
    schema = item.get("input_schema")
    name, description = str(item.get("name", "")), str(item.get("description") or "")
    return ToolPart(_encodable(name), _encodable(description), indented(schema) if schema else "")


def _value(label: str, value: Any, limit: int) -> Part:
    if isinstance(value, str):
        return _text(value, label, "text", limit)
    return _text(indented(value), label, "json", limit)


def _text(text: str, label: str, kind: Literal["text", "json"], limit: int) -> Part:
    return Part(kind, _encodable(text[:limit]), _encodable(label), max(0, len(text) - limit))


def indented(value: Any) -> str:
    """Return a JSON value as indented text."""
    try:
        return _encodable(json.dumps(value, indent=2, ensure_ascii=False))
    except RecursionError:
        return "nested too deeply to be shown"


def _encodable(text: str) -> str:
    """Return `text` with lone surrogates, which JSON can contain and UTF-8 cannot, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_json(text: str) -> Any:
    """Return the JSON value, or `text` itself if it is not JSON or nested too deeply for the
    parser."""
    try:
        return from_json(text)  # a sixth of the time of `json.loads`
    except ValueError:
        pass  # or it has what this parser refuses: half a surrogate pair, or deep nesting
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
