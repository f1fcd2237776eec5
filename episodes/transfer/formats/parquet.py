"""Writes steps as Parquet, for data frames: a row per step, with columns of its episode.

Episodes without steps have no row. A row group holds some thousand rows, or fewer large ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from environments.files.output import TakenFile
from environments.scoring.returns import RETURNS
from episodes.attempts.components import components_in
from episodes.transfer.export_file import ExportFile
from episodes.transfer.formats import ExportFormat, ExportLink

GROUP_ROWS = 10_000
MAX_GROUP_CHARACTERS = 8 * 1024 * 1024
"""Limit of the inputs and outputs in a row group."""
_EPISODE = {
    "episode": ("id", "int64"),
    "environment": ("environment", "string"),
    "split": ("split", "string"),
    "task": ("content_hash", "string"),
    "task_index": ("task_index", "int64"),
    "run": ("run", "string"),
    "run_step": ("run_step", "int64"),
    "model": ("model", "string"),
    "player": ("player", "string"),
    "episode_status": ("status", "string"),
    "cause": ("cause", "string"),
    "is_probe": ("is_probe", "bool_"),
    **{f"return_{name}": (f"return_{name}", "float64") for name in RETURNS},
    "episode_created": ("created", "time"),
    "episode_ended": ("ended", "time"),
}
"""Column -> field of EpisodeFacts, and its type."""
_STEP = {
    "index": "int32",
    "tool": "string",
    "input": "string",
    "output": "string",
    "reward": "float64",
    "finished": "bool_",
    "status": "string",
    "error": "string",
    "reason": "string",
    "task_id": "string",
    "started": "time",
    "duration_ms": "float64",
    "waited_ms": "float64",
}
"""Column -> its type, in the order of the fields of ExportedStep. `input` and `output` hold the
exact JSON text."""


def row_groups(file: ExportFile) -> Iterator[bytes]:
    import pyarrow as pa  # type: ignore[import-untyped]  # takes a third of a second
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    types = {name: kind for name, (_, kind) in _EPISODE.items()} | {"success": "bool_"} | _STEP
    columns = [
        (name, pa.timestamp("us", tz="UTC") if kind == "time" else getattr(pa, kind)())
        for name, kind in types.items()
    ]
    # by name; null if the output reports none
    columns.append(("reward_components", pa.map_(pa.string(), pa.float64())))
    schema = pa.schema(columns)
    sink = TakenFile()
    rows, characters = list[tuple[Any, ...]](), 0
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema) as writer:
        for episode in file.recorded():
            facts = [getattr(episode.facts, name) for name, _ in _EPISODE.values()]
            facts.append(episode.facts.success_by(file.options.definition))
            for step in episode.steps:
                components = list(components_in(step.output).items()) or None
                rows.append((*facts, *step, components))
                characters += len(step.input) + len(step.output)
                if len(rows) >= GROUP_ROWS or characters >= MAX_GROUP_CHARACTERS:
                    writer.write_table(_table(rows, schema))
                    rows, characters = [], 0
                    yield sink.taken()
        if rows:
            writer.write_table(_table(rows, schema))
    yield sink.taken()


FORMATS = [
    ExportFormat(
        name="parquet",
        label="Parquet",
        position=3,
        media_type="application/vnd.apache.parquet",
        extension="parquet",
        pieces=row_groups,
        links=[ExportLink("Parquet", "one row per step")],
    )
]


def _table(rows: list[tuple[Any, ...]], schema: Any) -> Any:
    import pyarrow as pa

    columns = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
