"""Checks that teardown works after play, without a setup before it, and when it is called twice."""

from __future__ import annotations

import copy
from typing import Any

from environments.checking.bench import Bench
from environments.checking.door import Broken, DoorRefused, Sample
from environments.checking.local import LocalDoor
from environments.runtime.usercode import UserCode

SUBJECT = "teardown"


async def check_teardown(bench: Bench) -> None:
    if not bench.samples:
        return bench.report.skip(SUBJECT, "after play", "No session could be opened.")
    sample = bench.samples[0]
    await _check_after_play(bench, sample)
    if bench.local is None:
        return
    if not bench.local.hosted.overrides("teardown"):
        return bench.report.skip(SUBJECT, "without setup and twice", "The class has no teardown of its own.")
    await _check_without_setup(bench, sample)
    await _check_twice(bench, bench.local, sample)


async def _check_after_play(bench: Bench, sample: Sample) -> None:
    problems = []
    try:
        seat = await bench.door.open(sample)
        await seat.prompt()
        await seat.close()
    except (Broken, DoorRefused) as error:
        problems.append(
            f"{error} Every session ends with teardown; let it release what setup opened and raise nothing."
        )
    bench.report.judge(SUBJECT, "after play", problems, "A session ends without an error.")


async def _check_without_setup(bench: Bench, sample: Sample) -> None:
    """Close a session without setup, because the server calls teardown after a failed setup too."""
    seat = await bench.door.open(sample, with_setup=False)
    problems = []
    try:
        await seat.close()
    except (Broken, DoorRefused) as error:
        problems.append(f"{error} It is called after a failed setup too; create what it uses in the constructor.")
    bench.report.judge(SUBJECT, "without setup", problems, "It works without a setup before it.", "warning")


async def _check_twice(bench: Bench, door: LocalDoor, sample: Sample) -> None:
    problems = []
    code = UserCode(door.pool, own_thread=door.hosted.own_thread, own_loop=door.hosted.own_loop)
    try:
        await door.step(f"A second teardown() of {sample.label}", _torn_down_twice(code, door, sample))
    except (Broken, DoorRefused) as error:
        problems.append(f"{error} This server calls it once; others may call it again.")
    finally:
        code.close()
    bench.report.judge(SUBJECT, "twice", problems, "A second call raises no exception.", "warning")


async def _torn_down_twice(code: UserCode, door: LocalDoor, sample: Sample) -> None:
    def build() -> Any:
        return door.hosted.cls(task_spec=copy.deepcopy(sample.task), secrets=dict(door.secrets))

    instance = await code.call(build)
    if door.hosted.overrides("setup"):
        await code.call(instance.setup)
    await code.call(instance.teardown)
    await code.call(instance.teardown)
