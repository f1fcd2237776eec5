"""Check that a session leaves no process running after its teardown. A server would gather one for each session."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from environments.checking.check_state import CheckState
from environments.checking.checked_environment import Broken, RequestRefused, leave
from environments.errors import shorten
from environments.sandbox.processes import end_descendants, with_descendants

SUBJECT = "teardown"
CHECK = "no process left"
LOOKS = 20
LOOK_SECONDS = 0.1


async def check_leftovers(state: CheckState) -> None:
    """Play one more session. What the first ones have started may be meant to stay, such as a pool of processes."""
    if state.local is None or not state.samples:
        return
    played = max(state.episodes, key=lambda played: len(played.moves), default=None)
    before = frozenset(with_descendants(os.getpid()))
    with suppress(Broken, RequestRefused):  # reported by other checks
        seat = await state.local.open(played.sample if played else state.samples[0])
        try:
            for move in played.moves if played else ():
                await seat.call(move.tool, move.arguments)
        finally:
            await leave(seat)
    for _ in range(LOOKS):
        if not (left := _running(before)):
            return state.report.ok(SUBJECT, CHECK, "A session leaves no process running.")
        await asyncio.sleep(LOOK_SECONDS)
    names = ", ".join(repr(shorten(name, 80)) for name in left.values())
    end_descendants(keep=state.processes)
    state.report.warn(SUBJECT, CHECK, f"A session left {names} running after its teardown; end it there.")


def _running(before: frozenset[int]) -> dict[int, str]:
    """Return the command lines of the processes that this one has started since, but for those that have ended."""
    found = {}
    for process in with_descendants(os.getpid()):
        if process not in before:
            with suppress(OSError):
                if command := Path(f"/proc/{process}/cmdline").read_text("utf-8", "replace"):  # empty: it has ended
                    found[process] = " ".join(command.split("\0")).strip()
    return found
