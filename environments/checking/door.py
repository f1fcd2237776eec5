"""The door through which checks reach an environment, whether its class is here (`local.py`) or a server elsewhere
(`remote.py`), and the time limit that every step through it has.

What passes is parsed JSON. A step that is not over in time is reported and left behind, never waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")

MAX_TIMEOUTS = 3
"""After so many steps that ran into the limit the rest is not tried: each would take as long again."""


class DoorRefused(Exception):
    """The other side said no to a request, with this sentence; nothing is broken."""


class Broken(Exception):
    """The environment, or the server it is on, failed with this sentence."""


class Slow(Broken):
    """A step was not over in time."""


class GaveUp(Exception):
    """Too many steps were slow; this one was not begun."""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """How a tool call came out. `output` is the ToolOutput when ok, else `error` and `reason` say why not."""

    status: Literal["ok", "refused", "failed"]
    output: dict[str, Any] | None = None
    error: str = ""
    reason: str = ""

    @property
    def is_finished(self) -> bool:
        return bool(self.output and self.output.get("finished"))

    @property
    def reward(self) -> float | None:
        reward = self.output.get("reward") if self.output else None
        return float(reward) if isinstance(reward, int | float) else None

    @property
    def is_bad_input(self) -> bool:
        """Whether the input never reached the tool; on the wire a tool's own refusal has the same reason."""
        return self.reason == "input_validation" and self.error.startswith("Tool input validation error")


@dataclass(frozen=True, slots=True)
class Sample:
    """One task to play. `label` is how sentences name it, such as `train[0]`."""

    split: str
    index: int
    task: Any

    @property
    def label(self) -> str:
        return f"{self.split}[{self.index}]"


class DoorSession(Protocol):
    """One open session. Every method raises Broken or Refused."""

    async def prompt(self) -> Any:
        """Blocks."""

    async def tools(self) -> dict[str, Any]:
        """ListToolsOutput."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallAnswer: ...

    async def score(self, candidates: list[dict[str, Any]]) -> Any:
        """What score_group tells of them."""

    async def close(self) -> None:
        """End the session. Raises: Broken when teardown failed."""


class Door(Protocol):
    """One environment. Every method raises Broken or Refused."""

    name: str

    async def tools(self) -> dict[str, Any]:
        """ListToolsOutput of the environment, without a session."""

    async def splits(self) -> list[dict[str, Any]]:
        """Each with `name` and `type`."""

    async def tasks(self, split: str) -> list[Any] | None:
        """Every task, in order; None: the environment lists none and is asked for each."""

    async def count(self, split: str) -> int: ...

    async def task(self, split: str, index: int) -> Any:
        """Raises: Refused for an index out of range."""

    async def task_range(self, split: str, start: int | None, stop: int | None) -> list[Any]: ...

    async def open(self, sample: Sample, *, with_setup: bool = True) -> DoorSession:
        """A session that is constructed and, unless told otherwise, set up."""

    def shut(self) -> None:
        """Let its threads go; hung ones are daemons."""


async def leave(seat: DoorSession) -> None:
    """End the session where something else is being checked or told; teardown has a check of its own."""
    with suppress(Broken, DoorRefused, GaveUp):
        await seat.close()


class TimeLimit:
    """`seconds` for each step; `current` is what is being done, for whoever looks from another thread."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.hits = 0
        self.current = ""

    async def within(self, what: str, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns. Raises: Slow, GaveUp, Broken, and what `work` raises."""
        if self.hits >= MAX_TIMEOUTS:
            work.close()
            raise GaveUp(f"Not tried, because {self.hits} steps before took over {self.seconds:g} s each.")
        self.current = what
        task = asyncio.ensure_future(work)
        done, _ = await asyncio.wait([task], timeout=self.seconds)
        if done:
            if task.cancelled():  # nobody else does
                raise Broken(f"{what} cancelled its own task, which a server has to take for a fault.")
            return task.result()
        self.hits += 1
        task.add_done_callback(_forget)
        task.cancel()  # and not awaited: it may take no notice
        raise Slow(f"{what} took over {self.seconds:g} s and was given up; mend it, or allow more with --timeout.")


def _forget(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # or asyncio logs that nobody asked
