"""This process's SessionService: opened and closed by the server, called by the protocol and by
pages.

Pages run on threads of their own, so they reach the service through the blocking functions
`ask_service` and `try_out_spec`, which must not be called on the service's event loop.

The record is imported by dotted path (settings.ORSWEB_RECORD), as channels does with its layer, so
that `environments` never imports `episodes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import structlog
from django.conf import settings
from django.utils.module_loading import import_string

from environments import conf, security_log
from environments.authoring.declarations import HandControls
from environments.authoring.registry import Registry
from environments.authoring.revision import note_revisions
from environments.authoring.source_files import sources_of
from environments.cluster.leases import Leases
from environments.cluster.membership import Membership
from environments.cluster.messages import ServerMessages
from environments.cluster.takeover import Ownership, starting_alone
from environments.display.task_line import summary, summary_field
from environments.errors import Draining, EnvironmentFault, NotPlaying, OrsError
from environments.hosts.every_host import EveryHost
from environments.hosts.loading import load
from environments.hosts.remote_sync import RemoteSync
from environments.hosts.worker_host import WorkerLoad
from environments.keys.agent_key import EVERYBODY
from environments.keys.keyring import ring
from environments.keys.quota_clock import QuotaClock
from environments.keys.shared_quotas import SharedQuotas
from environments.models import Environment
from environments.operator_secrets.source import OperatorSecrets, warn_of_unusable
from environments.quotas import KeyUsage
from environments.runtime.crash_notes import CrashNotes
from environments.runtime.fault_log import log_class_fault, report_to
from environments.runtime.fault_reports import FaultReports
from environments.runtime.incident_reports import LeftBehind, read_left_behind, read_reports
from environments.runtime.opening_notes import OpeningNotes, read_openings
from environments.runtime.records import OpenEpisode
from environments.runtime.secrets_vault import SecretsVault
from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest
from environments.runtime.task_trial import Trial
from environments.runtime.threads import ThreadPool
from environments.tasks.catalog import Catalogue
from environments.tasks.sync import sync

T = TypeVar("T")

log = structlog.get_logger(__name__)

FLUSH_SHARE = 0.4
"""Share of the time for closing that is reserved for writing queued rows."""

KEY_GONE = "The API key was revoked, has expired, or may do less now."
"""Recorded with the end of a session that its key could not open any longer."""

MAX_TRIAL_SECONDS = 30.0
"""Limit for construct, setup and prompt together: the person who edits the task waits for them."""
MAX_TEARDOWN_SECONDS = 30.0
"""How long to wait beyond the trial itself; longer than the service's own limits for ending an
instance."""
MAX_CLOSE_SECONDS = 10.0
"""How long to wait for the sessions of a run to end. Those that take longer go on ending."""
RUN_ENDED = "run-ended"
"""Topic of messages between servers; the text is JSON of the run and the owner of the sessions."""
QUOTAS = "quotas"
"""Topic of messages between servers, whose texts are those of `SharedQuotas`."""
MAX_TRIALS = 4
"""Trials that run at once. Each takes one of the pages' threads and whatever the author's code
uses; agents come
first."""
MAX_WAIT_SECONDS = 15.0
"""How long a trial waits for one of the others to end before it is refused."""


@dataclass(frozen=True)
class _Parts:
    service: SessionService
    catalogue: Catalogue
    record: Any
    pool: ThreadPool
    host: EveryHost
    remotes: RemoteSync
    quota_clock: QuotaClock
    secrets: OperatorSecrets
    faults: FaultReports
    ownership: Ownership | None
    messages: ServerMessages | None
    loop: asyncio.AbstractEventLoop


_parts: _Parts | None = None
_opening: asyncio.Task[_Parts] | None = None
_storing: set[asyncio.Task[None]] = set()  # the references keep them alive
_trial_slots = threading.BoundedSemaphore(MAX_TRIALS)


class TrialsBusy(OrsError):
    def __init__(self) -> None:
        super().__init__(
            f"{MAX_TRIALS} trials are running, which is the limit; try again when one "
            "of them has ended."
        )


def service_or_none() -> SessionService | None:
    """Return the open service, or None while it is closed. Never waits."""
    return _parts.service if _parts else None


def get_service() -> SessionService:
    """Return the open service, for code that runs only while it is open. Raises: AssertionError."""
    assert _parts is not None, "the service is not open"
    return _parts.service


def get_record() -> Any:
    """Return the open record, an object of settings.ORSWEB_RECORD, for faces of the application
    that defines it.

    Raises: AssertionError while the service is closed.
    """
    assert _parts is not None, "the service is not open"
    return _parts.record


def worker_loads() -> dict[str, WorkerLoad]:
    """Return how busy the worker processes are, by the environments that have them. Called on the
    service's loop."""
    assert _parts is not None, "the service is not open"
    return {name: workers.load() for name, workers in _parts.host.workers.items()}


