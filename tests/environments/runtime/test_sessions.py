"""Tests of how sessions start, become ready and end, whatever the author's code does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from environments import JSONObject, ToolOutput, tool, wire
from environments.errors import (
    Draining,
    EnvironmentFault,
    SessionDeleted,
    SessionExists,
    SessionNotFound,
    SessionStarting,
    TooManySessions,
)
from environments.runtime.records import EpisodeEnded, RunInfo
from environments.runtime.service import RUN_ENDED
from tests.environments.runtime.play import Play, ended, until, within
from tests.environments.runtime.staged import (
    OnALoopOfItsOwn,
    OnItsThread,
    SlowTasks,
    Staged,
    ToldSlowly,
    Wrapped,
)
from tests.envs import Counter, Echo, FailingConstructor, FailingSetup, FailingTeardown, SlowSetup
from tests.envs_base import Small, said


def creating(play: Play, sid: str, *waits: str) -> asyncio.Task[None]:
    return asyncio.ensure_future(play.open(sid, spec={"waits": waits}))


async def closing(play: Play, sid: str) -> asyncio.Task[None]:
    """Return a deletion that has started."""
    deleting = asyncio.ensure_future(play.service.delete(sid, ""))
    await until(lambda: play.service._table.find(sid, "").is_ending)
    return deleting


async def test_an_id_is_taken_before_the_constructor_has_run() -> None:
    async with Play(Staged) as play:
        first = creating(play, "s", "constructor")
        await until(lambda: "constructor starts" in Staged.events)
        with pytest.raises(SessionExists):
            await play.open("s")
        Staged.doors["constructor"].set()
        await within(first)
    assert Staged.events.count("constructor starts") == 1


async def test_delete_during_the_constructor_tears_down_what_it_made() -> None:
    async with Play(Staged) as play:
        opening = creating(play, "s", "constructor")
        await until(lambda: "constructor starts" in Staged.events)
        deleting = await closing(play, "s")
        Staged.doors["constructor"].set()
        await within(deleting)
        with pytest.raises(SessionDeleted):
            await opening
    assert Staged.events == [
        "constructor starts",
        "constructor ends",
        "teardown starts",
        "teardown ends",
    ]
    assert play.record.end.cause == "abandoned"


async def test_delete_during_setup_waits_for_its_thread_before_teardown() -> None:
    async with Play(Staged) as play:
        await creating(play, "s", "setup")
        await until(lambda: "setup starts" in Staged.events)
        deleting = await closing(play, "s")
        Staged.doors["setup"].set()
        await within(deleting)
    assert Staged.events[-3:] == ["setup ends", "teardown starts", "teardown ends"]


async def test_delete_during_setup_wakes_who_waits() -> None:
    async with Play(SlowSetup) as play:
        await play.open("s", spec={"seconds": 30})
        reading = asyncio.ensure_future(play.service.prompt_json("s", "", None))
        call = await play.start("s", "echo", text="x")
        await within(play.service.delete("s", ""))
        assert (await ended(call)).data == "Session deleted"
        with pytest.raises(SessionDeleted):
            await within(reading)


async def test_delete_during_a_call_tears_down_after_its_thread_has_ended() -> None:
    async with Play(Staged) as play:
        await creating(play, "s", "work")
        call = await play.start("s", "work")
        await until(lambda: "work starts" in Staged.events)
        deleting = asyncio.ensure_future(play.service.delete("s", ""))
        assert (await ended(call)).data == "Session deleted"
        Staged.doors["work"].set()
        await within(deleting)
    assert Staged.events[-3:] == ["work ends", "teardown starts", "teardown ends"]
    assert (play.record.steps[0].reason, play.record.end.cause) == ("deleted", "abandoned")


@pytest.mark.parametrize("cls", [ToldSlowly, Wrapped])
async def test_delete_waits_for_plain_code_that_async_code_of_the_session_waits_for(
    cls: type,
) -> None:
    async with Play(cls) as play:
        await creating(play, "s", "work")
        reading = asyncio.ensure_future(play.service.messages_json("s", "", None))
        await until(lambda: "work starts" in Staged.events)
        deleting = await closing(play, "s")
        Staged.doors["work"].set()
        await within(deleting)
        assert "at last" in await within(reading)
    assert Staged.events[-3:] == ["work ends", "teardown starts", "teardown ends"]


async def test_code_in_a_thread_of_its_own_asks_its_base_class_there() -> None:
    """The code of the class that ran before it used the server's loop."""
    async with Play(OnItsThread) as play:
        await within(play.open("s", split="train", index=0))
        assert "hello" in await within(play.service.prompt_json("s", "", None))
    assert set(OnItsThread.threads) == {"session"}


