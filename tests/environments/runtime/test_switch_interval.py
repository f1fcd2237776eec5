"""Threads switch sooner while the event loop waits for the interpreter."""

from __future__ import annotations

import sys
import threading

from environments.runtime.switch_interval import (
    CALM_CHECKS,
    CHECK_SECONDS,
    SHORT_SECONDS,
    SwitchInterval,
)
from tests.environments.runtime.play import Play, until
from tests.envs import Echo


async def test_the_interval_is_short_while_threads_compute_beside_agents() -> None:
    usual, is_over = sys.getswitchinterval(), threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=compute) for _ in range(4)]
    async with Play(Echo) as play:
        await play.open("s")
        for thread in threads:
            thread.start()
        try:
            await until(lambda: sys.getswitchinterval() < usual / 2)
        finally:
            is_over.set()
        assert (await play.answer("s", "echo", text="hi")).text == "hi"
        await until(lambda: sys.getswitchinterval() == usual)
    assert sys.getswitchinterval() == usual


def test_the_loops_own_work_does_not_shorten_it() -> None:
    usual, interval = sys.getswitchinterval(), SwitchInterval()
    interval.note(2 * CHECK_SECONDS, CHECK_SECONDS, 1.9 * CHECK_SECONDS)
    interval.note(1.01 * CHECK_SECONDS, 0.01 * CHECK_SECONDS, 0.0)
    assert sys.getswitchinterval() == usual
    try:
        interval.note(2 * CHECK_SECONDS, CHECK_SECONDS, 0.1 * CHECK_SECONDS)
        assert abs(sys.getswitchinterval() - SHORT_SECONDS) < 1e-6
    finally:
        for _ in range(CALM_CHECKS):
            interval.note(CHECK_SECONDS, 0.0, 0.0)
    assert sys.getswitchinterval() == usual
