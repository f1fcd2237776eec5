"""SyncReport: what a sync did to each split, as figures and as a sentence. Made by `sync.py`.

Read by `manage.py sync_environments`, which prints it, and by `wiring.py`, which logs what is news.
"""

from __future__ import annotations

from dataclasses import dataclass

TAKEN = (
    "people made a split of this name, so it stays theirs and the class's is not served; delete it in the admin and "
    "start again, or let the class name its own otherwise"
)


@dataclass(frozen=True, slots=True)
class SplitSync:
    """What became of one split; each field but the names counts entries."""

    environment: str
    split: str
    added: int = 0
    unchanged: int = 0
    """Entries that were in the split before, wherever they stand now."""
    removed: int = 0
    """Entries that left the split, because the class no longer lists them or declares the split."""
    kept: int = 0
    """Entries that people edited or added, and that stay though the class does not list them."""
    withheld: int = 0
    """Tasks that the class lists and people took out of the split."""
    edited: int = 0
    """Of the unchanged ones those where people put another task in the place of the class's."""
    dropped: int = 0
    """Tasks that are marked as dropped now: the class listed them here and lists them nowhere any more. They may
    never have left the split, or not now: people had edited them or taken them out."""
    is_frozen: bool = False
    """The class lists something else than at the last sync, but the split is frozen and stays as it is."""
    is_taken: bool = False
    """People made a split of this name, which stays theirs and is served; what the class declares is not."""
    is_undeclared: bool = False
    """The class does not declare the split any more, so it is no longer served. Told once."""

    def __str__(self) -> str:
        if self.is_taken:
            return f"{self.environment}/{self.split}: {TAKEN}"
        counts = f"{self.added} added, {self.unchanged} unchanged, {self.removed} removed"
        edited = f", {self.edited} kept as people edited them" if self.edited else ""
        kept = f", {self.kept} kept that people put there" if self.kept else ""
        withheld = f", {self.withheld} left out that people took out" if self.withheld else ""
        dropped = f", {self.dropped} marked as dropped" if self.dropped else ""
        gone = "; the class no longer declares it, so it is not served" if self.is_undeclared else ""
        frozen = "; it is frozen, though the class now lists something else" if self.is_frozen else ""
        return f"{self.environment}/{self.split}: {counts}{edited}{kept}{withheld}{dropped}{gone}{frozen}"

    @property
    def has_news(self) -> bool:
        """Whether somebody who curates tasks will want to know; the first list of a class is no news."""
        has_more = self.added and self.unchanged
        work_of_people = self.edited or self.kept or self.withheld
        work_of_class = has_more or self.removed or self.dropped or self.is_undeclared
        return bool(work_of_class or work_of_people or self.is_frozen or self.is_taken)


@dataclass(frozen=True, slots=True)
class SyncReport:
    splits: tuple[SplitSync, ...]
    """Splits of classes that list their tasks, in the order of hosting; of others those that are taken. After them
    those that the class no longer declares."""
    procedural: tuple[str, ...]
    """Names of environments that are asked for each task."""
    seconds: float