def ask_service(
    question: Callable[[SessionService], Coroutine[Any, Any, T]], timeout_seconds: float
) -> T:
    """Run the coroutine `question(service)` on the service's loop and return its result; for other
    threads, which wait.

    Raises: NotPlaying, Draining, TimeoutError, and what `question` raises.
    """
    if _parts is None or _parts.loop.is_closed():
        raise NotPlaying
    with contextlib.suppress(RuntimeError):
        assert asyncio.get_running_loop() is not _parts.loop, "this would wait for itself"
    # In an empty context: tasks that it starts may outlive the page, whose context refers to the
    # page's thread.
    answer = Context().run(asyncio.run_coroutine_threadsafe, question(_parts.service), _parts.loop)
    try:
        return answer.result(timeout_seconds)
    except TimeoutError:
        answer.cancel()
        raise
    except CancelledError:
        raise Draining from None


def ownership_or_none() -> Ownership | None:
    """Return who knows which server has a session; None while the service is closed, or has the
    database alone."""
    return _parts.ownership if _parts else None


async def open_service(
    *,
    recovers: bool = False,
    membership: Membership | None = None,
    sandbox_secrets: Mapping[str, str] = MappingProxyType({}),
) -> SessionService:
    """Return the service, opened by the first call; concurrent calls wait for that one.

    `recovers`: this process holds the database's lock, so episodes that a dead server left open are
    closed as interrupted. `membership`: it is one of several servers, each of which holds the lock.
    `sandbox_secrets`: those with which hosted code finds the sandboxes of this machine.

    Raises: Unhostable with one sentence that says what to change.
    """
    global _parts, _opening
    if _parts is None:
        if _opening is None or (_opening.done() and _opening.exception()):
            _opening = asyncio.get_running_loop().create_task(
                _open(recovers, membership, sandbox_secrets)
            )
        _parts = await asyncio.shield(_opening)
    return _parts.service


async def close_service(timeout_seconds: float) -> int:
    """End the sessions, write queued rows and stop the threads, within `timeout_seconds`.

    Return the number of rows that were not written, because the database was away.
    """
    global _parts, _opening
    parts, _parts, _opening = _parts, None, None
    if parts is None:
        return 0
    until = time.monotonic() + timeout_seconds
    parts.remotes.stop()
    ring.stop()
    await parts.service.drain(timeout_seconds * (1 - FLUSH_SHARE))
    await parts.quota_clock.stop()
    if parts.ownership is not None:
        await asyncio.to_thread(parts.ownership.close)
    if parts.messages is not None:
        parts.messages.close()
    security_log.stop()
    report_to(None)
    parts.faults.flush()
    if _storing:
        await asyncio.wait(_storing, timeout=max(0.1, until - time.monotonic()))
    lost_rows: int = await parts.record.stop(max(0.5, until - time.monotonic()))
    if lost_rows:
        log.error("rows were not written", rows=lost_rows)
    await parts.host.close()
    parts.catalogue.close()
    parts.secrets.close()
    parts.pool.close()
    return lost_rows


