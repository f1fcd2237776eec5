"""Whatever is acknowledged is recorded when the clock jumps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.agent import eventually
from tests.conformance.record import recorded
from tests.hostile.sizes import size
from tests.hostile.test_faults import PLAYERS, Counted, check_record, playing
from tests.server import LiveServer

JUMPS = ("+2d", "-2d", "+1h", "-1h", "+400d", "+0", "-1y", "+0")[: size(2, 8)]
PAUSE_SECONDS = size(0.05, 0.0)
"""Between two calls of an agent, because libfaketime takes a second to notice that the clock shall
jump."""
CLOCKS = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def time_of(server: LiveServer) -> datetime:
    """Return the time of day on the server's clock."""
    return parsedate_to_datetime(httpx.get(f"{server.url}/health").headers["Date"])


def some_episodes(counted: Counted) -> None:
    """Wait until some episodes have begun after this was called, beside those of which an agent
    just learns."""
    goal = len(counted.answered) + PLAYERS + 1
    eventually(lambda: len(counted.answered) >= goal, seconds=120)


@pytest.mark.skipif(CLOCKS is None, reason="needs libfaketime")
def test_nothing_is_lost_when_the_clock_jumps(
    django_db_blocker: DjangoDbBlocker, tmp_path: Path, tried: Callable[[str], None]
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0")
    faked = {
        "PYTHONPATH": str(Path(__file__).with_name("faked_clock")),
        "LD_PRELOAD": str(CLOCKS),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        # seconds; to read the file each time takes most of the test's CPU time
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # which no change of the time of day moves
        # or a thread that waits for the interpreter takes a core
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    with LiveServer("tests.hostile.envs:Sturdy", env=faked) as server:
        with playing(server, PAUSE_SECONDS) as counted:
            for jump in JUMPS:
                some_episodes(counted)
                before = time_of(server)
                clock.write_text(jump)
                eventually(
                    lambda before=before: abs(time_of(server) - before) > timedelta(minutes=30)
                )  # type: ignore[misc]  # bound now, called now
            some_episodes(counted)
        with recorded(server, django_db_blocker) as record:
            steps = check_record(record, counted)
            causes = set(record.episodes.values_list("cause", flat=True))
            durations = [*record.episodes.values_list("duration_seconds", flat=True)]
            durations += [
                ms / 1000
                for ms in record.episodes.values_list("steps__duration_ms", flat=True)
                if ms
            ]
            days = {created.date() for created in record.episodes.values_list("created", flat=True)}
    assert causes == {"abandoned"}  # no session expired
    assert all(duration is None or 0 <= duration < 600 for duration in durations)
    assert len(days) > 2  # or the clock did not jump
    tried(
        f"jumps of the clock by {', '.join(JUMPS)}, {steps} answered steps on {len(days)} days, "
        "all recorded"
    )
