"""A record to export: rows by factory, files of it, and what the database holds, in names instead
of ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from environments.files.streaming import in_large_pieces
from environments.models import Environment, Split, SplitEntry, Task, TaskStatistics
from environments.models.task_hash import content_hash
from episodes.models import (
    Blob,
    Episode,
    Note,
    Play,
    Progress,
    Rollout,
    RolloutMessage,
    RolloutScan,
    Run,
    Step,
)
from episodes.transfer.export_file import ExportFile
from episodes.transfer.formats import EXPORT_FORMATS
from episodes.transfer.importing import EpisodeImportReport, Import
from episodes.transfer.training_options import TrainingOptions
from tests.stored import (
    NOW,
    make_blob,
    make_environment,
    make_episode,
    make_run,
    make_split,
    make_step,
)

HOSTILE = "<script>alert(1)</script> \x1b[31m \u202e \u2028 \ufeff '\"\\ =1+1 é 🙂 " + "x" * 9000
TOOLS = '{"tools": [{"name": "submit", "description": "Answer.", "input_schema": null}]}'
PROMPT = '[{"text": "2 + 2?", "detail": null, "type": "text"}]'


def lines_of(**options: Any) -> list[dict[str, Any]]:
    """Return every episode as a line, parsed."""
    return [json.loads(line) for line in text_of(**options).splitlines()]


def exported(format: str, file: ExportFile | None = None) -> Iterator[bytes]:
    """Yield the pieces of a file, by default of all episodes."""
    return in_large_pieces(EXPORT_FORMATS[format].pieces(file or ExportFile(Episode.objects.all())))


def text_of(format: str = "jsonl", **options: Any) -> str:
    episodes = options.pop("episodes", Episode.objects.all())
    return b"".join(exported(format, ExportFile(episodes, **options))).decode()


def training_rows(
    format: str, options: dict[str, str] | None = None, **further: Any
) -> list[dict[str, Any]]:
    """Return the lines of messages or pairs, parsed. `options`: as in an address; `further`: fields
    of the options."""
    text = text_of(format, options=TrainingOptions.parse(options or {}, **further))
    return [json.loads(line) for line in text.splitlines()]


def import_text(tmp_path: Path, *texts: str) -> EpisodeImportReport:
    """Import each text as a file: 0.jsonl, 1.jsonl, …"""
    paths = [tmp_path / f"{n}.jsonl" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return Import(paths).run()


def forget_everything() -> None:
    for model in (
        RolloutMessage,
        Rollout,
        RolloutScan,
        Note,
        Play,
        Step,
        Episode,
        Blob,
        Run,
        Progress,
        TaskStatistics,
        SplitEntry,
        Task,
        Split,
        Environment,
    ):
        model._default_manager.all().delete()


def make_rich_episodes() -> None:
    """Create an episode with everything that one can have, and one with as little as possible."""
    spec = '{"question": "2 + 2?", "b": 1e20, "a":[-0.0,  "\\u00e9"]}'
    task = Task.objects.create(
        environment=make_environment(), content_hash=content_hash(spec), spec=spec
    )
    facts = {
        "run": make_run(),
        "run_step": 2**40,
        "model": "m-1",
        "player": "script",
        "task_index": -3,
    }
    texts = {
        "user_agent": HOSTILE[:300],
        "key_label": "key é",
        "labels": '{"seed": 7}',
        "detail": HOSTILE,
    }
    blobs = {"prompt": make_blob(PROMPT), "tools": make_blob(TOOLS)}
    counts = {"steps_count": 2, "failed_count": 1, "refused_count": 1, "end_number": 1}
    returns = {
        "return_sum": -0.1,
        "return_last": 0.1 + 0.2,
        "return_max": 1e-300,
        "return_mean": 5e-324,
    }
    times = {
        "first_acted": NOW + timedelta(microseconds=1),
        "last_acted": NOW + timedelta(days=1),
        "duration_seconds": 0.1,
    }
    split = make_split(task)
    rich = make_episode(
        id=7, task=task, split=split, **facts, **texts, **blobs, **counts, **returns, **times
    )
    make_step(
        rich,
        HOSTILE[:2000],
        reward=-0.1,
        duration_ms=1 / 3,
        waited_ms=0.7,
        input_blob=make_blob(f'"{"y" * 9000}"'),
    )
    Step.objects.update(input="")
    make_step(rich, status="failed", output="", error=HOSTILE, reason="raised", input="not JSON")
    make_step(
        rich, status="refused", output="", error="no such tool", reason="not_found", tool="nø"
    )
    bare = make_episode(id=9, is_probe=True, cause="abandoned", ready=None, end_number=2)
    Play.objects.create(
        episode=bare, parent=rich, parent_step=1, differs_at=0, is_blind=True, counts_left=False
    )
    for step, author in ((None, "ada"), (1, "eve (guest 3)")):
        Note.objects.create(episode=rich, step=step, author=author, text=HOSTILE)


def everything() -> dict[str, list[dict[str, Any]]]:
    """Return all that belongs to the record, by model; ids of rows that have a name are that
    name."""
    names = {
        "environment": "environment__name",
        "split": "split__name",
        "run": "run__name",
        "task": "task__spec",
    }
    episodes = [names.get(field.name, field.attname) for field in Episode._meta.concrete_fields]
    steps = [field.attname for field in Step._meta.concrete_fields if field.name != "id"]
    return {
        "episodes": list(Episode.objects.order_by("pk").values(*episodes)),
        "steps": list(Step.objects.order_by("episode", "index").values(*steps)),
        "blobs": list(Blob.objects.order_by("pk").values("digest", "size_bytes")),
        "texts": [{"text": blob.text} for blob in Blob.objects.order_by("pk")],
        "plays": list(
            Play.objects.order_by("pk").values(
                "pk", "parent", "parent_step", "differs_at", "is_blind", "counts_left"
            )
        ),
        "notes": list(
            Note.objects.order_by("pk").values("episode", "step", "author", "text", "created")
        ),
        "runs": list(Run.objects.order_by("name").values("name", "model", "created")),
        "tasks": list(
            Task.objects.order_by("content_hash").values(
                "content_hash", "spec", "environment__name"
            )
        ),
        "splits": list(Split.objects.order_by("name").values("name", "type", "environment__name")),
    }
