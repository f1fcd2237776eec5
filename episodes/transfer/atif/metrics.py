"""Tokens and costs that a client reported, as ATIF has them. `episodes/uploads/usage.py` finds
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from episodes.models import Rollout
from episodes.transfer.atif.schema import AtifMetrics
from episodes.uploads.usage import Usage, usage_in

USAGE = "usage"
"""Key in a message's metadata under which an import stores the metrics of a step."""
_NAMES = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "cached_tokens",
    "cost_usd": "cost",
}
"""Field of ATIF -> field of Usage."""


def metrics_of(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the metrics of a message with these further fields; None if there are none."""
    metadata = extra.get("metadata")
    values = metadata if isinstance(metadata, dict) else extra
    try:
        found = AtifMetrics.model_validate(values.get(USAGE)).model_dump(exclude_none=True)
    except ValidationError:
        usage = usage_in(values)
        found = _named(usage)
        if usage.reasoning_tokens is not None:
            found["extra"] = {"reasoning_tokens": usage.reasoning_tokens}
    return found or None


def totals_of(rollout: Rollout) -> dict[str, Any]:
    """Return the totals of a trajectory, as the follower has summed up the rollout."""
    return {f"total_{name}": value for name, value in _named(rollout).items()}


def _named(usage: Usage | Rollout) -> dict[str, Any]:
    values = {name: getattr(usage, field) for name, field in _NAMES.items()}
    return {name: value for name, value in values.items() if value is not None}
