"""Seat: one session of the service as a script plays it. Driven by `stage.py`; players get its `act`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from environments.runtime.ids import new_session_id
from environments.runtime.live_episode import NewSession
from environments.runtime.records import RunInfo
from environments.runtime.service import SessionService
from environments.wire import ToolCall
from orsweb.demo.pretended_time import CLOCK
from orsweb.demo.script import ScriptPart

CALL_SECONDS = 120.0
"""Longest that a tool of a bundled environment takes; one that runs a program may wait for the machine."""


class Over(Exception):
    """The episode has ended, or the script stops here."""


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """What a call came to."""

    is_ok: bool
    text: str
    """Text of all text blocks, or of the error."""


Act = Callable[..., Awaitable[ScriptedAnswer]]
"""`await act(tool, **arguments)`. Raises: Over."""


class ScriptedSession:
    """Opened, played and left once."""

    def __init__(self, service: SessionService, part: ScriptPart, random: Random) -> None:
        self._service, self._part, self._random = service, part, random
        self._sid = new_session_id()
        self._calls_left = part.most_calls

    async def open(self) -> None:
        """Raises: EnvironmentFault when the task cannot be set up."""
        part = self._part
        request = NewSession(
            sid=self._sid,
            owner="",
            environment=part.environment,
            spec=part.spec,
            split=None if part.spec is not None else part.split,
            index=None if part.spec is not None else part.index,
            user_agent="orsweb demo",
            run=RunInfo(part.run, part.step, part.model),
            player="script",
        )
        await self._service.create(request)

    async def read(self) -> None:
        """Prompt and tools, as an agent reads them before it acts."""
        await self._service.task_tools_json(self._sid, "", None)
        await self._service.prompt_json(self._sid, "", None)

    async def act(self, tool: str, **arguments: Any) -> ScriptedAnswer:
        """One call, after some thought. Raises: Over."""
        if not self._calls_left:
            raise Over
        self._calls_left -= 1
        CLOCK.pass_time(self._random.uniform(0.4, 4.0))
        call = await self._service.call(self._sid, "", None, ToolCall(name=tool, input=arguments))
        if not await call.wait(CALL_SECONDS) or call.result is None or call.result.event == "error":
            raise Over
        told = json.loads(call.result.data)
        output = told.get("output") or {}
        if output.get("finished"):
            raise Over
        text = "\n".join(block.get("text", "") for block in output.get("blocks", ()))
        return ScriptedAnswer(bool(told["ok"]), text or str(told.get("error", "")))

    async def leave(self) -> None:
        """End it, unless it has ended."""
        await self._service.delete(self._sid, "")
