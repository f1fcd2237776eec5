"""The interface to live instances of environments, and LocalHost, which keeps them in this process by session id.

Only plain data crosses this interface, so that instances can later live in another process or on another machine.
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
    """Holds at most one instance per session id `sid`.

    Every method except `construct` requires an instance that `construct` created and `close` has not ended yet.
    """

    async def construct(
        self, sid: str, environment: str, spec: Any, secrets: dict[str, str], toolset: str | None
    ) -> bool:
        """Create the instance of a session; return whether it needs `set_up`.

        Raises: EnvironmentFault, InvalidRequest; in both cases there is no instance.
        """

    async def set_up(self, sid: str) -> None:
        """Run the author's setup. Raises: EnvironmentFault."""

    async def prompt_json(self, sid: str) -> str: ...

    async def messages_json(self, sid: str) -> str: ...

    async def task_tools_json(self, sid: str) -> str: ...

    async def run(self, sid: str, tool: str, arguments: wire.JSONObject) -> CallOutcome: ...

    async def score(self, sid: str, candidates: list[wire.GroupCandidate]) -> str: ...

    async def close(self, sid: str) -> None:
        """Tear the instance down; unknown ids are ignored.

        Raises: EnvironmentFault when teardown failed; the instance is gone nevertheless.
        """


class LocalHost:
    """Keeps instances in this process."""

    def __init__(self, registry: Registry, pool: ThreadPool, limits: Limits) -> None:
        self._registry, self._pool, self._limits = registry, pool, limits
        self._instances: dict[str, Instance] = {}

    async def construct(
        self, sid: str, environment: str, spec: Any, secrets: dict[str, str], toolset: str | None
    ) -> bool:
        hosted = self._registry.get(environment)
        instance = Instance(
            hosted, UserCode(self._pool, own_thread=hosted.own_thread, own_loop=hosted.own_loop), self._limits
        )
        self._instances[sid] = instance
        try:
            await instance.construct(spec, secrets, toolset)
        except BaseException:
            await self.close(sid)
            raise
        return instance.has_setup

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
        instance = self._instances.pop(sid, None)
        if instance is not None:
            await instance.close()

    def _get(self, sid: str) -> Instance:
        instance = self._instances.get(sid)
        if instance is None:
            raise SessionDeleted
        return instance
