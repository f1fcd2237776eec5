"""The columns of a file of tasks: the reserved ones, which hold labels of a task, and those of the
tasks' own keys.

_hash    hash of the task as it was exported; a row with another content is an edit of that task
    _split   the split that the task was exported from; ignored by an import, whose split is chosen by the user
    _tags    a list of words; replaces the task's tags
    _state   active or quarantined
    _reason  why the task is quarantined

Any other name that starts with one underscore is refused, unless the task schema declares it: it
may be a misspelled label.

A key of the spec that starts with an underscore is exported with one more underscore, unless the
schema declares it, and an import removes it again. Keys with one of the five names are escaped even
if the schema declares them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from environments.database.storable import MAX_BIGINT, is_storable
from environments.errors import shorten
from environments.files.rows import BadRow, TransferError

COLUMNS = ("_hash", "_split", "_tags", "_state", "_reason")
STATES = ("active", "quarantined")
MAX_TAG_CHARACTERS = 60
MAX_COLUMNS = 2000
_ESCAPED = re.compile("__+(hash|split|tags|state|reason)")
_HASH = re.compile("[0-9a-f]{64}")
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels that a row gives its task. None leaves the task's label unchanged."""

    hash: str | None = None
    split: str | None = None
    tags: tuple[str, ...] | None = None
    """Tags of the task, sorted and without duplicates."""
    state: str | None = None
    reason: str = ""


NOTHING = Labels()


def declared(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys of a spec that a task schema declares."""
    return frozenset(schema.get("properties", ()))


def stray(names: Iterable[str], own: Collection[str]) -> str | None:
    """Return what is wrong with the first name that looks reserved but is not. `own`: the names
    that the schema declares.
    """
    for name in names:
        if (
            name.startswith("_")
            and name not in COLUMNS
            and name not in own
            and unescaped(name, own) == name
        ):
            names_there = f"{', '.join(COLUMNS)} and those that the task schema declares"
            text, escape = (
                shorten(ascii(name), _SHOWN_CHARACTERS),
                shorten(ascii(f"_{name}"), _SHOWN_CHARACTERS),
            )
            return (
                f"has the column {text}; names that start with _ may only be {names_there}. Write a "
                "task's own key of "
                f"this name as {escape}"
            )
    return None


def separated(value: dict[str, Any], own: Collection[str] = ()) -> tuple[dict[str, Any], Labels]:
    """Split a row into its spec and its labels. Raises: BadRow."""
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
    digest = _text(value, "_hash")
    if digest is not None and not _HASH.fullmatch(digest):
        raise BadRow(
            f"_hash is {_shown(digest)}; it must have 64 hexadecimal digits, as in an export"
        )
    return spec, Labels(
        digest, _text(value, "_split"), tags, state, reason if state == "quarantined" else ""
    )


def unescaped(key: str, own: Collection[str]) -> str:
    """Return the key of the spec that a column stands for."""
    is_escaped = _ESCAPED.fullmatch(key) or (key.startswith("__") and key not in own)
    return key[1:] if is_escaped else key


def escaped(key: str, own: Collection[str]) -> str:
    """Return the column for a key of the spec.

    The key itself, if the schema declares both it and the key with one more underscore.
    """
    is_free = key.startswith("_") and key not in own and f"_{key}" not in own
    return f"_{key}" if key in COLUMNS or _ESCAPED.fullmatch(key) or is_free else key


def _tags(cell: Any) -> tuple[str, ...] | None:
    if cell is None:
        return None
    words = cell.split(",") if isinstance(cell, str) else cell
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadRow(f"_tags is {_shown(cell)}; use a list of texts")
    tags = sorted({word.strip() for word in words} - {""})
    for tag in tags:
        if len(tag) > MAX_TAG_CHARACTERS or "," in tag or not tag.isprintable():
            limit = (
                f"{MAX_TAG_CHARACTERS} characters at most, without commas and control characters"
            )
            raise BadRow(f"_tags has {_shown(tag)}; a tag may have {limit}")
    return tuple(tags)


def _text(value: dict[str, Any], key: str) -> str | None:
    text = value.get(key)
    if text is None or text == "":
        return None
    if not isinstance(text, str) or not is_storable(text):
        raise BadRow(f"{key} is {_shown(text)}; use a text")
    return text


def _shown(value: Any) -> str:
    return shorten(json.dumps(value), _SHOWN_CHARACTERS)


class Survey:
    """The columns of the tasks to export, in order of first use with the reserved ones last, and
    the kinds of their values.

    Tables need this before their first row.
    """

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        """Read all rows once. Raises: TransferError when no table can hold them."""
        kinds: dict[str, set[str]] = {}
        for row in rows:
            for key, value in row.items():
                kinds.setdefault(key, set()).add(_kind(value))
            if len(kinds) > MAX_COLUMNS:
                raise TransferError(
                    f"The tasks have more than {MAX_COLUMNS} different keys; export them as jsonl "
                    "or json."
                )
        bad = next((key for key in kinds if not key or not is_storable(key)), None)
        if bad is not None:
            raise TransferError(
                f"A key {shorten(ascii(bad), 60)} cannot be the name of a column; export as jsonl "
                "or json."
            )
        self.kinds = {key: kinds[key] for key in sorted(kinds, key=lambda key: key in COLUMNS)}

    def kind(self, column: str) -> str:
        """Return the kind of a column's values: `text`, `integer` (64 bits), `number`, `boolean`,
        or else `json`."""
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
