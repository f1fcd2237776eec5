"""A trial of a task: construct, setup, prompt and teardown show whether it can be played.

SessionService runs trials for people who edit tasks. A trial is no episode: nothing is recorded or
counted, and no tool is called.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from environments.errors import EnvironmentFault, OrsError
from environments.runtime.environment_secrets import with_secrets
from environments.runtime.host import Host

Stage = Literal["construct", "setup", "prompt", "teardown"]
MAX_CANCEL_SECONDS = 1.0
"""Time for async code to end after its cancellation; after that it is left running."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One stage that failed, and why."""

    stage: Stage
    text: str
    """Type and message of the exception that the author's code raised, or that it took too long."""
    trace: str = ""
    """The traceback of the author's code; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of playing the beginning of a task."""

    prompt_json: str
    """JSON array of blocks as an agent would get it; empty if an earlier stage failed."""
    failures: tuple[Failure, ...]
    """The stages that failed, in their order; empty if the task can be played."""
    seconds: float
    """Time from the start of construction to the end of teardown."""


async def try_out(
    host: Host,
    environment: str,
    spec: Any,
    seconds: float,
    secrets: Mapping[str, str] = MappingProxyType({}),
) -> Trial:
    """Play the beginning of the task `spec` for at most `seconds`, and tear it down within the
    host's own limit.

    `secrets`: those that the operator gives to the environment.

    Raises: OrsError for errors outside the author's code, such as an unknown environment.
    """
    start, instance = time.monotonic(), with_secrets(host.instance(environment), secrets)
    stage: Stage = "construct"
    prompt_json, failures = "", list[Failure]()

    async def play() -> None:
        nonlocal stage, prompt_json
        if await instance.construct(spec, {}, None):
            stage = "setup"
            await instance.set_up()
        stage = "prompt"
        prompt_json = await instance.prompt_json()

    task = asyncio.get_running_loop().create_task(play())
    try:
        await asyncio.wait([task], timeout=seconds)
        if failure := _failure(task, stage, seconds):
            failures.append(failure)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=MAX_CANCEL_SECONDS)
        try:
            await instance.close()
        except EnvironmentFault as fault:
            failures.append(Failure("teardown", str(fault), fault.trace))
    return Trial(prompt_json, tuple(failures), time.monotonic() - start)


def _failure(task: asyncio.Task[None], stage: Stage, seconds: float) -> Failure | None:
    """Return why the stage failed, if it did. Raises: OrsError other than EnvironmentFault."""
    if not task.done():
        return Failure(stage, f"it took longer than {seconds:g} s and was given up")
    error = task.exception()
    if isinstance(error, EnvironmentFault):
        return Failure(stage, str(error), error.trace)
    if isinstance(error, OrsError):
        raise error
    return None if error is None else Failure(stage, f"{type(error).__name__}: {error}")
