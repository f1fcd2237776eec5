"""CheckedHost: LocalHost that also looks at what a tool returned before it becomes JSON, where NaN turns into null."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from environments.errors import shorten
from environments.hosting import Hosted
from environments.registry import Registry
from environments.runtime.host import LocalHost
from environments.runtime.limits import Limits
from environments.runtime.session import Session
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import Passing, UserCode


class CheckedHost(LocalHost):
    """`lost` has a sentence for each value that the wire cannot carry."""

    def __init__(self, hosted: Hosted, pool: ThreadPool, limits: Limits) -> None:
        super().__init__(Registry([hosted]), pool, limits)
        self.lost: set[str] = set()

    async def construct(
        self, sid: str, environment: str, spec: Any, secrets: dict[str, str], toolset: str | None
    ) -> bool:
        hosted = self._registry.get(environment)
        session = Session(hosted, _WatchedCode(self._pool, hosted, self.lost), self._limits)
        self._sessions[sid] = session
        try:
            await session.construct(spec, secrets, toolset)
        except BaseException:
            await self.close(sid)
            raise
        return session.has_setup


class _WatchedCode(UserCode):
    __slots__ = ("_lost", "_output_type")

    def __init__(self, pool: ThreadPool, hosted: Hosted, lost: set[str]) -> None:
        super().__init__(pool, own_thread=hosted.own_thread, own_loop=hosted.own_loop)
        self._lost, self._output_type = lost, hosted.sdk.tool_output

    async def call(self, fn: Callable[..., Any], *args: Any, passing: Passing = ()) -> Any:
        answer = await super().call(fn, *args, passing=passing)
        if isinstance(answer, self._output_type):
            name = getattr(fn, "__name__", "a tool")
            self._lost.update(f"Tool {name!r} returned {text}." for text in _lost_in(answer))
        return answer


def _lost_in(output: Any) -> list[str]:
    found = []
    if _has_no_number(output.reward):
        found.append(f"the reward {output.reward}, which agents get as null; a reward is a finite number or None")
    if _has_no_number(output.metadata):
        found.append(f"NaN or an infinity in metadata, which becomes null: {shorten(str(output.metadata), 80)}")
    return found


def _has_no_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(_has_no_number(item) for item in value.values())
    return isinstance(value, list | tuple) and any(_has_no_number(item) for item in value)
