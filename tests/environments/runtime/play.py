"""Live play in this process, without HTTP and without a database.

async with Play(Echo) as play:
    await play.open("s")
    assert (await play.answer("s", "echo", text="hi")).text == "hi"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from environments import wire
from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import Registry
from environments.limits import Limits
from environments.runtime.call_outcome import CallResult
from environments.runtime.call_table import Call
from environments.runtime.local_host import LocalHost
from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import UserCode
from tests.record import AskedTasks, ListRecord

DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """The last event of a call's stream."""

    event: str
    data: str

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.data)  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text of the first block."""
        return str(self.body["output"]["blocks"][0]["text"])


class Play:
    """Hosts `classes`. Keyword arguments are fields of Limits; closing may take one second by
    default."""

    def __init__(self, *classes: type, **limits: Any) -> None:
        self.limits = Limits(**{"close_wait_seconds": 1.0, **limits})
        self._classes = classes

    async def __aenter__(self) -> Self:
        registry = Registry([HostedClass(cls) for cls in self._classes])
        self.pool = ThreadPool()
        self.record = ListRecord()
        self.tasks = AskedTasks(registry, UserCode(self.pool))
        self.host = LocalHost(registry, self.pool, self.limits)
        self.service = SessionService(registry, self.tasks, self.record, self.host, self.limits)
        self.service.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.record.holds = False
        self.record.commit()
        await self.service.drain(2.0)
        self.pool.close()

    async def open(self, sid: str, environment: str | None = None, **values: Any) -> None:
        """Open a session of the first class or of `environment`.

        It has a task of its own unless split and index are given.
        """
        values.setdefault("owner", "")
        name = (
            environment if environment or "split" in values else self.service.registry.default.name
        )
        if "split" not in values:
            values.setdefault("spec", {"id": sid})
        await within(self.service.create(SessionRequest(sid=sid, environment=name, **values)))

    async def start(
        self,
        sid: str,
        tool: str,
        *,
        task_id: str | None = None,
        path_environment: str | None = None,
        **input: Any,
    ) -> Call:
        """Start a call and return it, finished or not, with one reader."""
        request = wire.ToolCall(name=tool, input=input, task_id=task_id)
        call = await within(self.service.call(sid, "", path_environment, request))
        call.join()
        return call

    async def answer(self, sid: str, tool: str, **more: Any) -> Answer:
        call = await self.start(sid, tool, **more)
        answer = await ended(call)
        call.is_delivered = True
        self.service.leave(sid, call)
        return answer


async def ended(call: Call) -> Answer:
    """Wait for the end of the call and return it."""
    assert await call.wait(DEADLINE_SECONDS), f"{call.tool} did not end"
    result: CallResult | None = call.result
    assert result is not None
    return Answer(result.event, result.data)


async def within(work: Any) -> Any:
    return await asyncio.wait_for(work, DEADLINE_SECONDS)


async def until(is_true: Callable[[], object]) -> None:
    """Wait until `is_true()` returns true. Raises: AssertionError at the deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not is_true():  # noqa: ASYNC110  (what is watched has no event: threads, gates, the pool)
            await asyncio.sleep(0.002)
