"""How sessions come back after a restart of the server: at their client's next request, by playing their past again.

An episode that an earlier server left running becomes a dormant session, which has its id, its owner and its place in
quotas. The first request that needs the environment constructs it for the same task and makes the recorded calls again,
one after the other in the order in which they were completed. The outcomes are compared with the recorded ones; if one
differs, the episode ends as interrupted. docs/decisions/0042-restarts.md has the reasons.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from environments.errors import WORKER_LOST, EnvironmentFault, OrsError, SessionExists
from environments.runtime.call_outcome import HARMLESS, QUOTA, recorded_outcome, result_of
from environments.runtime.calls import Call, Calls
from environments.runtime.host import PlayedInstance
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.operator_secrets import with_secrets
from environments.runtime.quotas import KeyUsage
from environments.runtime.records import KEY_SECRETS, OpenEpisode, RecordedPast, RunInfo, StepTaken
from environments.runtime.secrets_vault import SecretsVault
from environments.runtime.session_request import SessionRequest
from environments.runtime.sessions import Sessions
from environments.sandbox.fair_turns import KEY

log = structlog.get_logger(__name__)

REOPENED = "After a restart of the server, its client opened the session again."
"""Recorded with the end of a session without calls whose client does not know that it was opened."""
_UNKNOWN = frozenset({"timeout", "internal", "WorkerLost"})
"""Reasons of failed calls of which nobody knows how far they came, so that they cannot be made again."""
_WITHOUT_TRACE = HARMLESS | {"interrupted", WORKER_LOST}
"""Reasons of calls that an instance made from the last snapshot knows nothing of."""


class OtherPast(OrsError):
    """A session was not played again as it is recorded; the text completes a sentence that says why it ends."""


class ReturningSessions(Sessions):
    """Live episodes by session id, among them those that an earlier server has started."""

    on_orphan: Callable[[Call, Calls, float], None]
    """Set by the service; called with a recorded call whose result was perhaps not sent, its session's calls, and now.
    """

    vault: SecretsVault | None = None
    """What encrypts secrets; None: they are not stored."""

    def take_over(self, left: Iterable[OpenEpisode | SessionRequest], usage_of: Callable[[str], KeyUsage]) -> None:
        """Keep sessions that an earlier server left until they are used or expire. Called before the first request.

        Those that were not bound to an environment yet are given by their requests. `usage_of` returns what the key
        with a label uses.
        """
        for one in left:
            if isinstance(one, SessionRequest):
                self._take_over_unbound(one, usage_of(one.owner))
                continue
            usage = usage_of(one.key_label)
            request = SessionRequest(one.session_id, one.key_label, one.environment, run=RunInfo(one.run), usage=usage)
            episode = self._live_episode(request)
            episode.continue_from(one)
            self._mask_sealed(episode, one.sealed)
            episode.counts = self.counts[one.environment]
            episode.is_replayable = self.registry.get(one.environment).replayable
            usage.sessions.taken += 1  # even over its quota: it had its place before
            if (place := self.places_in.get(one.environment)) is not None:
                episode.place = place
                place.taken += 1
            self._limit_time(episode, one.created - time.time())

    def _take_over_unbound(self, request: SessionRequest, usage: KeyUsage) -> None:
        request.usage = usage
        episode = self._live_episode(request)
        episode.state = "dormant"
        self._mask_sealed(episode, request.sealed)
        usage.sessions.taken += 1
        self._limit_time(episode)

    def _mask_sealed(self, episode: LiveEpisode, sealed: bytes) -> None:
        """Mask the secrets of a session before it is used: its client may upload them, and its programs print them."""
        if sealed and self.vault is not None and (unsealed := self.vault.unseal(sealed)) is not None:
            self.mask(episode, *unsealed[1])

    async def create(self, request: SessionRequest) -> None:
        """Open a session as `Sessions.create` does.

        A dormant one with the same id is replaced if nothing was called in it: its client did not get the answer to
        the request that opened it.
        """
        left = self.live.get(request.sid)
        if left is not None and left.state == "dormant" and left.owner == request.owner:
            if (await self.read_past(left)).steps:
                raise SessionExists
            left.is_reopened = True
            await self.close(left, "interrupted", REOPENED)
        await super().create(request)

    async def wake(self, episode: LiveEpisode) -> None:
        """Begin to play a dormant session again. Returns once the ids of its calls are known."""
        if episode.request is not None:
            self._wake_unbound(episode, episode.request)
            return
        past = await self.read_past(episode)
        if episode.state == "dormant":
            episode.past = None
            for step in past.steps:
                if step.index in episode.unsent:
                    self._add_orphan(episode, step)
            episode.change("constructing")
            episode.work = self.run_in_background(self._return(episode, past))

    def _wake_unbound(self, episode: LiveEpisode, request: SessionRequest) -> None:
        try:
            request.secrets = self._unseal(request.sealed) if request.sealed else None
        except OtherPast as error:
            log.warning("a session did not come back", session=episode.masked_sid, reason=str(error))
            self.run_in_background(self.close(episode, "interrupted"))
        else:
            episode.key = ""
            episode.change("unbound")

    def _add_orphan(self, episode: LiveEpisode, step: StepTaken) -> None:
        """Let the client that repeats a call have the recorded result, which perhaps did not reach it."""
        call = Call(step.task_id, step.tool, json.loads(step.input_json))
        call.finish(result_of(recorded_outcome(step), self._limits.return_errors))
        episode.calls.add_orphan(call)
        self.on_orphan(call, episode.calls, time.monotonic())

    async def _return(self, episode: LiveEpisode, past: RecordedPast) -> None:
        KEY.set(episode.owner)
        began = time.monotonic()
        try:
            await self._play_again(episode, past)
        except OrsError as error:
            why = episode.mask_text(str(error).rstrip("."))
            log.warning("a session did not come back", episode=episode.number, reason=why)
            detail = f"The server was started again, and the session did not come back, because {why}."
            self.run_in_background(self.close(episode, "interrupted", detail))
        else:
            if episode.state == "constructing":
                episode.ready = episode.ready or episode.clock.now()
                episode.change("ready")
            seconds = round(time.monotonic() - began, 3)
            log.info("a session came back", episode=episode.number, steps=len(past.steps), seconds=seconds)
        finally:
            episode.work, episode.key = None, ""

    async def _play_again(self, episode: LiveEpisode, past: RecordedPast) -> None:
        """Raises: OtherPast, EnvironmentFault, Unavailable."""
        hosted = self.registry.get(episode.environment)
        hosted.check_available()
        await self._tasks.check_enabled(hosted.name)
        given = await self._operator_secrets(episode, hosted.name)
        instance = episode.instance = with_secrets(self._host.instance(hosted.name), given)
        # without an API key, the openreward client sends empty secrets
        secrets = dict.fromkeys(KEY_SECRETS, episode.key) if episode.survival == "key" else None
        if episode.survival == "sealed":
            secrets = self._unseal(episode.sealed)
        request = SessionRequest(episode.sid, episode.owner, hosted.name, secrets=secrets)
        if await self._construct(episode, instance, json.loads(past.spec_json), request):
            with self._running.note(episode.number, episode.environment, "setup"):
                await instance.set_up()
        snapshot = past.snapshot
        if snapshot is not None and not snapshot.problem:
            await self._load(episode, instance, snapshot.state)
        elif past.prompt_json is not None:
            await self._compare_prompt(episode, instance, past.prompt_json)
        saved = -1 if snapshot is None or snapshot.problem else snapshot.index
        for step in past.steps[saved + 1 :]:
            if hosted.replayable and step.reason != QUOTA:  # of which the environment knows nothing
                await self._repeat(episode, instance, step)
            elif step.reason not in _WITHOUT_TRACE:
                why = f": {snapshot.problem}" if snapshot is not None and snapshot.problem else ""
                name = f"step {step.index} ({step.tool!r})"
                raise OtherPast(f"its class is not replayable, and {name} is in no snapshot{why}")
        if hosted.replayable:
            episode.lost_calls.clear()  # they are made again

    def _unseal(self, sealed: bytes) -> dict[str, str]:
        """Return the secrets that a session had. Raises: OtherPast."""
        if self.vault is None:
            raise OtherPast("it had secrets, which are kept encrypted, and ORSWEB_SECRETS_KEY_FILE is not set")
        if (found := self.vault.unseal(sealed)) is None:
            raise OtherPast("it had secrets, which no key in ORSWEB_SECRETS_KEY_FILE decrypts")
        return found[0]

    async def _load(self, episode: LiveEpisode, instance: PlayedInstance, state: bytes) -> None:
        with self._running.note(episode.number, episode.environment, "load"):
            try:
                await instance.restore(state)
            except EnvironmentFault as fault:
                raise OtherPast(f"load() failed with {fault.kind}: {fault.text}") from None

    async def _compare_prompt(self, episode: LiveEpisode, instance: PlayedInstance, recorded: str) -> None:
        with self._running.note(episode.number, episode.environment, "prompt"):
            now = await (instance.messages_json() if _has_roles(recorded) else instance.prompt_json())
        if episode.mask_json(now) != recorded:
            raise OtherPast("its prompt was another one")

    async def _repeat(self, episode: LiveEpisode, instance: PlayedInstance, step: StepTaken) -> None:
        """Make a recorded call again. Raises: OtherPast."""
        name = f"step {step.index} ({step.tool!r})"
        if step.status == "failed" and step.reason in _UNKNOWN:
            raise OtherPast(f"{name} did not end by itself")
        with self._running.note(episode.number, episode.environment, step.tool, step.input_json):
            outcome = await instance.run(step.tool, json.loads(step.input_json))
        if episode.masked_outcome(outcome) != recorded_outcome(step):
            raise OtherPast(f"{name} had another outcome")


def _has_roles(prompt_json: str) -> bool:
    """Return whether a recorded prompt consists of messages; else of blocks."""
    prompt: Any = json.loads(prompt_json)
    return isinstance(prompt, list) and any(isinstance(one, dict) and "role" in one for one in prompt)
