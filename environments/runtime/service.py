"""The interface to live play, used by the protocol for agents and by playtest for people.

It opens and ends sessions, starts and rejoins calls, returns prompts and tools, and reports every step to the Record.
The result of a call is sent only after its step is durable.

Divergence from the references: the result of a recorded call is available under its task_id even after it was removed
from memory, after the session has ended, and from another server on the same database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

import structlog

from environments import wire
from environments.authoring.registry import Registry
from environments.errors import (
    Draining,
    EnvironmentFault,
    OrsError,
    OverQuota,
    SessionDeleted,
    SessionNotFound,
    Unsupported,
)
from environments.runtime.call_outcome import CUT, QUOTA, CallOutcome, CallResult, failed, faulted, refused, result_of
from environments.runtime.calls import Call, LingeringCalls, checked_task_id, recalled_call, unknown_task_id
from environments.runtime.crash_notes import RunningCalls
from environments.runtime.ending_sessions import REAP_SECONDS
from environments.runtime.fault_log import log_failed_call
from environments.runtime.host import Host
from environments.runtime.ids import new_task_id
from environments.runtime.limits import Limits
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.operator_secrets import SecretsSource
from environments.runtime.play_load import PlayLoad, load_of
from environments.runtime.quotas import KeyUsage
from environments.runtime.records import GOES_ON, Hidden, OpenEpisode, Record, Row, SessionPlaces, StepTaken, TaskSource
from environments.runtime.returning_sessions import ReturningSessions
from environments.runtime.secrets_vault import SecretsVault
from environments.runtime.session_checks import check_alive, check_path, is_closing
from environments.runtime.session_reading import SessionReading
from environments.runtime.session_request import SessionRequest
from environments.runtime.task_trial import Trial, try_out
from environments.sandbox.fair_turns import KEY

log = structlog.get_logger(__name__)

PEOPLE = "@"
"""Owner of what people do outside of sessions."""
SURVIVOR_CHECK_SECONDS = 0.1
LOST = "The server ended while the call ran, and its environment does not allow to make a call again."
"""Told to the client that repeats such a call."""


class SessionService(SessionReading):
    """Live play on one event loop. Call `open` before, and `drain` after, all other methods.

    Every method that takes `sid` and `owner` raises SessionNotFound for an unknown session and for one that another
    key opened. `path_environment` is the environment that the path of the request names, or None.
    """

    def __init__(
        self,
        registry: Registry,
        tasks: TaskSource,
        record: Record,
        host: Host,
        limits: Limits,
        running: RunningCalls | None = None,
    ) -> None:
        self.registry, self.tasks, self.limits = registry, tasks, limits
        self._running = running or RunningCalls()
        self._record, self._host = record, host
        self._sessions = ReturningSessions(registry, tasks, record, host, limits, self._running)
        self.has_survivors = False  # whether an earlier server left sessions
        self._lingering = LingeringCalls(limits.result_linger_seconds, limits.max_linger_bytes)
        self._sessions.on_orphan = self._lingering.add
        self.recent_secrets = self._sessions.secrets

    def open(self) -> None:
        """Start the background tasks that expire idle sessions, remove old results, and keep the host's alive."""
        self._sessions.run_in_background(self._sessions.reap())
        self._sessions.run_in_background(self._sweep())
        self._sessions.run_in_background(self._host.keep_alive())

    def take_over(self, left: Iterable[OpenEpisode | SessionRequest], usage_of: Callable[[str], KeyUsage]) -> None:
        """Go on with what an earlier server left, as `ReturningSessions.take_over` does."""
        self._sessions.take_over(left, usage_of)
        self.has_survivors = bool(self._sessions.live)

    def keep_secrets(self, vault: SecretsVault) -> None:
        """Keep the secrets of sessions encrypted from now on, while they live."""
        self._sessions.vault = vault

    def give_secrets(self, source: SecretsSource) -> None:
        """Let environments have the operator's secrets from now on."""
        self._sessions.operator_secrets = source

    def share_sessions(self, places: SessionPlaces) -> None:
        """Tell `places` about every session from now on, for other servers and for the next one."""
        self._sessions.places = places

    async def until_survivors(self, seconds: float) -> None:
        """Wait until the next server could go on with every session whose episode has not ended, at most `seconds`."""
        until, live = time.monotonic() + seconds, self._sessions.live
        while any(one.cause is None and not one.is_survivor for one in live.values()) and time.monotonic() < until:  # noqa: ASYNC110  (nobody waits for it)
            await asyncio.sleep(SURVIVOR_CHECK_SECONDS)

    async def settle(self, seconds: float) -> None:
        """Refuse new sessions and calls from now on, and wait for the running ones, at most `seconds`."""
        await self._sessions.settle(seconds)

    async def drain(self, seconds: float) -> None:
        """Wait for running calls, then end every session as interrupted, within `seconds` in total."""
        await self._sessions.drain(seconds)

    @property
    def live_sessions(self) -> int:
        return len(self._sessions.live)

    def load(self) -> PlayLoad:
        """Return what is played now, and what was since the start. Called on the event loop."""
        return load_of(self._sessions)

    async def try_out(self, environment: str, spec: Any, seconds: float) -> Trial:
        """Play the beginning of the task `spec`, as `task_trial.try_out` does, until the server drains.

        Raises: UnknownEnvironment.
        """
        name, source = self.registry.get(environment).name, self._sessions.operator_secrets
        secrets = {} if source is None else await source.of(name, PEOPLE)
        self.recent_secrets.add(PEOPLE, tuple(secrets.values()))
        trial: Trial = await self._sessions.run_in_background(try_out(self._host, name, spec, seconds, secrets))
        return trial

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def create(self, request: SessionRequest) -> None:
        """Open a session, as `Sessions.create` does.

        Raises: InvalidRequest, also for a secret that is too long to be masked; and what `Sessions.create` raises.
        """
        request.check_secrets()
        self.recent_secrets.add(request.owner, request.masked)
        if self._sessions.vault is not None:
            request.seal(self._sessions.vault)
        if (places := self._sessions.places) is None:
            await self._sessions.create(request)
            return
        await places.claim(request.sid, request.opening_json())
        try:
            await self._sessions.create(request)
        finally:
            if not self.is_live(request.sid):
                places.release(request.sid)

    def name_key(self, sid: str, owner: str, key: str) -> None:
        """Mask `key`, which its client sends, in what is recorded of a session that an earlier server has started."""
        episode = self._sessions.live.get(sid)
        if key and episode is not None and episode.owner == owner and episode.state == "dormant":
            self._sessions.mask(episode, key)
            episode.key = key

    def ping(self, sid: str, owner: str) -> None:
        """Keep the session from expiring. Raises: SessionNotFound, also for a session that is ending; Draining."""
        episode = self._sessions.find(sid, owner)
        if is_closing(episode):
            raise Draining if episode.is_suspended else SessionNotFound
        episode.last_used = time.monotonic()

    async def delete(self, sid: str, owner: str, detail: str = "", *, limit: str = "") -> None:
        """End the session as abandoned because of `detail`, or expired by `limit`, if it exists. Raises: Draining."""
        if (episode := self._sessions.live.get(sid)) is not None and episode.owner == owner:
            await self._sessions.leave(episode, detail, limit)
        self._sessions.check_suspended(sid)

    async def close_run(self, run: str, owner: str | None, others: Collection[int] = ()) -> int:
        """End the live sessions of the run named `run`, and return their number once all of them have ended.

        Only sessions that `owner` opened are ended; None: those of every key. Episodes `others`, of other runs of this
        name, go on. They end as if deleted: abandoned, unless they have ended or the environment has just failed.
        """
        return await self._sessions.close_run(run, owner, frozenset(others))

    async def close_owned(self, owners: Collection[str], detail: str) -> None:
        """End the live sessions that the keys with the labels `owners` opened, as interrupted because of `detail`."""
        await self._sessions.close_owned(owners, detail)

    async def until_gone(self, sid: str, owner: str) -> None:
        """Wait until the session has ended and its end is recorded."""
        await self._sessions.until_gone(self._sessions.find(sid, owner))

    def follow(self, sid: str, owner: str, on_step: Callable[[StepTaken], None]) -> None:
        """Register `on_step`, which is called with each further step, in order, once it is recorded.

        Raises: SessionNotFound.
        """
        self._sessions.find(sid, owner).on_step = on_step

    async def absence(self, sid: str, owner: str) -> SessionNotFound:
        """Return the error about a session that is not live; it says so if a server interrupted its episode."""
        return SessionNotFound(await self._record.interruption(sid, owner))

    def check(self, sid: str, owner: str) -> None:
        """Raise what a use of the session would raise now; its errors come before those about a request's body."""
        check_alive(self._sessions.find(sid, owner))

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(
        self,
        sid: str,
        owner: str,
        path_environment: str | None,
        request: wire.ToolCall,
        hidden: Hidden = frozenset(),
        *,
        sent_id: str = "",
    ) -> Call:
        """Start a tool call, rejoin one by its task_id, or return one recorded outside of `hidden`; never run it twice.

        `sent_id`: task_id of the call that this request starts, and has started if it was sent before.

        Raises: SessionNotFound, OtherEnvironment, SessionDeleted, EnvironmentFault (setup has failed), InvalidRequest,
        Draining, OverQuota.
        """
        task_id = checked_task_id(request.task_id)
        known_id = task_id or sent_id
        try:
            episode = self._sessions.find(sid, owner)
        except SessionNotFound:
            if known_id and (recalled := await self._recall(sid, owner, known_id, hidden)) is not None:
                return recalled
            raise
        check_path(episode, path_environment)
        episode.last_used = time.monotonic()
        if episode.state == "dormant":
            await self._sessions.wake(episode)
        calls = episode.calls
        if known_id and calls.is_used(known_id):
            return calls.find(known_id) or await self._recall(sid, owner, known_id) or unknown_task_id()
        check_alive(episode)
        if (call := None if task_id else await calls.adopt(request.name, request.input)) is None:
            check_alive(episode)
            if self._sessions.is_draining:
                raise Draining
            episode.usage.check_queue()
            call = calls.start(known_id or new_task_id(), request.name, request.input)
            call.task = asyncio.get_running_loop().create_task(self._run(episode, call, path_environment))
        return call

    def mark_streaming(self, sid: str, call: Call) -> None:
        """Note that a reader of `call` is answered by a stream; call `leave` when the reader is gone."""
        if (episode := self._sessions.live.get(sid)) is not None:
            episode.calls.streaming.add(call)

    def leave(self, sid: str, call: Call) -> None:
        """Note that a reader of `call` is gone."""
        if (episode := self._sessions.live.get(sid)) is not None:
            episode.calls.leave(call)

    async def _recall(self, sid: str, owner: str, task_id: str, hidden: Hidden = frozenset()) -> Call | None:
        recalled = await self._record.recall(sid, owner, task_id, hidden)
        return None if recalled is None else recalled_call(task_id, recalled, self.limits.return_errors)

    async def _run(self, episode: LiveEpisode, call: Call, path_environment: str | None) -> None:
        arrived = episode.clock.now()
        started: float | None = None  # None: the call never reached the environment
        has_place = False
        KEY.set(episode.owner)
        try:
            if episode.state != "ready":
                await self._sessions.bind_late(episode, path_environment)
                check_path(episode, path_environment)  # another request may have bound it in the meantime
                await self._sessions.until_ready(episode)
                started = episode.clock.now()
            else:
                started = arrived
            if not episode.usage.may_call():
                await episode.usage.wait_to_call(self.limits.quota_call_wait_seconds)
                started = episode.clock.now()
            has_place = True
            if episode.limit:
                outcome = episode.refusal(call.tool)
            elif episode.lost_calls and episode.take_lost(call):
                outcome = failed(LOST, "interrupted")
            else:
                given = episode.recorded_input(call)
                running = self._running.note(episode.number, episode.environment, call.tool, given)
                call.input_digest = running.input_digest
                if episode.survival in GOES_ON:
                    call.note, running.is_kept = running, True
                with running:
                    outcome = await episode.get_instance().run(call.tool, call.arguments)
        except (asyncio.CancelledError, SessionDeleted):  # the session has ended, or a tool cancelled its own task
            outcome = episode.cut_short()
        except OverQuota as error:
            outcome = refused(str(error), QUOTA)
        except EnvironmentFault as fault:
            outcome = faulted(fault)
        except OrsError as error:  # the session could not be bound, so the environment never got the call
            self._answer(episode, call, CallResult("error", str(error)))
            return
        except Exception as error:
            log.exception("a call failed inside the server", session=episode.masked_sid, episode=episode.number)
            outcome = failed(f"Internal error of the server: {type(error).__name__}", "internal")
        finally:
            if has_place:
                episode.usage.calls.leave()
        self._take_step(episode, call, outcome, arrived, started)

    def _take_step(
        self, episode: LiveEpisode, call: Call, outcome: CallOutcome, arrived: float, started: float | None
    ) -> None:
        """Record the step. The call is answered when the step is committed."""
        if call.result is not None:  # it was answered when the session ended
            call.forget_note()
            return
        if episode.repeats_calls and outcome.reason == "interrupted":  # the next server makes the call
            call.forget_note()
            self._answer(episode, call, CUT)
            return
        outcome = episode.masked_failure(outcome)
        if not episode.number:  # deleted before it was bound
            self._answer(episode, call, result_of(outcome, self.limits.return_errors))
            return
        now = episode.clock.now()
        step = episode.step_row(call, outcome, arrived, now if started is None else started, now)
        if call.note is not None:
            call.note.note_step(step.episode, step.index)
        rows: list[Row] = [step]
        if outcome.snapshot is not None and (saved := episode.snapshot_row(step.index, outcome.snapshot)) is not None:
            rows.append(saved)
        if (note := episode.noted_row()) is not None:
            rows.insert(0, note)
        if outcome.finished:
            rows.append(episode.end("finished", now))
        elif episode.cause is not None:
            rows.append(episode.ended_row())
        elif episode.reach_limit():
            rows.append(episode.end("expired", now, episode.limit_sentence))
            self._sessions.run_in_background(self._sessions.release(episode, list(episode.calls.running)))
        if outcome.status == "failed":
            fault = EnvironmentFault(outcome.reason, outcome.error, outcome.trace)
            log_failed_call(episode, step.index, call.tool, fault)
        result = result_of(outcome, self.limits.return_errors)
        self._record.record(*rows, committed=partial(self._answer, episode, call, result, step))

    def _answer(self, episode: LiveEpisode, call: Call, result: CallResult, step: StepTaken | None = None) -> None:
        now = time.monotonic()
        episode.last_used = now
        if step is not None and episode.counts is not None:
            episode.counts.count_call(step.status, step.reason, now - call.arrived_at)
        episode.calls.running.discard(call)
        call.finish(result)
        self._lingering.add(call, episode.calls, now)
        if step is not None and episode.on_step is not None:
            episode.on_step(step)

    async def _sweep(self) -> None:
        """Remove old results from memory, until cancelled."""
        while True:
            await asyncio.sleep(min(REAP_SECONDS, self.limits.result_linger_seconds / 2))
            self._lingering.sweep(time.monotonic())

    # --- group scores -------------------------------------------------------------------------------------------------

    async def score_group(self, sid: str, owner: str, path_environment: str | None, request: wire.ScoreGroup) -> Call:
        """Start or rejoin the scoring of a group. Scores are not steps, so they are not recorded.

        Raises: Unsupported, and what `call` raises.
        """
        task_id = checked_task_id(request.task_id)
        episode = await self._enter(sid, owner, path_environment)
        if not self.registry.get(episode.environment).supports_score_group:
            raise Unsupported(f"Environment {episode.environment!r} does not implement score_group")
        calls = episode.calls
        if task_id and calls.is_used(task_id):
            return calls.find(task_id) or unknown_task_id()
        arguments = request.model_dump(include={"candidates"})
        call = None if task_id else await calls.adopt("/score_group", arguments)
        check_alive(episode)
        if call is None:
            if self._sessions.is_draining:
                raise Draining
            call = calls.start(task_id or new_task_id(), "/score_group", arguments)
            call.task = asyncio.get_running_loop().create_task(self._score(episode, call, request.candidates))
        return call

    async def _score(self, episode: LiveEpisode, call: Call, candidates: list[wire.GroupCandidate]) -> None:
        try:
            await self._sessions.until_ready(episode)
            scores = await self._read(episode, "group score", episode.get_instance().score(candidates))
            result = CallResult("end", scores)
        except (asyncio.CancelledError, SessionDeleted):
            result = CUT if episode.is_suspended else result_of(episode.cut_short(), self.limits.return_errors)
        except EnvironmentFault as fault:
            result = result_of(faulted(fault), self.limits.return_errors)
        except Exception as error:
            log.exception("a group was not scored", session=episode.masked_sid, episode=episode.number)
            result = CallResult("error", f"Internal error of the server: {type(error).__name__}")
        self._answer(episode, call, result)
