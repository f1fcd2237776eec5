"""What a sync changed in each split, as counts and as a sentence.

Made by `sync.py`. `manage.py sync_environments` prints it, and `environments/service.py` logs what
has changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from environments.errors import EnvironmentFault, Unhostable, shorten

MAX_REASON_CHARACTERS = 500
TAKEN = (
    "a split of this name was made in the admin, so that one is served and the class's is not; "
    "delete it in the admin "
    "and restart, or give the class's split another name"
)


class UnlistableTasks(Unhostable):
    """A class cannot list its tasks. `reason` is one line that says why, without the name of the
    environment."""

    def __init__(
        self, environment: str, origin: str, call: str, split: str, fault: EnvironmentFault
    ) -> None:
        """`origin`: of the environment; `call`: the class method and its arguments; `fault`: what
        it raised."""
        text = shorten(" ".join(str(fault).split()).rstrip("."), MAX_REASON_CHARACTERS)
        place = f" ({fault.place})" if fault.place else ""
        self.environment, self.split, self.fault = environment, split, fault
        self.reason = f"{call} of {origin} cannot be served: {text}{place}."
        super().__init__(f"{environment}: {self.reason}")


@dataclass(frozen=True, slots=True)
class SplitSync:
    """The result of a sync for one split. The number fields count places of the split, unless they
    say otherwise."""

    environment: str
    split: str
    added: int = 0
    unchanged: int = 0
    """Places whose task was in the split before, at any position."""
    removed: int = 0
    """Places that were removed, because the class no longer lists their task or no longer declares
    the split."""
    kept: int = 0
    """Places that people edited or added and that stay, although the class does not list them."""
    withheld: int = 0
    """Tasks that the class lists and that people removed from the split."""
    edited: int = 0
    """Unchanged places in which people replaced the class's task with another one."""
    dropped: int = 0
    """Tasks newly marked as dropped: the class listed them here and no longer lists them anywhere.
    They are not always among the removed ones, because people may have edited them or taken them
    out before."""
    succeeded: int = 0
    """Added places in which the edit of a task is served that people edited elsewhere, and not the
    task itself."""
    conflicts: int = 0
    """Tasks that people edited, took out or quarantined, and that the class has now changed or
    dropped."""
    is_frozen: bool = False
    """The class's list has changed since the last sync, but the split is frozen and was not
    changed."""
    is_taken: bool = False
    """A split of this name was made in the admin; it is served and the split that the class
    declares is not."""
    is_undeclared: bool = False
    """The class no longer declares the split, so it is no longer served. Reported once."""

    def __str__(self) -> str:
        if self.is_taken:
            return f"{self.environment}/{self.split}: {TAKEN}"
        succeeded = f" ({self.succeeded} as edited elsewhere)" if self.succeeded else ""
        counts = (
            f"{self.added} added{succeeded}, {self.unchanged} unchanged, {self.removed} removed"
        )
        edited = f", {self.edited} kept with edits" if self.edited else ""
        kept = f", {self.kept} added by people kept" if self.kept else ""
        withheld = f", {self.withheld} removed by people left out" if self.withheld else ""
        dropped = f", {self.dropped} marked as dropped" if self.dropped else ""
        gone = (
            "; no longer served, because the class no longer declares it"
            if self.is_undeclared
            else ""
        )
        words = "1 conflict" if self.conflicts == 1 else f"{self.conflicts} conflicts"
        conflicts = (
            f"; {words} with what people did: look at Conflicts in the admin"
            if self.conflicts
            else ""
        )
        frozen = (
            "; not changed, because it is frozen (the class's list has changed)"
            if self.is_frozen
            else ""
        )
        return (
            f"{self.environment}/{self.split}: "
            f"{counts}{edited}{kept}{withheld}{dropped}{conflicts}{gone}{frozen}"
        )

    @property
    def has_news(self) -> bool:
        """Return whether a curator will want to know. The first list of a class is no news."""
        has_more = self.added and self.unchanged
        work_of_people = (
            self.edited or self.kept or self.withheld or self.succeeded or self.conflicts
        )
        work_of_class = has_more or self.removed or self.dropped or self.is_undeclared
        return bool(work_of_class or work_of_people or self.is_frozen or self.is_taken)


@dataclass(frozen=True, slots=True)
class SyncReport:
    splits: tuple[SplitSync, ...]
    """The splits of each environment, in the order of hosting: those of a class that lists its
    tasks, or those of a procedural class whose names are taken; then those that the class no longer
    declares."""
    procedural: tuple[str, ...]
    """Names of the environments whose class generates each task on demand."""
    seconds: float
    failures: tuple[UnlistableTasks, ...] = ()
    """Of the environments that became unavailable, because they could not list their tasks."""
