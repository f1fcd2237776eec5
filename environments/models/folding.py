"""What two spellings of a text have in common: no case and no accents, in every script. All searches compare it.

Databases fold the case of ASCII letters alike, and all others differently or not at all. So a text with other letters
is folded here, before it is stored or after it is read; a text in ASCII is left to the database.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from django.db import models

_ACCENT = re.compile("[\u0300-\u036f]")
_STRING = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?', re.DOTALL)
_UNREADABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that JSON can write and PostgreSQL cannot read."""


def fold(text: str) -> str:
    """Return the text without case and accents."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFKD", text).casefold()))


def fold_json(text: str) -> str | None:
    """Return the JSON text with its strings folded and without escapes of readable characters.

    None if it is in ASCII without such escapes, so that a database can fold it. Names in ASCII stay as they are,
    because tests of fields tell their case apart; others get a blank before them, so that none becomes the name of a
    field.
    """
    return None if is_ascii_json(text) else _STRING.sub(_with_folded_value, text)


def fold_all_json(text: str) -> str:
    """Return the JSON text with all its strings folded, names too, and without escapes of readable characters."""
    if is_ascii_json(text):
        return text.lower()
    return _STRING.sub(lambda found: _written(fold(_string(found[1]))) + (found[2] or ""), text)


def fold_term(text: str) -> str:
    """Return the text folded as it is within a string of `fold_json`."""
    return _written(fold(_UNREADABLE.sub("\ufffd", text)))[1:-1]


def is_ascii_json(text: str) -> bool:
    """Return whether a JSON text has ASCII characters only, and escapes none."""
    return text.isascii() and "\\u" not in text


def _with_folded_value(found: re.Match[str]) -> str:
    value, colon = _string(found[1]), found[2]
    if colon is None:
        return _written(fold(value))
    return _written(value if value.isascii() else f" {fold(value)}") + colon


def _string(literal: str) -> str:
    """Return the string that JSON writes so; the literal itself if it is none, because the text is not JSON."""
    try:
        return _UNREADABLE.sub("\ufffd", json.loads(literal, strict=False))
    except ValueError:
        return literal[1:-1]


def _written(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class FoldedJSON(models.TextField):  # type: ignore[type-arg]  # Django has none at run time
    """`fold_json` of the field `spec`, which saving a row fills in; statements that insert rows pass it themselves."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # of Django
        folded = fold_json(model_instance.spec)  # type: ignore[attr-defined]  # of the models that have this field
        setattr(model_instance, self.attname, folded)
        return folded
