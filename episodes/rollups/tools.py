"""The part that makes ToolUse rows from the steps of ended episodes.

The database groups the steps, so none of them is read into Python. Calls of tools that do not exist
are counted together as the tool "", because agents can invent any number of names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from environments.database.json_rows import rows_among
from episodes.attempts.durations import DurationSketch, bin_sql, from_text, to_text
from episodes.attempts.endings import Ending
from episodes.models import ToolUse
from episodes.rollups.rollup_part import delete_some

COUNTS = ("ok", "refused", "failed", "rewarded", "duration_ms", "durations")

_SQL = f"""
    SELECT s.episode_id, CASE WHEN s.reason = 'not_found' THEN '' ELSE s.tool END AS name, s.status,
        {bin_sql("s.duration_ms")} AS bin,
        COUNT(*), SUM(CASE WHEN s.reward <> 0 THEN 1 ELSE 0 END), SUM(s.duration_ms)
    FROM episodes_step AS s WHERE s.episode_id {{among}}
    GROUP BY 1, 2, 3, 4
"""  # nosec B608 # only our own names


class ToolKey(NamedTuple):
    environment: int
    tool: str
    day: int


@dataclass(slots=True)
class Use:
    """Values of the ToolUse columns with these names."""

    ok: int = 0
    refused: int = 0
    failed: int = 0
    rewarded: int = 0
    duration_ms: float = 0.0
    durations: DurationSketch = field(default_factory=DurationSketch)

    def add(
        self, status: str, number: int, count: int, rewarded_count: int, duration_ms: float
    ) -> None:
        """Add calls of one status and bin `number` of the sketch."""
        setattr(self, status, getattr(self, status) + count)
        self.rewarded += rewarded_count
        if status != "refused":
            self.duration_ms += duration_ms
            self.durations[number] += count


class ToolsPart:
    name = "tools"
    most_endings = 1000
    most_steps = 20_000

    def gather(self, endings: Sequence[Ending]) -> dict[ToolKey, Use]:
        places = {
            ending.episode: (ending.environment, int(ending.ended // 86400) * 86400)
            for ending in endings
        }
        uses: dict[ToolKey, Use] = defaultdict(Use)
        for episode, tool, *figures in rows_among(_SQL, [], places):
            environment, day = places[episode]
            uses[ToolKey(environment, tool, day)].add(*figures)
        return uses

    def write(self, uses: dict[ToolKey, Use]) -> None:
        """Add to the existing rows, which are read within the transaction: it holds the part's
        Progress, so no other process writes them.
        """
        for key, row in _present(uses):
            for name in COUNTS[:-1]:
                setattr(uses[key], name, getattr(uses[key], name) + getattr(row, name))
            uses[key].durations.update(from_text(row.durations))
        ToolUse.objects.bulk_create(
            [
                ToolUse(
                    environment_id=key.environment,
                    tool=key.tool,
                    day=key.day,
                    **{name: getattr(use, name) for name in COUNTS[:-1]},
                    durations=to_text(use.durations),
                )
                for key, use in sorted(uses.items())
            ],
            update_conflicts=True,
            unique_fields=["environment_id", "tool", "day"],
            update_fields=COUNTS,
        )

    def forget(self) -> None:
        pass

    def remove(self, endings: Sequence[Ending]) -> None:
        uses = self.gather(endings)
        rows = _present(uses)
        for key, row in rows:
            for name in COUNTS[:-1]:
                setattr(row, name, max(0, getattr(row, name) - getattr(uses[key], name)))
            row.durations = to_text(from_text(row.durations) - uses[key].durations)
        ToolUse.objects.bulk_update([row for _, row in rows if _calls(row)], COUNTS)
        ToolUse.objects.filter(pk__in=[row.pk for _, row in rows if not _calls(row)]).delete()

    def empty(self) -> bool:
        return delete_some(ToolUse)


def _present(uses: dict[ToolKey, Use]) -> list[tuple[ToolKey, ToolUse]]:
    """Return the existing rows with these keys."""
    rows = ToolUse.objects.filter(
        environment_id__in={key.environment for key in uses},
        day__in={key.day for key in uses},
        tool__in={key.tool for key in uses},
    )
    pairs = ((ToolKey(row.environment_id, row.tool, row.day), row) for row in rows)
    return [(key, row) for key, row in pairs if key in uses]


def _calls(row: ToolUse) -> int:
    return row.ok + row.refused + row.failed
