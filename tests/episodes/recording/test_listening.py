"""Streams that one announcement wakes go on one after another."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

from episodes.recording.listening import WORK_SECONDS, Turns


async def test_others_are_served_between_two_turns() -> None:
    loop, order = asyncio.get_running_loop(), list[str]()
    turns, work = Turns(loop), loop.create_future()

    async def go_on(name: str) -> None:
        order.append(f"{name} {await turns.turn_after(work)}")
        time.sleep(WORK_SECONDS)  # noqa: ASYNC251  # a stream that works for this long

    def serve() -> None:
        order.append("other")
        loop.call_soon(serve)

    waiting = [asyncio.create_task(go_on(name)) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    work.set_result("read")
    loop.call_soon(serve)
    await asyncio.gather(*waiting)
    served = [name for name in order if name != "other"]
    assert served == ["first read", "second read", "third read"]
    assert all(
        "other" in order[order.index(before) : order.index(after)]
        for before, after in pairwise(served)
    )
