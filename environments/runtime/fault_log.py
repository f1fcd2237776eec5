"""Log entries for exceptions of an author's code, with the session in which they happened and without its secrets.

All such exceptions are logged here and nowhere else. Agents can cause many, so those of a kind are counted once there
are MAX_A_MINUTE.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import structlog

from environments.errors import EnvironmentFault
from environments.runtime.live_episode import LiveEpisode

MINUTE_SECONDS = 60.0
MAX_A_MINUTE = 60
"""Entries of one kind of failure of an environment in a minute. Those beyond are a number in the next one."""

log = structlog.get_logger(__name__)


class _Entries:
    """Counts entries by kind. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the entries of one kind and its beginning change together
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}
        """When the minute of a kind began, on the monotonic clock, and the failures since."""

    def take(self, *kind: *tuple[str, str]) -> dict[str, int] | None:
        """Return what an entry adds: how many were left out before it, if any; None if it is left out."""
        now = time.monotonic()
        with self._lock:
            began, count = self._kinds.get(kind, (now, 0))
            left_out = 0
            if now - began >= MINUTE_SECONDS:
                left_out, began, count = max(0, count - MAX_A_MINUTE), now, 0
            self._kinds[kind] = began, count + 1
        if count >= MAX_A_MINUTE:
            return None
        return {"left_out_before": left_out} if left_out else {}


_entries = _Entries()


def log_fault(event: str, episode: LiveEpisode, fault: EnvironmentFault) -> None:
    """Log an exception of the author's code; `event` says which part of `episode` failed."""
    log_failure(event, episode, str(fault), fault.trace)


def log_failure(event: str, episode: LiveEpisode, error: str, trace: str, **about: Any) -> None:
    """Log a failure of `episode` given as text; `about` holds further fields, which must be free of secrets."""
    if (left_out := _entries.take(event, episode.environment)) is None:
        return
    log.warning(
        event,
        session=episode.masked_sid,
        episode=episode.number,
        environment=episode.environment,
        error=episode.mask_text(error),
        trace=episode.mask_text(trace) or None,
        **about,
        **left_out,
    )


def log_class_fault(event: str, environment: str, split: str, fault: EnvironmentFault) -> None:
    """Log an exception of a class method, which belongs to no session; `event` says what was requested."""
    if (left_out := _entries.take(event, environment)) is not None:
        trace = fault.trace or None
        log.warning(event, environment=environment, split=split, error=str(fault), trace=trace, **left_out)
