"""Checks that teardown works after play, without a setup before it, and when it is called twice,
and that a session leaves no process and no thread running, which a server would gather."""

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


async def check_teardown(state: CheckState) -> None:
    if not state.samples:
        return state.report.skip("after play", "No session could be opened.")
    sample = state.samples[0]
    problem = ""
    try:
        seat = await state.environment.open(sample)
        await seat.prompt()
        await seat.close()
    except (Broken, RequestRefused) as error:
        problem = (
            f"{error} Every session ends with teardown; let it release what setup opened and raise "
            "nothing."
        )
    state.report.expect("after play", not problem, problem, "A session ends without an error.")
    if state.local is None:
        return
    if not state.local.hosted.overrides("teardown"):
        return state.report.skip("without setup and twice", "The class has no teardown of its own.")
    # the server calls teardown after a failed setup too
    seat = await state.environment.open(sample, with_setup=False)
    try:
        await seat.close()
    except (Broken, RequestRefused) as error:
        problem = f"{error} It is called after a failed setup too; create what it uses in the constructor."
        state.report.warn("without setup", problem)
    else:
        state.report.ok("without setup", "It works without a setup before it.")
    problems = []
    local_seat = await state.local.open(sample)
    for tear_down in (local_seat.tear_down, local_seat.close):
        try:
            await tear_down()
        except (Broken, RequestRefused) as error:
            problems.append(f"{error} This server calls it once; others may call it again.")
    state.report.judge("twice", problems, "A second call raises no exception.", "warning")


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
