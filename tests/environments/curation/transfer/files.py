"""Files of tasks, written and imported as a command or a page would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from environments.curation.transfer import importing
from environments.curation.transfer.exporting import exported
from environments.curation.transfer.report import TaskImportReport
from environments.curation.transfer.source import FileSource, Format
from environments.curation.transfer.target import ImportTarget
from environments.models import Environment, Split, SplitEntry
from tests.filters import select
from tests.stored import make_environment


class Shelf:
    """A directory of files, and the imports of them into one environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment: Environment = make_environment("shop")

    def lines(self, *rows: Any, name: str = "tasks.jsonl") -> Path:
        """Write a JSONL file and return its path; what is no text is dumped."""
        return self.text(
            "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), name
        )

    def text(self, text: str | bytes, name: str) -> Path:
        path = self.directory / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def schema(self, **schema: Any) -> None:
        self.environment.task_schema = json.dumps({"type": "object", **schema})
        self.environment.save()

    def dry_run(self, path: Path, split: str = "train", **options: Any) -> TaskImportReport:
        return importing.dry_run(FileSource.of(path, **options), self.target(split))

    def apply(self, path: Path, split: str = "train", **options: Any) -> TaskImportReport:
        return importing.apply(FileSource.of(path), self.target(split), author="ada", **options)

    def order(self, path: Path, type: str) -> tuple[FileSource, ImportTarget]:
        """Return an order to create the split "train" from a file, with a type."""
        return FileSource.of(path), ImportTarget.of(self.environment, "train", type)

    def target(self, split: str = "train") -> ImportTarget:
        is_there = self.environment.splits.filter(name=split, is_served=True).exists()
        return ImportTarget.of(self.environment, split, None if is_there else "train")

    def export(self, format: Format, split: str = "train", **options: Any) -> Path:
        row = Split.objects.get(name=split)
        content = b"".join(exported(select(split=row.pk), format, **options))
        return self.text(content, f"exported.{format}")


def served(split: str = "train") -> list[Any]:
    """Return the specs that agents get, in order."""
    row = Split.objects.get(name=split)
    places = SplitEntry.objects.filter(split=row, since__lte=row.version, is_hidden=False).order_by(
        "position"
    )
    seen = [
        place
        for place in places.select_related("task")
        if place.until is None or place.until > row.version
    ]
    return [json.loads(place.task.spec) for place in seen]


def counts(report: TaskImportReport) -> tuple[int, int, int, int]:
    """Return the numbers of added, changed, duplicate and refused rows."""
    return report.added, report.changed, report.duplicates, report.refused