async def _open(
    recovers: bool, membership: Membership | None, sandbox_secrets: Mapping[str, str]
) -> _Parts:
    registry = load(conf.specifications(), conf.loading())
    record = import_string(settings.ORSWEB_RECORD)()
    faults = FaultReports(
        lambda reports: _store_incidents(record, LeftBehind(reports=tuple(reports)))
    )
    report_to(faults)
    pool = ThreadPool()
    limits = conf.limits()
    host = EveryHost(registry, pool, limits, conf.workers())
    await host.open()
    await asyncio.to_thread(note_revisions, registry, conf.version())
    async with starting_alone(membership):
        report = await sync(registry, host, is_alone=recovers and membership is None)
    log.debug("environments synced", seconds=round(report.seconds, 2))
    for failure in report.failures:
        log_class_fault(
            "unavailable, because its tasks cannot be listed",
            failure.environment,
            failure.split,
            failure.fault,
        )
    for split in report.splits:
        if split.is_taken:
            log.warning("a split that the class declares is not served", split=str(split))
        elif split.has_news:
            log.info("the tasks of the class have changed", split=str(split))
    messages = ServerMessages(membership.id) if membership is not None else None
    if membership is None:
        await record.start()
    else:
        await record.start(
            membership.id, lambda: membership.is_leader, messages, membership.rest_seconds
        )
    directory = conf.process_directory() if recovers else None
    sessions: Sequence[OpenEpisode | SessionRequest] = ()
    remains = read_left_behind(directory) if directory is not None else LeftBehind()
    leases = Leases(membership.id, membership.rest_seconds) if membership else None
    taken_sids = list[str]()
    if leases is not None:
        leases.start()
        # before CrashNotes replaces the notes, which others may read
        async for sids in record.running_sessions():
            taken_sids += await leases.take_left(sids)
    elif directory is not None:
        sessions = await _left_sessions(record, registry, remains, directory)
    host.report_deaths(lambda report: _store_incidents(record, LeftBehind(reports=(report,))))
    catalogue = Catalogue(registry, host)
    service = SessionService(
        registry, catalogue, record, host, limits, CrashNotes(directory, sources_of(registry))
    )
    if settings.ORSWEB_SECRETS_KEYS:
        service.keep_secrets(SecretsVault(settings.ORSWEB_SECRETS_KEYS))
    secrets = OperatorSecrets(sandbox_secrets)
    service.give_secrets(secrets)
    await asyncio.to_thread(warn_of_unusable, registry.names)
    service.open()
    if conf.has_keys():
        await _follow_keys(service)
    security_log.start(service.recent_secrets.log_line)
    quota_clock = QuotaClock()
    await quota_clock.start(None if messages is None else _shared_quotas(messages))
    service.take_over(sessions, _usage_of)
    if membership is None and directory is not None:
        service.share_sessions(await OpeningNotes.of(directory, sessions))
    ownership = None
    if membership is not None and leases is not None:
        ownership = Ownership(membership, leases, service, record, _usage_of)
        await ownership.open(taken_sids, remains)
    if messages is not None:
        _close_runs_with(messages, service)
        await asyncio.to_thread(messages.open)
    remotes = RemoteSync(registry, host, catalogue.forget)
    await remotes.start()
    loop = asyncio.get_running_loop()
    return _Parts(
        service,
        catalogue,
        record,
        pool,
        host,
        remotes,
        quota_clock,
        secrets,
        faults,
        ownership,
        messages,
        loop,
    )


async def _left_sessions(
    record: Any, registry: Registry, remains: LeftBehind, directory: Path
) -> list[OpenEpisode | SessionRequest]:
    """End the episodes that an earlier server left open, but for those that go on; return these,
    and what opens the sessions again that had no environment yet.
    """
    closed_count, going_on = await record.recover(
        remains, [environment.name for environment in registry if environment.comes_back]
    )
    openings = read_openings(directory)
    recorded_sids = (
        await record.recorded_sessions([opening.sid for opening in openings]) if openings else ()
    )
    unbound = [opening for opening in openings if opening.sid not in recorded_sids]
    sessions = [*going_on, *unbound]
    if closed_count or sessions:
        log.warning(
            "an earlier server left sessions open",
            closed=closed_count,
            going_on=len(sessions),
            death=remains.death or None,
        )
    return sessions


def _usage_of(label: str) -> KeyUsage:
    """Return what the key uses that has opened a session before this server was started."""
    return (ring.usage_of(label) if conf.has_keys() else EVERYBODY.usage) or KeyUsage(label)


