"""The interface to live play, used by the protocol for agents and by the pages for people.

It finds, opens and ends sessions, starts and rejoins calls, and returns prompts and tools.

Divergence from the references: the result of a recorded call is available under its task_id even
after it was removed from memory, after the session has ended, and from another server on the same
database.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

import structlog

from environments import wire
from environments.authoring.registry import Registry
from environments.database.storable import storable
from environments.errors import Draining, SessionNotFound, Unsupported
from environments.limits import Limits
from environments.quotas import KeyUsage
from environments.runtime.call_execution import ToolCalls
from environments.runtime.call_table import (
    Call,
    LingeringCalls,
    RunningCall,
    checked_task_id,
    recalled_call,
    unknown_task_id,
)
from environments.runtime.crash_notes import CrashNotes
from environments.runtime.environment_secrets import SecretsSource
from environments.runtime.host import Host
from environments.runtime.ids import new_task_id
from environments.runtime.play_counts import PlayLoad
from environments.runtime.records import (
    Hidden,
    OpenEpisode,
    Record,
    SessionPlaces,
    StepTaken,
    TaskSource,
)
from environments.runtime.secrets_vault import SecretsVault
from environments.runtime.session import Session
from environments.runtime.session_life import SessionLife
from environments.runtime.session_request import SessionRequest
from environments.runtime.session_states import Dormant, ended_by
from environments.runtime.sessions_after_restart import STAYS, SessionReturn
from environments.runtime.task_trial import Trial, try_out

log = structlog.get_logger(__name__)

PEOPLE = "@"
"""Owner of the secrets of trials, which people start."""
SURVIVOR_CHECK_SECONDS = 0.1
REAP_SECONDS = 5.0
MAX_BIND_SECONDS = 0.5
"""How long a server that stops waits for the first call in a session that was opened without an
environment."""
BIND_CHECK_SECONDS = 0.01
STOPPED = "The server was stopped before the episode had ended."
"""Recorded with the end of a session that was open when the server was stopped."""
LEFT = "Nothing was done for {}."
"""Recorded with the end of a session that a person left open; completed by the time limit."""
RUN_ENDED = "The run ended while the session was open."
"""Recorded with the end of a session that was closed because its run has ended."""


class SessionService:
    """Live play on one event loop. Call `open` before, and `drain` after, all other methods.

    Every method that takes `sid` and `owner` raises SessionNotFound for an unknown session and for
    one that another key opened. `path_environment` is the environment that the path of the request
    names, or None.
    """

    def __init__(
        self,
        registry: Registry,
        tasks: TaskSource,
        record: Record,
        host: Host,
        limits: Limits,
        crash_notes: CrashNotes | None = None,
    ) -> None:
        self.registry, self.tasks, self.limits = registry, tasks, limits
        self._record, self._host = record, host
        self._life = SessionLife(registry, tasks, record, host, limits, crash_notes or CrashNotes())
        self._table = self._life.table
        self._lingering = LingeringCalls(limits.result_linger_seconds, limits.max_linger_bytes)
        self._calls = ToolCalls(self._life, record, self._lingering)
        self._return = SessionReturn(self._life, self._lingering)
        self.has_survivors = False  # whether an earlier server left sessions
        self.recent_secrets = self._table.secrets

    def open(self) -> None:
        """Start the background tasks: expire idle sessions, remove old results, and keep the host
        alive."""
        for work in (self._reap(), self._sweep(), self._host.keep_alive()):
            self._life.run_in_background(work)

    def take_over(
        self, sessions: Iterable[OpenEpisode | SessionRequest], usage_of: Callable[[str], KeyUsage]
    ) -> None:
        """Go on with what an earlier server left, as `SessionReturn.take_over` does."""
        self._return.take_over(sessions, usage_of)
        self.has_survivors = bool(self._table)

    def keep_secrets(self, vault: SecretsVault) -> None:
        """Keep the secrets of sessions encrypted from now on, while they live."""
        self._return.vault = vault

    def give_secrets(self, source: SecretsSource) -> None:
        """Let environments have the operator's secrets from now on."""
        self._life.operator_secrets = source

    def share_sessions(self, places: SessionPlaces) -> None:
        """Claim every session at `places` from now on, for other servers and for the next one."""
        self._table.session_places = places

    # --- the stop of the server -------------------------------------------------------------------

    async def until_survivors(self, seconds: float) -> None:
        """Wait, at most `seconds`, until the next server could go on with every session whose
        episode has not ended."""
        until = time.monotonic() + seconds
        while any(
            not session.is_survivor and session.episode.ending is None for session in self._table
        ):
            if time.monotonic() >= until:
                return
            await asyncio.sleep(SURVIVOR_CHECK_SECONDS)

    async def settle(self, seconds: float) -> None:
        """Accept no further sessions, nor, once those that were just opened are bound, further
        calls; then wait until the running ones are answered, at most `seconds`.

        A session that is not bound yet is not on record, so other servers can go on with it only if
        its lease says how.
        """
        self._table.accepts = "calls"
        until = time.monotonic() + MAX_BIND_SECONDS
        while (  # noqa: ASYNC110
            any(not session.episode.number for session in self._table) and time.monotonic() < until
        ):
            await asyncio.sleep(BIND_CHECK_SECONDS)
        self._table.accepts = "nothing"
        until = time.monotonic() + seconds
        for call in [call for session in self._table for call in session.calls.running]:
            await call.wait(max(0.0, until - time.monotonic()))

    async def drain(self, seconds: float) -> None:
        """End every session, within `seconds`; the episode too, as interrupted, unless the next
        server can go on with it. Unless `settle` did, wait for running calls before.
        """
        until = time.monotonic() + seconds
        if self._table.accepts != "nothing":
            await self.settle(seconds / 2)
        closing = [self._life.run_in_background(self._stop(session)) for session in self._table]
        if closing:
            await asyncio.wait(closing, timeout=max(0.1, until - time.monotonic()))
        for session in self._table:  # the author's code did not end in time
            episode = session.episode
            if episode.number and episode.ending is None and not session.is_suspended:
                self._record.record(
                    episode.end("interrupted", episode.clock.now(), stopped(session))
                )
        self._life.stop_background()

    async def _stop(self, session: Session) -> None:
        # another server opens a session again that has a request, at the next one from its client
        is_kept = (
            self._table.session_places is not None
            and session.request is not None
            and session.request.opening_json()
        )
        if session.is_survivor or is_kept:
            await self._life.close(session, "interrupted", STOPPED, heir="server")
        else:
            await self._life.close(session, "interrupted", stopped(session))

    # --- what is played ---------------------------------------------------------------------------

    @property
    def live_sessions(self) -> int:
        return len(self._table)

    def load(self) -> PlayLoad:
        """Return the counts of live play, now and since the start. On the event loop; 10,000
        sessions take 1 ms."""
        live = Counter(dict.fromkeys(self.registry.names, 0))
        running = live.copy()
        for session in self._table:
            live[session.episode.environment] += 1
            running[session.episode.environment] += len(session.calls.running)
        return PlayLoad(
            live, running, self._life.counts.snapshot(), self._table.accepts == "nothing"
        )

    def running_calls(self, episode: int) -> list[RunningCall]:
        """Return the calls of the episode that run, or wait for the setup, the oldest first. On the
        event loop."""
        return sorted(
            RunningCall(call.arrived_at, session.episode.mask_text(call.tool))
            for session in self._table
            if session.episode.number == episode
            for call in session.calls.running
        )

    async def try_out(self, environment: str, spec: Any, seconds: float) -> Trial:
        """Play the beginning of the task `spec`, as `task_trial.try_out` does, until the server
        drains.

        Raises: UnknownEnvironment.
        """
        name, source = self.registry.get(environment).name, self._life.operator_secrets
        secrets = {} if source is None else await source.of(name, PEOPLE)
        self.recent_secrets.add(PEOPLE, tuple(secrets.values()))
        trial: Trial = await self._life.run_in_background(
            try_out(self._host, name, spec, seconds, secrets)
        )
        return trial

    # --- sessions ---------------------------------------------------------------------------------

    async def create(self, request: SessionRequest) -> None:
        """Open a session, as `SessionLife.create` does.

        Raises: InvalidRequest, also for a secret that is too long to be masked; and what
        `SessionLife.create` raises.
        """
        request.check_secrets()
        self.recent_secrets.add(request.owner, request.masked_texts)
        if self._return.vault is not None:
            request.seal(self._return.vault)
        places = self._table.session_places
        if places is not None:
            await places.claim(request.sid, request.opening_json())
        try:
            await self._return.make_room(request)
            await self._life.create(request)
        finally:
            if places is not None and not self.is_live(request.sid):
                places.release(request.sid)

    def mask_key(self, sid: str, owner: str, key: str) -> None:
        """Mask `key`, which its client sends, in what is recorded of a session that an earlier
        server has started."""
        self._return.mask_key(sid, owner, key)

    def ping(self, sid: str, owner: str) -> None:
        """Keep the session from expiring. Raises: SessionNotFound, also for a session that is
        ending; Draining."""
        session = self._table.find(sid, owner)
        if session.is_ending:
            raise Draining if session.is_suspended else SessionNotFound
        session.last_used = time.monotonic()

    async def delete(self, sid: str, owner: str, detail: str = "", *, limit: str = "") -> None:
        """End the session as abandoned because of `detail`, or expired by `limit`, if it exists.
        Raises: Draining."""
        if (session := self._table.get(sid, owner)) is not None:
            if limit:
                await self._life.close(session, "expired", ended_by(limit))
            else:
                await self._life.close(session, "abandoned", detail)
        self._table.check_suspended(sid)

    async def close_run(self, run: str, owner: str | None, others: Collection[int] = ()) -> int:
        """End the live sessions of the run named `run`; return their number when all have ended.

        Only sessions that `owner` opened end; None: those of every key. Episodes `others`, of other
        runs of this name, go on. The sessions end as if deleted: abandoned, unless they have ended
        or the environment has just failed.
        """
        sessions = [
            session
            for session in self._table
            if session.episode.run
            and storable(session.episode.run) == run
            and owner in (None, session.owner)
            and session.episode.number not in others
        ]
        return await self._life.close_all(sessions, "abandoned", RUN_ENDED)

    async def close_owned(self, owners: Collection[str], detail: str) -> None:
        """End the live sessions that the keys with the labels `owners` opened, as interrupted
        because of `detail`."""
        sessions = [session for session in self._table if session.owner in owners]
        await self._life.close_all(sessions, "interrupted", detail)

    async def _reap(self) -> None:
        """End idle sessions, until cancelled: those of agents have expired, those of people are
        abandoned."""
        timeout = self.limits.session_timeout_seconds
        while True:
            await asyncio.sleep(min(REAP_SECONDS, timeout / 4))
            horizon = time.monotonic() - timeout
            for session in self._table:
                if (
                    session.last_used < horizon
                    and not session.calls.running
                    and not session.is_ending
                ):
                    episode = session.episode
                    log.info("session expired", session=episode.masked_sid, episode=episode.number)
                    if episode.player == "human":
                        detail = LEFT.format(f"{timeout / 60:.3g} minutes")
                        closing = self._life.close(session, "abandoned", detail)
                    else:
                        closing = self._life.close(session, "expired")
                    self._life.run_in_background(closing)

    async def until_gone(self, sid: str, owner: str) -> None:
        """Wait until the session has ended and its end is recorded."""
        await self._table.find(sid, owner).until_gone()

    def follow(self, sid: str, owner: str, on_step: Callable[[StepTaken], None]) -> None:
        """Register `on_step`, which is called with each further step, in order, once it is
        recorded.

        Raises: SessionNotFound.
        """
        self._table.find(sid, owner).on_step = on_step

    async def absence(self, sid: str, owner: str) -> SessionNotFound:
        """Return the error about a session that is not live; it says if a server interrupted it."""
        return SessionNotFound(await self._record.interruption(sid, owner))

    def check(self, sid: str, owner: str) -> None:
        """Raise what a use of the session would raise now; its errors come before those about a
        request's body."""
        self._table.find(sid, owner).check_alive()

    def is_live(self, sid: str) -> bool:
        """Return whether this server has the session, no matter which client opened it."""
        return sid in self._table

    def is_suspended(self, sid: str) -> bool:
        """Return whether this server has ended the session, and the next one goes on with it."""
        return sid in self._table.suspended

    def environment_of(self, sid: str, owner: str) -> str:
        """Return the name of the environment that the session plays; empty until it is bound to
        one."""
        return self._table.find(sid, owner).episode.environment

    def remaining_seconds(self, sid: str, owner: str) -> float:
        """Return the time until the session expires if it is not used; it does not expire while a
        call runs."""
        session = self._table.find(sid, owner)
        idle = 0.0 if session.calls.running else time.monotonic() - session.last_used
        return max(0.0, self.limits.session_timeout_seconds - idle)

    # --- prompts and tools ------------------------------------------------------------------------

    async def prompt_json(self, sid: str, owner: str, path_environment: str | None) -> str:
        """Return the prompt as a JSON array of blocks. Raises: EnvironmentFault, SessionDeleted,
        SessionStarting."""
        session = await self._enter(sid, owner, path_environment)
        return await self._read_prompt(session, lambda: session.get_instance().prompt_json())

    async def messages_json(self, sid: str, owner: str, path_environment: str | None) -> str:
        """Return the prompt as a JSON array of messages. Raises: EnvironmentFault, SessionDeleted,
        SessionStarting."""
        session = await self._enter(sid, owner, path_environment)
        return await self._read_prompt(session, lambda: session.get_instance().messages_json())

    async def _read_prompt(self, session: Session, read: Callable[[], Awaitable[str]]) -> str:
        await self._life.until_ready(session, self.limits.setup_wait_seconds)
        prompt = await self._life.read(session, "prompt", read())
        self._note(session, prompt_json=prompt)
        return prompt

    async def task_tools_json(self, sid: str, owner: str, path_environment: str | None) -> str:
        """Return the session's tools as JSON of ListToolsOutput; does not wait for setup. Raises:
        EnvironmentFault."""
        session = await self._enter(sid, owner, path_environment)
        tools = await self._life.read(
            session, "task tools", session.get_instance().task_tools_json()
        )
        self._note(session, tools_json=tools)
        return tools

    async def until_recorded(self) -> None:
        """Wait until everything reported so far is durable, such as the tools that an agent has
        just got."""
        await self._life.commit()

    async def _enter(self, sid: str, owner: str, path_environment: str | None) -> Session:
        """Return the session, bound to an environment and marked as used."""
        session = self._table.find(sid, owner)
        session.check_path(path_environment)
        session.last_used = time.monotonic()
        await self._return.wake(session)
        await self._life.bind_late(session, path_environment)
        session.check_alive()
        session.check_path(path_environment)  # another request may have bound it in the meantime
        return session

    def _note(
        self, session: Session, *, prompt_json: str | None = None, tools_json: str | None = None
    ) -> None:
        """Record what was sent to the agent; durable before the episode's next step."""
        note = session.episode.noted_row(prompt_json=prompt_json, tools_json=tools_json)
        if note is not None:
            self._record.record(note)

    # --- calls ------------------------------------------------------------------------------------

    async def call(
        self,
        sid: str,
        owner: str,
        path_environment: str | None,
        request: wire.ToolCall,
        hidden_environments: Hidden = frozenset(),
        *,
        sent_id: str = "",
    ) -> Call:
        """Start a tool call, rejoin one by its task_id, or return a recorded one; never run it
        twice.

        `hidden_environments`: ids of environments whose recorded calls do not exist for the owner.
        `sent_id`: task_id of the call that this request starts, or started if it was sent before.

        Raises: SessionNotFound, OtherEnvironment, SessionDeleted, EnvironmentFault (setup has
        failed), InvalidRequest, Draining, OverQuota.
        """
        task_id = checked_task_id(request.task_id)
        known_id = task_id or sent_id
        try:
            session = self._table.find(sid, owner)
        except SessionNotFound:
            if known_id and (
                recorded_call := await self._recall(sid, owner, known_id, hidden_environments)
            ):
                return recorded_call
            raise
        session.check_path(path_environment)
        session.last_used = time.monotonic()
        if isinstance(session.state, Dormant):
            await self._return.wake(session)
        calls = session.calls
        if known_id and calls.is_used(known_id):
            return (
                calls.find(known_id)
                or await self._recall(sid, owner, known_id)
                or unknown_task_id()
            )
        session.check_alive()
        if (
            call := None if task_id else await calls.adopt_orphan(request.name, request.input)
        ) is None:
            session.check_alive()
            session.usage.check_queue()
            call = self._start(session, known_id, request.name, request.input)
            call.task = asyncio.get_running_loop().create_task(
                self._calls.run(session, call, path_environment)
            )
        return call

    def _start(self, session: Session, task_id: str, name: str, arguments: wire.JSONObject) -> Call:
        """Return a new call, which is to be run. Raises: Draining."""
        if self._table.accepts == "nothing":
            raise Draining
        return session.calls.start(task_id or new_task_id(), name, arguments)

    def mark_streaming(self, sid: str, call: Call) -> None:
        """Note that a reader of `call` is answered by a stream; call `leave` when the reader is
        gone."""
        if (session := self._table.get(sid)) is not None:
            session.calls.streaming.add(call)

    def leave(self, sid: str, call: Call) -> None:
        """Note that a reader of `call` is gone."""
        if (session := self._table.get(sid)) is not None:
            session.calls.leave(call)

    async def _recall(
        self, sid: str, owner: str, task_id: str, hidden_environments: Hidden = frozenset()
    ) -> Call | None:
        record = await self._record.recall(sid, owner, task_id, hidden_environments)
        if record is None:
            return None
        return recalled_call(task_id, record, self.limits.return_errors)

    async def score_group(
        self, sid: str, owner: str, path_environment: str | None, request: wire.ScoreGroup
    ) -> Call:
        """Start or rejoin the scoring of a group. Scores are not steps, so they are not recorded.

        Raises: Unsupported, and what `call` raises.
        """
        task_id = checked_task_id(request.task_id)
        session = await self._enter(sid, owner, path_environment)
        if not self.registry.get(environment := session.episode.environment).supports_score_group:
            raise Unsupported(f"Environment {environment!r} does not implement score_group")
        calls = session.calls
        if task_id and calls.is_used(task_id):
            return calls.find(task_id) or unknown_task_id()
        arguments = request.model_dump(include={"candidates"})
        call = None if task_id else await calls.adopt_orphan("/score_group", arguments)
        session.check_alive()
        if call is None:
            call = self._start(session, task_id, "/score_group", arguments)
            call.task = asyncio.get_running_loop().create_task(
                self._calls.score(session, call, request.candidates)
            )
        return call

    async def _sweep(self) -> None:
        """Remove old results from memory, until cancelled."""
        while True:
            await asyncio.sleep(min(REAP_SECONDS, self.limits.result_linger_seconds / 2))
            self._lingering.sweep(time.monotonic())


def stopped(session: Session) -> str:
    """Return why an episode ends with the server."""
    return " ".join(filter(None, (STOPPED, STAYS.get(session.episode.survival or ""))))
