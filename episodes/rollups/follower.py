"""Follower: the thread that follows endings while a server runs. Made, woken and stopped by the recorder.

It is woken after each of the recorder's batches and looks once a second besides. Between rounds it waits, however busy
the recorder is, so that a few hundred endings share a transaction; during a round it leaves the recorder three times
the time that it took. What goes wrong in one part keeps that part alone waiting, and is tried again.

The parts there are.

catch_up: follow to the end in this process, after imports and seeding, in benchmarks and tests. A server may run.

`start_over` makes all parts begin anew; whoever follows next, a server included, deletes their rows first.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import structlog
from django.db import Error, connections, transaction

from environments.database.write_turns import give_way
from episodes.models import Progress
from episodes.rollups.activity import ActivityPart
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.following import EMPTYING, Following, Overtaken
from episodes.rollups.part import RollupPart
from episodes.rollups.run_tasks import RunTasksPart
from episodes.rollups.spans import SpansPart
from episodes.rollups.text import TextPart
from episodes.rollups.tools import ToolsPart


def make_parts() -> list[RollupPart]:
    """Each new, for one thread."""
    return [ActivityPart(), BlocksPart(), SpansPart(), ToolsPart(), RunTasksPart(), TextPart()]


def catch_up(progress: Callable[[str, int], None] | None = None) -> int:
    """Follow all endings there are; returns how many batches that took.

    `progress` hears after each batch: the part's name and the `end_number` up to which it has followed.
    Raises: django.db.Error.
    """
    return sum(_catch_up(Following(part), progress) for part in make_parts())


def start_over() -> None:
    """Raises: django.db.Error."""
    with transaction.atomic():
        for part in make_parts():
            Progress.objects.update_or_create(name=part.name, defaults={"end_number": EMPTYING})


def _catch_up(following: Following, progress: Callable[[str, int], None] | None) -> int:
    batches, has_more = 0, True
    while has_more:
        with contextlib.suppress(Overtaken):
            has_more = following.advance()
            batches += has_more
            if has_more and progress:
                progress(following.part.name, following.place)
        give_way()
    return batches


LOOK_SECONDS = 1.0
"""Between two looks while nobody wakes it."""
GATHER_SECONDS = 0.4
"""From one round to the next at least."""
REST_FACTOR = 3.0
"""Of the time that a batch took, before the next one: agents share this process and its database."""
FIRST_REST_SECONDS = 0.5
LONGEST_REST_SECONDS = 60.0

log = structlog.get_logger(__name__)


class Follower(threading.Thread):
    """`start` it, `wake` it from any thread, `stop` it."""

    def __init__(self) -> None:
        super().__init__(name="follower", daemon=True)
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._ways = [_Way(Following(part)) for part in make_parts()]

    def wake(self) -> None:
        """Something was committed."""
        self._woken.set()

    def stop(self, timeout_seconds: float) -> None:
        """Ends with the transaction that is under way; one that hangs is left behind. Blocks."""
        self._stopped.set()
        self._woken.set()
        if self.is_alive():
            self.join(timeout_seconds)

    def run(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            for way in self._ways:
                self._follow(way)
            if not self._stopped.wait(GATHER_SECONDS):
                self._woken.wait(LOOK_SECONDS)
        connections.close_all()

    def _follow(self, way: _Way) -> None:
        """To the end, or for a second, for others are waiting."""
        until = time.monotonic() + LOOK_SECONDS
        while time.monotonic() < until and way.is_rested and not self._stopped.is_set():
            began = time.monotonic()
            if not way.advance():
                return
            give_way()
            self._stopped.wait((time.monotonic() - began) * REST_FACTOR)


class _Way:
    """A part's way, with the rests it takes after something went wrong."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._rest_seconds = 0.0
        self._rests_until = 0.0

    @property
    def is_rested(self) -> bool:
        return time.monotonic() >= self._rests_until

    def advance(self) -> bool:
        """Whether there may be more to follow."""
        part = self._following.part
        try:
            has_more = self._following.advance()
        except Overtaken:
            return True
        except Exception as error:  # the database is away, or the part stumbles over what is in it
            if isinstance(error, Error):
                connections.close_all()
            self._rest(part.name, error)
            return False
        if self._rest_seconds:
            log.info("follows_again", part=part.name)
        self._rest_seconds = 0.0
        return has_more

    def _rest(self, name: str, error: Exception) -> None:
        if not self._rest_seconds:
            # never the message: it may tell what a row holds
            log.warning("does_not_follow", part=name, error=type(error).__name__)
        self._rest_seconds = min(max(self._rest_seconds * 2, FIRST_REST_SECONDS), LONGEST_REST_SECONDS)
        self._rests_until = time.monotonic() + self._rest_seconds
