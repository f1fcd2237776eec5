"""Tests of what a live session records, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from environments import JSONObject, ToolOutput, tool
from environments.errors import EnvironmentFault, InvalidRequest
from environments.runtime.records import EpisodeNoted, EpisodeStarted
from tests.environments.runtime.play import Play, ended, until, within
from tests.environments.runtime.staged import Staged
from tests.envs import Counter, Echo, Secretive


async def test_the_counts_cover_what_ran() -> None:
    async with Play(Echo) as play:
        await play.open("s")
        for tool_name, arguments in (
            ("echo", {"text": "x"}),
            ("echo", {}),
            ("nope", {}),
            ("finish", {}),
            ("echo", {}),
        ):
            await play.answer("s", tool_name, **arguments)
        await within(play.service.delete("s", ""))
    end = play.record.end
    assert (end.cause, end.steps, end.refused) == ("finished", 2, 3)
    assert (end.return_sum, end.return_last, end.return_max, end.return_mean) == (
        pytest.approx(0.6),
        0.5,
        0.5,
        0.3,
    )
    assert [step.index for step in play.record.steps] == [0, 1, 2, 3, 4]


async def test_the_mean_is_within_the_rewards() -> None:
    async with Play(Echo) as play:
        await play.open("s")
        for _ in range(3):
            await play.answer("s", "echo", text="x")
        await within(play.service.delete("s", ""))
    assert (play.record.end.return_mean, play.record.end.return_max) == (0.1, 0.1)


async def test_an_episode_that_ends_on_a_fault_is_not_the_agents_doing() -> None:
    class Broken(Echo):
        @tool
        async def crash(self) -> ToolOutput:
            """Raise."""
            raise RuntimeError("broken")

    async with Play(Broken) as play:
        await play.open("s")
        await play.answer("s", "crash")
        await within(play.service.delete("s", ""))
    assert play.record.end.cause == "env_error"


async def test_prompt_and_readiness_are_noted_once() -> None:
    async with Play(Echo) as play:
        await play.open("s")
        for _ in range(2):
            await within(play.service.prompt_json("s", "", None))
    notes = play.record.of(EpisodeNoted)
    assert (
        len(notes) == 1 and notes[0].ready is not None and "Task s." in (notes[0].prompt_json or "")
    )


async def test_waiting_for_setup_is_no_part_of_the_call() -> None:
    async with Play(Staged) as play:
        await play.open("s", spec={"waits": ["setup"]})
        call = await play.start("s", "work")
        await until(lambda: "setup starts" in Staged.events)
        Staged.doors["setup"].set()
        await ended(call)
        await play.answer("s", "work")
        await within(play.service.delete("s", ""))
    (first, second), end = play.record.steps, play.record.end
    assert end.ready is not None and end.last_acted is not None
    assert end.first_acted == first.started >= end.ready
    assert first.waited_ms > 0 and first.duration_ms <= (end.last_acted - end.ready) * 1000
    assert second.started >= first.started


async def test_a_call_that_setup_failed_took_no_time() -> None:
    class Doomed(Staged):
        def setup(self) -> None:
            super().setup()
            raise RuntimeError("the setup gave up")

    async with Play(Doomed) as play:
        await play.open("s", spec={"waits": ["setup"]})
        call = await play.start("s", "work")
        await until(lambda: "setup starts" in Staged.events)
        Staged.doors["setup"].set()
        await ended(call)
    [step] = play.record.steps
    started = play.record.of(EpisodeStarted)[0]
    assert (step.status, step.duration_ms) == ("failed", 0.0) and step.started >= started.created


async def test_secrets_are_in_no_row_and_no_error() -> None:
    secret = "hunter2-hunter2"
    async with Play(Secretive) as play:
        await play.open(
            "s",
            spec={"note": secret},
            secrets={"token": secret},
            masked_texts=(secret,),
            user_agent=secret,
        )
        await within(play.service.prompt_json("s", "", None))
        for name in ("reveal", "leak", "scold"):
            message = (await play.answer("s", name)).data
            # what a tool says to its agent is its own affair
            assert (secret in message) is (name != "leak")
        await play.answer("s", "reveal", more=[secret], task_id=f"t-{secret}")
    assert secret not in repr(play.record.rows)


@pytest.mark.parametrize("where", ["constructor", "setup"])
async def test_a_secret_in_a_failed_start_is_never_reported(where: str) -> None:
    secret = "hunter2-hunter2"
    async with Play(Secretive) as play:
        with pytest.raises(EnvironmentFault) as message:
            await play.open(
                "s", spec={"fail": where}, secrets={"token": secret}, masked_texts=(secret,)
            )
            await within(play.service.prompt_json("s", "", None))
    assert f"{where} refused ********" in str(message.value) and secret not in message.value.trace
    assert secret not in repr(play.record.rows)


async def test_a_task_nested_too_deeply_is_refused() -> None:
    spec: Any = "x"
    for _ in range(5000):
        spec = {"x": spec}
    async with Play(Echo) as play:
        with pytest.raises(InvalidRequest, match="task_spec"):
            await play.open("s", spec=spec)
        assert play.service.live_sessions == 0


async def test_a_task_of_a_list_is_each_sessions_own() -> None:
    class Shared(Counter):
        TASKS: ClassVar[list[JSONObject]] = [{"id": "shared"}]

        @classmethod
        def list_tasks(cls, split: str) -> Sequence[JSONObject]:
            return cls.TASKS

    async with Play(Shared) as play:
        for sid in ("a", "b"):
            await play.open(sid, "shared", split="train", index=0)
            assert (await play.answer(sid, "mutate")).text == "1"


async def test_nothing_is_answered_before_it_is_durable() -> None:
    async with Play(Echo) as play:
        await play.open("s")
        play.record.holds = True
        call = await play.start("s", "echo", text="x")
        await until(lambda: play.record.steps)
        assert not await call.wait(0.05)
        play.record.commit()
        assert (await ended(call)).text == "x"
