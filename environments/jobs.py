"""Jobs: long work on a thread of this process, with progress that a page polls. Nothing is kept across a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

Progress = Callable[[int, int], None]
"""Told (done, total); raises Cancelled when somebody asked for that."""

KEPT_SECONDS = 3600.0
"""An ended job can be looked at for so long."""


class Cancelled(Exception):
    """Raised inside work whose job was cancelled."""


class Job:
    """One piece of work. Everything here may be read by any thread."""

    id: str
    title: str
    owner: str
    state: Literal["running", "done", "failed", "cancelled"]
    done: int
    total: int
    """0: not known yet."""
    sentence: str
    """What came of it, once it has ended."""
    result: Any
    """What the work returned (an Outcome, of an action); None until it is done."""

    @property
    def share(self) -> float | None:
        """0 to 1; None while the total is not known."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Ask the work to stop; it does so at its next progress."""
        raise NotImplementedError

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, waited for so long."""
        raise NotImplementedError


def start(title: str, work: Callable[[Progress], Any], owner: str) -> Job:
    """Run `work(progress)` on a thread of its own. Its result, or the result's `sentence`, tells what came of it."""
    raise NotImplementedError


def get(job: str) -> Job | None:
    """The job by id; None: unknown, or ended over an hour ago."""
    raise NotImplementedError


def jobs() -> list[Job]:
    """Those that are running or were lately, newest first."""
    raise NotImplementedError
