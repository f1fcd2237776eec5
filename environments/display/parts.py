"""Parts: what environments and agents said, as pieces that a page can show. No request, no HTML.

All of it may be hostile, huge or odd: texts are cut to what a page can bear, and what is not understood is shown as the
text it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from environments.display.schema_fields import SchemaField, fields_of
from environments.errors import shorten

SHOWN_CHARACTERS = 20_000
"""Characters of one text that a page shows; the whole of it is one link away."""

SHORT_CHARACTERS = 100
IMAGE_TYPES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"))
"""What is given to browsers as an image. SVG is not among them: it is a document, which runs scripts."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]*+={0,2}")


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to show under a label."""

    kind: Literal["text", "json", "image"]
    text: str
    """Text, indented JSON, or for an image its data: URI."""
    label: str = ""
    omitted: int = 0
    """Characters that were cut off the end."""

    @property
    def is_short(self) -> bool:
        """Whether it fits on the line of its label."""
        return self.kind != "image" and len(self.text) <= SHORT_CHARACTERS and "\n" not in self.text


@dataclass(frozen=True, slots=True)
class ToolPart:
    name: str
    description: str
    schema: str
    """Indented JSON Schema of the input; empty: no parameters."""

    @property
    def fields(self) -> list[SchemaField]:
        """The schema as a list of fields; empty: it has no such form."""
        return fields_of(read_json(self.schema))


def fields(text: str, limit: int = SHOWN_CHARACTERS) -> list[Part]:
    """A JSON object's members: strings as they are, everything else as JSON. Any other text as one part.

    `limit`: characters of each that are kept; so in `blocks` and `prompt`.
    """
    value = read_json(text)
    if not text or value == {}:
        return []
    if not isinstance(value, dict):
        return [_value("", value, limit)]
    return [_value(str(name), member, limit) for name, member in value.items()]


def blocks(value: Any, limit: int = SHOWN_CHARACTERS) -> list[Part]:
    """Text and image blocks; what is neither is shown as JSON."""
    return [_block(block, limit) for block in value] if isinstance(value, list) else [_value("", value, limit)]


def prompt(text: str, limit: int = SHOWN_CHARACTERS) -> list[Part]:
    """A prompt as the agent got it: blocks, or messages whose parts are labelled with their role."""
    value = read_json(text)
    if not isinstance(value, list):
        return [_value("", value, limit)] if text else []
    return [part for item in value for part in _message(item, limit)]


def tools(text: str) -> list[ToolPart]:
    """Tools of a listing as the agent got it, the terminal tool last."""
    value = read_json(text)
    listing = value if isinstance(value, dict) else {"tools": value}
    listed = listing.get("tools")
    found = [_tool(item) for item in (listed if isinstance(listed, list) else []) if isinstance(item, dict)]
    final = listing.get("terminal_tool")
    return [*found, _tool(final)] if isinstance(final, dict) else found


def _message(item: Any, limit: int) -> list[Part]:
    if isinstance(item, dict) and "role" in item and isinstance(item.get("blocks"), list):
        role = str(item["role"])
        return [Part(part.kind, part.text, part.label or role, part.omitted) for part in blocks(item["blocks"], limit)]
    return [_block(item, limit)]


def _block(block: Any, limit: int) -> Part:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return _text(block["text"], "", "text", limit)
    if kind == "image":
        uri = _image(block)
        return Part("image", uri, block["mimeType"]) if uri else _value(_not_shown(block), block, limit)
    return _value("", block, limit)


def _image(block: dict[str, Any]) -> str:
    """The image's data: URI; empty when it is none that a browser may be given."""
    media, data = block.get("mimeType"), block.get("data")
    if not (isinstance(media, str) and isinstance(data, str) and media in IMAGE_TYPES):
        return ""
    return f"data:{media};base64,{data}" if len(data) % 4 == 0 and _BASE64.fullmatch(data) else ""


def _not_shown(block: dict[str, Any]) -> str:
    """What an image that browsers are not given is told to be."""
    media, data = block.get("mimeType"), block.get("data")
    told = shorten(media, SHORT_CHARACTERS) if isinstance(media, str) else "no media type"
    size = f"{len(data):,} characters" if isinstance(data, str) else "no data"
    return f"{told}, {size}, not shown as an image"


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
    try:
        return _encodable(json.dumps(value, indent=2, ensure_ascii=False))
    except RecursionError:
        return "nested too deeply to be shown"


def _encodable(text: str) -> str:
    """`text` with lone surrogates, which JSON can carry and UTF-8 cannot, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_json(text: str) -> Any:
    """The JSON value, or the text itself where it is none (or nested beyond the parser)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
