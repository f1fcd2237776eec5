"""The interface through which checks use an environment, with two implementations: a class in this
process
(`local.py`) and a server (`remote.py`). Also the time limit that every step through it has.

All values are parsed JSON. A step that exceeds its limit is reported and abandoned; nothing waits
for its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from environments.runtime.usercode import consume_exception

T = TypeVar("T")

IMPORT_TIMES = 6
"""Time limits that the import of a module may take of CPU time, because it may load a model."""
MAX_TIMEOUTS = 3
"""Number of steps over the limit after which no more are tried, because each would take as long
again."""


class RequestRefused(Exception):
    """The environment or server refused a request, with this sentence as the reason. This is not a
    fault."""


class Broken(Exception):
    """The environment or its server failed; the message is one sentence."""


class Slow(Broken):
    """A step exceeded its time limit."""


class GaveUp(Exception):
    """Too many steps exceeded their time limit, so this one was not started."""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The result of a tool call: a ToolOutput in `output` when `status` is ok, otherwise `error`
    and `reason`."""

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
        """Return whether the input was refused before the tool ran. A ToolError has the same
        `reason` on the wire."""
        return self.reason == "input_validation" and self.error.startswith(
            "Tool input validation error"
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """One task to play. `label` is its name in messages, such as `train[0]`."""

    split: str
    index: int
    task: Any

    @property
    def label(self) -> str:
        return f"{self.split}[{self.index}]"


class CheckedSession(Protocol):
    """One open session. Every method may raise Broken or RequestRefused."""

    async def prompt(self) -> Any:
        """Return the blocks of the prompt."""

    async def tools(self) -> dict[str, Any]:
        """Return the tools of the session as a ListToolsOutput."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallAnswer: ...

    async def score(self, candidates: list[dict[str, Any]]) -> Any:
        """Return what score_group returns for the candidates."""

    async def close(self) -> None:
        """End the session. Raises: Broken when teardown failed."""


Session = TypeVar("Session", bound=CheckedSession)


class CheckedEnvironment(Protocol):
    """One environment. Every method may raise Broken or RequestRefused."""

    name: str

    async def tools(self) -> dict[str, Any]:
        """Return the tools of the environment, without a session, as a ListToolsOutput."""

    async def splits(self) -> list[dict[str, Any]]:
        """Return the splits, each with `name` and `type`."""

    async def tasks(self, split: str) -> list[Any] | None:
        """Return every task in order, or None if the environment only returns tasks by index."""

    async def count(self, split: str) -> int: ...

    async def task(self, split: str, index: int) -> Any:
        """Return the task at `index`. Raises: RequestRefused when the index is out of range."""

    async def task_range(self, split: str, start: int | None, stop: int | None) -> list[Any]: ...

    async def open(self, sample: Sample, *, with_setup: bool = True) -> CheckedSession:
        """Return a new session, which has been set up unless `with_setup` is false."""

    def shut(self) -> None:
        """Stop the threads; those that hang are daemons and are abandoned."""


async def leave(seat: CheckedSession) -> None:
    """End the session and ignore errors, because teardown has a check of its own."""
    with suppress(Broken, RequestRefused, GaveUp):
        await seat.close()


@asynccontextmanager
async def closing(opening: Awaitable[Session]) -> AsyncIterator[Session]:
    """Enter a session, which ends afterwards."""
    seat = await opening
    try:
        yield seat
    finally:
        await leave(seat)


class TimeLimit:
    """The limit of `seconds` for each step. Other threads read in `current` which step is
    running."""

    def __init__(self, seconds: float, note_step: Callable[[str], object] | None = None) -> None:
        self.seconds, self.import_seconds = seconds, IMPORT_TIMES * seconds
        self._note_step = note_step
        self.hits = 0
        self.current = ""

    async def within(self, what: str, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; `what` names it in messages.

        Raises: Slow, GaveUp, Broken, and the exceptions of `work`.
        """
        if self.hits >= MAX_TIMEOUTS:
            work.close()
            raise GaveUp(
                f"Not tried, because {self.hits} earlier steps took over {self.seconds:g} s each."
            )
        self.current = what
        if self._note_step is not None:
            self._note_step(what)
        task = asyncio.ensure_future(work)
        results, _ = await asyncio.wait([task], timeout=self.seconds)
        if results:
            if task.cancelled():  # only the code itself can have done this
                raise Broken(f"{what} cancelled its own task, which a server treats as a fault.")
            return task.result()
        self.hits += 1
        task.add_done_callback(consume_exception)
        task.cancel()  # not awaited, because the code may ignore the cancellation
        raise Slow(
            f"{what} took over {self.seconds:g} s and was abandoned; make it faster, or "
            "raise --timeout."
        )
