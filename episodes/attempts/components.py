"""The parts of a reward that environments report in a tool output's metadata.

Nothing here reads the database.

An environment that computes a reward from several terms may add
`metadata["reward_components"] = {name: number}` (or `metadata["rewards"]`) to its output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from environments.database.storable import storable

COMPONENT_MEMBERS = ("reward_components", "rewards")
"""Members of the metadata from which figures are computed, the first one that is an object."""
MAX_COMPONENTS = 40
"""Components of one tool output; further ones are ignored."""
MAX_NAME_CHARACTERS = 80
MARKS = tuple(f'"{name}"' for name in COMPONENT_MEMBERS)
"""Texts one of which is in the JSON of every output that reports components."""
_NO_METADATA = re.compile(r'"metadata":null,"reward":[^,{}"]*,"finished":(?:true|false)\}\Z')
"""Matches the end of an output without metadata, as this server writes it."""
_END_CHARACTERS = 100
_MAX_VALUE = 1.7e308


def components_of(metadata: Any, members: Sequence[str] = COMPONENT_MEMBERS) -> dict[str, float]:
    """Return the finite numbers under the first of `members` that is an object, by name, in their
    order."""
    if not isinstance(metadata, dict):
        return {}
    parts: dict[Any, Any] = next(
        (metadata[name] for name in members if isinstance(metadata.get(name), dict)), {}
    )
    values: dict[str, float] = {}
    for name, value in parts.items():
        key = storable(str(name), MAX_NAME_CHARACTERS)
        # not math.isfinite, which raises for integers beyond the range of floats; NaN compares
        # false
        if key and type(value) in (int, float) and abs(value) <= _MAX_VALUE:
            values.setdefault(key, float(value))
        if len(values) == MAX_COMPONENTS:
            break
    return values


def may_report(output: str) -> bool:
    """Return whether the JSON of a ToolOutput may report components. Without metadata, that is seen
    at its end."""
    if _NO_METADATA.search(output, max(0, len(output) - _END_CHARACTERS)):
        return False
    return any(mark in output for mark in MARKS)


def components_in(output: str) -> dict[str, float]:
    """Return the components that the JSON of a ToolOutput reports."""
    if not may_report(output):
        return {}
    try:
        whole = json.loads(output)
    except (ValueError, RecursionError):
        return {}
    return components_of(whole.get("metadata")) if isinstance(whole, dict) else {}
