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
from environments.runtime.call_outcome import HARMLESS, QUOTA, recorded_outcome, result_of
from environments.runtime.calls import Call, LingeringCalls
from environments.runtime.host import PlayedInstance
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.operator_secrets import with_secrets
from environments.runtime.quotas import KeyUsage
from environments.runtime.records import KEY_SECRETS, OpenEpisode, RecordedPast, RunInfo, StepTaken
from environments.runtime.secrets_vault import SecretsVault
from environments.runtime.session import Session
from environments.runtime.session_life import SessionLife
from environments.runtime.session_request import SessionRequest
from environments.runtime.session_states import Constructing, Dormant, Unbound
from environments.sandbox.fair_turns import KEY

log = structlog.get_logger(__name__)

REOPENED = "After a restart of the server, its client opened the session again."
"""Recorded with the end of a session without calls whose client does not know that it was
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
        self, left: Iterable[OpenEpisode | SessionRequest], usage_of: Callable[[str], KeyUsage]
    ) -> None:
        """Keep sessions that an earlier server left until they are used or expire. Called before
        the first request.

        Those that were not bound to an environment yet are given by their requests. `usage_of`
        returns what the key with a label uses.
        """
        for past in left:
            if isinstance(past, SessionRequest):
                past.usage = usage_of(past.owner)
                session = self._table.add(past, Dormant(past))
                more_seconds = 0.0
            else:
                session = self._add_bound(past, usage_of(past.key_label))
                more_seconds = past.created - time.time()
            if (
                past.sealed
                and self.vault is not None
                and (unsealed := self.vault.unseal(past.sealed)) is not None
            ):
                # before the session is used: its client may upload its secrets, and its programs
                # print them
                self._table.mask(session, *unsealed[1])
            session.usage.sessions.taken += 1  # even over its quota: it had its place before
            self._life.limit_time(session, more_seconds)

    def _add_bound(self, left: OpenEpisode, usage: KeyUsage) -> Session:
        """Add the dormant session of an episode."""
        request = SessionRequest(
            left.session_id, left.key_label, left.environment, run=RunInfo(left.run), usage=usage
        )
        session = self._table.add(request, Dormant(left))
        session.calls.lost = list(left.running)
        episode = session.episode
        episode.continue_from(left)
        episode.counts = self._life.counts[left.environment]
        episode.is_replayable = self._life.registry.get(left.environment).replayable
        if (place := self._table.places_in.get(left.environment)) is not None:
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

    def name_key(self, sid: str, owner: str, key: str) -> None:
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
        left = dormant.left
        if isinstance(left, SessionRequest):
            try:
                left.secrets = self._unseal(left.sealed) if left.sealed else None
                session.enter("wake", Unbound(left))
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
                if step.index in left.unsent:
                    self._add_orphan(session, step)
            work = self._life.run_in_background(self._return(session, left, dormant.key, past))
            session.enter("wake", Constructing(None, work))

    def _add_orphan(self, session: Session, step: StepTaken) -> None:
        """Let the client that repeats a call have the recorded result, which perhaps did not reach
        it."""
        call = Call(step.task_id, step.tool, json.loads(step.input_json))
        call.finish(result_of(recorded_outcome(step), self._life.limits.return_errors))
        session.calls.add_orphan(call)
        self._lingering.add(call, session.calls, time.monotonic())

    async def _return(
        self, session: Session, left: OpenEpisode, key: str, past: RecordedPast
    ) -> None:
        KEY.set(session.owner)
        began = time.monotonic()
        episode = session.episode
        try:
            await self._play_again(session, left, key, past)
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
        self, session: Session, left: OpenEpisode, key: str, past: RecordedPast
    ) -> None:
        """Raises: OtherPast, EnvironmentFault, Unavailable."""
        life, episode = self._life, session.episode
        hosted = life.registry.get(episode.environment)
        hosted.check_available()
        await life.tasks.check_enabled(hosted.name)
        operator_secrets = await life.secrets_for(session, hosted.name)
        instance = session.instance = with_secrets(
            life.host.instance(hosted.name), operator_secrets
        )
        # without an API key, the openreward client sends empty secrets
        secrets = dict.fromkeys(KEY_SECRETS, key) if left.survival == "key" else None
        if left.survival == "sealed":
            secrets = self._unseal(left.sealed)
        request = SessionRequest(session.sid, session.owner, hosted.name, secrets=secrets)
        if await life.construct(session, instance, json.loads(past.spec_json), request):
            with life.running.note(episode.number, episode.environment, "setup"):
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
            session.calls.lost.clear()  # they are made again

    def _unseal(self, sealed: bytes) -> dict[str, str]:
        """Return the secrets that a session had. Raises: OtherPast."""
        if self.vault is None:
            raise OtherPast(
                "it had secrets, which are kept encrypted, and ORSWEB_SECRETS_KEY_FILE is not set"
            )
        if (unsealed := self.vault.unseal(sealed)) is None:
            raise OtherPast("it had secrets, which no key in ORSWEB_SECRETS_KEY_FILE decrypts")
        return unsealed[0]

    async def _load(self, episode: LiveEpisode, instance: PlayedInstance, state: bytes) -> None:
        with self._life.running.note(episode.number, episode.environment, "load"):
            try:
                await instance.restore(state)
            except EnvironmentFault as fault:
                raise OtherPast(f"load() failed with {fault.kind}: {fault.text}") from None

    async def _compare_prompt(
        self, episode: LiveEpisode, instance: PlayedInstance, recorded: str
    ) -> None:
        with self._life.running.note(episode.number, episode.environment, "prompt"):
            now = await (
                instance.messages_json() if _has_roles(recorded) else instance.prompt_json()
            )
        if episode.mask_json(now) != recorded:
            raise OtherPast("its prompt was another one")

    async def _repeat(
        self, episode: LiveEpisode, instance: PlayedInstance, step: StepTaken
    ) -> None:
        """Make a recorded call again. Raises: OtherPast."""
        name = f"step {step.index} ({step.tool!r})"
        if step.status == "failed" and step.reason in _UNKNOWN:
            raise OtherPast(f"{name} did not end by itself")
        with self._life.running.note(
            episode.number, episode.environment, step.tool, step.input_json
        ):
            outcome = await instance.run(step.tool, json.loads(step.input_json))
        if episode.masked_outcome(outcome) != recorded_outcome(step):
            raise OtherPast(f"{name} had another outcome")


def _has_roles(prompt_json: str) -> bool:
    """Return whether a recorded prompt consists of messages; else of blocks."""
    prompt: Any = json.loads(prompt_json)
    return isinstance(prompt, list) and any(
        isinstance(message, dict) and "role" in message for message in prompt
    )
