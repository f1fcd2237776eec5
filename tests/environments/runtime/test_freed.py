"""What an environment holds is freed as soon as its session has ended, without the cyclic garbage
collector.

An environment may hold gigabytes, and the collector of a server runs rarely.
"""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import openreward.environments
import ors
import pytest
from pydantic import BaseModel

import environments
from environments.errors import OrsError, SessionDeleted
from environments.runtime import threads
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import UserCode
from tests.environments.runtime.play import Play, until

ALIVE: weakref.WeakSet[object] = weakref.WeakSet()
REACHED: set[str] = set()
"""The stages that an environment of the test came to."""
GATE = threading.Event()


class Where(BaseModel):
    """Which of its stages fails or hangs."""

    stage: str = ""


class Tracked:
    """The constructor of all environments of this file, and what they do at each stage."""

    task_spec: Any

    def __init__(self, task_spec: Any = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)  # type: ignore[call-arg]
        ALIVE.add(self)
        self.reach("constructor")

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, str]]:
        return [{}]

    def reach(self, stage: str) -> None:
        REACHED.add(stage)
        if self.task_spec.get("fails") == stage:
            raise RuntimeError(f"the {stage} failed")
        if self.task_spec.get("stops") == stage:
            raise StopIteration(stage)
        if self.task_spec.get("exits") == stage:
            raise SystemExit(stage)
        if self.task_spec.get("hangs") == stage:
            GATE.wait(30)


def plain_class(sdk: Any) -> type:
    """Return an environment of `sdk` whose methods are plain functions."""

    class Plain(Tracked, sdk.Environment):  # type: ignore[misc]
        def setup(self) -> None:
            self.reach("setup")

        def get_prompt(self) -> list[Any]:
            self.reach("prompt")
            return [sdk.TextBlock(text="go")]

        @sdk.tool  # type: ignore[untyped-decorator]
        def work(self, args: Where) -> sdk.ToolOutput:  # type: ignore[name-defined]
            """Work."""
            self.reach("tool")
            return sdk.ToolOutput(blocks=[sdk.TextBlock(text="done")])

        def teardown(self) -> None:
            self.reach("teardown")

    return Plain


def async_class(sdk: Any) -> type:
    """Return an environment of `sdk` whose methods are async functions."""

    class Async(Tracked, sdk.Environment):  # type: ignore[misc]
        async def _reach(self, stage: str) -> None:
            if self.task_spec.get("hangs") == stage:
                REACHED.add(stage)
                await asyncio.sleep(30)
            self.reach(stage)

        async def setup(self) -> None:
            await self._reach("setup")

        async def get_prompt(self) -> list[Any]:
            await self._reach("prompt")
            return [sdk.TextBlock(text="go")]

        @sdk.tool  # type: ignore[untyped-decorator]
        async def work(self, args: Where) -> sdk.ToolOutput:  # type: ignore[name-defined]
            """Work."""
            await self._reach("tool")
            return sdk.ToolOutput(blocks=[sdk.TextBlock(text="done")])

        async def teardown(self) -> None:
            await self._reach("teardown")

    return Async


SDKS = {"orsweb": environments, "ors": ors, "openreward": openreward.environments}
CLASSES = {
    f"{name}-{kind}": make(sdk)
    for name, sdk in SDKS.items()
    for kind, make in (("plain", plain_class), ("async", async_class))
}


@pytest.fixture(params=CLASSES)
def hosted(request: pytest.FixtureRequest) -> type:
    return CLASSES[request.param]


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    ALIVE.clear()
    REACHED.clear()
    GATE.clear()
    gc.disable()
    yield
    gc.enable()
    GATE.set()


async def until_freed(after: str) -> None:
    """Wait until no environment is alive, which threads that are about to drop one may delay by a
    moment."""
    for _ in range(5000):
        if not ALIVE:
            return
        await asyncio.sleep(0.002)
    [one, *_] = ALIVE
    raise AssertionError(f"After {after}, the environment is held by {gc.get_referrers(one)}")


async def play_through(play: Play, spec: dict[str, str]) -> None:
    """Open a session, read its prompt, call its tool twice and delete it, whatever fails in
    between."""
    with suppress(OrsError):
        await play.open("s", spec=spec)
        await play.service.prompt_json("s", "", None)
    for _ in range(2):
        with suppress(OrsError):
            await play.answer("s", "work")
    await play.service.delete("s", "")


async def test_it_is_freed_after_an_episode(hosted: type) -> None:
    async with Play(hosted) as play:
        await play_through(play, {})
        await until_freed("the end")
    assert {"constructor", "setup", "prompt", "tool", "teardown"} == REACHED


async def test_it_is_freed_after_an_error(hosted: type) -> None:
    async with Play(hosted) as play:
        for stage in ("constructor", "setup", "prompt", "tool", "teardown"):
            for how in ("fails", "stops", "exits"):
                REACHED.clear()
                await play_through(play, {how: stage})
                assert stage in REACHED
                await until_freed(f"the {stage} {how}")


async def test_it_is_freed_after_a_tool_took_too_long(hosted: type) -> None:
    async with Play(hosted, tool_timeout_seconds=0.05, close_wait_seconds=0.05) as play:
        await play_through(play, {"hangs": "tool"})
        assert "tool" in REACHED
        GATE.set()
        await until_freed("the end")


async def test_it_is_freed_when_its_abandoned_code_returns(hosted: type) -> None:
    async with Play(hosted, close_wait_seconds=0.05) as play:
        for stage in ("setup", "tool", "teardown"):
            GATE.clear()
            REACHED.clear()
            await play.open("s", spec={"hangs": stage})
            await play.start("s", "work")
            await until(lambda before=("tool" if stage == "teardown" else stage): before in REACHED)
            await play.service.delete("s", "")
            assert stage in REACHED
            GATE.set()
            await until_freed(f"the {stage} was given up")


async def test_it_is_freed_when_its_code_is_given_up_before_a_thread_was_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "START_THREADS", 0)
    monkeypatch.setattr(threads, "MAX_THREADS", 0)
    code, held = UserCode(ThreadPool()), CLASSES["orsweb-plain"]()
    waiting = asyncio.create_task(code.call(held.teardown))
    await asyncio.sleep(0)
    await code.settle(0)
    with pytest.raises(SessionDeleted):
        await waiting
    del held, waiting
    await until_freed("the wait")