async def test_code_on_a_loop_of_its_own_asks_its_base_class_there() -> None:
    async with Play(OnALoopOfItsOwn) as play:
        await play.open("s")
        assert (await within(play.answer("s", "ask"))).text == "user"


async def test_a_session_that_ends_is_not_found_by_a_ping() -> None:
    """The end is recorded before the id is free; until then a ping must not report the session as
    live."""
    async with Play(Staged) as play:
        await creating(play, "s", "teardown")
        play.service.ping("s", "")
        deleting = await closing(play, "s")
        with pytest.raises(SessionNotFound):
            play.service.ping("s", "")
        Staged.doors["teardown"].set()
        await within(deleting)


async def test_two_deletes_tear_down_once_and_both_wait_for_it() -> None:
    async with Play(Staged) as play:
        await creating(play, "s", "teardown")
        await until(lambda: "setup ends" in Staged.events)
        deletes = [asyncio.ensure_future(play.service.delete("s", "")) for _ in range(2)]
        await until(lambda: "teardown starts" in Staged.events)
        assert not any(one.done() for one in deletes)
        Staged.doors["teardown"].set()
        await within(asyncio.gather(*deletes))
    assert Staged.events.count("teardown starts") == 1


async def test_an_id_is_held_until_teardown_has_ended_and_then_free() -> None:
    async with Play(Staged) as play:
        await creating(play, "s", "teardown")
        deleting = asyncio.ensure_future(play.service.delete("s", ""))
        await until(lambda: "teardown starts" in Staged.events)
        with pytest.raises(SessionExists):
            await play.open("s")
        Staged.doors["teardown"].set()
        await within(deleting)
        await play.open("s")


async def test_a_teardown_that_hangs_is_given_up() -> None:
    async with Play(Staged, close_wait_seconds=0.05) as play:
        await creating(play, "s", "teardown")
        await within(play.service.delete("s", ""))
        assert play.service.live_sessions == 0


class Stubborn(Small):
    """Swallows its cancellation, as author's code sometimes does."""

    async def teardown(self) -> None:
        await self._endure("teardown")

    @tool
    async def endure(self) -> ToolOutput:
        """Go on though cancelled."""
        Staged.events.append("endure starts")
        await self._endure("tool")
        return said("endured")

    async def _endure(self, where: str) -> None:
        while where in self.task_spec["endures"] and not Staged.doors["work"].is_set():
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                Staged.events.append("cancelled")


async def test_a_teardown_that_swallows_its_cancellation_is_given_up() -> None:
    async with Play(Stubborn, close_wait_seconds=0.05) as play:
        await play.open("s", spec={"endures": ["teardown"]})
        await within(play.service.delete("s", ""))
        assert play.service.live_sessions == 0
        Staged.doors["work"].set()


async def test_a_tool_that_swallows_its_cancellation_is_answered_and_on_record() -> None:
    async with Play(Stubborn, close_wait_seconds=0.05) as play:
        await play.open("s", spec={"endures": ["tool"]})
        call = await play.start("s", "endure")
        await until(lambda: Staged.events)
        await within(play.service.delete("s", ""))
        assert (await ended(call)).data == "Session deleted"
        Staged.doors["work"].set()
    assert [(step.tool, step.reason) for step in play.record.steps] == [("endure", "deleted")]
    assert play.record.end.steps == 1


async def test_a_failing_teardown_is_nobodys_business() -> None:
    async with Play(FailingTeardown) as play:
        await play.open("s")
        await play.answer("s", "finish")
        await within(play.service.delete("s", ""))
    assert play.record.end.cause == "finished"


async def test_a_failed_setup_is_torn_down_once_at_the_delete(tmp_path: Any) -> None:
    log = tmp_path / "log"
    async with Play(FailingSetup) as play:
        await play.open("s", spec={"log": str(log)})
        with pytest.raises(EnvironmentFault):
            await within(play.service.prompt_json("s", "", None))
        await within(play.service.delete("s", ""))
    assert log.read_text() == "teardown\n"
    assert play.record.end.cause == "setup_failed"


async def test_waiting_for_setup_has_a_limit() -> None:
    async with Play(SlowSetup, setup_wait_seconds=0.02) as play:
        await play.open("s", spec={"seconds": 30})
        with pytest.raises(SessionStarting):
            await within(play.service.prompt_json("s", "", None))


async def test_task_tools_do_not_wait_for_setup() -> None:
    async with Play(SlowSetup) as play:
        await play.open("s", spec={"seconds": 30})
        assert '"echo"' in await within(play.service.task_tools_json("s", "", None))


