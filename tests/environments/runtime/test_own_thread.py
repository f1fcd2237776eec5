"""Classes that need one thread for all their code: by default those of `ors` with plain code."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ors import Environment, TextBlock, ToolOutput, tool

from tests.environments.runtime.play import Play, until
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


async def test_what_plain_code_schedules_runs_though_no_call_follows() -> None:
    class Scheduling(Plain):
        def __init__(self, task_spec: Any, secrets: Any = None) -> None:
            super().__init__(task_spec, secrets)
            self.loop = asyncio.get_running_loop()
            self.task = asyncio.create_task(self.tick())

        async def tick(self) -> None:
            await asyncio.sleep(0.01)
            RAN.append(asyncio.get_running_loop())

        @tool
        def loops(self) -> ToolOutput:
            """Says whether this is the loop that the constructor found, and that of its task."""
            same = [self.loop] == RAN and asyncio.get_running_loop() is self.loop
            return ToolOutput(blocks=[TextBlock(text=str(same))])

    RAN.clear()
    async with Play(Scheduling) as play:
        await play.open("s")
        await until(lambda: RAN)
        assert (await play.answer("s", "loops")).text == "True"


async def test_plain_code_that_asks_whether_a_loop_runs_awaits_beside_it() -> None:
    """The usual helper of plain code that needs async code."""

    async def fetch() -> str:
        await asyncio.sleep(0)
        return "fetched"

    def fetched() -> str:
        loop = asyncio.get_event_loop()
        if loop.is_running():
            with ThreadPoolExecutor(1) as executor:
                return executor.submit(asyncio.run, fetch()).result()
        return loop.run_until_complete(fetch())

    class Fetching(Plain):
        def __init__(self, task_spec: Any, secrets: Any = None) -> None:
            super().__init__(task_spec, secrets)
            self.first = fetched()

        @tool
        def get(self) -> ToolOutput:
            """Fetches again."""
            return ToolOutput(blocks=[TextBlock(text=self.first + fetched())])

    async with Play(Fetching) as play:
        await play.open("s")
        assert (await play.answer("s", "get")).text == "fetchedfetched"


async def test_what_another_thread_schedules_on_the_loop_of_an_idle_session_runs() -> None:
    ran, is_idle = asyncio.Event(), threading.Event()
    ours = asyncio.get_running_loop()

    class Watching(Plain):
        def __init__(self, task_spec: Any, secrets: Any = None) -> None:
            super().__init__(task_spec, secrets)
            threading.Thread(
                target=self.report, args=(asyncio.get_running_loop(),), daemon=True
            ).start()

        def report(self, loop: asyncio.AbstractEventLoop) -> None:
            is_idle.wait()
            loop.call_soon_threadsafe(lambda: ours.call_soon_threadsafe(ran.set))

    async with Play(Watching) as play:
        await play.open("s")
        is_idle.set()
        await asyncio.wait_for(ran.wait(), 30)
        assert (await play.answer("s", "say")).text == "hello"


async def test_another_thread_is_told_that_the_loop_runs_until_its_thread_ends() -> None:
    class Asking(Plain):
        def __init__(self, task_spec: Any, secrets: Any = None) -> None:
            super().__init__(task_spec, secrets)
            RAN.append(asyncio.get_running_loop())

        @tool
        def ask(self) -> ToolOutput:
            """Says what a helper thread is told."""
            with ThreadPoolExecutor(1) as executor:
                return ToolOutput(
                    blocks=[TextBlock(text=str(executor.submit(RAN[0].is_running).result()))]
                )

    RAN.clear()
    async with Play(Asking) as play:
        await play.open("s")
        assert (await play.answer("s", "ask")).text == "True"
        assert RAN[0].is_running()  # idle
        assert not RAN[0].is_made
    await until(lambda: not RAN[0].is_running())


async def test_a_loop_that_another_thread_makes_while_a_call_ends_is_whole() -> None:
    class Racing(Plain):
        def __init__(self, task_spec: Any, secrets: Any = None) -> None:
            super().__init__(task_spec, secrets)
            loop = asyncio.get_running_loop()
            thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(RAN.append, loop))
            thread.start()

    async with Play(Racing) as play:
        for number in range(40):
            await play.open(f"s{number}")
            assert (await asyncio.wait_for(play.answer(f"s{number}", "say"), 30)).text == "hello"


async def test_a_coroutine_that_plain_code_returns_is_awaited_and_can_be_cancelled() -> None:
    class Returning(Plain):
        @tool
        def later(self) -> ToolOutput:
            """Returns a coroutine, which the class does not show."""
            return self.slow()  # type: ignore[return-value]

        async def slow(self) -> ToolOutput:
            await asyncio.sleep(0 if RAN else 30)
            return ToolOutput(blocks=[TextBlock(text="later")])

    RAN.clear()
    async with Play(Returning, tool_timeout_seconds=0.1) as play:
        await play.open("s")
        assert "ORSWEB_TOOL_TIMEOUT" in (await play.answer("s", "later")).data
        RAN.append("now")
        assert (await play.answer("s", "later")).text == "later"
        assert (await play.answer("s", "say")).text == "hello"


async def test_sessions_of_plain_code_take_no_descriptors() -> None:
    async with Play(Plain) as play:
        before = descriptors()
        for number in range(20):
            await play.open(f"s{number}")
            assert (await play.answer(f"s{number}", "say")).text == "hello"
        assert descriptors() <= before


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Plain(Environment):
    def __init__(self, task_spec: Any, secrets: Any = None) -> None:
        super().__init__(task_spec, secrets or {})
        self.word = "hello"

    @classmethod
    def list_splits(cls) -> list[str]:  # type: ignore[override]
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"n": 1}]

    def get_prompt(self) -> list[TextBlock]:
        return []

    @tool
    def say(self) -> ToolOutput:
        """Says its word."""
        return ToolOutput(blocks=[TextBlock(text=self.word)])


RAN: list[Any] = []
