"""How sessions end: by their client, expiry, a limit, the end of their run or key, and the stop of the server.

`sessions.py` opens them. Divergences from the references: running calls count as activity; sessions end concurrently,
each within a time limit; an id stays in use until its teardown has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine, Mapping
from functools import partial
from typing import Any

import structlog

from environments.database.storable import storable
from environments.errors import Draining, EnvironmentFault, SessionNotFound
from environments.runtime.call_outcome import CUT, result_of
from environments.runtime.calls import Call
from environments.runtime.crash_notes import RunningCalls
from environments.runtime.fault_log import log_fault
from environments.runtime.limits import Limits
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.records import Cause, Record, RecordedPast, Row, SessionPlaces
from environments.runtime.secrets_mask import RecentSecrets

log = structlog.get_logger(__name__)

REAP_SECONDS = 5.0
STOPPED = "The server was stopped before the episode had ended."
"""Recorded with the end of a session that was open when the server was stopped."""
LEFT = "Nothing was done for {}."
"""Recorded with the end of a session that a person has left open; completed by the time after which sessions end."""
STAYS: Mapping[str, str] = {
    "secrets": "The session could not go on, because it had secrets, which are not stored.",
    "toolset": "The session could not go on, because it was opened with a toolset.",
}
"""Why a session of a class that comes back ended with the server, by its `Survival`."""
MAX_BIND_SECONDS = 0.5
"""How long a server that stops waits for the first call in a session that was opened without an environment."""
BIND_CHECK_SECONDS = 0.01
RUN_ENDED = "The run ended while the session was open."
"""Recorded with the end of a session that was closed because its run has ended."""


class EndingSessions:
    """Live episodes by session id, on one event loop, and the ways in which they end."""

    def __init__(self, record: Record, limits: Limits, running: RunningCalls) -> None:
        self._record, self._limits, self._running = record, limits, running
        self.live: dict[str, LiveEpisode] = {}
        self.secrets = RecentSecrets()
        self.refuses_sessions = self.is_draining = False
        self.suspended: set[str] = set()  # ids of sessions with which the next server goes on
        self.places: SessionPlaces | None = None  # of a server that keeps what opens sessions again
        self._background: set[asyncio.Task[Any]] = set()

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start `work` as a task that this object keeps alive."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def commit(self, *rows: Row) -> asyncio.Future[None]:
        """Record `rows`; the returned future is done once they are durable."""
        durable = asyncio.get_running_loop().create_future()
        self._record.record(*rows, committed=partial(_resolve, durable))
        return durable

    def mask(self, episode: LiveEpisode, *secrets: str) -> None:
        """Mask further secrets of a live session, in its record and in what is printed."""
        new = tuple(secret for secret in secrets if secret not in episode.secrets)
        self.secrets.hold(episode.owner, new)
        episode.mask_further(new)

    def find(self, sid: str, owner: str) -> LiveEpisode:
        """Return the live session. Raises: SessionNotFound, also for a session of another key; Draining."""
        if (episode := self.live.get(sid)) is None:
            self.check_suspended(sid)
        if episode is None or episode.owner != owner:
            raise SessionNotFound
        return episode

    def check_suspended(self, sid: str) -> None:
        """Raise Draining if this server has ended the session, and the next one goes on with it."""
        if sid in self.suspended:
            raise Draining

    def _forget(self, episode: LiveEpisode) -> None:
        """Free the session's id and its place."""
        del self.live[episode.sid]
        self.secrets.release(episode.owner, episode.secrets)
        if episode.is_suspended:
            self.suspended.add(episode.sid)
        elif self.places is not None and not episode.is_reopened:
            self.places.release(episode.sid)
        episode.usage.sessions.leave()
        if episode.place is not None:
            episode.place.leave()
        if episode.timer is not None:
            episode.timer.cancel()

    async def close(self, episode: LiveEpisode, cause: Cause, detail: str = "") -> None:
        """End the session; return when its instance is torn down and the end is recorded.

        `detail` explains the cause in the record. Author's code that does not end within the limit is abandoned.
        """
        if episode.state == "dormant" and not episode.is_suspended:
            await self.read_past(episode)  # its end counts the steps
        if episode.state == "closing":
            await self.until_gone(episode)
            return
        episode.closing_cause, episode.closing_detail = cause, detail
        episode.change("closing")
        if (work := episode.work) is not None:
            work.cancel()
            await asyncio.wait([work], timeout=self._limits.close_wait_seconds)
        await self._stop_calls(episode, list(episode.calls.running))
        try:
            await self._close_instance(episode)
        except EnvironmentFault as fault:
            log_fault("teardown failed", episode, fault)
        finally:
            await self._record_end(episode, cause, detail)
            self._forget(episode)
            episode.change("closing")  # for others that wait for the id to be free

    async def read_past(self, episode: LiveEpisode) -> RecordedPast:
        """Return what is recorded of a dormant session, whose steps are counted by then."""
        if episode.past is None:
            episode.past = self.run_in_background(self._read_past(episode))
        return await asyncio.shield(episode.past)

    async def _read_past(self, episode: LiveEpisode) -> RecordedPast:
        if not episode.number:  # it was not bound, so it has none
            return RecordedPast("", None, ())
        past = await self._record.past(episode.number)
        episode.has_snapshot = past.snapshot is not None
        for step in past.steps:
            episode.recount(step)
        return past

    async def suspend(self, episode: LiveEpisode) -> None:
        """End the session, but not its episode, with which the next server goes on. Running calls are not recorded."""
        episode.is_suspended = True
        await self.close(episode, "interrupted", STOPPED)

    async def _close_instance(self, episode: LiveEpisode) -> None:
        """Close the instance of a session, unless that was done already. Raises: EnvironmentFault."""
        instance, episode.instance = episode.instance, None
        if instance is not None:
            with self._running.note(episode.number, episode.environment, "teardown"):
                await instance.close()

    async def _end_in_time(self, episode: LiveEpisode, limit: str) -> None:
        """End an episode whose time is over because of `limit`, unless it has ended."""
        if episode.state == "ready" and episode.cause is None:
            episode.limit = limit
            await self.release(episode, list(episode.calls.running))
        elif episode.cause is None:  # nothing was played
            episode.limit = limit
            await self.close(episode, "expired", episode.limit_sentence)

    async def release(self, episode: LiveEpisode, calls: list[Call]) -> None:
        """Stop `calls`, those that ran when their episode reached a limit, and close its instance.

        The session stays open until its client leaves, and tells the agent why its calls are refused.
        """
        await self._stop_calls(episode, calls)
        await self._record_end(episode, "expired", episode.limit_sentence)
        try:
            await self._close_instance(episode)
        except EnvironmentFault as fault:
            log_fault("teardown failed", episode, fault)

    async def close_run(self, run: str, owner: str | None, others: frozenset[int]) -> int:
        """End the sessions of the run that `owner` opened (None: anyone) as abandoned, and return their number.

        `others`: numbers of episodes that go on.

        They end concurrently, and go on ending if the caller is cancelled.
        """
        found = [
            episode
            for episode in self.live.values()
            if episode.run and storable(episode.run) == run and owner in (None, episode.owner)
            if episode.number not in others
        ]
        closing = [self.run_in_background(self.close(episode, "abandoned", RUN_ENDED)) for episode in found]
        if closing:
            await asyncio.wait(closing)
        return len(found)

    async def close_owned(self, owners: Collection[str], detail: str) -> None:
        """End the sessions of `owners` as interrupted, concurrently. Their running calls are cut short."""
        found = [episode for episode in self.live.values() if episode.owner in owners]
        closing = [self.run_in_background(self.close(episode, "interrupted", detail)) for episode in found]
        if closing:
            await asyncio.wait(closing)

    async def until_gone(self, episode: LiveEpisode) -> None:
        """Wait until the session has ended and its id is free."""
        while self.live.get(episode.sid) is episode:
            await episode.wait_for_change()

    async def _stop_calls(self, episode: LiveEpisode, calls: list[Call]) -> None:
        tasks = [call.task for call in calls if call.task is not None]
        if tasks:
            await asyncio.sleep(0)  # a task that is cancelled before its first step would never answer its call
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._limits.close_wait_seconds)
        for call in calls:
            if call.task is not None and not call.task.done():  # it swallowed the cancellation
                now, outcome = episode.clock.now(), episode.cut_short()
                if episode.repeats_calls:
                    call.finish(CUT)
                    continue
                if episode.number:
                    self._record.record(episode.step_row(call, outcome, now, now, now))
                call.finish(result_of(outcome, self._limits.return_errors))

    async def _record_end(self, episode: LiveEpisode, cause: Cause, detail: str) -> None:
        if not episode.number or episode.cause is not None or episode.is_suspended:
            return
        note = episode.noted_row()
        end = episode.end if episode.limit else episode.leave
        rows = [end(cause, episode.clock.now(), detail)]
        await self.commit(*([note, *rows] if note else rows))

    async def leave(self, episode: LiveEpisode, detail: str, limit: str) -> None:
        """End the session as abandoned, or as expired if there is a `limit`, unless its episode has ended."""
        if limit:
            episode.limit = limit
            await self.close(episode, "expired", episode.limit_sentence)
        else:
            await self.close(episode, "abandoned", detail)

    async def reap(self) -> None:
        """End idle sessions, until cancelled: those of agents have expired, those of people are abandoned."""
        timeout = self._limits.session_timeout_seconds
        while True:
            await asyncio.sleep(min(REAP_SECONDS, timeout / 4))
            horizon = time.monotonic() - timeout
            for episode in list(self.live.values()):
                if episode.last_used < horizon and not episode.calls.running and episode.state != "closing":
                    log.info("session expired", session=episode.masked_sid, episode=episode.number)
                    is_left = episode.player == "human"
                    detail = LEFT.format(f"{timeout / 60:.3g} minutes") if is_left else ""
                    self.run_in_background(self.close(episode, "abandoned" if is_left else "expired", detail))

    async def settle(self, seconds: float) -> None:
        """Accept no further sessions, nor, once those that were just opened are bound, further calls; then wait until
        the running ones are answered, at most `seconds`.

        A session that is not bound yet is not on record, so other servers can go on with it only if its lease says how.
        """
        self.refuses_sessions = True
        until = time.monotonic() + MAX_BIND_SECONDS
        while any(not one.number for one in self.live.values()) and time.monotonic() < until:  # noqa: ASYNC110  (nobody waits for it)
            await asyncio.sleep(BIND_CHECK_SECONDS)
        self.is_draining = True
        until = time.monotonic() + seconds
        for call in [call for episode in self.live.values() for call in episode.calls.running]:
            await call.wait(max(0.0, until - time.monotonic()))

    async def drain(self, seconds: float) -> None:
        """End every session, within `seconds`; the episode too, as interrupted, unless the next server can go on with
        it. Unless `settle` did, wait for running calls before.
        """
        until = time.monotonic() + seconds
        if not self.is_draining:
            await self.settle(seconds / 2)
        closing = [self.run_in_background(self._stop(episode)) for episode in list(self.live.values())]
        if closing:
            await asyncio.wait(closing, timeout=max(0.1, until - time.monotonic()))
        for episode in self.live.values():  # the author's code did not end in time
            if episode.number and episode.cause is None and not episode.is_suspended:
                self._record.record(episode.end("interrupted", episode.clock.now(), stopped(episode)))
        for task in self._background:
            task.cancel()

    async def _stop(self, episode: LiveEpisode) -> None:
        if episode.is_survivor or self._is_kept(episode):
            await self.suspend(episode)
        else:
            await self.close(episode, "interrupted", stopped(episode))

    def _is_kept(self, episode: LiveEpisode) -> bool:
        """Return whether another server opens the session again, which is not bound yet, at its next request."""
        request = None if episode.number or self.places is None else episode.request
        return request is not None and bool(request.opening_json())


def stopped(episode: LiveEpisode) -> str:
    """Return why an episode ends with the server."""
    return " ".join(filter(None, (STOPPED, STAYS.get(episode.survival or ""))))


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
