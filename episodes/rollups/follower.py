"""The follower: the list of its parts, the thread that follows endings and uploads while a server
runs, and `catch_up`.

The thread is in a process of its own (`follower_process.py`), or in the server's with
ORSWEB_FOLLOWER=thread. The recorder starts, wakes and stops it. It is woken after the recorder's
batches, and also checks once a second. Between rounds it rests, the longer the more there was to
follow: an ending costs half as much in a round of hundreds as in one of fifty. A part that has much
to do rests for a while if others wait for the cores. In the server's process the thread leaves the
agents three times as long as each batch took. A failure in one part delays only that part, which
tries again.

`catch_up` follows to the end in the calling process: after imports and seeding, in benchmarks and
tests. A server may run at the same time. `start_over` makes all parts start from the first ending;
the next process that follows, which may be a server, deletes their rows first.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import structlog
from django.db import Error, connection, connections, transaction

from environments.database.write_pauses import TURN_SECONDS, give_way
from episodes.models import Progress
from episodes.rollups.activity import ActivityPart
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.components import ComponentsPart
from episodes.rollups.part_runner import EMPTYING, EndingReader, Following, Overtaken
from episodes.rollups.rollouts import RolloutFollowing
from episodes.rollups.rollouts import start_over as start_rollouts_over
from episodes.rollups.rollup_part import RollupPart
from episodes.rollups.run_totals import RunTotalsPart
from episodes.rollups.step_spans import SpansPart
from episodes.rollups.text import TextPart
from episodes.rollups.tools import ToolsPart


def make_parts() -> list[RollupPart]:
    """Return new parts, for use by one thread."""
    return [
        ActivityPart(),
        BlocksPart(),
        SpansPart(),
        ToolsPart(),
        RunTotalsPart(),
        ComponentsPart(),
        TextPart(),
    ]


def catch_up(progress: Callable[[str, int], None] | None = None) -> int:
    """Follow all endings, and return the number of batches.

    `progress` is called after each batch with the part's name and the `end_number` up to which it
    has followed.
    Raises: django.db.Error.
    """
    rollouts = RolloutFollowing(quiet_seconds=0.0)
    batches = 0
    while rollouts.advance():
        batches += 1
        give_way()
    reader = EndingReader()
    parts = [Following(part, reader) for part in make_parts()]
    Progress.objects.bulk_create(
        [Progress(name=part.name) for part in parts], ignore_conflicts=True
    )
    for part in parts:
        # all before the first endings are read: what the reader remembers is then good for each
        part.read_place()
    return batches + sum(_catch_up(part, progress) for part in parts)


def start_over() -> None:
    """Make all parts start from the first ending. Raises: django.db.Error."""
    with transaction.atomic():
        for part in make_parts():
            Progress.objects.update_or_create(name=part.name, defaults={"end_number": EMPTYING})
        start_rollouts_over()


def _catch_up(following: Following, progress: Callable[[str, int], None] | None) -> int:
    batches, has_more = 0, True
    while has_more:
        with contextlib.suppress(Overtaken):
            has_more = following.advance()
            batches += has_more
            if has_more and progress:
                progress(following.part.name, following.place)
        if has_more:
            give_way()
    return batches


CHECK_SECONDS = 1.0
"""Time between two rounds while nothing wakes the thread; also the time that a part has in one
round."""
MIN_REST_SECONDS = 0.4
"""Least time between two rounds."""
REST_PER_ENDING_SECONDS = 0.02
"""How much longer the rest is for each ending of the round before it."""
MAX_REST_SECONDS = 1.0
CROWDED_SECONDS = 0.3
"""Time on a core after which a part that is not at the end rests, if others wait for the cores."""
CROWDED_SHARE = 0.1
"""They do if the thread has waited for a core for more than this share of the time for which it had
one."""
CROWDED_FACTOR = 9.0
"""How long the part rests then, by its time on a core: so it takes a tenth of one."""
MAX_CROWDED_SECONDS = 30.0
"""Longest such rest: the words of a single episode may take ten seconds."""
PAUSE_FACTOR = 3.0
"""Pause after a batch, by the time that it took, where agents share the process."""
FIRST_RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 60.0

log = structlog.get_logger(__name__)


class Follower(threading.Thread):
    """The thread: `start` it, `wake` it from any thread, `stop` it."""

    def __init__(
        self,
        *,
        is_alone: bool = False,
        after_round: Callable[[Follower], None] = lambda follower: None,
    ) -> None:
        """`is_alone`: no agent is served by this process."""
        super().__init__(name="follower", daemon=True)
        self._is_alone, self._after_round = is_alone, after_round
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._reader = EndingReader(has_rounds=True)
        self._runners = [
            *(_PartRunner(Following(part, self._reader)) for part in make_parts()),
            _PartRunner(RolloutFollowing()),
        ]

    def wake(self) -> None:
        """Note that something was committed."""
        self._woken.set()

    def stop(self, timeout_seconds: float) -> None:
        """Wait for the transaction in progress, for at most `timeout_seconds`. Blocks."""
        self._stopped.set()
        self._woken.set()
        if self.is_alive():
            self.join(timeout_seconds)

    def places(self) -> dict[str, int]:
        """Return the number of the last ending that each part has followed. For any thread."""
        return {runner.name: runner.place for runner in self._runners if runner.place is not None}

    def idle_seconds(self) -> float:
        """Return how long ago each part had last followed something, or found nothing to follow:
        the longest of them.

        It rises above a few seconds if a part fails, or if the thread is held. For any thread.
        """
        return time.monotonic() - min(runner.moved_at for runner in self._runners)

    def run(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            self._reader.begin_round()
            before = self.places()
            is_at_end = [self._follow(runner) for runner in self._runners]
            self._after_round(self)
            rest = rest_seconds(before, self.places()) if all(is_at_end) else MIN_REST_SECONDS
            if not self._stopped.wait(rest):
                self._woken.wait(CHECK_SECONDS)
        connections.close_all()

    def _follow(self, runner: _PartRunner) -> bool:
        """Follow to the end, or for CHECK_SECONDS, because other parts are waiting; return whether
        it is at the end.

        While others wait for the cores, the part rests after CROWDED_SECONDS.
        """
        until, before = time.monotonic() + CHECK_SECONDS, CoreTime.now()
        while runner.is_ready and not self._stopped.is_set():
            began = time.monotonic()
            if not runner.advance():
                break
            self._pause(time.monotonic() - began)
            if rest := CoreTime.now().crowded_rest_seconds(before):
                runner.rest(rest)
                return False
            if time.monotonic() > until:
                return False
        return True

    def _pause(self, seconds: float) -> None:
        """Let others have their turn after a batch that took `seconds`."""
        if not self._is_alone:
            give_way()
            self._stopped.wait(seconds * PAUSE_FACTOR)
        elif (
            connection.vendor == "sqlite"
        ):  # the recorder tries more often, so it need not be as long as `give_way`
            self._stopped.wait(min(seconds, TURN_SECONDS))


def rest_seconds(before: Mapping[str, int], after: Mapping[str, int]) -> float:
    """Return how long to rest after a round between these places of the parts. A place of 0 was not
    known yet."""
    newest_place = max(
        (place - before[name] for name, place in after.items() if before[name]), default=0
    )
    return min(MIN_REST_SECONDS + newest_place * REST_PER_ENDING_SECONDS, MAX_REST_SECONDS)


class CoreTime(NamedTuple):
    """For how many seconds a thread has had a core, and has waited for one: 0 where the system does
    not say that."""

    core_seconds: float
    waiting_seconds: float

    @classmethod
    def now(cls) -> CoreTime:
        """Return the times of this thread."""
        try:
            core_seconds, waiting_seconds, _ = map(
                int, Path("/proc/thread-self/schedstat").read_text().split()
            )
        except (OSError, ValueError):
            return cls(time.thread_time(), 0.0)
        return cls(core_seconds / 1e9, waiting_seconds / 1e9)

    def crowded_rest_seconds(self, before: CoreTime) -> float:
        """Return how long to rest now after work since `before`, because others wait for the cores;
        0: not yet."""
        core_seconds, waiting_seconds = (
            self.core_seconds - before.core_seconds,
            self.waiting_seconds - before.waiting_seconds,
        )
        is_due = core_seconds > CROWDED_SECONDS and waiting_seconds > core_seconds * CROWDED_SHARE
        return min(core_seconds * CROWDED_FACTOR, MAX_CROWDED_SECONDS) if is_due else 0.0


class _PartRunner:
    """Follows with one part, and waits before it tries again after a failure."""

    def __init__(self, following: Following | RolloutFollowing) -> None:
        self._following = following
        self._retry_seconds = 0.0
        self._ready_at = 0.0
        self.name = following.name
        self.place = 0 if isinstance(following, Following) else None
        """The number of the last ending that was followed; None for a part that does not follow
        endings."""
        self.moved_at = time.monotonic()

    @property
    def is_ready(self) -> bool:
        return time.monotonic() >= self._ready_at

    def rest(self, seconds: float) -> None:
        """Follow nothing for so long."""
        self._ready_at = time.monotonic() + seconds

    def advance(self) -> bool:
        """Follow one batch, and return whether there may be more to follow."""
        name = self.name
        try:
            has_more = self._following.advance()
        except Overtaken:
            return True
        except Exception as error:  # the database is away, or the part fails on what it holds
            if isinstance(error, Error):
                connections.close_all()
            self._delay(name, error)
            return False
        if self._retry_seconds:
            log.info("follows_again", part=name)
        self._retry_seconds = 0.0
        self.moved_at = time.monotonic()
        if isinstance(self._following, Following):
            self.place = self._following.place
        return has_more

    def _delay(self, name: str, error: Exception) -> None:
        if not self._retry_seconds:
            # never the message: it may contain what a row holds
            log.warning("does_not_follow", part=name, error=type(error).__name__)
        self._retry_seconds = min(
            max(self._retry_seconds * 2, FIRST_RETRY_SECONDS), MAX_RETRY_SECONDS
        )
        self.rest(self._retry_seconds)
