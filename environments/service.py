"""Wiring: builds this process's SessionService and takes it down again.

The record is joined by dotted path (settings.ORSWEB_RECORD), as channels names its layer, so that `environments` never
imports `episodes`.

Hidden: which members of a task's content its class keeps from agents. Pages ask before they show a task.

Trial of a spec, for pages: the door from their threads to the service, which plays a task's beginning.

Blocking; never called on the service's loop. What it finds is `environments.runtime.try_out.Trial`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
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
from environments.authoring.registry import load
from environments.errors import Draining, EnvironmentFault, NotPlaying, OrsError
from environments.runtime.host import LocalHost
from environments.runtime.service import SessionService
from environments.runtime.threads import ThreadPool
from environments.runtime.try_out import Trial
from environments.runtime.usercode import UserCode
from environments.tasks.catalog import Catalogue
from environments.tasks.sync import sync

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


def current_service() -> SessionService | None:
    """The open service, if any; costs nothing."""
    return _parts.service if _parts else None


def opened_service() -> SessionService:
    """The open service."""
    assert _parts is not None, "the service is not open"
    return _parts.service


def ask_service(question: Callable[[SessionService], Coroutine[Any, Any, T]], timeout_seconds: float) -> T:
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


def hidden_fields(environment: str) -> frozenset[str] | None:
    """Names that the class of `environment` declares in `hidden_fields`; None: no class here says what is hidden."""
    service = current_service()
    hosted = service.registry.find(environment) if service else None
    return frozenset(getattr(hosted.cls, "hidden_fields", ())) if hosted else None


TRIAL_SECONDS = 30.0
"""The most that construct, setup and prompt take together: who edits a task waits for it."""
_TEARDOWN_SECONDS = 30.0
"""Waited beyond the trial itself: more than the service's own limits for ending a session."""
AT_ONCE = 4
"""Each holds a thread of the pages and whatever the author's code takes; agents come first."""
WAIT_SECONDS = 15.0
"""The longest wait for a turn; then the person is told."""
_turns = threading.BoundedSemaphore(AT_ONCE)


class TrialsBusy(OrsError):
    def __init__(self) -> None:
        super().__init__(f"{AT_ONCE} trials are running, which is the most at once; try again when one has ended.")


def try_spec(environment: str, spec: str, seconds: float = TRIAL_SECONDS) -> Trial:
    """Play the beginning of a task whose JSON text is `spec`, once it is its turn.

    Raises: TrialsBusy, UnknownEnvironment, NotPlaying; EnvironmentFault when even giving it up took too long.
    """
    value, most = json.loads(spec), seconds + _TEARDOWN_SECONDS
    if not _turns.acquire(timeout=WAIT_SECONDS):
        raise TrialsBusy
    try:
        return ask_service(lambda service: service.try_out(environment, value, seconds), most)
    except TimeoutError:
        raise EnvironmentFault("TimeoutError", f"the trial did not end within {most:g} s") from None
    finally:
        _turns.release()
