"""The report of an import of tasks, or of its dry run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from environments.errors import shorten
from environments.files.rows import Refusal, Unit, many

MAX_SHOWN_REFUSALS = 100
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
    """Rows whose task is added to the split."""
    changed: int = 0
    """Rows that change the content, tags or state of an existing task."""
    duplicates: int = 0
    """Rows whose content is already in the split or in an earlier row."""
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    """The first MAX_SHOWN_REFUSALS refused rows."""
    sample: list[str] = field(default_factory=list)
    """The first SHOWN_TASKS added specs, shortened."""
    replaced_in: Counter[str] = field(default_factory=Counter)
    """Split -> number of its tasks whose content changes."""
    frozen_in: Counter[str] = field(default_factory=Counter)
    """Frozen split -> number of its tasks that a row would change; they stay unchanged there."""
    superseded: int = 0
    """Rows whose content an edit has replaced."""
    as_written: bool = False
    """Whether these are added as they are in the file. Otherwise what the edits made of them is."""
    quarantined: int = 0
    """Rows that are quarantined tasks in another spelling; those are added, and stay
    quarantined."""
    from_elsewhere: int = 0
    """Rows whose `_split` names another split."""
    warnings: list[str] = field(default_factory=list)
    """What to know before the import, found by a dry run: shared tasks, readable answers, quoted
    splits."""
    is_applied: bool = False
    fingerprint: tuple[int, ...] = ()
    """`FileSource.fingerprint` of the file and schema that this report is about."""

    @property
    def rows(self) -> int:
        """Number of rows in the file."""
        return self.added + self.changed + self.duplicates + self.refused

    @property
    def has_work(self) -> bool:
        """Return whether the import changes anything."""
        return bool(self.added or self.changed)

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if not self.is_applied:
            return f"{self.file} would change {self.split}: {self.counts}."
        edits = f" {self.edited_since}" if self.superseded else ""
        return (
            f"{self.file} was imported into {self.environment}/{self.split}: {self.counts}.{edits}"
        )

    @property
    def edited_since(self) -> str:
        """What becomes of the rows whose content an edit has replaced."""
        choice = (
            "The content of the file is served"
            if self.as_written
            else "The edited tasks are served"
        )
        return f"Edited since: {many(self.superseded, self.unit)}. {choice}."

    @property
    def counts(self) -> str:
        """The four counts as text."""
        parts = (
            f"{self.added:,} added",
            f"{self.changed:,} changed",
            f"{self.duplicates:,} skipped as duplicates",
        )
        return ", ".join((*parts, f"{self.refused:,} refused"))

    @property
    def notes(self) -> list[str]:
        """Further facts that a user should know, one sentence each."""
        notes = [f"The split {self.split!r} is new."] if self.is_new_split else []
        for split, count in sorted(self.replaced_in.items()):
            notes.append(f"New content in {split!r}: {many(count, 'task')}.")
        for split, count in sorted(self.frozen_in.items()):
            notes.append(f"{split!r} is frozen; unchanged there: {many(count, 'task')}.")
        if self.superseded:
            notes.append(self.edited_since)
        if self.quarantined:
            rows = many(self.quarantined, self.unit)
            notes.append(f"Quarantined tasks in another spelling: {rows}. They stay quarantined.")
        if self.from_elsewhere:
            notes.append(
                "Exported from another split, according to _split: "
                f"{many(self.from_elsewhere, self.unit)}."
            )
        return [*notes, *self.warnings]

    def refuse(self, refusal: Refusal) -> None:
        """Count a refused row."""
        self.refused += 1
        if len(self.refusals) < MAX_SHOWN_REFUSALS:
            self.refusals.append(refusal)

    def add(self, spec: str) -> None:
        """Count a row whose task is added."""
        self.added += 1
        if len(self.sample) < SHOWN_TASKS:
            self.sample.append(shorten(spec, _TASK_CHARACTERS))
