"""What begins later after a restart that left sessions: only at the start, not when a server leads
later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from episodes.recording import leader_duties
from episodes.recording.leader_duties import LeaderDuties

DELAY_SECONDS = 0.2


class Noted:
    """In the place of the follower's process, which is started for real in
    `test_follower_process.py`."""

    delays: list[float]

    def __init__(self, delay_seconds: float) -> None:
        self.delays.append(delay_seconds)

    def start(self) -> None: ...

    def stop(self, timeout_seconds: float) -> None: ...


class Idle:
    def __init__(self, *_: Any) -> None: ...

    def stop(self) -> None: ...


async def delay_of(leads: Callable[[], bool] | None) -> float:
    duties = LeaderDuties()
    Noted.delays = []
    duties.start(None, None, leads, DELAY_SECONDS)  # type: ignore[arg-type]  # Idle does not use them
    async with asyncio.timeout(10):
        while not Noted.delays:  # noqa: ASYNC110  (the duties have no event)
            await asyncio.sleep(0.01)
    await duties.stop()
    return Noted.delays[0]


async def test_a_server_that_takes_over_later_starts_the_follower_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ORSWEB_FOLLOWER = "process"
    monkeypatch.setattr(leader_duties, "FollowerProcess", Noted)
    monkeypatch.setattr(leader_duties, "Upkeep", Idle)
    assert await delay_of(None) == pytest.approx(DELAY_SECONDS, abs=0.1)
    until = asyncio.get_running_loop().time() + 2 * DELAY_SECONDS
    assert await delay_of(lambda: asyncio.get_running_loop().time() > until) == 0.0
