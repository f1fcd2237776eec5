"""Secrets that the operator gives to an environment: an agent plays with them and never sees them.

They are passed to the environment like those of a client, which win, and masked in all that comes
back from it. So
they are in no answer either, where a client's own secrets may be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeVar

from environments import wire
from environments.errors import EnvironmentFault
from environments.runtime.call_outcome import CallOutcome, Snapshot
from environments.runtime.host import PlayedInstance
from environments.runtime.records import RUN_PREFIX
from environments.runtime.secrets_mask import MAX_SECRET_CHARACTERS, MIN_SECRET_CHARACTERS, mask_of

T = TypeVar("T")
MAX_NAME_CHARACTERS = 200


def problem_of(name: str, value: str) -> str:
    """Return why no environment can be given this secret, as a sentence without its value; empty if
    it can."""
    if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        return (
            f"The name of a secret has 1 to {MAX_NAME_CHARACTERS} characters that can be printed."
        )
    if name.startswith(RUN_PREFIX):
        return f"{name!r} begins with {RUN_PREFIX}, which describes a run; no environment gets it."
    if not MIN_SECRET_CHARACTERS <= len(value) <= MAX_SECRET_CHARACTERS:
        return (
            f"The secret {name!r} has {len(value):,} characters. It needs {MIN_SECRET_CHARACTERS} "
            "to "
            f"{MAX_SECRET_CHARACTERS:,}, because others can't be masked."
        )
    return ""


class SecretsSource(Protocol):
    """Where live play reads the operator's secrets."""

    async def of(self, environment: str, owner: str) -> Mapping[str, str]:
        """Return the secrets of an environment, by name, with which sessions of `owner` may
        play."""


class SecretiveInstance:
    """Plays as `played` does, with further secrets, which it masks in what it returns and
    raises."""

    def __init__(self, played: PlayedInstance, secrets: Mapping[str, str]) -> None:
        self.played = played
        self._secrets, self._mask = dict(secrets), mask_of(tuple(secrets.values()))

    async def construct(self, spec: Any, secrets: dict[str, str], toolset: str | None) -> bool:
        # without a key, openreward's client sends ""
        sent = {name: text for name, text in secrets.items() if text}
        return await self._masking(self.played.construct(spec, self._secrets | sent, toolset))

    async def set_up(self) -> None:
        await self._masking(self.played.set_up())

    async def restore(self, state: bytes) -> None:
        await self._masking(self.played.restore(state))

    async def prompt_json(self) -> str:
        return self._mask.json(await self._masking(self.played.prompt_json()))

    async def messages_json(self) -> str:
        return self._mask.json(await self._masking(self.played.messages_json()))

    async def task_tools_json(self) -> str:
        return self._mask.json(await self._masking(self.played.task_tools_json()))

    async def run(self, tool: str, arguments: wire.JSONObject, /) -> CallOutcome:
        outcome, text = await self.played.run(tool, arguments), self._mask.text
        if outcome.output_json is not None:
            outcome.output_json = self._mask.json(outcome.output_json)
        outcome.error, outcome.reason, outcome.trace = map(
            text, (outcome.error, outcome.reason, outcome.trace)
        )
        if outcome.snapshot is not None:
            outcome.snapshot = self._checked(outcome.snapshot)
        return outcome

    async def score(self, candidates: list[wire.GroupCandidate]) -> str:
        return self._mask.json(await self._masking(self.played.score(candidates)))

    async def close(self) -> None:
        await self._masking(self.played.close())

    def _checked(self, snapshot: Snapshot) -> Snapshot:
        state = snapshot.state.decode("utf-8", "surrogateescape")
        if self._mask.text(state) != state:
            return Snapshot(problem="what save() returned contains a secret of the operator")
        return Snapshot(snapshot.state, self._mask.text(snapshot.problem))

    async def _masking(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except EnvironmentFault as fault:
            raise EnvironmentFault(
                *map(self._mask.text, (fault.kind, fault.text, fault.trace))
            ) from None


def with_secrets(played: PlayedInstance, secrets: Mapping[str, str]) -> PlayedInstance:
    """Return what plays with these secrets of the operator, if there are any."""
    return SecretiveInstance(played, secrets) if secrets else played


def is_played_by(instance: PlayedInstance | None, played: PlayedInstance) -> bool:
    """Return whether `instance` is what the host calls `played`."""
    return instance is played or (
        isinstance(instance, SecretiveInstance) and instance.played is played
    )
