"""Mask: takes a session's secret values out of everything that will be recorded or logged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from environments.wire import value_json

SHORTEST = 8
"""Shorter values are too likely to be part of honest text."""
STARS = "********"


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
        """Masked JSON text. Strings are masked one by one, for a match in the raw text could cut an escape in two."""
        if not any(form in text for form in self._forms):
            return text
        try:
            return value_json(self._value(json.loads(text)))
        except (ValueError, RecursionError):  # what Python's reader refuses: an integer of 5,000 digits, say
            return self.text(text)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self._value(item) for key, item in value.items()}
        return value


def _forms(secret: str) -> set[str]:
    """As itself, escaped once (in JSON text) and twice (in JSON text inside a JSON string)."""
    once = json.dumps(secret)[1:-1]
    return {secret, once, json.dumps(once)[1:-1]}
