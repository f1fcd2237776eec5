"""Texts as searches compare them: without case, accents and invisible characters, in every script.

Databases fold the case of ASCII letters alike, and all others differently or not at all. So a text
with other letters is folded here, before it is stored or after it is read; a text in ASCII is left
to the database.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from django.db import models

from environments.invisible import without_invisible

SLICE_CHARACTERS = 32 * 1024
_ACCENT = re.compile("[\u0300-\u036f]")
_PIECE = re.compile(
    r'(?:[^"\\]{1,64}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^u]){1,4096}'
)
"""A part of a string in JSON, which takes a millisecond at most. Both halves of a surrogate pair
are in one."""
_COLON = re.compile(r"\s*:")
_UNREADABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that JSON can write and PostgreSQL cannot read."""


def fold(text: str) -> str:
    """Return the text without case, accents and invisible characters.

    ß is ss, ligatures are their letters, and a capital I with a dot is i. The Turkish i without one
    is a letter of its own.
    """
    if text.isascii():
        return text.lower()
    parts = list[str]()
    for part in _slices(text):
        plain = unicodedata.normalize("NFKD", without_invisible(part)).casefold()
        parts.append(unicodedata.normalize("NFC", _ACCENT.sub("", plain)))
    return "".join(parts)


def _slices(text: str) -> Iterator[str]:
    """Yield slices of a text that can be folded alone: no other thread runs while one of them is
    folded, so they are short."""
    start = 0
    while start < len(text):
        end = start + SLICE_CHARACTERS
        while end < min(len(text), start + 2 * SLICE_CHARACTERS) and _joins(text[end]):
            end += 1
        yield text[start:end]
        start = end


def _joins(character: str) -> bool:
    """Return whether a character may become one with that before it, such as an accent or the vowel
    of a syllable."""
    first = unicodedata.normalize("NFKD", character)[0]
    return unicodedata.category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"


def fold_json(text: str) -> str | None:
    """Return the JSON text with its strings folded and without escapes of readable characters.

    None if it is in ASCII without such escapes, so that a database can fold it. Names in ASCII stay
    as they are, because filters of fields distinguish their case; others get a blank before them,
    so that none becomes the name of a field.
    """

    def fold_string(value: str, is_name: bool) -> str:
        if not is_name:
            return fold(value)
        return value if value.isascii() else f" {fold(value)}"

    return None if is_ascii_json(text) else _replace_strings(text, fold_string)


def fold_all_json(text: str) -> str:
    """Return the JSON text with all its strings folded, names too, and without escapes of readable
    characters."""
    if is_ascii_json(text):
        return text.lower()
    return _replace_strings(text, lambda value, is_name: fold(value))


def fold_term(text: str) -> str:
    """Return the text folded as it is within a string of `fold_json`."""
    return _to_json(fold(_UNREADABLE.sub("\ufffd", text)))[1:-1]


def is_ascii_json(text: str) -> bool:
    """Return whether a JSON text has ASCII characters only, and escapes none."""
    return text.isascii() and "\\u" not in text


def _replace_strings(text: str, replace: Callable[[str, bool], str]) -> str:
    """Return JSON text with `replace(string, is_name)` in place of each string.

    What follows a string without an end, in a text that is not JSON, stays as it is.
    """
    parts, at = list[str](), 0
    while (start := text.find('"', at)) >= 0:
        pieces, end = list[str](), start + 1
        while piece := _PIECE.match(text, end):
            pieces.append(_read(piece[0]))
            end = piece.end()
        if text[end : end + 1] != '"':
            break
        is_name = _COLON.match(text, end + 1) is not None
        parts += [text[at:start], _to_json(replace("".join(pieces), is_name))]
        at = end + 1
    return "".join([*parts, text[at:]])


def _read(piece: str) -> str:
    """Return what JSON writes as `piece` within a string; the piece itself if that is nothing."""
    with suppress(ValueError):
        piece = json.loads(f'"{piece}"', strict=False) if "\\" in piece else piece
    return _UNREADABLE.sub("\ufffd", piece)


def _to_json(text: str) -> str:
    parts = range(0, len(text), SLICE_CHARACTERS)
    inner = [json.dumps(text[at : at + SLICE_CHARACTERS], ensure_ascii=False)[1:-1] for at in parts]
    return f'"{"".join(inner)}"'


class FoldedJSON(models.TextField):  # type: ignore[type-arg]  # Django has none at run time
    """`fold_json` of the field `spec`, which saving a row fills in; statements that insert rows
    pass it themselves."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # of Django
        text = fold_json(model_instance.spec)  # type: ignore[attr-defined]  # of the models that have this field
        setattr(model_instance, self.attname, text)
        return text
