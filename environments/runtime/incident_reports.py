"""Reports of incidents, which the supervisor writes and the server stores: hosted code killed or
held the process.

Each report is a file of its own, so neither side waits for the other and a report outlives both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from environments.runtime.crash_notes import NotedCall, read_running_calls, read_unsent_steps

IncidentKind = Literal["died", "held", "lost", "left", "code"]


@dataclass(frozen=True, slots=True)
class IncidentReport:
    """What happened to a process, and which calls of environments may have caused it.

    The server's own died or was held, it has lost a worker process, or has left processes that
    hosted code had started. Or code of an environment raised an exception (`code`).
    """

    kind: IncidentKind
    at: float
    """Moment of the death, or at which the process was held for too long; seconds since the
    epoch."""
    how: str
    """Of a death: "by signal 11 (SIGSEGV)"; of a loss: "exited with status 3"; of what was left:
    names of processes; otherwise what is held: "the event loop" or "the interpreter's lock"."""
    seconds: float = 0.0
    """How long the process was held."""
    suspects: tuple[NotedCall, ...] = ()
    is_certain: bool = False
    """Whether the suspects are known to have caused it; otherwise they ran at that moment."""
    trace: str = ""
    """The stack of the thread that caused it."""
    environment: str = ""
    """The environment whose worker process it was; empty for the server's own."""
    count: int = 1
    occurrences: tuple[str, ...] = ()
    """Of an exception: the latest episodes and steps, such as "episode 12, step 3"."""

    def write(self, directory: Path) -> None:
        path = directory / f"report-{time.time_ns()}.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)))
        part.rename(path)


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What the process before this one left for its successor."""

    running: tuple[NotedCall, ...] = ()
    """The code that ran when it died."""
    unsent: Mapping[int, Mapping[int, NotedCall]] = field(default_factory=dict)
    """Steps whose results it had not sent: their calls by index, by episode. They may not be
    recorded."""
    reports: tuple[IncidentReport, ...] = ()
    paths: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def death(self) -> str:
        """How it died, such as "by signal 11 (SIGSEGV)"; empty if nobody saw it."""
        return next((report.how for report in self.reports if report.kind == "died"), "")

    def discard(self) -> None:
        """Delete the reports, which have been stored."""
        for path in self.paths:
            path.unlink(missing_ok=True)


def read_reports(directory: Path) -> LeftBehind:
    """Return the reports in `directory`, oldest first."""
    reports: list[IncidentReport] = []
    paths: list[Path] = []
    for path in sorted(directory.glob("report-*.json")):
        with suppress(OSError, ValueError, TypeError, KeyError):
            fields: dict[str, Any] = json.loads(path.read_text())
            fields["occurrences"] = tuple(fields.get("occurrences", ()))
            fields["suspects"] = tuple(NotedCall(**call) for call in fields["suspects"])
            reports.append(IncidentReport(**fields))
            paths.append(path)
    return LeftBehind(reports=tuple(reports), paths=tuple(paths))


def read_left_behind(directory: Path) -> LeftBehind:
    """Return what the last process left in `directory`. Called before the next one writes
    there."""
    running, unsent = tuple(read_running_calls(directory)), read_unsent_steps(directory)
    return replace(read_reports(directory), running=running, unsent=unsent)
