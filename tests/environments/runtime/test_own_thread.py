"""Classes that need one thread for all their code: by default those of `ors` with plain code."""

from __future__ import annotations

import threading

from tests.environments.runtime.play import Play
from tests.envs_ors import OrsAsync, OrsMixed


async def test_plain_and_async_code_share_what_is_bound_to_a_thread_and_a_loop() -> None:
    async with Play(OrsMixed) as play:
        await play.open("s")
        await play.answer("s", "note", text="one")
        greeting, thread, notes = (await play.answer("s", "read")).text.split(" ")
        assert (greeting, notes) == ("hello", "one")
        assert int(thread) != threading.get_ident()


async def test_sessions_have_a_thread_each() -> None:
    async with Play(OrsMixed) as play:
        await play.open("s")
        await play.open("t")
        threads = {(await play.answer(sid, "read")).text.split(" ")[1] for sid in ("s", "t")}
        assert len(threads) == 2


async def test_async_code_in_a_thread_of_its_own_is_cancelled_by_delete() -> None:
    async with Play(OrsMixed) as play:
        await play.open("s")
        call = await play.start("s", "wait")
        await play.service.delete("s", "")
        assert call.result is not None and call.result.data == "Session deleted"


async def test_it_gives_up_async_code_in_a_thread_of_its_own_after_the_limit() -> None:
    async with Play(OrsMixed, tool_timeout_seconds=0.5) as play:
        await play.open("s")
        assert "ORSWEB_TOOL_TIMEOUT" in (await play.answer("s", "wait")).data
        assert (await play.answer("s", "read")).text.startswith("hello")


async def test_a_class_whose_code_is_all_async_runs_on_the_servers_loop() -> None:
    async with Play(OrsAsync) as play:
        await play.open("s")
        assert (await play.answer("s", "thread")).text == str(threading.get_ident())