async def test_a_request_that_came_before_the_constructor_failed_is_answered() -> None:
    class Late(FailingConstructor):
        def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
            Staged.events.append("constructor starts")
            Staged.doors["constructor"].wait(30)
            super().__init__(task_spec, secrets)

    async with Play(Late) as play:
        opening = asyncio.ensure_future(play.open("s"))
        await until(lambda: Staged.events)
        reading = asyncio.ensure_future(play.service.prompt_json("s", "", None))
        call = await play.start("s", "finish")
        Staged.doors["constructor"].set()
        with pytest.raises(EnvironmentFault):
            await opening
        with pytest.raises(SessionDeleted):
            await within(reading)
        assert (await ended(call)).event == "error"


async def test_an_id_whose_constructor_failed_is_free_again() -> None:
    async with Play(FailingConstructor, Echo) as play:
        with pytest.raises(EnvironmentFault):
            await play.open("s")
        await play.open("s", "echo")
        assert (await play.answer("s", "echo", text="x")).text == "x"


@pytest.mark.parametrize("environment", ["slowtasks", None])
async def test_delete_while_the_task_is_looked_up_starts_nothing(environment: str | None) -> None:
    async with Play(SlowTasks) as play:
        if environment is None:
            await within(
                asyncio.gather(
                    play.open("s", split="train", index=0),
                    asyncio.to_thread(Staged.doors["work"].set),
                )
            )
            Staged.doors["work"].clear()
            work: Any = await play.start("s", "echo", text="x")
        else:
            work = asyncio.ensure_future(play.open("s", environment, split="train", index=0))
        await until(
            lambda: Staged.events.count("get_task starts") == (2 if environment is None else 1)
        )
        await within(play.service.delete("s", ""))
        Staged.doors["work"].set()
        if environment is None:
            assert (await ended(work)).event == "error"
        else:
            with pytest.raises(SessionDeleted):
                await within(work)
        assert play.record.rows == []


async def test_an_idle_session_expires(tmp_path: Any) -> None:
    async with Play(Counter, session_timeout_seconds=0.5) as play:
        await play.open("s", spec={"id": "expires"})
        await until(lambda: play.service.live_sessions == 0)
        with pytest.raises(SessionNotFound):
            play.service.ping("s", "")
    assert play.record.end.cause == "expired" and Counter.events["expires"][-1] == "teardown"


async def test_pings_keep_a_session() -> None:
    async with Play(Echo, session_timeout_seconds=1.0) as play:
        await play.open("pinged")
        await play.open("idle")
        while play.service.is_live("idle"):
            play.service.ping("pinged", "")
            await asyncio.sleep(0)
        assert play.service.live_sessions == 1


async def test_a_running_call_keeps_its_session() -> None:
    async with Play(Staged, session_timeout_seconds=1.0) as play:
        await creating(play, "s", "work")
        call = await play.start("s", "work")
        await play.open("idle")
        await until(lambda: play.service.live_sessions == 1)
        Staged.doors["work"].set()
        assert (await ended(call)).text == "worked"


async def test_sessions_end_side_by_side() -> None:
    async with Play(Staged, session_timeout_seconds=1.0, close_wait_seconds=5) as play:
        for number in range(4):
            await creating(play, f"s{number}", "teardown")
        await until(lambda: Staged.events.count("teardown starts") == 4)
        assert "teardown ends" not in Staged.events
        Staged.doors["teardown"].set()


async def test_more_sessions_than_allowed_are_refused() -> None:
    async with Play(Echo, max_sessions=2) as play:
        await play.open("a")
        await play.open("b")
        with pytest.raises(TooManySessions, match="2 sessions are live"):
            await play.open("c")
        await play.service.delete("a", "")
        await play.open("c")


class Single(Echo):
    sessions_at_once = 1


async def test_one_session_more_than_a_class_bears_waits_for_its_place() -> None:
    async with Play(Single, Echo, quota_wait_seconds=60) as play:
        await play.open("a", "single")
        await play.open("other", "echo")
        waiting = asyncio.create_task(play.open("b", "single"))
        await until(lambda: play.service._table.places_in["single"].waiting == 1)
        await play.service.delete("a", "")
        await within(waiting)
        assert play.service._table.places_in["single"].taken == 1


async def test_one_session_more_than_a_class_bears_is_refused_after_a_while() -> None:
    async with Play(Single, quota_wait_seconds=0.05) as play:
        await play.open("a")
        with pytest.raises(
            TooManySessions,
            match=r"'single' bears 1 sessions at once .*none ended "
            r"within 0.05 s",
        ):
            await play.open("b")
        await play.service.delete("a", "")
        await play.open("b")


