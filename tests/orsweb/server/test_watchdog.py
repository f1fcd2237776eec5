"""The watchdog: what looking at a healthy server costs. What it finds is tested in `test_supervisor.py`."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from orsweb.server.pulse import Pulse
from orsweb.server.watchdog import Watchdog


async def test_a_look_between_two_beats_reads_nothing_of_the_threads(tmp_path: Path) -> None:
    (pulse := Pulse()).start(lambda: None)
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(300)]
    for thread in threads:
        thread.start()
    try:
        watchdog = Watchdog(os.getpid(), pulse, tmp_path)
        began = time.thread_time()
        watchdog._use()
        reading = time.thread_time() - began
        began = time.thread_time()
        for _ in range(10):
            watchdog.look()
        assert time.thread_time() - began < reading / 2
    finally:
        done.set()
