"""Report: what an import did, or would do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from environments.errors import shorten
from environments.transfer.rows import Refusal, Unit

SHOWN_REFUSALS = 100
SHOWN_TASKS = 5
_TASK_CHARACTERS = 400


@dataclass(slots=True)
class TaskImportReport:
    """Every row is counted in exactly one of `added`, `changed`, `duplicates` and `refused`."""

    file: str
    environment: str
    split: str
    is_new_split: bool
    unit: Unit = "line"
    added: int = 0
    """Rows whose task comes into the split."""
    changed: int = 0
    """Rows that give an existing task another content, other tags or another state."""
    duplicates: int = 0
    """Rows whose content is in the split already, or stood in the file before."""
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    """The first of the refused rows."""
    sample: list[str] = field(default_factory=list)
    """The first specs that are added, cut."""
    replaced_in: Counter[str] = field(default_factory=Counter)
    """Split -> how many of its tasks get another content."""
    frozen_in: Counter[str] = field(default_factory=Counter)
    """Frozen split -> how many of its tasks a row would change; they stay in it as they are."""
    from_elsewhere: int = 0
    """Rows that say in `_split` that they come from another split."""
    is_applied: bool = False
    fingerprint: tuple[int, ...] = ()
    """Of the file and of the schema, as they were when this was found: `Source.fingerprint`."""

    @property
    def rows(self) -> int:
        return self.added + self.changed + self.duplicates + self.refused

    @property
    def has_work(self) -> bool:
        return bool(self.added or self.changed)

    @property
    def sentence(self) -> str:
        """What came of it, in one sentence."""
        if not self.is_applied:
            return f"{self.file} would change {self.split}: {self.counts}."
        return f"{self.file} went into {self.environment}/{self.split}: {self.counts}."

    @property
    def counts(self) -> str:
        parts = (f"{self.added:,} added", f"{self.changed:,} changed", f"{self.duplicates:,} skipped as duplicates")
        return ", ".join((*parts, f"{self.refused:,} refused"))

    @property
    def notes(self) -> list[str]:
        """What else one should know, one sentence each."""
        notes = [f"The split {self.split!r} is new."] if self.is_new_split else []
        for split, count in sorted(self.replaced_in.items()):
            notes.append(f"New content in {split!r}: {_many(count, 'task')}.")
        for split, count in sorted(self.frozen_in.items()):
            notes.append(f"{split!r} is frozen, so it keeps {_many(count, 'task')} as before.")
        if self.from_elsewhere:
            notes.append(f"Exported from another split, by their _split: {_many(self.from_elsewhere, self.unit)}.")
        return notes

    def refuse(self, refusal: Refusal) -> None:
        self.refused += 1
        if len(self.refusals) < SHOWN_REFUSALS:
            self.refusals.append(refusal)

    def add(self, spec: str) -> None:
        self.added += 1
        if len(self.sample) < SHOWN_TASKS:
            self.sample.append(shorten(spec, _TASK_CHARACTERS))


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
