"""Streams that one announcement wakes go on one after another."""

from __future__ import annotations

import asyncio

from episodes.recording.listening import Turns


async def test_others_are_served_between_two_turns() -> None:
    loop, order = asyncio.get_running_loop(), list[str]()
    turns = Turns(loop)

    def serve(left: int) -> None:
        order.append("other")
        if left:
            loop.call_soon(serve, left - 1)

    for name in ("first", "second", "third"):
        turns.add(lambda name=name: order.append(name))  # type: ignore[misc]
    loop.call_soon(serve, 3)
    await turns.turn()
    assert order[:6] == ["first", "other", "second", "other", "third", "other"]
