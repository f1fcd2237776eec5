"""Lifespan: takes the database's lock and opens the service when the server starts, drains both when it stops.

Driven by uvicorn's lifespan events. Under daphne's `runserver` there are none: the service opens at the first request
and no lock is taken, because its reloader restarts the process at every change of a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Any

import structlog
from django.conf import settings
from django.db import Error

from environments.protocol.handler import Receive, Send
from environments.service import close_service, open_service
from orsweb.server.database_lock import DatabaseInUse, Lock, acquire

LOCK_CHECK_SECONDS = 5.0
DRAIN_SHARE = 1 / 4
"""Part of ORSWEB_SHUTDOWN_TIMEOUT that is left for the drain; uvicorn waits for running responses
before it, and the rest is what stopping costs."""

log = structlog.get_logger()


async def lifespan(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answer startup and shutdown. A failed start is left in `scope["state"]["failure"]`, for `server.py` to raise."""
    await receive()
    try:
        lock = await _open()
    except Exception as error:  # told to the operator by `serve`
        scope["state"]["failure"] = error
        await send({"type": "lifespan.startup.failed", "message": str(error)})
        return
    keeper = asyncio.create_task(_keep(lock))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    keeper.cancel()
    await asyncio.wait([keeper])
    await _close(lock)
    await send({"type": "lifespan.shutdown.complete"})


async def _open() -> Lock:
    lock = await asyncio.to_thread(acquire)
    try:
        await open_service(recovers=True)
    except BaseException:
        await asyncio.to_thread(lock.release)
        raise
    return lock


async def _close(lock: Lock) -> None:
    try:
        await close_service(settings.ORSWEB_SHUTDOWN_TIMEOUT * DRAIN_SHARE)
    except Exception:  # the lock has to go, and the process to end, whatever happened
        log.exception("drain failed")
    finally:
        await asyncio.to_thread(lock.release)


async def _keep(lock: Lock) -> None:
    """Take a lock again that went with its connection; stop this server when another has it."""
    while True:
        await asyncio.sleep(LOCK_CHECK_SECONDS)
        try:
            with contextlib.suppress(Error):  # the database is away; what is recorded waits for it too
                await asyncio.to_thread(lock.renew)
        except DatabaseInUse as error:
            log.critical("stopping", reason=str(error))
            os.kill(os.getpid(), signal.SIGTERM)
            return
