"""Reserved columns: what a row says about its task, beside the spec.

    _hash    the task that the row is a new content of, if that differs; as exported
    _split   where it stood when it was exported; an import goes into the split that was asked for
    _tags    a list of words; replaces the task's tags
    _state   active or quarantined
    _reason  why it is quarantined

Another name that begins with one underscore is refused, unless the task schema declares it: it may be a misspelt label.

A spec's own key that begins with an underscore is exported with one more, unless the schema declares it, and an import
takes that away again. Keys of the five names are escaped even where the schema declares them.

Columns: the keys of many tasks and what they hold, as tables need to know before their first row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from environments.database.storable import MAX_BIGINT, is_storable
from environments.errors import shorten
from environments.transfer.rows import BadRow, TransferError

COLUMNS = ("_hash", "_split", "_tags", "_state", "_reason")
STATES = ("active", "quarantined")
MAX_TAG_CHARACTERS = 60
_ESCAPED = re.compile("__+(hash|split|tags|state|reason)")
_HASH = re.compile("[0-9a-f]{64}")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Labels:
    """What a row says of its task; None: nothing, so it stays as it is."""

    hash: str | None = None
    split: str | None = None
    tags: tuple[str, ...] | None = None
    """Sorted, each once."""
    state: str | None = None
    reason: str = ""


NOTHING = Labels()


def declared(schema: Mapping[str, Any]) -> frozenset[str]:
    """Names that a task schema has for the keys of a spec."""
    return frozenset(schema.get("properties", ()))


def stray(names: Iterable[str], own: Collection[str]) -> str | None:
    """What is wrong with the first name that looks reserved and is not; `own`: the declared ones."""
    for name in names:
        if name.startswith("_") and name not in COLUMNS and name not in own and unescaped(name, own) == name:
            allowed = f"{', '.join(COLUMNS)} and what the task schema declares"
            shown, escape = shorten(ascii(name), _SHOWN), shorten(ascii(f"_{name}"), _SHOWN)
            return (
                f"has the column {shown}; of names that begin with _ allowed are {allowed}. Write a task's own key of "
                f"this name as {escape}"
            )
    return None


def separated(value: dict[str, Any], own: Collection[str] = ()) -> tuple[dict[str, Any], Labels]:
    """The spec, and what the row says about it. Raises: BadRow."""
    if not any(key.startswith("_") for key in value):
        return value, NOTHING
    if wrong := stray(value, own):
        raise BadRow(wrong)
    spec = {unescaped(key, own): item for key, item in value.items() if key not in COLUMNS}
    state = _text(value, "_state")
    if state is not None and state not in STATES:
        raise BadRow(f"_state is {_shown(state)}; use active or quarantined")
    reason = _text(value, "_reason") or ""
    if state == "quarantined" and not reason.strip():
        raise BadRow("_state is quarantined without a _reason; say why")
    tags = _tags(value.get("_tags"))
    return spec, Labels(_hash(value), _text(value, "_split"), tags, state, reason if state == "quarantined" else "")


def unescaped(key: str, own: Collection[str]) -> str:
    """The spec's key for a row's."""
    is_escaped = _ESCAPED.fullmatch(key) or (key.startswith("__") and key not in own)
    return key[1:] if is_escaped else key


def escaped(key: str, own: Collection[str]) -> str:
    """A row's key for the spec's; itself where the schema declares both it and the one with an underscore more."""
    is_free = key.startswith("_") and key not in own and f"_{key}" not in own
    return f"_{key}" if key in COLUMNS or _ESCAPED.fullmatch(key) or is_free else key


def _hash(value: dict[str, Any]) -> str | None:
    digest = _text(value, "_hash")
    if digest is not None and not _HASH.fullmatch(digest):
        raise BadRow(f"_hash is {_shown(digest)}; it has 64 hexadecimal digits, as an export writes it")
    return digest


def _tags(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    words = given.split(",") if isinstance(given, str) else given
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadRow(f"_tags is {_shown(given)}; use a list of texts")
    tags = sorted({word.strip() for word in words} - {""})
    for tag in tags:
        if len(tag) > MAX_TAG_CHARACTERS or "," in tag or not tag.isprintable():
            limit = f"{MAX_TAG_CHARACTERS} characters at most, without commas and control characters"
            raise BadRow(f"_tags has {_shown(tag)}; a tag has {limit}")
    return tuple(tags)


def _text(value: dict[str, Any], key: str) -> str | None:
    text = value.get(key)
    if text is None or text == "":
        return None
    if not isinstance(text, str) or not is_storable(text):
        raise BadRow(f"{key} is {_shown(text)}; use a text")
    return text


def _shown(value: Any) -> str:
    return shorten(json.dumps(value), _SHOWN)


MAX_COLUMNS = 2000


class Survey:
    """Every column in the order of appearance, the reserved ones last, with the kinds of its values."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        """Raises: TransferError when no table could hold the rows."""
        kinds: dict[str, set[str]] = {}
        for row in rows:
            for key, value in row.items():
                kinds.setdefault(key, set()).add(_kind(value))
            if len(kinds) > MAX_COLUMNS:
                raise TransferError(f"The tasks have over {MAX_COLUMNS} different keys; export them as jsonl or json.")
        bad = next((key for key in kinds if not key or not is_storable(key)), None)
        if bad is not None:
            raise TransferError(f"A key {shorten(ascii(bad), 60)} can name no column; export as jsonl or json.")
        self.kinds = {key: kinds[key] for key in sorted(kinds, key=lambda key: key in COLUMNS)}

    def kind(self, column: str) -> str:
        """`text`, `integer` (of 64 bits), `number` or `boolean` if all its values are that, else `json`."""
        kinds = self.kinds[column]
        return next(iter(kinds)) if len(kinds) == 1 else "json"


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text" if is_storable(value) else "json"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if -MAX_BIGINT - 1 <= value <= MAX_BIGINT else "json"
    return "number" if isinstance(value, float) else "json"
