"""EpisodeTable: CSV with a row an episode, for spreadsheets. Its cells cannot become formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from episodes.csv_lines import csv_line
from episodes.transfer.source import Facts, Recorded

_COLUMNS = {
    **{"episode": "id", "environment": "environment", "split": "split", "task_index": "task_index"},
    **{"task": "content_hash", "run": "run", "run_step": "run_step", "model": "model", "player": "player"},
    **{"status": "status", "cause": "cause", "detail": "detail", "is_probe": "is_probe", "steps": "steps_count"},
    **{"failed": "failed_count", "refused": "refused_count"},
    **{name: name for name in ("return_sum", "return_last", "return_max", "return_mean")},
    **{name: name for name in ("created", "ready", "first_acted", "last_acted", "ended", "duration_seconds")},
    **{name: name for name in ("session_id", "user_agent", "key_label", "labels")},
}
"""Head of a column -> what of Facts stands there."""


class EpisodeTable:
    needs_steps = False

    def start(self) -> str:
        return csv_line(_COLUMNS)

    def write(self, episode: Recorded) -> Iterator[str]:
        yield csv_line(_values(episode.facts))

    def end(self) -> str:
        return ""


def _values(facts: Facts) -> Iterator[Any]:
    return (getattr(facts, name) for name in _COLUMNS.values())
