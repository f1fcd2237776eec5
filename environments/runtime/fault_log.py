"""Log entries for exceptions of an author's code, with the session in which they happened and
without its secrets.

All such exceptions are logged here and nowhere else, and reported to Incidents from here. Agents
can cause many, so after MAX_A_MINUTE of a kind the rest is only counted.
"""

from __future__ import annotations

import threading
import time

import structlog

from environments.errors import EnvironmentFault
from environments.runtime.crash_notes import NotedCall
from environments.runtime.fault_reports import FaultReports
from environments.runtime.live_episode import LiveEpisode

MINUTE_SECONDS = 60.0
MAX_A_MINUTE = 60
"""Log entries in a minute for one kind of failure of an environment. The next entry gives the
number of those left out."""

log = structlog.get_logger(__name__)
_reports: FaultReports | None = None


def report_to(reports: FaultReports | None) -> None:
    """Also add exceptions with a traceback to `reports` from now on; None: stop."""
    global _reports
    _reports = reports


class _Entries:
    """Counts entries by kind. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the entries of one kind and its beginning change together
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}
        """When the minute of a kind began, on the monotonic clock, and the failures since."""

    def take(self, *kind: *tuple[str, str]) -> dict[str, int] | None:
        """Return what an entry adds: how many were left out before it, if any; None if it is left
        out."""
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
    _log(event, episode, str(fault), fault)
    _report(
        episode.environment, episode.number, event.removesuffix(" failed"), episode.masked(fault)
    )


def log_failed_call(episode: LiveEpisode, step: int, tool: str, fault: EnvironmentFault) -> None:
    """Log the failure of a tool call of `episode`; `step` is the index of its step."""
    tool = episode.mask_text(tool)
    _log("tool call failed", episode, fault.text, fault, tool=tool, reason=fault.kind)
    _report(episode.environment, episode.number, tool, episode.masked(fault), step)


def _log(
    event: str, episode: LiveEpisode, error: str, fault: EnvironmentFault, **about: str
) -> None:
    if (left_out := _entries.take(event, episode.environment)) is None:
        return
    log.warning(
        event,
        session=episode.masked_sid,
        episode=episode.number,
        environment=episode.environment,
        error=episode.mask_text(error),
        trace=episode.mask_text(fault.trace) or None,
        **about,
        **left_out,
    )


def log_class_fault(event: str, environment: str, split: str, fault: EnvironmentFault) -> None:
    """Log an exception of a class method, outside of a session; `event`: what was requested."""
    if (left_out := _entries.take(event, environment)) is not None:
        trace = fault.trace or None
        log.warning(
            event, environment=environment, split=split, error=str(fault), trace=trace, **left_out
        )
    _report(environment, 0, "tasks", fault)


def _report(
    environment: str, episode: int, what: str, fault: EnvironmentFault, step: int | None = None
) -> None:
    if _reports is not None and fault.trace:
        _reports.add(NotedCall(environment, episode, what, time.time(), "", 0, 0), fault, step)
