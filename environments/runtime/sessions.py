"""How sessions are opened, bound to an environment and set up. Used by SessionService.

Divergences from the references: an id is registered before anything is awaited; a failed constructor is reported to the
request that opens the session; a session belongs to the key that opened it; a session opened with split and index but
without an environment is bound by the first path that names one; a path that names another environment than the
session's is refused (409), because the agent would train on the wrong task; the number of live sessions is limited, of
all keys and of each. `ending_sessions.py` lists those about their end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from environments import wire
from environments.authoring.hosted_environment import HostedEnvironment
from environments.authoring.registry import Registry
from environments.errors import (
    Draining,
    EnvironmentFault,
    InvalidIndex,
    InvalidRequest,
    InvalidSplit,
    OrsError,
    SessionDeleted,
    SessionExists,
    SessionStarting,
    TooManySessions,
)
from environments.runtime.crash_notes import RunningCalls
from environments.runtime.ending_sessions import EndingSessions
from environments.runtime.fault_log import log_fault
from environments.runtime.host import Host, PlayedInstance
from environments.runtime.limits import Limits
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.operator_secrets import SecretsSource, is_played_by, with_secrets
from environments.runtime.play_counts import PlayCounts
from environments.runtime.quotas import Places
from environments.runtime.records import Record, TaskSource
from environments.runtime.session_checks import check_alive, is_closing
from environments.runtime.session_request import SessionRequest
from environments.sandbox.fair_turns import KEY


class Sessions(EndingSessions):
    """Live episodes by session id, from their beginning to their end."""

    operator_secrets: SecretsSource | None = None
    """Set by the service; None: the operator gives none."""

    def __init__(
        self,
        registry: Registry,
        tasks: TaskSource,
        record: Record,
        host: Host,
        limits: Limits,
        running: RunningCalls,
    ) -> None:
        super().__init__(record, limits, running)
        self.registry, self._tasks, self._host = registry, tasks, host
        host.on_loss = self._end_lost
        self.places_in = {hosted.name: Places(most) for hosted in registry if (most := hosted.sessions_at_once)}
        """Places for sessions of the environments that bear a number of them only."""
        self.counts = PlayCounts()

    # --- beginning ----------------------------------------------------------------------------------------------------

    async def create(self, request: SessionRequest) -> None:
        """Open a session and wait until its instance is constructed and recorded.

        A request without an environment's name returns at once; the session is then bound later.

        If its key has as many sessions as it may, it waits until one ends, at most `quota_wait_seconds`.

        Raises: SessionExists, TooManySessions, OverQuota, InvalidSplit, InvalidIndex, InvalidRequest, Unavailable,
        EnvironmentFault, Draining.
        """
        await request.usage.enter_session(self._limits.quota_wait_seconds)
        try:
            episode = self._register(request)
        except OrsError:
            request.usage.sessions.leave()
            raise
        try:
            if request.environment is None:
                await self._check_bindable(request)
            else:
                await self._bind(episode, request, request.environment)
        except BaseException:
            if episode.state != "closing":  # a deletion removes the id itself
                self._forget(episode)
                episode.change("closing")  # for requests that did not wait for this one's answer
            raise

    def _register(self, request: SessionRequest) -> LiveEpisode:
        """Take the session's id, before anything is awaited, or two requests could open one id.

        Raises: Draining, SessionExists, TooManySessions.
        """
        if self.refuses_sessions:
            raise Draining
        if request.sid in self.live:
            raise SessionExists
        if len(self.live) >= self._limits.max_sessions:
            most = self._limits.max_sessions
            raise TooManySessions(
                f"{most} sessions are live, the most that ORSWEB_MAX_SESSIONS allows; delete one or wait"
            )
        episode = self._live_episode(request)
        self._limit_time(episode)
        return episode

    def _live_episode(self, request: SessionRequest) -> LiveEpisode:
        episode = self.live[request.sid] = LiveEpisode(request, time.monotonic())
        self.secrets.hold(episode.owner, episode.secrets)
        return episode

    def _limit_time(self, episode: LiveEpisode, more_seconds: float = 0.0) -> None:
        """End the episode when the time is over that its key's quota allows, and `more_seconds`."""
        usage = episode.usage
        if seconds := usage.quotas.seconds:
            loop = asyncio.get_running_loop()
            episode.timer = loop.call_later(
                seconds + more_seconds,
                lambda: self.run_in_background(self._end_in_time(episode, usage.limit_of_time())),
            )

    async def _check_bindable(self, request: SessionRequest) -> None:
        """Check that a hosted environment has the split and index. Raises: the refusal of the default environment."""
        assert request.split is not None and request.index is not None
        refusals: list[OrsError] = []
        for hosted in self._open_to(request):
            try:
                await self._tasks.get(hosted.name, request.split, request.index)
                return
            except (InvalidSplit, InvalidIndex) as error:
                refusals.append(error)
        raise refusals[0]

    async def bind_late(self, episode: LiveEpisode, path_environment: str | None) -> None:
        """Bind a session opened without an environment to the one that a path names, or to the default.

        Raises: InvalidSplit, InvalidIndex (the session stays unbound), EnvironmentFault (recorded as setup_failed).
        """
        while episode.state == "constructing":
            await episode.wait_for_change()
        if episode.state != "unbound" or episode.request is None:
            return
        by_default = next(self._open_to(episode.request), self.registry.default)
        environment = self.registry.get(path_environment).name if path_environment else by_default.name
        try:
            await self._bind(episode, episode.request, environment)
        except EnvironmentFault as fault:
            episode.fault, episode.request = fault.copy(), None
            if not is_closing(episode):
                episode.change("failed")
            raise
        except OrsError:
            if not is_closing(episode):
                episode.change("unbound")
            raise

    def _open_to(self, request: SessionRequest) -> Iterator[HostedEnvironment]:
        """Yield the hosted environments that the session may play, the default first."""
        allowed = request.allowed
        return (hosted for hosted in self.registry if allowed is None or hosted.name in allowed)

    async def _bind(self, episode: LiveEpisode, request: SessionRequest, environment: str) -> None:
        """Construct `environment`. Afterwards the session is ready or being set up. The caller handles failures."""
        episode.change("constructing")
        hosted = self.registry.get(environment)
        hosted.check_available()
        hosted.check_toolset(request.toolset)
        spec_json = await self._spec_json(request, hosted.name)
        await self._tasks.check_enabled(hosted.name)
        await self._take_place(episode, hosted)
        secrets = await self._operator_secrets(episode, hosted.name)
        if is_closing(episode):
            raise SessionDeleted
        episode.environment, episode.number = hosted.name, self._record.next_episode()
        episode.counts = self.counts[hosted.name]
        episode.usage.record(len(spec_json), time.time())
        started = self.commit(episode.started_row(request, hosted, spec_json, episode.clock.now()))
        spec = request.spec if request.spec is not None else json.loads(spec_json)
        episode.instance = with_secrets(self._host.instance(hosted.name), secrets)
        building = self._construct(episode, episode.instance, spec, request)
        try:
            if hosted.runs_constructor or request.toolset:
                episode.work = self.run_in_background(building)
                needs_setup = await asyncio.shield(episode.work)
            else:
                needs_setup = await building
        except EnvironmentFault as fault:
            log_fault("construction failed", episode, fault)
            await self.commit(episode.end("setup_failed", episode.clock.now(), str(fault)))
            raise episode.masked(fault) from None
        except asyncio.CancelledError:
            if episode.state == "closing":  # deleted while the constructor ran
                raise SessionDeleted from None
            raise
        finally:
            episode.work = None
        await started
        if is_closing(episode):
            raise SessionDeleted
        episode.request = None  # it holds the secrets
        if needs_setup:
            episode.change("setting_up")
            episode.work = self.run_in_background(self._set_up(episode))
        else:
            episode.ready = episode.clock.now()
            episode.change("ready")

    async def _operator_secrets(self, episode: LiveEpisode, environment: str) -> Mapping[str, str]:
        """Return the secrets that the operator gives to the session, which are masked from now on in its record."""
        if self.operator_secrets is None or not (found := await self.operator_secrets.of(environment, episode.owner)):
            return {}
        if self.live.get(episode.sid) is episode:  # else nothing would release them
            self.mask(episode, *found.values())
        return found

    async def _take_place(self, episode: LiveEpisode, hosted: HostedEnvironment) -> None:
        """Take a place in an environment that bears a number of sessions only, at most after `quota_wait_seconds`.

        Raises: TooManySessions.
        """
        places = self.places_in.get(hosted.name)
        if places is None or is_closing(episode):
            return
        seconds = self._limits.quota_wait_seconds
        if not (places.enter() or await places.wait_to_enter(seconds)):
            raise TooManySessions(
                f"Environment {hosted.name!r} bears {places.limit} sessions at once (sessions_at_once), and none ended "
                f"within {seconds:g} s; delete one, then try again"
            )
        if self.live.get(episode.sid) is episode:
            episode.place = places
        else:  # it was deleted meanwhile
            places.leave()

    async def _construct(
        self, episode: LiveEpisode, instance: PlayedInstance, spec: Any, request: SessionRequest
    ) -> bool:
        """Construct the instance of a session, or close it; return whether it needs to be set up."""
        KEY.set(episode.owner)
        try:
            with self._running.note(episode.number, episode.environment, "constructor"):
                return await instance.construct(spec, request.secrets or {}, request.toolset)
        except BaseException:
            await self._close_instance(episode)
            raise

    async def _spec_json(self, request: SessionRequest, environment: str) -> str:
        if request.spec is not None:
            try:
                return wire.value_json(request.spec)
            except TypeError as error:  # nested too deeply
                raise InvalidRequest(f"task_spec: {error}") from error
        assert request.split is not None and request.index is not None
        return await self._tasks.get(environment, request.split, request.index)

    async def _set_up(self, episode: LiveEpisode) -> None:
        KEY.set(episode.owner)
        try:
            with self._running.note(episode.number, episode.environment, "setup"):
                await episode.get_instance().set_up()
        except EnvironmentFault as fault:
            log_fault("setup failed", episode, fault)
            await self.commit(episode.end("setup_failed", episode.clock.now(), str(fault)))
            episode.fault = episode.masked(fault)
            episode.change("failed")
        else:
            if episode.state == "setting_up":
                episode.ready = episode.clock.now()
                episode.change("ready")
        finally:
            episode.work = None

    def _end_lost(self, instance: PlayedInstance, reason: str) -> None:
        """End the session of an instance that is gone as interrupted because of `reason`."""
        for episode in self.live.values():
            if is_played_by(episode.instance, instance) and episode.state != "closing":
                self.run_in_background(self.close(episode, "interrupted", reason))
                return

    async def until_ready(self, episode: LiveEpisode, seconds: float | None = None) -> None:
        """Wait for construction and setup, at most `seconds`.

        Raises: EnvironmentFault when setup has failed, SessionDeleted, SessionStarting when the time is over.
        """
        if episode.state == "ready":
            return
        try:
            async with asyncio.timeout(seconds):
                while episode.state in ("constructing", "setting_up"):
                    await episode.wait_for_change()
        except TimeoutError:
            raise SessionStarting from None
        check_alive(episode)