async def _follow_keys(service: SessionService) -> None:
    """Read the API keys and keep up with changes; sessions of a key that may do less now end at
    once."""
    loop = asyncio.get_running_loop()

    def end_sessions(owners: set[str]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            asyncio.run_coroutine_threadsafe(service.close_owned(owners, KEY_GONE), loop)

    await asyncio.wrap_future(ring.start(end_sessions))


def store_reports() -> None:
    """Store what the supervisor has reported, in the background. Called on the service's loop."""
    if _parts is not None:
        _store_incidents(_parts.record, read_reports(conf.process_directory()))


def _store_incidents(record: Any, remains: LeftBehind) -> None:
    task = asyncio.get_running_loop().create_task(record.note_incidents(remains))
    _storing.add(task)
    task.add_done_callback(_storing.discard)


def close_sessions_of_run(run: str, owner: str | None, others: Sequence[int] = ()) -> None:
    """End the live sessions of the run named `run` that the key with the label `owner` opened;
    None: those of all keys.

    `others`: numbers of episodes of other runs that their clients call by the same name, which go
    on.

    Returns when they have ended and this is recorded, or after `MAX_CLOSE_SECONDS`; those of other
    servers, which are told, may end later. Does nothing while no service is open, because there are
    no sessions then. For other threads than the service's.

    Raises: django.db.Error when other servers cannot be told.
    """
    if _parts is not None and _parts.messages is not None:
        _parts.messages.send(RUN_ENDED, json.dumps([run, owner, list(others)]))
    with contextlib.suppress(NotPlaying, Draining, TimeoutError):
        ask_service(lambda service: service.close_run(run, owner, others), MAX_CLOSE_SECONDS)


def _close_runs_with(messages: ServerMessages, service: SessionService) -> None:
    """End sessions of runs when another server tells that their runs have ended."""
    loop = asyncio.get_running_loop()

    def close(text: str) -> None:
        run, owner, others = json.loads(text)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            asyncio.run_coroutine_threadsafe(service.close_run(run, owner, others), loop)

    messages.listen(RUN_ENDED, close)


def _shared_quotas(messages: ServerMessages) -> SharedQuotas:
    """Return what keys use on other servers. Called on the service's loop."""
    quotas = SharedQuotas(
        messages.server, lambda: ring.usages, lambda texts: messages.send(QUOTAS, *texts)
    )
    messages.listen(QUOTAS, quotas.hear)
    return quotas


def hidden_fields(environment: str) -> frozenset[str] | None:
    """Return the fields of a task that the class of `environment` hides from agents, for pages that
    show tasks.

    None: this process serves no such class, so it is unknown what has to be hidden.
    """
    service = service_or_none()
    hosted_environment = service.registry.find(environment) if service else None
    return hosted_environment.hidden_fields if hosted_environment else None


def task_line(environment: Environment, spec: str) -> str:
    """Return one line about a task, without its hidden fields. `spec`: its JSON, which may be cut
    off."""
    return summary(spec, summary_field(environment.task_schema), hidden_fields(environment.name))


def hand_controls(environment: str) -> HandControls:
    """Return how people play `environment` by hand; no controls if this process serves no class of
    it that says so."""
    service = service_or_none()
    hosted_environment = service.registry.find(environment) if service else None
    return getattr(hosted_environment, "hand_controls", None) or HandControls()


def try_out_spec(environment: str, spec: str, seconds: float = MAX_TRIAL_SECONDS) -> Trial:
    """Play the beginning of the task whose JSON text is `spec` and return what happened.

    Blocks while `MAX_TRIALS` others are running.

    Raises: TrialsBusy, UnknownEnvironment, NotPlaying; EnvironmentFault when the trial could not be
    stopped in time.
    """
    value, max_seconds = json.loads(spec), seconds + MAX_TEARDOWN_SECONDS
    if not _trial_slots.acquire(timeout=MAX_WAIT_SECONDS):
        raise TrialsBusy
    try:
        return ask_service(
            lambda service: service.try_out(environment, value, seconds), max_seconds
        )
    except TimeoutError:
        raise EnvironmentFault(
            "TimeoutError", f"the trial did not end within {max_seconds:g} s"
        ) from None
    finally:
        _trial_slots.release()
