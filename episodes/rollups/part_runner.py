"""Takes one part through the endings, batch by batch, so that each ending is written exactly once.

A batch and the part's Progress commit together, and Progress moves only from where this process
expects it: a process that was overtaken by another writes nothing and reads again. So does one that
read Progress before a removal, whose episodes may be in the batch or in what the part remembers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from django.db import transaction

from episodes.attempts.endings import Ending, endings_of
from episodes.models import Episode, Progress
from episodes.rollups.progress import newest_end
from episodes.rollups.rollup_part import RollupPart

EMPTYING = -1
"""Progress of a part whose rows are to be deleted before it follows from the beginning."""


MAX_READ = 5_000
"""Endings that are read at once: more than a round has at full speed, or each part would read them
again."""


class Overtaken(Exception):
    """Another process has moved the part's Progress, or episodes were removed."""


class EndingReader:
    """Reads endings, for all parts that have come equally far only once. For use by one thread.

    What it remembers may contain episodes that were removed since. A part that read its Progress
    before the removal finds itself overtaken; one that reads it now has to `forget` first.
    """

    def __init__(self, *, has_rounds: bool = False) -> None:
        """`has_rounds`: each round ends where the record ended when it began, so that all parts
        come equally far."""
        self._after, self._endings = 0, list[Ending]()
        self._has_rounds = has_rounds
        self._newest: int | None = None

    def begin_round(self) -> None:
        self._newest = None

    def newest(self) -> int:
        """Return the number of the last ending of the round, or of all. Raises: django.db.Error."""
        if self._newest is None or not self._has_rounds:
            self._newest = newest_end()
        return self._newest

    def after(self, place: int, most: int) -> Sequence[Ending]:
        """Return the next endings after `place`, at most `most`."""
        if not (self._endings and self._after <= place < self._endings[-1].number):
            episodes = Episode.objects.filter(end_number__gt=place, end_number__lte=self.newest())
            self._after, self._endings = place, endings_of(episodes, MAX_READ)
        first = bisect_right(self._endings, place, key=attrgetter("number"))
        return self._endings[first : first + most]

    def forget(self) -> None:
        self._endings = []


class Following:
    """A part and its position among the endings, for use by one thread.

    After an exception of any kind it continues from what the database says.
    """

    def __init__(self, part: RollupPart, reader: EndingReader | None = None) -> None:
        self.part = part
        self._reader = reader or EndingReader()
        self._place: int | None = None  # Progress, once read
        self._removals = 0  # of Progress, when it was read

    def advance(self) -> bool:
        """Follow one batch, or delete some rows of a part that starts over; return whether there
        was something to do.

        Raises: django.db.Error, or whatever the part raises; then nothing of the batch is written.
        """
        try:
            place = self.read_place()
            if place == EMPTYING:
                self._place = self._emptied()
                return True
            return self._follow(place)
        except Exception:
            self.part.forget()
            self._place = None
            raise

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def place(self) -> int:
        """The `end_number` of the last ending that was followed. Raises: django.db.Error."""
        return max(0, self.read_place())

    def read_place(self) -> int:
        """Return the part's Progress, read once; -1 if it starts over. The reader forgets what it
        read before.

        Raises: django.db.Error.
        """
        if self._place is None:
            self._reader.forget()
            progress = Progress.objects.get_or_create(name=self.part.name)[0]
            self._place, self._removals = progress.end_number, progress.removals
        return self._place

    def _follow(self, place: int) -> bool:
        if self._reader.newest() <= place:
            return False
        endings = _shortened(
            self._reader.after(place, self.part.most_endings), self.part.most_steps
        )
        if endings:
            rows = self.part.gather(endings)
            with transaction.atomic():
                self._move(place, endings[-1].number)
                self.part.write(rows)
            self._place = endings[-1].number
        return bool(endings)

    def _emptied(self) -> int:
        """Delete some of the part's rows, and return its new place."""
        self.part.forget()
        with transaction.atomic():
            # locks the row; fails if another process has finished with this
            self._move(EMPTYING, EMPTYING)
            if self.part.empty():
                return EMPTYING
            self._move(EMPTYING, 0)
        return 0

    def _move(self, place: int, to: int) -> None:
        """Change the part's Progress from `place` to `to`. Raises: Overtaken."""
        row = Progress.objects.filter(
            name=self.part.name, end_number=place, removals=self._removals
        )
        if not row.update(end_number=to):
            raise Overtaken(f"{self.part.name} is no longer at {place}")


def _shortened(endings: Sequence[Ending], most_steps: int) -> Sequence[Ending]:
    """Return as many of the first endings as have `most_steps` together, at least one."""
    steps = 0
    for place, ending in enumerate(endings):
        steps += ending.steps + ending.refused
        if steps > most_steps:
            return endings[: max(1, place)]
    return endings
