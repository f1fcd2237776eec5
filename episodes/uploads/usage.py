"""Tokens and cost of a rollout, where its client reported them.

The recorder of openreward has no fields for them. Clients report them in the metadata of messages
or of the rollout, or in `rollout_info`, usually as the `usage` object of the response of the
model's API. The names that OpenAI (both APIs), Anthropic, Google and OpenRouter use are read, in
`usage`, `usage_metadata` or directly in the metadata:

    input      prompt_tokens, input_tokens, prompt_token_count; Anthropic's leaves out cached input, which is added
    output     completion_tokens, output_tokens, candidates_token_count; Google's leaves out reasoning, which is added
    reasoning  reasoning_tokens, also in completion_tokens_details and output_tokens_details; thoughts_token_count
    cached     cached_tokens in prompt_tokens_details and input_tokens_details; cache_read_input_tokens,
               cached_content_token_count
    cost       cost, cost_usd, total_cost, total_cost_usd

Serialisers that cut a response into several messages repeat its metadata on each, so equal metadata
of consecutive messages counts once. Only the metadata is compared, because messages of reasoning
also have a `contentReference`. Values that the client reports for the whole rollout take the place
of sums over its messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from environments.database.storable import MAX_BIGINT
from episodes.models import Rollout, Run

MAX_SUMMED = 20_000
"""Rollouts of a run whose tokens and cost are added up, the newest ones."""
_INPUT = ("prompt_tokens", "input_tokens", "prompt_token_count")
_OUTPUT = ("completion_tokens", "output_tokens")
_COST = ("cost", "cost_usd", "total_cost", "total_cost_usd")
_DETAILS = (
    "completion_tokens_details",
    "output_tokens_details",
    "prompt_tokens_details",
    "input_tokens_details",
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of a rollout or of one message. None: not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    """Includes those of reasoning."""
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    """Input tokens that were read from a cache."""
    cost: float | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in asdict(self).values())


USAGE_FIELDS = tuple(field.name for field in fields(Usage))
"""Names of the fields of Usage, which are also columns of Rollout."""


class UsageSum:
    """Adds up the usage of the responses of a rollout. `add` takes each message in order."""

    def __init__(self) -> None:
        self._totals: dict[str, Any] = {}
        self._last: Mapping[str, Any] = {}
        self._last_index = -2

    def add(self, index: int, extra: str) -> None:
        """Add a message; `extra` is its metadata and further fields as JSON, empty if it has
        none."""
        if not extra:
            return
        metadata = metadata_in(extra)
        is_repeated = metadata == self._last and index - self._last_index <= 1
        self._last, self._last_index = metadata, index
        if is_repeated:
            return
        usage = usage_in(metadata)
        for name in USAGE_FIELDS:
            if (value := getattr(usage, name)) is not None:
                self._totals[name] = min(MAX_BIGINT, self._totals.get(name, 0) + value)

    def total(self, rollout: Rollout) -> Usage:
        """Return the sum; what the client reported for the whole rollout takes the place of it."""
        totals = dict(self._totals)
        for values in (rollout.event_object.get("metadata"), rollout.info_object):
            usage = usage_in(values if isinstance(values, dict) else {})
            totals |= {name: value for name, value in asdict(usage).items() if value is not None}
        return Usage(**totals)


def usage_of_rollout(rollout: Rollout) -> Usage:
    """Return what the client reported for the whole rollout and in its messages."""
    total = UsageSum()
    rows = (
        rollout.messages.exclude(extra="", extra_blob=None)
        .select_related("extra_blob")
        .order_by("index", "id")
    )
    for message in rows.only("index", "extra", "extra_blob", "rollout").iterator(chunk_size=500):
        total.add(message.index, message.extra_json)
    return total.total(rollout)


def usage_in(values: Mapping[str, Any]) -> Usage:
    """Return the usage that metadata contains."""
    usage = values
    for name in ("usage_metadata", "usage"):
        if isinstance(values.get(name), dict):
            usage = values[name]
    details = [usage, *(usage[name] for name in _DETAILS if isinstance(usage.get(name), dict))]
    read = _count(usage, "cache_read_input_tokens")
    creation = _count(usage, "cache_creation_input_tokens")
    thoughts = _count(usage, "thoughts_token_count")
    answer = _count(usage, "candidates_token_count")
    cached_tokens = (
        _first(details, "cached_tokens"),
        read,
        _count(usage, "cached_content_token_count"),
    )
    costs = (_cost(place.get(name)) for place in (usage, values) for name in _COST)
    return Usage(
        input_tokens=_sum(_first([usage], *_INPUT), read, creation),
        output_tokens=_first([usage], *_OUTPUT) if answer is None else _sum(answer, thoughts),
        reasoning_tokens=_first(details, "reasoning_tokens") if thoughts is None else thoughts,
        cached_tokens=next((count for count in cached_tokens if count is not None), None),
        cost=next((cost for cost in costs if cost is not None), None),
    )


def metadata_in(extra: str) -> Mapping[str, Any]:
    """Return the metadata in the column `extra` of a message."""
    if "token" not in extra and "cost" not in extra:
        return {}
    values = json.loads(extra)
    metadata = values.get("metadata")
    return metadata if isinstance(metadata, dict) else values


def _first(places: Iterable[Mapping[str, Any]], *names: str) -> int | None:
    counts = (_count(place, name) for place in places for name in names)
    return next((count for count in counts if count is not None), None)


def _count(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_BIGINT else None


def _sum(first: int | None, *others: int | None) -> int | None:
    return None if first is None else min(MAX_BIGINT, first + sum(other or 0 for other in others))


def _cost(value: Any) -> float | None:
    is_number = type(value) in (int, float) and 0 <= value <= MAX_BIGINT
    return float(value) if is_number else None


@dataclass(frozen=True, slots=True)
class ReportedUsage(Usage):
    """Sums over the rollouts of a run."""

    rollouts: int = 0
    of: int = 0
    """Number of the rollouts whose client reported tokens or cost."""


def reported_usage(run: Run) -> ReportedUsage | None:
    """Return the sums of what clients reported about the newest rollouts of a run; None if there
    are none."""
    newest = Rollout.objects.filter(run=run).order_by("-id")[:MAX_SUMMED]
    rows = list(newest.values_list(*USAGE_FIELDS))
    if not rows:
        return None
    sums = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    totals = {
        name: sum(values) if values else None
        for name, values in zip(USAGE_FIELDS, sums, strict=True)
    }
    count = sum(any(value is not None for value in row) for row in rows)
    return ReportedUsage(**totals, rollouts=len(rows), of=count)
