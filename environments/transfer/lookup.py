"""Tasks by the hash of their content. One parameter for all hashes: Django's ORM takes longer than the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from django.db import connection

_AMONG: dict[str, tuple[str, Callable[[list[str]], Any]]] = {
    "sqlite": ("IN (SELECT value FROM json_each(%s))", json.dumps),
    "postgresql": ("= ANY(%s)", list),
}
_FIND = "SELECT content_hash, id, state, reason FROM environments_task WHERE environment_id = %s AND content_hash "


def tasks_by_hash(environment: int, hashes: Collection[str]) -> list[tuple[str, int, str, str]]:
    """(hash, id, state, reason) of those that exist."""
    if not hashes:
        return []
    condition, as_parameter = _AMONG[connection.vendor]
    parameters: list[Any] = [environment, as_parameter(list(hashes))]
    with connection.cursor() as cursor:
        cursor.execute(_FIND + condition, parameters)
        return list(cursor.fetchall())
