"""Jobs: long work on a thread of this process, with progress that a page polls. Nothing is kept across a restart.

Work is written so that stopping it anywhere does no harm, for a process may end at any time; the threads are daemons.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import structlog
from django.db import connections

from environments.errors import OrsError

Progress = Callable[[int, int], None]
"""Told (done, total); raises Cancelled when somebody asked for that."""

KEPT_SECONDS = 3600.0
"""An ended job can be looked at for so long."""

log = structlog.get_logger(__name__)


class Cancelled(Exception):
    """Raised inside work whose job was cancelled."""


class Job:
    """One piece of work. Everything here may be read by any thread."""

    def __init__(self, title: str, owner: str, subject: str) -> None:
        self.id = secrets.token_hex(8)
        self.title = title
        self.owner = owner
        self.subject = subject
        """What a page knows it by, such as the token of an upload."""
        self.state: Literal["running", "done", "failed", "cancelled"] = "running"
        self.done = 0
        self.total = 0
        """0: not known yet."""
        self.sentence = ""
        """What came of it, once it has ended."""
        self.result: Any = None
        """What the work returned (an Outcome, of an action); None until it is done."""
        self.ended: float | None = None
        """By the monotonic clock."""
        self._is_cancelled = threading.Event()
        self._has_ended = threading.Event()

    @property
    def share(self) -> float | None:
        """0 to 1; None while the total is not known."""
        return min(1.0, self.done / self.total) if self.total else None

    def cancel(self) -> None:
        """Ask the work to stop; it does so at its next progress."""
        self._is_cancelled.set()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, waited for so long."""
        return self._has_ended.wait(seconds)

    def run(self, work: Callable[[Progress], Any]) -> None:
        """On the job's thread."""
        try:
            self.result = work(self._progress)
            self._end("done", str(getattr(self.result, "sentence", self.result) or "Done."))
        except Cancelled:
            self._end("cancelled", "Stopped when you asked for it.")
        except OrsError as error:
            self._end("failed", str(error))
        except Exception:  # the thread's top: nobody above could tell
            log.exception("a job failed", title=self.title, owner=self.owner)
            self._end("failed", "Something unexpected went wrong; the server's log has the details.")
        finally:
            connections.close_all()
            self._has_ended.set()

    def _progress(self, done: int, total: int) -> None:
        if self._is_cancelled.is_set():
            raise Cancelled
        self.done, self.total = done, total

    def _end(self, state: Literal["done", "failed", "cancelled"], sentence: str) -> None:
        self.sentence, self.ended = sentence, time.monotonic()
        self.state = state  # last: whoever sees it sees the sentence too


_jobs: dict[str, Job] = {}
_lock = threading.Lock()  # nobody walks through _jobs while it changes


def start(title: str, work: Callable[[Progress], Any], owner: str, subject: str = "") -> Job:
    """Run `work(progress)` on a thread of its own. Its result, or the result's `sentence`, tells what came of it."""
    job = Job(title, owner, subject)
    with _lock:
        _forget()
        _jobs[job.id] = job
    threading.Thread(target=job.run, args=[work], name=f"job-{job.id}", daemon=True).start()
    return job


def get(job: str) -> Job | None:
    """The job by id; None: unknown, or ended over an hour ago."""
    with _lock:
        _forget()
        return _jobs.get(job)


def jobs() -> list[Job]:
    """Those that are running or were lately, newest first."""
    with _lock:
        _forget()
        return list(reversed(_jobs.values()))


def _forget() -> None:
    oldest = time.monotonic() - KEPT_SECONDS
    for job in [job for job in _jobs.values() if job.ended is not None and job.ended < oldest]:
        del _jobs[job.id]
