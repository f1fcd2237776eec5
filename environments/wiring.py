"""Wiring: builds this process's SessionService and takes it down again.

The record is joined by dotted path (settings.ORSWEB_RECORD), as channels names its layer, so that `environments` never
imports `episodes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextvars import Context
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from django.conf import settings
from django.utils.module_loading import import_string

from environments import conf
from environments.catalog import Catalogue
from environments.errors import Draining, NotPlaying
from environments.registry import load
from environments.runtime.host import LocalHost
from environments.runtime.service import SessionService
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import UserCode
from environments.sync import sync

T = TypeVar("T")

log = structlog.get_logger(__name__)

FLUSH_SHARE = 0.4
"""Part of the time for closing that is kept for writing what is queued."""


@dataclass(frozen=True)
class _Parts:
    service: SessionService
    catalogue: Catalogue
    record: Any
    pool: ThreadPool
    loop: asyncio.AbstractEventLoop


_parts: _Parts | None = None
_opening: asyncio.Task[_Parts] | None = None


def current() -> SessionService | None:
    """The open service, if any; costs nothing."""
    return _parts.service if _parts else None


def service() -> SessionService:
    """The open service."""
    assert _parts is not None, "the service is not open"
    return _parts.service


def ask(question: Callable[[SessionService], Coroutine[Any, Any, T]], timeout_seconds: float) -> T:
    """What the open service answers to a thread that is not its loop's, such as that of a page.

    Raises: NotPlaying, Draining, TimeoutError, and what `question` raises.
    """
    if _parts is None or _parts.loop.is_closed():
        raise NotPlaying
    with contextlib.suppress(RuntimeError):
        assert asyncio.get_running_loop() is not _parts.loop, "this would wait for itself"
    # In a context of its own: what it starts may outlive the page, and the thread that the page's context names.
    answer = Context().run(asyncio.run_coroutine_threadsafe, question(_parts.service), _parts.loop)
    try:
        return answer.result(timeout_seconds)
    except TimeoutError:
        answer.cancel()
        raise
    except CancelledError:
        raise Draining from None


async def open_service(*, recovers: bool = False) -> SessionService:
    """The service, opened once however many ask. `recovers`: this process holds the database's lock, so episodes that
    a dead server left open are closed as interrupted.

    Raises: Unhostable with one sentence that says what to change.
    """
    global _parts, _opening
    if _parts is None:
        if _opening is None or (_opening.done() and _opening.exception()):
            _opening = asyncio.get_running_loop().create_task(_open(recovers))
        _parts = await asyncio.shield(_opening)
    return _parts.service


async def close_service(timeout_seconds: float) -> None:
    """End sessions, write what is queued, stop threads; `timeout_seconds` at most."""
    global _parts, _opening
    parts, _parts, _opening = _parts, None, None
    if parts is None:
        return
    until = time.monotonic() + timeout_seconds
    await parts.service.drain(timeout_seconds * (1 - FLUSH_SHARE))
    lost = await parts.record.stop(max(0.5, until - time.monotonic()))
    if lost:
        log.error("rows were not written", rows=lost)
    parts.catalogue.close()
    parts.pool.close()


async def _open(recovers: bool) -> _Parts:
    registry = load(conf.specifications())
    pool = ThreadPool()
    call_user = UserCode(pool).call
    report = await sync(registry, call_user)
    log.debug("environments synced", seconds=round(report.seconds, 2))
    for split in report.splits:
        if split.is_taken:
            log.warning("a split that the class declares is not served", split=str(split))
        elif split.has_news:
            log.info("the class's tasks have changed", split=str(split))
    record = import_string(settings.ORSWEB_RECORD)()
    await record.start()
    if recovers and (closed := await record.recover()):
        log.warning("closed episodes that an earlier server left open", episodes=closed)
    catalogue = Catalogue(registry, call_user)
    limits = conf.limits()
    opened = SessionService(registry, catalogue, record, LocalHost(registry, pool, limits), limits)
    opened.open()
    return _Parts(opened, catalogue, record, pool, asyncio.get_running_loop())
