"""Trial: whether a task can be played, found out by playing its beginning: construct, setup, prompt, teardown.

Driven by SessionService for people who change tasks. No episode: nothing is recorded or counted, and no tool is called.
It goes through the same Host as sessions do, under an id that no client can send.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import Any, Literal

from environments.errors import EnvironmentFault, OrsError
from environments.runtime.host import Host

Stage = Literal["construct", "setup", "prompt", "teardown"]
NOTICE_SECONDS = 1.0
"""So long may async code take to end after it was cancelled; then it is left behind."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, and where."""

    stage: Stage
    text: str
    """Type and message of what the author's code raised, or that it took too long."""
    trace: str = ""
    """The author's traceback; empty: there is none."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of playing a task's beginning."""

    prompt_json: str
    """JSON array of blocks as an agent would get it; empty: it did not come to that."""
    failures: tuple[Failure, ...]
    """In the order of stages; empty: everything went well."""
    seconds: float
    """From the start of construction to the end of teardown."""


class _Beginning:
    """The part before teardown, and how far it came."""

    def __init__(self, host: Host, sid: str, environment: str) -> None:
        self._host, self._sid, self._environment = host, sid, environment
        self.stage: Stage = "construct"
        self.prompt_json = ""

    async def play(self, spec: Any) -> None:
        """Raises: what the host raises at `stage`."""
        if await self._host.construct(self._sid, self._environment, spec, {}, None):
            self.stage = "setup"
            await self._host.set_up(self._sid)
        self.stage = "prompt"
        self.prompt_json = await self._host.prompt_json(self._sid)


async def try_out(host: Host, environment: str, spec: Any, seconds: float) -> Trial:
    """Play the beginning of the task `spec`, `seconds` at most, and tear it down within the host's own limit.

    Raises: OrsError for what is not the author's code, such as an unknown environment.
    """
    started, sid = time.monotonic(), f"\0trial-{uuid.uuid4().hex}"
    beginning = _Beginning(host, sid, environment)
    failures = []
    task = asyncio.get_running_loop().create_task(beginning.play(spec))
    try:
        await asyncio.wait([task], timeout=seconds)
        if failed := _failure(task, beginning.stage, seconds):
            failures.append(failed)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=NOTICE_SECONDS)
        try:
            await host.close(sid)
        except EnvironmentFault as fault:
            failures.append(Failure("teardown", str(fault), fault.trace))
    return Trial(beginning.prompt_json, tuple(failures), time.monotonic() - started)


def _failure(task: asyncio.Task[None], stage: Stage, seconds: float) -> Failure | None:
    """Raises: OrsError that is no EnvironmentFault."""
    if not task.done():
        return Failure(stage, f"it took longer than {seconds:g} s and was given up")
    error = task.exception()
    if isinstance(error, EnvironmentFault):
        return Failure(stage, str(error), error.trace)
    if isinstance(error, OrsError):
        raise error
    return None if error is None else Failure(stage, f"{type(error).__name__}: {error}")
