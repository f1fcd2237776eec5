"""How sessions are opened, bound to an environment, set up and ended; `session_states.py` has the
table of transitions.

Divergences from the references: an id is registered before anything is awaited; a failed
constructor is reported to the request that opens the session; a session belongs to the key that
opened it; a session opened with split and index but without an environment is bound by the first
path that names one; a path that names another environment than the session's is refused (409),
because the agent would train on the wrong task; the number of live sessions is limited, of all keys
and of each; running calls count as activity; sessions end concurrently, each within a time limit;
an id stays in use until its teardown has ended.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from environments import wire
from environments.authoring.hosted_environment import HostedEnvironment
from environments.authoring.registry import Registry
from environments.errors import (
    EnvironmentFault,
    InvalidIndex,
    InvalidRequest,
    InvalidSplit,
    OrsError,
    SessionDeleted,
    SessionStarting,
    TooManySessions,
)
from environments.fair_turns import KEY
from environments.limits import Limits
from environments.runtime.call_outcome import CUT
from environments.runtime.call_table import Call
from environments.runtime.crash_notes import CrashNotes
from environments.runtime.environment_secrets import SecretsSource, is_played_by, with_secrets
from environments.runtime.fault_log import log_fault
from environments.runtime.host import Host, PlayedInstance
from environments.runtime.play_counts import PlayCounts
from environments.runtime.records import Cause, Record, RecordedPast, Row, TaskSource
from environments.runtime.session import Session
from environments.runtime.session_request import SessionRequest
from environments.runtime.session_states import (
    READY,
    Closing,
    Constructing,
    Dormant,
    Failed,
    Gone,
    Heir,
    Over,
    SettingUp,
    Unbound,
    ended_by,
)
from environments.runtime.session_table import SessionTable


class SessionLife:
    """Leads the sessions of one event loop from each state to the next."""

    def __init__(
        self,
        registry: Registry,
        tasks: TaskSource,
        record: Record,
        host: Host,
        limits: Limits,
        crash_notes: CrashNotes,
    ) -> None:
        self.registry, self.tasks, self.host = registry, tasks, host
        self.crash_notes = crash_notes
        self._record, self.limits = record, limits
        self.table = SessionTable(registry, limits)
        self.counts = PlayCounts()
        self.operator_secrets: SecretsSource | None = None  # None: the operator gives none
        self._background: set[asyncio.Task[Any]] = set()
        host.on_loss = self._end_lost

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start `work` as a task that this object keeps alive."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def stop_background(self) -> None:
        for task in self._background:
            task.cancel()

    def commit(self, *rows: Row) -> asyncio.Future[None]:
        """Record `rows`; the returned future is done once they are durable."""
        durable = asyncio.get_running_loop().create_future()
        self._record.record(*rows, on_commit=partial(_resolve, durable))
        return durable

    # --- opening ----------------------------------------------------------------------------------

    async def create(self, request: SessionRequest) -> None:
        """Open a session and wait until its instance is constructed and recorded.

        A request without an environment's name returns at once; the session is then bound later.

        If its key has as many sessions as it may, it waits until one ends, at most
        `quota_wait_seconds`.

        Raises: SessionExists, TooManySessions, OverQuota, InvalidSplit, InvalidIndex,
        InvalidRequest, Unavailable, EnvironmentFault, Draining.
        """
        await request.usage.enter_session(self.limits.quota_wait_seconds)
        try:
            self.table.check_room(request.sid)
        except OrsError:
            request.usage.sessions.leave()
            raise
        # the id is taken before anything is awaited, or two requests could open one id
        session = self.table.add(
            request, Unbound(request) if request.environment is None else Constructing(request)
        )
        self.limit_time(session)
        try:
            if request.environment is None:
                await self._check_bindable(request)
            else:
                await self._bind(session, request, request.environment)
        except BaseException:
            # a deletion removes the id itself, and what was constructed has to be torn down
            if session.instance is None and isinstance(session.state, Unbound | Constructing):
                self.table.remove(session)
                # for requests that did not wait for this one's answer
                session.enter("drop", Gone("abandoned"))
            elif not session.is_ending:
                self.run_in_background(self.close(session, "abandoned"))
            raise

    def limit_time(self, session: Session, more_seconds: float = 0.0) -> None:
        """End the episode when the time is over that its key's quota allows, and `more_seconds`."""
        usage = session.usage
        if seconds := usage.quotas.seconds:
            loop = asyncio.get_running_loop()
            session.timer = loop.call_later(
                seconds + more_seconds,
                lambda: self.run_in_background(self._end_in_time(session, usage.limit_of_time())),
            )

    async def _check_bindable(self, request: SessionRequest) -> None:
        """Check that a hosted environment has the split and index. Raises: the refusal of the
        default environment."""
        assert request.split is not None and request.index is not None
        refusals: list[OrsError] = []
        for environment in self._open_to(request):
            try:
                await self.tasks.get(environment.name, request.split, request.index)
                return
            except (InvalidSplit, InvalidIndex) as error:
                refusals.append(error)
        raise refusals[0]

    async def bind_late(self, session: Session, path_environment: str | None) -> None:
        """Bind a session opened without an environment to the one that a path names, or to the
        default.

        Raises: InvalidSplit, InvalidIndex (the session stays unbound), EnvironmentFault (recorded
        as setup_failed).
        """
        while isinstance(session.state, Constructing):
            await session.wait_for_change()
        if not isinstance(session.state, Unbound):
            return
        request = session.state.request
        by_default = next(self._open_to(request), self.registry.default)
        environment = (
            self.registry.get(path_environment).name if path_environment else by_default.name
        )
        session.enter("bind", Constructing(request))
        try:
            await self._bind(session, request, environment)
        except BaseException as error:
            if not session.is_ending:
                if isinstance(error, EnvironmentFault):
                    session.enter("fail", Failed(error.copy()))
                elif session.episode.number:
                    # its construction is on record, so no other path can bind it
                    self.run_in_background(self.close(session, "abandoned"))
                else:
                    session.enter("refuse", Unbound(request))
            raise

    def _open_to(self, request: SessionRequest) -> Iterator[HostedEnvironment]:
        """Yield the hosted environments that the session may play, the default first."""
        for environment in self.registry:
            names = request.allowed_environments
            if names is None or environment.name in names:
                yield environment

    async def _bind(self, session: Session, request: SessionRequest, name: str) -> None:
        """Construct the environment `name`. Afterwards the session is ready or being set up. The
        caller handles failures."""
        environment = self.registry.get(name)
        environment.check_available()
        environment.check_toolset(request.toolset)
        spec_json = await self._spec_json(request, environment.name)
        await self.tasks.check_enabled(environment.name)
        await self._take_place(session, environment)
        secrets = await self.secrets_for(session, environment.name)
        if session.is_ending:
            raise SessionDeleted
        episode = session.episode
        episode.environment, episode.number = environment.name, self._record.next_episode()
        episode.counts = self.counts[environment.name]
        session.usage.record(len(spec_json), time.time())
        start_commit = self.commit(
            episode.started_row(request, environment, spec_json, episode.clock.now())
        )
        spec = request.spec if request.spec is not None else json.loads(spec_json)
        session.instance = with_secrets(self.host.instance(environment.name), secrets)
        building = self.construct(session, session.instance, spec, request)
        try:
            if environment.runs_constructor or request.toolset:
                constructing = session.state
                assert isinstance(constructing, Constructing)
                # the end of the session stops it
                constructing.work = self.run_in_background(building)
                needs_setup = await asyncio.shield(constructing.work)
            else:
                needs_setup = await building
        except EnvironmentFault as fault:
            log_fault("construction failed", episode, fault)
            await self.commit(episode.end("setup_failed", episode.clock.now(), str(fault)))
            raise episode.masked(fault) from None
        except InvalidRequest as refusal:  # by the server of a remote environment, of the toolset
            await self.commit(episode.end("setup_failed", episode.clock.now(), str(refusal)))
            raise
        except asyncio.CancelledError:
            if session.is_ending:  # deleted while the constructor ran
                raise SessionDeleted from None
            raise
        await start_commit
        if session.is_ending:
            raise SessionDeleted
        if needs_setup:
            session.enter("set up", SettingUp(self.run_in_background(self._set_up(session))))
        else:
            self.start(session)

    async def secrets_for(self, session: Session, environment: str) -> Mapping[str, str]:
        """Return the operator's secrets for the session; they are masked in its record from now
        on."""
        source = self.operator_secrets
        if source is None or not (secrets := await source.of(environment, session.owner)):
            return {}
        if not session.is_gone:  # else nothing would release them
            self.table.mask(session, *secrets.values())
        return secrets

    async def _take_place(self, session: Session, environment: HostedEnvironment) -> None:
        """Take a place in an environment that limits its sessions, after at most
        `quota_wait_seconds`.

        Raises: TooManySessions.
        """
        places = self.table.places_in.get(environment.name)
        if places is None or session.is_ending:
            return
        seconds = self.limits.quota_wait_seconds
        if not (places.enter() or await places.wait_to_enter(seconds)):
            raise TooManySessions(
                f"Environment {environment.name!r} bears {places.limit} sessions at once "
                f"(sessions_at_once), and none ended within {seconds:g} s; delete one, then try "
                "again"
            )
        if session.is_gone:  # it was deleted meanwhile
            places.leave()
        else:
            session.place = places

    async def construct(
        self, session: Session, instance: PlayedInstance, spec: Any, request: SessionRequest
    ) -> bool:
        """Construct the instance of a session, or close it; return whether it needs to be set
        up."""
        KEY.set(session.owner)
        try:
            with self.crash_notes.note(
                session.episode.number, session.episode.environment, "constructor"
            ):
                return await instance.construct(spec, request.secrets or {}, request.toolset)
        except BaseException:
            await self._close_instance(session)
            raise

    async def _spec_json(self, request: SessionRequest, environment: str) -> str:
        if request.spec is not None:
            try:
                return wire.value_json(request.spec)
            except TypeError as error:  # nested too deeply
                raise InvalidRequest(f"task_spec: {error}") from error
        assert request.split is not None and request.index is not None
        return await self.tasks.get(environment, request.split, request.index)

    async def _set_up(self, session: Session) -> None:
        KEY.set(session.owner)
        episode = session.episode
        try:
            with self.crash_notes.note(episode.number, episode.environment, "setup"):
                await session.get_instance().set_up()
        except EnvironmentFault as fault:
            log_fault("setup failed", episode, fault)
            await self.commit(episode.end("setup_failed", episode.clock.now(), str(fault)))
            if not session.is_ending:
                session.enter("fail", Failed(episode.masked(fault)))
        else:
            if not session.is_ending:
                self.start(session)

    def start(self, session: Session) -> None:
        """Let the calls run that wait for construction and setup."""
        session.episode.ready = session.episode.ready or session.episode.clock.now()
        session.enter("start", READY)

    async def until_ready(self, session: Session, seconds: float | None = None) -> None:
        """Wait for construction and setup, at most `seconds`.

        Raises: EnvironmentFault when setup has failed, SessionDeleted, SessionStarting when the
        time is over.
        """
        if session.state is READY:
            return
        try:
            async with asyncio.timeout(seconds):
                while isinstance(session.state, Constructing | SettingUp):
                    await session.wait_for_change()
        except TimeoutError:
            raise SessionStarting from None
        session.check_alive()

    async def read(self, session: Session, what: str, answer: Awaitable[str]) -> str:
        """Return what the environment answers. A fault is logged, and stored as the cause of an end
        right after it.

        Raises: EnvironmentFault without the session's secrets.
        """
        episode = session.episode
        try:
            with self.crash_notes.note(episode.number, episode.environment, what):
                text = await answer
        except EnvironmentFault as fault:
            log_fault(f"{what} failed", episode, fault)
            if not session.is_ending:  # a fault during teardown may be caused by the teardown
                episode.tally.note_reading(what, fault)
            raise episode.masked(fault) from None
        episode.tally.note_reading(what, None)
        return text

    # --- ending -----------------------------------------------------------------------------------

    async def close(
        self, session: Session, cause: Cause, detail: str = "", heir: Heir = "nobody"
    ) -> None:
        """End the session; return when its instance is torn down and the end is recorded.

        `detail` explains the cause in the record. Author's code that does not end within the limit
        is abandoned. If its `heir` is the next server, its episode goes on, and running calls are
        not recorded.
        """
        if isinstance(session.state, Dormant) and heir != "server":
            await self.past_of(session, session.state)  # its end counts the steps
        if isinstance(session.state, Closing):
            if heir == "client" and session.state.heir == "nobody":
                session.state.heir = heir
            await session.until_gone()
            return
        work = session.state.work if isinstance(session.state, Constructing | SettingUp) else None
        closing = Closing(cause, detail, heir)
        session.enter("close", closing)
        if work is not None:
            work.cancel()
            await asyncio.wait([work], timeout=self.limits.close_wait_seconds)
        await self._stop_calls(session, session.calls.running)
        try:
            await self._close_instance(session)
        except EnvironmentFault as fault:
            log_fault("teardown failed", session.episode, fault)
        finally:
            await self._record_end(session, cause, detail)
            self.table.remove(session)
            # for others that wait for the id to be free
            session.enter("end", Gone(cause, detail, closing.heir))

    async def close_all(self, sessions: Iterable[Session], cause: Cause, detail: str) -> int:
        """End the sessions concurrently; return their number. If the caller is cancelled, they
        still end."""
        closing = [
            self.run_in_background(self.close(session, cause, detail)) for session in sessions
        ]
        if closing:
            await asyncio.wait(closing)
        return len(closing)

    async def past_of(self, session: Session, dormant: Dormant) -> RecordedPast:
        """Return what is recorded of a dormant session, whose steps are counted by then."""
        if dormant.past is None:
            dormant.past = self.run_in_background(self._read_past(session))
        return await asyncio.shield(dormant.past)

    async def _read_past(self, session: Session) -> RecordedPast:
        episode = session.episode
        if not episode.number:  # it was not bound, so it has none
            return RecordedPast("", None, ())
        past = await self._record.past(episode.number)
        episode.has_snapshot = past.snapshot is not None
        for step in past.steps:
            session.calls.note_used(step.task_id)
            episode.recount(step)
        return past

    async def _close_instance(self, session: Session) -> None:
        """Close the instance of a session, unless that was done already. Raises:
        EnvironmentFault."""
        instance, session.instance = session.instance, None
        if instance is not None:
            with self.crash_notes.note(
                session.episode.number, session.episode.environment, "teardown"
            ):
                await instance.close()

    async def _end_in_time(self, session: Session, limit: str) -> None:
        """End an episode whose time is over because of `limit`, unless it has ended."""
        if session.episode.ending is not None:
            return
        if session.state is READY:
            await self.end_episode(session, limit)
        else:  # nothing was played
            await self.close(session, "expired", ended_by(limit))

    def end_episode(self, session: Session, limit: str) -> Coroutine[Any, Any, None]:
        """End the episode because of `limit`, but not the session; the returned work stops its
        running calls.

        The session stays open until its client leaves, and tells the agent why its calls are
        refused.
        """
        session.enter("limit", over := Over(limit))
        return self._release(session, list(session.calls.running), over.sentence)

    async def _release(self, session: Session, calls: Iterable[Call], detail: str) -> None:
        """Stop `calls`, which ran when their episode reached a limit, and close its instance."""
        await self._stop_calls(session, calls)
        await self._record_end(session, "expired", detail)
        try:
            await self._close_instance(session)
        except EnvironmentFault as fault:
            log_fault("teardown failed", session.episode, fault)

    def _end_lost(self, instance: PlayedInstance, reason: str) -> None:
        """End the session of an instance that is gone as interrupted because of `reason`."""
        for session in self.table:
            if is_played_by(session.instance, instance) and not session.is_ending:
                self.run_in_background(self.close(session, "interrupted", reason))
                return

    async def _stop_calls(self, session: Session, calls: Iterable[Call]) -> None:
        tasks = {call: call.task for call in calls if call.task is not None}
        if not tasks:
            return
        # a task that is cancelled before its first step would never answer its call
        await asyncio.sleep(0)
        for task in tasks.values():
            task.cancel()
        await asyncio.wait(tasks.values(), timeout=self.limits.close_wait_seconds)
        episode = session.episode
        for call, task in tasks.items():
            if call.task is None or task.done():  # it was answered meanwhile
                continue
            # it swallowed the cancellation, and the next server makes it again
            if session.repeats_calls:
                call.finish(CUT)
                continue
            now, outcome = episode.clock.now(), session.cut_short()
            if episode.number:
                self._record.record(episode.step_row(call, outcome, now, now, now))
            call.finish(outcome.result(self.limits.return_errors))

    async def _record_end(self, session: Session, cause: Cause, detail: str) -> None:
        episode = session.episode
        if not episode.number or episode.ending is not None or session.is_suspended:
            return
        note = episode.noted_row()
        end = episode.leave(cause, episode.clock.now(), detail)
        await self.commit(*([note] if note else []), end)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
