"""Rail: the few facts of every step that stand beside a transcript, as columns. No request, no HTML."""

from __future__ import annotations

from typing import Any

from django.db.models import Max

from episodes.models import Episode

STEPS_PER_READ = 5_000
_STATES = {"ok": "o", "refused": "r", "failed": "f"}


def rail_of(episode: Episode, first: int = 0) -> dict[str, Any]:
    """STEPS_PER_READ steps from `first` on. Two queries.

    `total` (steps of the episode), `status`, `first`, `tools` (names, in order of appearance), and per step: `tool`
    (place in `tools`), `state` (one letter each: o, r, f), `reward` (or null), `ms`.
    """
    last = episode.steps.aggregate(last=Max("index"))["last"]
    rows = episode.steps.filter(index__gte=first, index__lt=first + STEPS_PER_READ).order_by("index")
    tools: dict[str, int] = {}
    columns: dict[str, list[Any]] = {"tool": [], "reward": [], "ms": []}
    states = []
    for tool, status, reward, ms in rows.values_list("tool", "status", "reward", "duration_ms"):
        columns["tool"].append(tools.setdefault(tool, len(tools)))
        columns["reward"].append(reward)
        columns["ms"].append(round(ms, 1))
        states.append(_STATES[status])
    total = 0 if last is None else last + 1
    return {
        **{"first": first, "total": total, "status": episode.status, "tools": list(tools), "state": "".join(states)},
        **columns,
    }
