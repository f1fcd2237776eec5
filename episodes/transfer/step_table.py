"""Writes steps as Parquet, for data frames: a row per step, with columns of its episode.

Episodes without steps have no row. A row group holds some thousand rows, or fewer large ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from environments.files.output import TakenFile
from environments.scoring.returns import RETURNS
from episodes.attempts.components import components_in
from episodes.transfer.export_source import EpisodeFacts, ExportedStep, Recorded

GROUP_ROWS = 10_000
MAX_GROUP_CHARACTERS = 8 * 1024 * 1024
"""Limit of the inputs and outputs in a row group."""

_TIME = pa.timestamp("us", tz="UTC")
_EPISODE = {
    **{
        "episode": ("id", pa.int64()),
        "environment": ("environment", pa.string()),
        "split": ("split", pa.string()),
    },
    **{
        "task": ("content_hash", pa.string()),
        "task_index": ("task_index", pa.int64()),
        "run": ("run", pa.string()),
    },
    **{
        "run_step": ("run_step", pa.int64()),
        "model": ("model", pa.string()),
        "player": ("player", pa.string()),
    },
    **{
        "episode_status": ("status", pa.string()),
        "cause": ("cause", pa.string()),
        "is_probe": ("is_probe", pa.bool_()),
    },
    **{f"return_{name}": (f"return_{name}", pa.float64()) for name in RETURNS},
    **{"episode_created": ("created", _TIME), "episode_ended": ("ended", _TIME)},
}
"""Column -> field of EpisodeFacts, and its type."""
_STEP = {
    **{
        "index": pa.int32(),
        "tool": pa.string(),
        "input": pa.string(),
        "output": pa.string(),
        "reward": pa.float64(),
    },
    **{"finished": pa.bool_(), "status": pa.string(), "error": pa.string(), "reason": pa.string()},
    **{
        "task_id": pa.string(),
        "started": _TIME,
        "duration_ms": pa.float64(),
        "waited_ms": pa.float64(),
    },
}
"""Column -> its type, in the order of the fields of ExportedStep. `input` and `output` hold the
exact JSON text."""
_COMPONENTS = pa.map_(pa.string(), pa.float64())
"""Components of the reward by name; null if the output reports none."""
_SCHEMA = pa.schema(
    [(name, kind) for name, (_, kind) in _EPISODE.items()]
    + [*_STEP.items(), ("reward_components", _COMPONENTS)]
)


class StepTable:
    """Writes one Parquet file; see `exporting.EpisodeFileWriter`."""

    needs_steps = True

    def __init__(self) -> None:
        self._sink = TakenFile()
        self._file = pq.ParquetWriter(pa.PythonFile(self._sink, mode="w"), _SCHEMA)
        self._rows: list[tuple[Any, ...]] = []
        self._characters = 0

    def start(self) -> bytes:
        return self._sink.taken()

    def write(self, episode: Recorded) -> Iterator[bytes]:
        facts = _facts(episode.facts)
        for step in episode.steps:
            self._add(facts, step)
            if len(self._rows) >= GROUP_ROWS or self._characters >= MAX_GROUP_CHARACTERS:
                self._flush()
                yield self._sink.taken()

    def end(self) -> bytes:
        self._flush()
        self._file.close()
        return self._sink.taken()

    def _add(self, facts: tuple[Any, ...], step: ExportedStep) -> None:
        self._rows.append((*facts, *step, list(components_in(step.output).items()) or None))
        self._characters += len(step.input) + len(step.output)

    def _flush(self) -> None:
        if self._rows:
            columns = [
                pa.array(values, field.type)
                for values, field in zip(zip(*self._rows, strict=True), _SCHEMA, strict=True)
            ]
            self._file.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA))
            self._rows, self._characters = [], 0


def _facts(facts: EpisodeFacts) -> tuple[Any, ...]:
    return tuple(getattr(facts, name) for name, _ in _EPISODE.values())
