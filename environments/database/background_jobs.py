"""Jobs: long work on threads of this process, with progress that a page polls; the admin starts
imports and actions.

Nothing is kept across a restart. The threads are daemons and a process may end at any time, so the
work has to be written so that stopping it anywhere does no harm. Why this is not django-tasks:
docs/decisions/0019-libraries.md.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Literal

import structlog
from django.db import connections

from environments.errors import OrsError

Progress = Callable[[int, int], None]
"""Called from time to time with the amounts of work done and in total, in a unit of the work's
choice. An exception from it stops the work: that of a job raises `Cancelled` once a person has
cancelled the job."""

RETENTION_SECONDS = 3600.0
"""Time for which an ended job can still be read."""

log = structlog.get_logger(__name__)


def silent(count: int, total: int) -> None:
    """Ignore the progress of work that has no observer."""


class Cancelled(Exception):
    """Raised inside work whose job was cancelled."""


class Job:
    """A piece of work. Any thread may read all of its attributes."""

    def __init__(self, title: str, owner: str, subject: str) -> None:
        self.id = secrets.token_hex(8)
        self.title = title
        self.owner = owner
        self.subject = subject
        """Identifies what the job works on, such as the token of an upload."""
        self.state: Literal["running", "done", "failed", "cancelled"] = "running"
        self.done = 0
        self.total = 0
        """0 until the work has reported it."""
        self.sentence = ""
        """How the job ended, for people to read; empty while it runs."""
        self.result: Any = None
        """Return value of the work (for an action, its `ActionOutcome`); None until it is done."""
        self.ended: float | None = None
        """Time of the monotonic clock."""
        self._is_cancelled = threading.Event()
        self._has_ended = threading.Event()

    @property
    def share(self) -> float | None:
        """Share of the work that is done, from 0 to 1, or None while the total is not known."""
        return min(1.0, self.done / self.total) if self.total else None

    @property
    def progress(self) -> str:
        """How much is done, for people to read."""
        return f"{self.done:,} of {self.total:,}" if self.total else "started"

    def cancel(self) -> None:
        """Make the work stop at its next report of progress."""
        self._is_cancelled.set()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the end of the job. Return whether it has ended."""
        return self._has_ended.wait(seconds)

    def run(self, work: Callable[[Progress], Any]) -> None:
        """Run `work` on the current thread and record how it ends."""
        try:
            self.result = work(self._report)
            self._end("done", str(getattr(self.result, "sentence", self.result) or "Done."))
        except Cancelled:
            self._end("cancelled", "Stopped.")
        except OrsError as error:
            self._end("failed", str(error))
        except Exception:  # the outermost frame of the thread: no caller could log it
            log.exception("a job failed", title=self.title, owner=self.owner)
            self._end(
                "failed", "Something unexpected went wrong; the server's log has the details."
            )
        finally:
            connections.close_all()
            self._has_ended.set()

    def _report(self, count: int, total: int) -> None:
        if self._is_cancelled.is_set():
            raise Cancelled
        self.done, self.total = count, total

    def _end(self, state: Literal["done", "failed", "cancelled"], sentence: str) -> None:
        self.sentence, self.ended = sentence, time.monotonic()
        self.state = state  # last, so that a reader of an ended job finds its sentence


_jobs: dict[str, Job] = {}
_lock = threading.Lock()  # _jobs never changes while a thread iterates over it


def start(title: str, work: Callable[[Progress], Any], owner: str, subject: str = "") -> Job:
    """Run `work(progress)` on a thread of its own. The job's `sentence` will be its result, or that
    of the result."""
    job = Job(title, owner, subject)
    with _lock:
        _remove_old()
        _jobs[job.id] = job
    # in the context of the page, so that the security log knows who acts
    run = copy_context().run
    threading.Thread(target=run, args=[job.run, work], name=f"job-{job.id}", daemon=True).start()
    return job


def get(job: str) -> Job | None:
    """Return the job with this id, or None if there is none or it ended more than an hour ago."""
    with _lock:
        _remove_old()
        return _jobs.get(job)


def jobs() -> list[Job]:
    """Return the jobs that are running or ended within the last hour, newest first."""
    with _lock:
        _remove_old()
        return list(reversed(_jobs.values()))


def _remove_old() -> None:
    oldest = time.monotonic() - RETENTION_SECONDS
    for job in [job for job in _jobs.values() if job.ended is not None and job.ended < oldest]:
        del _jobs[job.id]
