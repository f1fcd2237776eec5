"""How sessions come back after a restart of the server: at their client's next request, by playing
their past again.

An episode that an earlier server left running becomes a dormant session, which has its id, its
owner and its place in quotas. The first request that needs the environment constructs it for the
same task and makes the recorded calls again, one after the other in the order in which they were
completed. The outcomes are compared with the recorded ones; if one differs, the episode ends as
interrupted. docs/decisions/0042-restarts.md has the reasons.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from environments.errors import WORKER_LOST, EnvironmentFault, OrsError, SessionExists
from environments.fair_turns import KEY
from environments.quotas import KeyUsage
from environments.runtime.call_outcome import HARMLESS, QUOTA, recorded_outcome
from environments.runtime.call_table import Call, LingeringCalls
from environments.runtime.environment_secrets import with_secrets
from environments.runtime.host import PlayedInstance
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.records import KEY_SECRETS, OpenEpisode, RecordedPast, RunInfo, StepTaken
from environments.runtime.secrets_vault import SecretsVault
from environments.runtime.session import Session
from environments.runtime.session_life import SessionLife
from environments.runtime.session_request import SessionRequest
from environments.runtime.session_states import Constructing, Dormant, Unbound

log = structlog.get_logger(__name__)

REOPENED = "After a restart of the server, its client opened the session again."
"""Recorded with the end of a session without calls whose client did not learn that it was
opened."""
STAYS: Mapping[str, str] = {
    "secrets": "The session could not go on, because it had secrets, which are not stored.",
    "toolset": "The session could not go on, because it was opened with a toolset.",
}
"""Why a session of a class that comes back ended with the server, by its `Survival`."""
_UNKNOWN = frozenset({"timeout", "internal", "WorkerLost"})
"""Reasons of failed calls of which nobody knows how far they came, so that they cannot be made
again."""
_WITHOUT_TRACE = HARMLESS | {"interrupted", WORKER_LOST}
"""Reasons of calls that an instance made from the last snapshot knows nothing of."""


class OtherPast(OrsError):
    """A session was not played again as it is recorded; the text completes a sentence that says why
    it ends."""


class SessionReturn:
    """Brings sessions back that an earlier server has opened."""

    def __init__(self, life: SessionLife, lingering: LingeringCalls) -> None:
        self._life, self._lingering = life, lingering
        self._table = life.table
        self.vault: SecretsVault | None = None  # what encrypts secrets; None: they are not stored

    def take_over(
        self, sessions: Iterable[OpenEpisode | SessionRequest], usage_of: Callable[[str], KeyUsage]
    ) -> None:
        """Keep sessions that an earlier server left until they are used or expire. Called before
        the first request.

        Those that were not bound to an environment yet are given by their requests. `usage_of`
        returns what the key with a label uses.
        """
        for origin in sessions:
            if isinstance(origin, SessionRequest):
                origin.usage = usage_of(origin.owner)
                session = self._table.add(origin, Dormant(origin))
                more_seconds = 0.0
            else:
                session = self._add_bound(origin, usage_of(origin.key_label))
                more_seconds = origin.created - time.time()
            if origin.sealed and self.vault is not None:
                # before the session is used: its client may upload its secrets, and its programs
                # print them
                _, masked_texts = self.vault.unseal(origin.sealed) or ({}, ())
                self._table.mask(session, *masked_texts)
            session.usage.sessions.taken += 1  # even over its quota: it had its place before
            self._life.limit_time(session, more_seconds)

    def _add_bound(self, past_episode: OpenEpisode, usage: KeyUsage) -> Session:
        """Add the dormant session of an episode."""
        request = SessionRequest(
            past_episode.session_id,
            past_episode.key_label,
            past_episode.environment,
            run=RunInfo(past_episode.run),
            usage=usage,
        )
        session = self._table.add(request, Dormant(past_episode))
        session.calls.lost = list(past_episode.running)
        episode = session.episode
        episode.continue_from(past_episode)
        episode.counts = self._life.counts[past_episode.environment]
        episode.is_replayable = self._life.registry.get(past_episode.environment).replayable
        if (place := self._table.places_in.get(past_episode.environment)) is not None:
            session.place = place
            place.taken += 1
        return session

    async def make_room(self, request: SessionRequest) -> None:
        """End a dormant session with the id that `request` opens, if nothing was called in it.

        Its client did not get the answer to the request that opened it. Raises: SessionExists.
        """
        session = self._table.get(request.sid, request.owner)
        if session is not None and isinstance(session.state, Dormant):
            has_steps = bool((await self._life.past_of(session, session.state)).steps)
            # another request woke it
            if has_steps or not (session.is_ending or isinstance(session.state, Dormant)):
                raise SessionExists
            await self._life.close(session, "interrupted", REOPENED, heir="client")

    def mask_key(self, sid: str, owner: str, key: str) -> None:
        """Mask `key`, which its client sends, in what is recorded of a dormant session."""
        session = self._table.get(sid, owner)
        if key and session is not None and isinstance(session.state, Dormant):
            self._table.mask(session, key)
            session.state.key = key

    async def wake(self, session: Session) -> None:
        """Begin to play a session again if it is dormant. Returns once the ids of its calls are
        known."""
        dormant = session.state
        if not isinstance(dormant, Dormant):
            return
        origin = dormant.origin
        if isinstance(origin, SessionRequest):
            try:
                origin.secrets = self._unseal(origin.sealed) if origin.sealed else None
                session.enter("wake", Unbound(origin))
            except OtherPast as error:
                log.warning(
                    "a session did not come back",
                    session=session.episode.masked_sid,
                    reason=str(error),
                )
                self._life.run_in_background(self._life.close(session, "interrupted"))
            return
        past = await self._life.past_of(session, dormant)
        if session.state is dormant:
            for step in past.steps:
                if step.index in origin.unsent:
                    # for the client that repeats the call, because it perhaps got no result
                    call = Call(step.task_id, step.tool, json.loads(step.input_json))
                    call.finish(recorded_outcome(step).result(self._life.limits.return_errors))
                    session.calls.add_orphan(call)
                    self._lingering.add(call, session.calls, time.monotonic())
            work = self._life.run_in_background(self._return(session, origin, dormant.key, past))
            session.enter("wake", Constructing(None, work))

    async def _return(
        self, session: Session, past_episode: OpenEpisode, key: str, past: RecordedPast
    ) -> None:
        KEY.set(session.owner)
        began = time.monotonic()
        episode = session.episode
        try:
            await self._play_again(session, past_episode, key, past)
        except OrsError as error:
            why = episode.mask_text(str(error).rstrip("."))
            log.warning("a session did not come back", episode=episode.number, reason=why)
            detail = (
                f"The server was started again, and the session did not come back, because {why}."
            )
            self._life.run_in_background(self._life.close(session, "interrupted", detail))
        else:
            if not session.is_ending:
                self._life.start(session)
            seconds = round(time.monotonic() - began, 3)
            log.info(
                "a session came back",
                episode=episode.number,
                steps=len(past.steps),
                seconds=seconds,
            )

    async def _play_again(
        self, session: Session, past_episode: OpenEpisode, key: str, past: RecordedPast
    ) -> None:
        """Raises: OtherPast, EnvironmentFault, Unavailable."""
        life, episode = self._life, session.episode
        environment = life.registry.get(episode.environment)
        environment.check_available()
        await life.tasks.check_enabled(environment.name)
        operator_secrets = await life.secrets_for(session, environment.name)
        instance = session.instance = with_secrets(
            life.host.instance(environment.name), operator_secrets
        )
        # without an API key, the openreward client sends empty secrets
        secrets = dict.fromkeys(KEY_SECRETS, key) if past_episode.survival == "key" else None
        if past_episode.survival == "sealed":
            secrets = self._unseal(past_episode.sealed)
        request = SessionRequest(session.sid, session.owner, environment.name, secrets=secrets)
        if await life.construct(session, instance, json.loads(past.spec_json), request):
            with life.crash_notes.note(episode.number, episode.environment, "setup"):
                await instance.set_up()
        snapshot = past.snapshot
        if snapshot is not None and not snapshot.problem:
            with life.crash_notes.note(episode.number, episode.environment, "load"):
                try:
                    await instance.restore(snapshot.state)
                except EnvironmentFault as fault:
                    raise OtherPast(f"load() failed with {fault.kind}: {fault.text}") from None
        elif past.prompt_json is not None:
            await self._compare_prompt(episode, instance, past.prompt_json)
        next_index = 0 if snapshot is None or snapshot.problem else snapshot.index + 1
        for step in past.steps[next_index:]:
            # the environment knows nothing of a call refused by a quota
            if environment.replayable and step.reason != QUOTA:
                await self._repeat(episode, instance, step)
            elif step.reason not in _WITHOUT_TRACE:
                why = f": {snapshot.problem}" if snapshot is not None and snapshot.problem else ""
                name = f"step {step.index} ({step.tool!r})"
                raise OtherPast(f"its class is not replayable, and {name} is in no snapshot{why}")
        if environment.replayable:
            session.calls.lost.clear()  # they are made again

    def _unseal(self, sealed_secrets: bytes) -> dict[str, str]:
        """Return the secrets that a session had. Raises: OtherPast."""
        if self.vault is None:
            raise OtherPast(
                "it had secrets, which are kept encrypted, and ORSWEB_SECRETS_KEY_FILE is not set"
            )
        contents = self.vault.unseal(sealed_secrets)
        if contents is None:
            raise OtherPast("it had secrets, which no key in ORSWEB_SECRETS_KEY_FILE decrypts")
        return contents[0]

    async def _compare_prompt(
        self, episode: LiveEpisode, instance: PlayedInstance, prompt_json: str
    ) -> None:
        prompt: Any = json.loads(prompt_json)
        has_roles = isinstance(prompt, list) and any(
            isinstance(message, dict) and "role" in message for message in prompt
        )
        read = instance.messages_json if has_roles else instance.prompt_json
        with self._life.crash_notes.note(episode.number, episode.environment, "prompt"):
            new_prompt = await read()
        if episode.mask_json(new_prompt) != prompt_json:
            raise OtherPast("its prompt was another one")

    async def _repeat(
        self, episode: LiveEpisode, instance: PlayedInstance, step: StepTaken
    ) -> None:
        """Make a recorded call again. Raises: OtherPast."""
        name = f"step {step.index} ({step.tool!r})"
        if step.status == "failed" and step.reason in _UNKNOWN:
            raise OtherPast(f"{name} did not end by itself")
        with self._life.crash_notes.note(
            episode.number, episode.environment, step.tool, step.input_json
        ):
            outcome = await instance.run(step.tool, json.loads(step.input_json))
        if episode.masked_outcome(outcome) != recorded_outcome(step):
            raise OtherPast(f"{name} had another outcome")
