"""The quotas of a key with what it uses now, as its page and the API show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from environments import conf
from environments.quotas import DESCRIPTIONS, KeyUsage, Quotas


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One quota of a key."""

    name: str
    what: str
    """What it limits."""
    limit: int | None
    """None: no limit."""
    used: int | None
    """None: it is counted for each episode, or no server runs in this process."""
    source: str
    """`key`, or `server` for the default of all keys."""


def quota_lines(own_limits: Mapping[str, int], usage: KeyUsage | None) -> list[QuotaLine]:
    """Return all quotas of a key; `own_limits`: those it has instead of the server's defaults."""
    quotas: Quotas = usage.quotas if usage else conf.quotas().replaced(own_limits)
    usage_counts = usage.used if usage else {}
    return [
        QuotaLine(
            name,
            what,
            getattr(quotas, name) or None,
            usage_counts.get(name),
            "key" if name in own_limits else "server",
        )
        for name, what in DESCRIPTIONS.items()
    ]
