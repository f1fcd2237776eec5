"""Whatever is acknowledged is recorded: while the database is away or its disk is full.

tests/conformance/test_kill.py does the same with kills, test_clock.py with jumps of the clock.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from pytest_django import DjangoDbBlocker

from tests.conformance.agent import eventually
from tests.conformance.away import away
from tests.conformance.record import Recorded, recorded
from tests.conformance.test_kill import Counted, play
from tests.hostile.sizes import size
from tests.hostile.small_disk import SmallDisk, on_disk, small_disk
from tests.server import LiveServer

PLAYERS = size(4, 16)
STEPS_BETWEEN = size(60, 600)
AWAY_SECONDS, FULL_SECONDS = size(1, 20), size(1, 20)
FULL_TIMES = size(1, 5)
DISK_MEGABYTES = 60


@contextlib.contextmanager
def playing(server: LiveServer, pause_seconds: float = 0.0) -> Iterator[Counted]:
    """Let agents play episodes of 20 steps within the block; afterwards all their steps have been
    answered."""
    counted = Counted(pause_seconds=pause_seconds)
    players = [
        threading.Thread(target=play, args=[server, counted], daemon=True) for _ in range(PLAYERS)
    ]
    for player in players:
        player.start()
    try:
        yield counted
    finally:
        counted.is_over.set()
        for player in players:
            player.join(timeout=60)
    assert not any(player.is_alive() for player in players)


def some_steps(counted: Counted) -> None:
    """Wait until the agents have made some more steps."""
    goal = counted.steps + STEPS_BETWEEN
    eventually(lambda: counted.steps >= goal, seconds=120)


def check_record(record: Recorded, counted: Counted) -> int:
    """Check that every answered step is recorded, once and in order. Return the number of steps."""
    for sid, answered in counted.answered.items():
        steps = record.steps(sid)
        assert [step.task_id for step in steps][: len(answered)] == answered
        assert [(step.index, step.blocks[0]["text"]) for step in steps] == [
            (n, str(n + 1)) for n in range(len(steps))
        ]
        assert record.episode(sid).steps_count in (len(steps), 0)
    return counted.steps


def test_nothing_is_lost_while_the_database_is_away(
    django_db_blocker: DjangoDbBlocker, tried: Callable[[str], None]
) -> None:
    with LiveServer("tests.hostile.envs:Sturdy") as server:
        with playing(server) as counted:
            some_steps(counted)
            with away(server):
                eventually(lambda: stands_still(counted), seconds=30)
                before = counted.steps
                time.sleep(AWAY_SECONDS)
                assert counted.steps == before
            some_steps(counted)
        with recorded(server, django_db_blocker) as record:
            steps = check_record(record, counted)
    tried(
        f"the database away for {AWAY_SECONDS} s under {PLAYERS} agents, {steps} answered steps, "
        "all recorded"
    )


def stands_still(counted: Counted, seconds: float = 0.5) -> bool:
    """Return whether no agent is answered for a while."""
    before = counted.steps
    time.sleep(seconds)
    return counted.steps == before


@contextlib.contextmanager
def started_on(disk: SmallDisk) -> Iterator[LiveServer]:
    """Start a server whose database is on the disk."""
    server = LiveServer("tests.hostile.envs:Sturdy")
    try:
        with on_disk(server, disk):
            yield server.start()
            server.kill()
    finally:
        server.discard()


def test_nothing_is_lost_while_the_disk_is_full(
    django_db_blocker: DjangoDbBlocker, tried: Callable[[str], None]
) -> None:
    with small_disk(DISK_MEGABYTES) as disk, started_on(disk) as server:
        with playing(server) as counted:
            for _ in range(FULL_TIMES):
                some_steps(counted)
                disk.fill()
                eventually(lambda: stands_still(counted), seconds=60)
                before = counted.steps
                time.sleep(FULL_SECONDS)
                assert counted.steps == before and server.is_healthy()
                disk.empty()
            some_steps(counted)
        with recorded(server, django_db_blocker) as record:
            steps = check_record(record, counted)
    kind = "PostgreSQL" if server.database_url else "SQLite"
    tried(
        f"{kind}'s disk full {FULL_TIMES} times for {FULL_SECONDS} s, {steps} answered steps, "
        "all recorded"
    )
