"""Threads for plain code: the pool grows, idle ones retire, hung ones are abandoned, instances may
have their own."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from environments import ToolOutput, Toolset, tool
from environments.authoring.hosted_class import HostedClass
from environments.fair_turns import KEY
from environments.runtime import threads
from environments.runtime.thread_job import ThreadJob
from environments.runtime.threads import START_THREADS, ThreadPool
from environments.runtime.usercode import UserCode
from tests.environments.runtime.play import Play, ended, until, within
from tests.envs import GATES, PASSED, Gated, Slow, SyncEcho
from tests.envs_base import Small, said


@pytest.fixture(autouse=True)
def gates() -> Iterator[None]:
    GATES.clear()
    PASSED.clear()
    yield
    for gate in GATES.values():
        gate.set()


class OnOneThread(Gated):
    own_thread = True

    @tool
    def where(self) -> ToolOutput:
        """The thread this runs on."""
        return said(str(threading.get_ident()))


async def test_blocked_tools_of_others_delay_no_session() -> None:
    async with Play(Gated) as play:
        for number in range(START_THREADS * 2):
            await play.open(f"s{number}")
            await play.start(f"s{number}", "block", gate="jam")
        await play.open("free")
        assert (await play.answer("free", "block", gate="")).event == "end"
        GATES["jam"].set()


async def test_the_pool_grows_no_more_than_there_is_work() -> None:
    async with Play(Gated) as play:
        for number in range(START_THREADS + 5):
            await play.open(f"s{number}")
            await play.start(f"s{number}", "block", gate="jam")
        await until(lambda: len(PASSED) == START_THREADS + 5)
        assert play.pool._threads == START_THREADS + 5
        GATES["jam"].set()


async def test_idle_threads_beyond_the_start_retire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.05)
    async with Play(Gated) as play:
        for number in range(START_THREADS + 8):
            await play.open(f"s{number}")
            await play.start(f"s{number}", "block", gate="jam")
        await until(lambda: len(PASSED) == START_THREADS + 8)
        GATES["jam"].set()
        await until(lambda: play.pool._threads <= START_THREADS)
        assert (await play.answer("s0", "block", gate="")).event == "end"


async def test_own_thread_keeps_a_session_on_one_thread() -> None:
    async with Play(OnOneThread) as play:
        await play.open("a")
        await play.open("b")
        seen = [{(await play.answer(sid, "where")).text for _ in range(5)} for sid in ("a", "b")]
    assert [len(one) for one in seen] == [1, 1] and seen[0] != seen[1]


async def test_a_session_thread_is_used_again_after_its_session() -> None:
    async with Play(OnOneThread) as play:
        seen = set()
        for sid in ("a", "b", "c"):
            await play.open(sid)
            seen.add((await play.answer(sid, "where")).text)
            await within(play.service.delete(sid, ""))
    assert len(seen) == 1


async def test_a_hung_tool_does_not_hold_up_the_delete() -> None:
    async with Play(Gated, close_wait_seconds=0.05) as play:
        await play.open("s")
        call = await play.start("s", "block", gate="never")
        await until(lambda: PASSED)
        await within(play.service.delete("s", ""))
        assert (await ended(call)).data == "Session deleted"
        assert play.service.live_sessions == 0


async def test_a_hung_session_thread_is_never_lent_again() -> None:
    async with Play(OnOneThread, close_wait_seconds=0.05) as play:
        await play.open("a")
        await play.start("a", "block", gate="never")
        await until(lambda: PASSED)
        await within(play.service.delete("a", ""))
        await play.open("b")
        assert (await play.answer("b", "where")).event == "end"


class HangingPrompt(OnOneThread):
    def get_prompt(self) -> Any:
        GATES["prompt"].wait(30)
        return []


async def test_a_prompt_that_hangs_in_its_thread_is_let_go_at_the_delete() -> None:
    async with Play(HangingPrompt, close_wait_seconds=0.05) as play:
        await play.open("a")
        reading = asyncio.ensure_future(play.service.prompt_json("a", "", None))
        await until(lambda: "prompt" in GATES)
        await within(play.service.delete("a", ""))
        with pytest.raises(Exception, match="Session deleted"):
            await within(reading)
        await play.open("b")
        assert (await play.answer("b", "where")).event == "end"


async def test_a_timeout_moves_what_waits_behind_to_another_thread() -> None:
    async with Play(OnOneThread, tool_timeout_seconds=0.1) as play:
        await play.open("a")
        hung = await play.start("a", "block", gate="never")
        await until(lambda: PASSED)
        waiting = asyncio.ensure_future(play.service.prompt_json("a", "", None))
        assert (await ended(hung)).data == "'block' ran longer than 0.1 s (ORSWEB_TOOL_TIMEOUT)"
        assert "Task a." in await within(waiting)


async def test_a_timed_out_tool_leaves_the_session_usable() -> None:
    async with Play(Slow, tool_timeout_seconds=0.5) as play:
        await play.open("s")
        assert (await play.answer("s", "wait", seconds=30)).event == "error"
        assert (await play.answer("s", "echo", text="on")).text == "on"
    assert (play.record.steps[0].status, play.record.steps[0].reason) == ("failed", "timeout")


async def test_a_timeout_is_reported_though_the_author_forgives_every_exception() -> None:
    class Forgiving(Slow):
        recoverable_errors = (Exception,)

    async with Play(Forgiving, tool_timeout_seconds=0.05) as play:
        await play.open("s")
        assert "ORSWEB_TOOL_TIMEOUT" in (await play.answer("s", "sleep", seconds=0.3)).data


async def test_a_timeout_of_the_author_is_not_taken_for_the_servers() -> None:
    class Impatient(Small):
        @tool
        async def ask(self) -> ToolOutput:
            """Give up at once."""
            raise TimeoutError("no answer from the lab")

    async with Play(Impatient, tool_timeout_seconds=5) as play:
        await play.open("s")
        assert (await play.answer("s", "ask")).data == "no answer from the lab"


async def test_a_job_given_up_before_it_began_is_never_run() -> None:
    pool, ran = ThreadPool(), list[str]()
    code, gate = UserCode(pool, HostedClass(OnOneThread)), threading.Event()
    running = asyncio.ensure_future(code.call(gate.wait, 30))
    waiting = asyncio.ensure_future(code.call(ran.append, "late"))
    await until(lambda: len(code._jobs or ()) == 2)
    waiting.cancel()
    await asyncio.wait([waiting])
    await code.abandon_unawaited()
    gate.set()
    assert await within(running) is True
    assert await within(code.call(threading.get_ident)) and ran == []
    pool.close()


async def test_the_count_of_threads_stays_right_when_waiting_work_is_given_up() -> None:
    pool = ThreadPool()
    jobs = [
        ThreadJob(threading.Event().wait, (0.2,), asyncio.get_running_loop())
        for _ in range(START_THREADS * 2)
    ]
    for job in jobs:
        pool.submit(job)
    for job in jobs[START_THREADS:]:
        if not job.started:
            pool.abandon(job)
    await within(asyncio.gather(*(job.future for job in jobs[:START_THREADS])))
    assert (pool._busy, pool._threads >= START_THREADS) == (0, True)
    pool.close()


class Kit(Toolset):
    built = 0

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        Kit.built += 1
        GATES["kit"].wait(30)

    @tool
    async def left(self) -> ToolOutput:
        """Left hand."""
        return said("left")

    @tool
    async def right(self) -> ToolOutput:
        """Right hand."""
        return said("right")


async def test_a_toolset_is_built_once_though_two_of_its_tools_come_first() -> None:
    class Handy(Small):
        toolsets = (Kit,)

    async with Play(Handy) as play:
        await play.open("s")
        calls = [await play.start("s", name) for name in ("left", "right")]
        await until(lambda: Kit.built)
        GATES["kit"].set()
        assert [(await ended(call)).event for call in calls] == ["end", "end"]
    assert Kit.built == 1


async def test_plain_tools_of_one_class_run_at_the_same_time() -> None:
    async with Play(Gated) as play:
        for sid in ("a", "b"):
            await play.open(sid)
            await play.start(sid, "block", gate=sid)
        await until(lambda: len(PASSED) == 2)
        assert sorted(PASSED) == ["block a starts", "block b starts"]
        GATES["a"].set()
        GATES["b"].set()


async def test_a_plain_tool_answers_from_its_thread() -> None:
    async with Play(SyncEcho) as play:
        await play.open("s")
        body = (await play.answer("s", "echo", text="hi")).body
    assert body["output"]["metadata"]["thread"] != threading.get_ident()


async def test_threads_that_are_short_go_round_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "START_THREADS", 1)
    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    pool, gate, served = ThreadPool(), threading.Event(), list[str]()
    jobs = []
    for name in ("jam", "a1", "a2", "a3", "b1"):
        KEY.set(name[0])
        work = gate.wait if name == "jam" else partial(served.append, name)
        jobs.append(ThreadJob(work, (), asyncio.get_running_loop()))
        pool.submit(jobs[-1])
    gate.set()
    await within(asyncio.gather(*(job.future for job in jobs)))
    assert served == ["a1", "b1", "a2", "a3"]
    pool.close()


async def test_the_kernel_finds_a_thread_to_wake_among_few() -> None:
    ThreadPool()
    get_slots = 2
    # -1: Linux before 6.16
    assert ctypes.CDLL(None).prctl(78, get_slots, 0, 0, 0) in (threads.WAKE_SLOTS, -1)
