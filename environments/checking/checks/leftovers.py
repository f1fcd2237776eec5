"""Checks that a session leaves no process and no thread running. A server would gather one for each
session."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from pathlib import Path

from environments.checking.check_state import CheckState
from environments.checking.checked_environment import Broken, RequestRefused, closing
from environments.errors import shorten
from environments.processes import end_descendants, with_descendants

PROCESSES, THREADS = "no process left", "no thread left"
OURS = frozenset({"environment", "session", "checks"})
"""Names of the threads that run the code of environments."""
LOOKS = 20
LOOK_SECONDS = 0.1


async def check_leftovers(state: CheckState) -> None:
    """Play one more session. What the first ones have started may be meant to stay, such as a pool
    of processes."""
    if state.local is None or not state.samples:
        return
    episode = max(state.episodes, key=lambda episode: len(episode.moves), default=None)
    before, threads = frozenset(with_descendants(os.getpid())), frozenset(threading.enumerate())
    with suppress(Broken, RequestRefused):  # reported by other checks
        async with closing(
            state.local.open(episode.sample if episode else state.samples[0])
        ) as seat:
            for move in episode.moves if episode else ():
                await seat.call(move.tool, move.arguments)
    for _ in range(LOOKS):
        processes = _running(before)
        threads_after = [
            thread.name
            for thread in threading.enumerate()
            if thread not in threads and thread.name not in OURS
        ]
        if not (processes or threads_after):
            break
        await asyncio.sleep(LOOK_SECONDS)
    end_descendants(keep=state.processes)
    for check, what, names in (
        (PROCESSES, "process", [shorten(name, 80) for name in processes.values()]),
        (THREADS, "thread", threads_after),
    ):
        words = ", ".join(map(repr, names))
        state.report.expect(
            check,
            not names,
            f"A session left {words} running after its teardown; end it there.",
            f"A session leaves no {what} running.",
            "warning",
        )


def _running(before: frozenset[int]) -> dict[int, str]:
    """Return the command lines of the processes that this one has started since, but for those that
    have ended."""
    processes = {}
    for process in with_descendants(os.getpid()):
        if process not in before:
            with suppress(OSError):
                # empty: it has ended
                if command := Path(f"/proc/{process}/cmdline").read_text("utf-8", "replace"):
                    processes[process] = " ".join(command.split("\0")).strip()
    return processes
