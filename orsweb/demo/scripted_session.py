"""One session of the service that a script plays. `script_runner.py` opens it and passes its `act`
to a player."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from environments.runtime.ids import new_session_id
from environments.runtime.records import RunInfo
from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest
from environments.wire import ToolCall
from orsweb.demo.pretended_time import CLOCK
from orsweb.demo.script import ScriptPart

MAX_CALL_SECONDS = 120.0
"""Limit for a call of a bundled environment's tool; a tool that runs a program may have to wait for
the machine."""


class EpisodeOver(Exception):
    """The episode has ended, or the script has no calls left."""


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """The result of a call."""

    is_ok: bool
    text: str
    """The text of all text blocks, or the error message."""


Act = Callable[..., Awaitable[ScriptedAnswer]]
"""`await act(tool, **arguments)` calls a tool. Raises: EpisodeOver."""


class ScriptedSession:
    """A session that is opened, played and ended once."""

    def __init__(self, service: SessionService, part: ScriptPart, random: Random) -> None:
        self._service, self._part, self._random = service, part, random
        self._sid = new_session_id()
        self._calls_left = part.max_calls

    async def open(self) -> None:
        """Open the session. Raises: EnvironmentFault when the task cannot be set up."""
        part = self._part
        request = SessionRequest(
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
        """Read the prompt and the tools, as an agent does before its first call."""
        await self._service.task_tools_json(self._sid, "", None)
        await self._service.prompt_json(self._sid, "", None)

    async def act(self, tool: str, **arguments: Any) -> ScriptedAnswer:
        """Call a tool, after a pretended time for thinking. Raises: EpisodeOver."""
        if not self._calls_left:
            raise EpisodeOver
        self._calls_left -= 1
        CLOCK.pass_time(self._random.uniform(0.4, 4.0))
        call = await self._service.call(self._sid, "", None, ToolCall(name=tool, input=arguments))
        await call.wait(MAX_CALL_SECONDS)
        if call.result is None or call.result.event == "error":
            raise EpisodeOver
        result = json.loads(call.result.data)
        output = result.get("output") or {}
        if output.get("finished"):
            raise EpisodeOver
        text = "\n".join(block.get("text", "") for block in output.get("blocks", ()))
        return ScriptedAnswer(bool(result["ok"]), text or str(result.get("error", "")))

    async def leave(self) -> None:
        """End the session unless it has already ended."""
        await self._service.delete(self._sid, "")
