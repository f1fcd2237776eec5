"""The table of a session's transitions, and that nothing goes past it."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from environments.errors import InvalidRequest
from environments.runtime.instance import Instance
from environments.runtime.session_states import (
    READY,
    TRANSITIONS,
    Closing,
    Constructing,
    Dormant,
    Gone,
    IllegalTransition,
    State,
    Unbound,
)
from tests.environments.runtime.play import Play, until, within
from tests.environments.runtime.staged import SlowTasks, Staged
from tests.envs import Echo

STATES = frozenset(get_args(State))
OPEN = STATES - {Closing, Gone}


def next_of(state: type) -> set[type]:
    return {
        target
        for (start, _), targets in TRANSITIONS.items()
        if start is state
        for target in targets
    }


def test_every_session_can_begin_and_end() -> None:
    reached = {Dormant, Unbound, Constructing}
    while more := {target for state in reached for target in next_of(state)} - reached:
        reached |= more
    assert reached == STATES
    assert {state for state in STATES if Closing in next_of(state)} == OPEN
    assert (next_of(Closing), next_of(Gone)) == ({Gone}, set())


async def test_what_is_not_in_the_table_is_refused() -> None:
    async with Play(Echo) as play:
        await play.open("s")
        session = play.service._table.find("s", "")
        for event, state in (
            ("start", READY),
            ("limit", Gone("expired")),
            ("end", Gone("abandoned")),
        ):
            with pytest.raises(IllegalTransition, match="A session that is Ready can't"):
                session.enter(event, state)  # type: ignore[arg-type]
        assert session.state is READY
        await within(play.service.delete("s", ""))
        assert isinstance(session.state, Gone) and session.state.cause == "abandoned"


async def test_a_session_whose_opening_is_cancelled_is_torn_down() -> None:
    async with Play(Staged) as play:
        opening = asyncio.ensure_future(play.open("s", spec={"waits": ["constructor"]}))
        await until(lambda: "constructor starts" in Staged.events)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        Staged.doors["constructor"].set()
        await until(lambda: not play.service.live_sessions)
    assert (
        Staged.events[-2:] == ["teardown starts", "teardown ends"]
        and play.record.end.cause == "abandoned"
    )


async def test_a_session_whose_binding_is_cancelled_is_bound_by_the_next_request() -> None:
    async with Play(SlowTasks) as play:
        Staged.doors["work"].set()
        await play.open("s", split="train", index=0)
        Staged.doors["work"].clear()
        Staged.events.clear()
        reading = asyncio.ensure_future(play.service.prompt_json("s", "", None))
        await until(lambda: Staged.events)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        Staged.doors["work"].set()
        assert "slow" in await within(play.service.prompt_json("s", "", None))


async def test_an_episode_whose_toolset_is_refused_by_its_host_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: object) -> bool:
        raise InvalidRequest("no toolset 'x'")

    monkeypatch.setattr(Instance, "construct", refuse)
    async with Play(Echo) as play:
        with pytest.raises(InvalidRequest, match="no toolset"):
            await play.open("s")
        assert (play.record.end.cause, play.record.end.detail) == ("setup_failed", "no toolset 'x'")
        assert not play.service.live_sessions
