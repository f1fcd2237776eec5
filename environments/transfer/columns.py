"""Columns: the keys of many tasks and what they hold, as tables need to know before their first row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from environments.errors import shorten
from environments.transfer.reserved import COLUMNS
from environments.transfer.rows import TransferError
from environments.transfer.values import is_storable

MOST_COLUMNS = 2000
_BIGGEST = 2**63


class Survey:
    """Every column in the order of appearance, the reserved ones last, with the kinds of its values."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        """Raises: TransferError when no table could hold the rows."""
        kinds: dict[str, set[str]] = {}
        for row in rows:
            for key, value in row.items():
                kinds.setdefault(key, set()).add(_kind(value))
            if len(kinds) > MOST_COLUMNS:
                raise TransferError(f"The tasks have over {MOST_COLUMNS} different keys; export them as jsonl or json.")
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
        return "integer" if -_BIGGEST <= value < _BIGGEST else "json"
    return "number" if isinstance(value, float) else "json"
