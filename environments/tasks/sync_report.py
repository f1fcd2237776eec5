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
    "delete it in the admin and restart, or give the class's split another name"
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
    """The result of a sync for one split. Numbers count places of the split, unless they say
    otherwise."""

    environment: str
    split: str
    added: int = 0
    unchanged: int = 0
    """Places whose task was in the split before, at any position."""
    removed: int = 0
    """Removed places: the class no longer lists their task, or no longer declares the split."""
    kept: int = 0
    """Places that people edited or added and that stay, although the class does not list them."""
    withheld: int = 0
    """Tasks that the class lists and that people removed from the split."""
    edited: int = 0
    """Unchanged places in which people replaced the class's task with another one."""
    dropped: int = 0
    """Tasks newly marked as dropped: the class listed them here and no longer lists them anywhere.
    Not all are among the removed ones, because people may have edited or removed them before."""
    succeeded: int = 0
    """Added places that serve the edit of a task that people edited elsewhere."""
    conflicts: int = 0
    """Tasks that people edited, removed or quarantined, and that the class now changed or
    dropped."""
    is_frozen: bool = False
    """The class's list has changed since the last sync, but the split is frozen."""
    is_taken: bool = False
    """A split of this name was made in the admin, and is served instead of the class's."""
    is_undeclared: bool = False
    """The class no longer declares the split, so it is no longer served. Reported once."""

    def __str__(self) -> str:
        if self.is_taken:
            return f"{self.environment}/{self.split}: {TAKEN}"
        text = f"{self.environment}/{self.split}: {self.added} added"
        if self.succeeded:
            text += f" ({self.succeeded} as edited elsewhere)"
        text += f", {self.unchanged} unchanged, {self.removed} removed"
        for count, words in (
            (self.edited, "kept with edits"),
            (self.kept, "added by people kept"),
            (self.withheld, "removed by people left out"),
            (self.dropped, "marked as dropped"),
        ):
            if count:
                text += f", {count} {words}"
        if self.conflicts:
            noun = "conflict" if self.conflicts == 1 else "conflicts"
            text += (
                f"; {self.conflicts} {noun} with what people did: look at Conflicts in the admin"
            )
        if self.is_undeclared:
            text += "; no longer served, because the class no longer declares it"
        if self.is_frozen:
            text += "; not changed, because it is frozen (the class's list has changed)"
        return text

    @property
    def has_news(self) -> bool:
        """Return whether a curator will want to know. The first list of a class is no news."""
        is_longer = self.added and self.unchanged
        work_of_people = (
            self.edited or self.kept or self.withheld or self.succeeded or self.conflicts
        )
        work_of_class = is_longer or self.removed or self.dropped or self.is_undeclared
        return bool(work_of_class or work_of_people or self.is_frozen or self.is_taken)


@dataclass(frozen=True, slots=True)
class SyncReport:
    splits: tuple[SplitSync, ...]
    """The splits of each environment, in the order of hosting: those of a class that lists its
    tasks, or those of a procedural class whose names are taken; then undeclared ones."""
    procedural: tuple[str, ...]
    """Names of the environments whose class generates each task on demand."""
    seconds: float
    failures: tuple[UnlistableTasks, ...] = ()
    """Of environments that became unavailable, because they could not list their tasks."""
