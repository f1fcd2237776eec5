"""Mask: takes a session's secret values out of everything that will be recorded or logged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from environments.wire import value_json

SHORTEST = 8
"""Shorter values are too likely to be part of honest text."""
STARS = "********"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')
"""A string or a number of JSON."""


class Mask:
    """Replaces every secret of a session. Free of cost where there is none."""

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        self._forms = tuple(sorted(forms, key=len, reverse=True))  # one secret may contain another

    def text(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, STARS)
        return text

    def json(self, text: str) -> str:
        """Masked ASCII JSON text. Strings are masked one by one, for a match in raw text could cut an escape in two;
        the rest stays as it is, however deep, and numbers keep their digits unless they are a secret.
        """
        if not any(form in text for form in self._forms):
            return text
        return _TOKEN.sub(self._masked_token, text)

    def _masked_token(self, match: re.Match[str]) -> str:
        raw = match[0]
        if not any(form in raw for form in self._forms):
            return raw
        return json.dumps(self.text(json.loads(raw)) if raw[0] == '"' else STARS)


def _forms(secret: str) -> set[str]:
    """The secret as itself, escaped once (in JSON text) and twice (in JSON text inside a JSON string).

    By either encoder: pydantic's escapes DEL, Python's does not.
    """
    once = {encode(secret)[1:-1] for encode in (json.dumps, value_json)}
    return {secret, *once, *(encode(form)[1:-1] for encode in (json.dumps, value_json) for form in once)}