async def test_a_session_that_is_deleted_while_it_waits_takes_no_place() -> None:
    async with Play(Single, quota_wait_seconds=60) as play:
        await play.open("a")
        waiting = asyncio.create_task(play.open("b"))
        await until(lambda: play.service._table.places_in["single"].waiting == 1)
        await play.service.delete("b", "")
        await play.service.delete("a", "")
        with pytest.raises(SessionDeleted):
            await within(waiting)
        assert play.service._table.places_in["single"].taken == 0


async def test_another_keys_session_does_not_exist() -> None:
    async with Play(Echo) as play:
        await play.open("s", owner="lab")
        with pytest.raises(SessionNotFound):
            await within(play.service.prompt_json("s", "other", None))
        await within(play.service.delete("s", "other"))  # as of an unknown id
        assert play.service.live_sessions == 1


async def test_a_draining_server_opens_nothing_and_interrupts_what_runs() -> None:
    async with Play(Echo) as play:
        await play.open("s")
        await play.service.drain(1.0)
        with pytest.raises(Draining):
            await play.open("t")
    assert play.record.end.cause == "interrupted"


async def test_a_session_that_was_just_opened_is_bound_before_the_server_refuses_calls() -> None:
    async with Play(Echo) as play:
        await play.open("s", split="train", index=0)
        settling = asyncio.ensure_future(play.service.settle(5.0))
        await until(lambda: play.service._table.accepts == "calls")
        with pytest.raises(Draining):
            await play.open("t")
        assert (await play.answer("s", "echo", text="in time")).text == "in time"
        await within(settling)
        with pytest.raises(Draining):
            await play.answer("s", "echo", text="too late")


async def test_a_running_call_is_answered_before_the_drain_ends_its_session() -> None:
    async with Play(Staged) as play:
        await creating(play, "s", "work")
        call = await play.start("s", "work")
        await until(lambda: "work starts" in Staged.events)
        draining = asyncio.ensure_future(play.service.drain(5.0))
        await until(lambda: play.service._table.accepts == "nothing")
        Staged.doors["work"].set()
        assert (await ended(call)).text == "worked"
        await within(draining)


async def test_the_end_of_a_run_ends_the_sessions_of_its_owner_only() -> None:
    async with Play(Echo) as play:
        about = RunInfo("grpo-3")
        await play.open("mine", run=about, owner="lab")
        await play.open("unbound", run=about, owner="lab")
        await play.open("theirs", run=about, owner="home")
        await play.open("other", run=RunInfo("grpo-4"), owner="lab")
        assert await within(play.service.close_run("grpo-3", "lab")) == 2
        assert play.service.live_sessions == 2
        assert [(end.cause, end.detail) for end in play.record.of(EpisodeEnded)] == [
            ("abandoned", RUN_ENDED)
        ] * 2
        assert await within(play.service.close_run("grpo-3", None)) == 1
    assert play.record.end.cause == "interrupted"


async def test_the_end_of_a_run_cuts_a_running_call_short() -> None:
    async with Play(Staged) as play:
        await play.open("s", run=RunInfo("grpo-3"), spec={"waits": ["work"]})
        call = await play.start("s", "work")
        await until(lambda: "work starts" in Staged.events)
        closing = asyncio.ensure_future(play.service.close_run("grpo-3", ""))
        await until(lambda: play.service._table.find("s", "").is_ending)
        Staged.doors["work"].set()
        await within(closing)
        assert (await ended(call)).data == "Session deleted"


async def test_a_call_that_has_not_begun_when_its_session_ends_is_answered_and_recorded() -> None:
    async with Play(Echo) as play:
        await play.open("s")
        call = await play.service.call(
            "s", "", None, wire.ToolCall(name="echo", input={"text": "x"})
        )
        await play.service.delete("s", "")  # in the same turn of the loop
        assert (await ended(call)).data == "Session deleted"
        assert [step.reason for step in play.record.steps] == ["deleted"]


async def test_a_request_that_comes_while_a_session_is_interrupted_is_told_why() -> None:
    async with Play(Staged) as play:
        await play.open("s", spec={"waits": ["teardown"]})
        closing = asyncio.ensure_future(play.service.close_owned("", "The key is gone."))
        await until(lambda: "teardown starts" in Staged.events)
        with pytest.raises(
            SessionDeleted,
            match=r"^Session deleted: the episode was interrupted. "
            r"The key is gone.$",
        ):
            await play.start("s", "echo", text="x")
        Staged.doors["teardown"].set()
        await within(closing)
