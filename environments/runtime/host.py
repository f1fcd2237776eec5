"""Host: where live environments are. LocalHost keeps them in this process, by session id.

Only plain data crosses this door, so that it can later lead to another process or machine.
"""

from __future__ import annotations

from typing import Any, Protocol

from environments import wire
from environments.authoring.registry import Registry
from environments.errors import SessionDeleted
from environments.runtime.instance import Instance
from environments.runtime.limits import Limits
from environments.runtime.outcome import CallOutcome
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import UserCode


class Host(Protocol):
    """Every method but `construct` is for a session that `construct` made and `close` has not ended."""

    async def construct(
        self, sid: str, environment: str, spec: Any, secrets: dict[str, str], toolset: str | None
    ) -> bool:
        """Whether setup remains to be done. Raises: EnvironmentFault, InvalidRequest; then there is no session."""

    async def set_up(self, sid: str) -> None:
        """Raises: EnvironmentFault."""

    async def prompt_json(self, sid: str) -> str: ...

    async def messages_json(self, sid: str) -> str: ...

    async def task_tools_json(self, sid: str) -> str: ...

    async def run(self, sid: str, tool: str, arguments: wire.JSONObject) -> CallOutcome: ...

    async def score(self, sid: str, candidates: list[wire.GroupCandidate]) -> str: ...

    async def close(self, sid: str) -> None:
        """Tear down; unknown ids are ignored. Raises: EnvironmentFault when teardown failed; the session is gone."""


class LocalHost:
    """Host in this process."""

    def __init__(self, registry: Registry, pool: ThreadPool, limits: Limits) -> None:
        self._registry, self._pool, self._limits = registry, pool, limits
        self._sessions: dict[str, Instance] = {}

    async def construct(
        self, sid: str, environment: str, spec: Any, secrets: dict[str, str], toolset: str | None
    ) -> bool:
        hosted = self._registry.get(environment)
        session = Instance(
            hosted, UserCode(self._pool, own_thread=hosted.own_thread, own_loop=hosted.own_loop), self._limits
        )
        self._sessions[sid] = session
        try:
            await session.construct(spec, secrets, toolset)
        except BaseException:
            await self.close(sid)
            raise
        return session.has_setup

    async def set_up(self, sid: str) -> None:
        await self._get(sid).set_up()

    async def prompt_json(self, sid: str) -> str:
        return await self._get(sid).prompt_json()

    async def messages_json(self, sid: str) -> str:
        return await self._get(sid).messages_json()

    async def task_tools_json(self, sid: str) -> str:
        return await self._get(sid).task_tools_json()

    async def run(self, sid: str, tool: str, arguments: wire.JSONObject) -> CallOutcome:
        return await self._get(sid).run(tool, arguments)

    async def score(self, sid: str, candidates: list[wire.GroupCandidate]) -> str:
        return await self._get(sid).score(candidates)

    async def close(self, sid: str) -> None:
        session = self._sessions.pop(sid, None)
        if session is not None:
            await session.close()

    def _get(self, sid: str) -> Instance:
        session = self._sessions.get(sid)
        if session is None:
            raise SessionDeleted
        return session
