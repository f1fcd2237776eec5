"""Hashing of passwords, one at a time, on a thread that gives way to everything else.

A hash takes a third of a second of a processor on purpose. hashlib releases the interpreter's lock
meanwhile, so what held agents during a storm of logins were the processors: each of the threads for
pages kept one busy, and the event loop waited for its turn. With 24 logins at once, calls of eight
agents took 4.7 times as long as without, and take 1.5 times as long now
(`tests/hostile/login_storm.py`, two processors).

Here one thread hashes, with a low priority, and few logins wait for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from django.contrib.auth.hashers import PBKDF2PasswordHasher

MAX_WAITING = 3
"""Hashes that wait or run. Each keeps one of the threads for pages, so some of these have to stay
free."""
RETRY_AFTER_SECONDS = 2
"""Time after which a login that was turned away may try again."""

LOW_PRIORITY = 10
"""Niceness: on a busy machine its share is a tenth of the event loop's."""


class HashingBusy(Exception):
    """Too many passwords are being checked; the visitor has to try again.

    Nothing was checked, so the attempt does not count as a wrong password.
    """


def _give_way() -> None:
    """Give the thread a low priority, where the system has priorities of threads."""
    with contextlib.suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)


# one for the process: the passwords of pages and of the admin share it
_thread = ThreadPoolExecutor(1, "passwords", initializer=_give_way)
_places = threading.BoundedSemaphore(MAX_WAITING)


class QueuedHasher(PBKDF2PasswordHasher):
    """Django's hasher, one hash at a time; the hashes are the same. Raises: HashingBusy."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        if not _places.acquire(blocking=False):
            raise HashingBusy
        try:
            return _thread.submit(partial(super().encode, password, salt, iterations)).result()
        finally:
            _places.release()
