"""The watchdog: what looking at a healthy server costs. What it finds is tested in
`test_supervisor.py`."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from orsweb.server.heartbeat import Heartbeat
from orsweb.server.watchdog import Watchdog
from tests.rows import each


@each("has_ended, events", [(False, ["the event loop stands still"]), (True, [])])
async def test_a_loop_that_has_ended_gives_no_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_ended: bool, events: list[str]
) -> None:
    now, heartbeat = [100.0], Heartbeat()
    monkeypatch.setattr(
        "orsweb.server.watchdog.time", SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    )
    heartbeat.start(lambda: None)
    watchdog = Watchdog(os.getpid(), heartbeat, tmp_path)
    watchdog.look()
    if has_ended:
        heartbeat.end()
    with capture_logs() as lines:
        for _ in range(20):
            now[0] += 0.2
            watchdog.look()
    assert [line["event"] for line in lines] == events


async def test_a_look_between_two_beats_reads_nothing_of_the_threads(tmp_path: Path) -> None:
    (heartbeat := Heartbeat()).start(lambda: None)
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(300)]
    for thread in threads:
        thread.start()
    try:
        watchdog = Watchdog(os.getpid(), heartbeat, tmp_path)
        began = time.thread_time()
        watchdog._use()
        reading = time.thread_time() - began
        began = time.thread_time()
        for _ in range(10):
            watchdog.look()
        assert time.thread_time() - began < reading / 2
    finally:
        done.set()
