"""How the results of two steps differ: of a recorded step, and of the same call made again."""

from __future__ import annotations

import json
from typing import Any, Literal

from episodes.attempts.components import components_of
from episodes.models import Step

Aspect = Literal["outcome", "error", "output", "reward", "finished", "components", "metadata"]
"""Part of a step's result. "outcome" is its status (ok, refused or failed) with the reason,
"output" its blocks, and "components" are those of its reward."""
ASIDES: frozenset[Aspect] = frozenset({"metadata"})
"""Aspects that change neither what an agent sees nor what it is paid. Metadata often has times."""
UNSEEN: frozenset[Aspect] = ASIDES | {"components"}
"""Aspects that agents don't see."""


def differing(then: Step, now: Step) -> tuple[Aspect, ...]:
    """Return how the results of two steps differ. JSON is compared exactly: 1, 1.0 and true are
    different values."""
    before, after = _result_of(then), _result_of(now)
    return tuple(aspect for aspect in before if before[aspect] != after[aspect])


def _result_of(step: Step) -> dict[Aspect, Any]:
    text = step.output_json
    try:
        output = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        output = text
    is_whole = isinstance(output, dict)
    return {
        "outcome": (step.status, step.reason),
        "error": step.error,
        "output": _exact(output.get("blocks") if is_whole else output),
        "reward": step.reward,
        "finished": step.finished,
        "components": _exact(components_of(output.get("metadata")) if is_whole else {}),
        "metadata": _exact(output.get("metadata") if is_whole else None),
    }


def _exact(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return repr(value)
