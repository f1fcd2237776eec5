"""The interpreter goes round faster while the event loop waits for it."""

from __future__ import annotations

import sys
import threading

from environments.runtime.interpreter_turns import (
    CALM_LOOKS,
    LOOK_SECONDS,
    SHORT_SECONDS,
    InterpreterTurns,
)
from tests.environments.runtime.play import Play, until
from tests.envs import Echo


async def test_turns_are_short_while_threads_compute_beside_agents() -> None:
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


def test_the_loops_own_work_makes_no_turn_shorter() -> None:
    usual, turns = sys.getswitchinterval(), InterpreterTurns()
    turns.note(2 * LOOK_SECONDS, 1.9 * LOOK_SECONDS)
    turns.note(1.01 * LOOK_SECONDS, 0.0)
    assert sys.getswitchinterval() == usual
    try:
        turns.note(2 * LOOK_SECONDS, 0.1 * LOOK_SECONDS)
        assert abs(sys.getswitchinterval() - SHORT_SECONDS) < 1e-6
    finally:
        for _ in range(CALM_LOOKS):
            turns.note(LOOK_SECONDS, 0.0)
    assert sys.getswitchinterval() == usual
