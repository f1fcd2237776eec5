"""Opens and closes the service in response to the lifespan events that uvicorn sends.

At the start, the database's lock is acquired and the service opened; at the end, the service is
drained and the lock released. daphne's `runserver` sends no such events: the service opens at the
first request, and no lock is acquired, because its reloader restarts the process whenever a file
changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from datetime import datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import Error, connections
from django.utils import timezone

from environments import conf
from environments.access.local_operator import local_operator
from environments.curation.work import finish_interrupted
from environments.features import upkeep
from environments.hosts import masked_output
from environments.local_sandboxes.service import local_secrets
from environments.service import close_service, open_service
from orsweb.server import thread_stacks
from orsweb.server.asgi_exchange import Receive, Send
from orsweb.server.database_lock import DatabaseInUse, Lock, acquire_to_serve

FINISH_SECONDS = 20.0
"""Time between looks at actions that were not finished when the server started."""
DRAIN_SHARE = 1 / 6
"""Share of ORSWEB_SHUTDOWN_TIMEOUT for draining the service. Before that, `uvicorn_server.py` waits
for running calls and responses; the rest is for stopping the process."""

log = structlog.get_logger()


async def lifespan(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answer startup and shutdown.

    `uvicorn_server.py` raises the error that `scope["state"]["failure"]` holds after a failed
    startup, and ends with another status than 0 if `scope["state"]["has_unrecorded"]` is set after
    the shutdown.
    """
    await receive()
    try:
        lock = await _open()
    except Exception as error:  # `serve` reports it to the operator
        scope["state"]["failure"] = error
        await send({"type": "lifespan.startup.failed", "message": str(error)})
        return
    tasks = [asyncio.create_task(_keep(lock))]
    if lock.membership is None:
        tasks.append(asyncio.create_task(_finish_late(timezone.now())))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    scope["state"]["has_unrecorded"] = await _close(lock)
    await send({"type": "lifespan.shutdown.complete"})


async def _open() -> Lock:
    lock = await asyncio.to_thread(acquire_to_serve)
    try:
        thread_stacks.write_stacks_into(conf.process_directory())
        if lock.membership is None or not lock.membership.peers:
            await asyncio.to_thread(_finish_actions, timezone.now())
        service = await open_service(
            recovers=True, membership=lock.membership, sandbox_secrets=local_secrets()
        )
        masked_output.mask_secrets(service.recent_secrets)
        if not conf.has_keys():
            await asyncio.to_thread(local_operator)
        for module in upkeep():
            module.start()
    except BaseException:
        await asyncio.to_thread(lock.release)
        raise
    return lock


def _finish_actions(start: datetime) -> int:
    """Finish or undo what people were changing when the last process died (`finish_interrupted`).
    Return the number of actions that another process may still be staging."""
    try:
        count, running = finish_interrupted(start)
        if count:
            log.warning("actions that were interrupted are finished or taken back", actions=count)
        return running
    finally:
        connections.close_all()


async def _finish_late(start: datetime) -> None:
    """Undo what was staged and is not continued; a command may still have been staging it when this
    server started."""
    is_over = False
    while not is_over:
        await asyncio.sleep(FINISH_SECONDS)
        with contextlib.suppress(Error):  # the database cannot be reached
            is_over = not await asyncio.to_thread(_finish_actions, start)


async def _close(lock: Lock) -> bool:
    """Close the service and release the lock; return whether calls may be left that are not
    recorded."""
    for module in upkeep():
        await asyncio.to_thread(module.stop)
    try:
        return await close_service(settings.ORSWEB_SHUTDOWN_TIMEOUT * DRAIN_SHARE) > 0
    except Exception:  # in any case, release the lock and end the process
        log.exception("drain failed")
        return True
    finally:
        await asyncio.to_thread(lock.release)


async def _keep(lock: Lock) -> None:
    """Acquire the lock again when its connection was lost. Stop if another server has it."""
    while True:
        await asyncio.sleep(lock.check_seconds)
        try:
            with contextlib.suppress(Error):  # the database cannot be reached; rows wait for it too
                await asyncio.to_thread(lock.renew)
        except DatabaseInUse as error:
            log.critical("stopping", reason=str(error))
            os.kill(os.getpid(), signal.SIGTERM)
            return
