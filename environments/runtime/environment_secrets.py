"""Secrets that the operator gives to an environment: an agent plays with them and never sees them.

They are passed to the environment like those of a client, which win, and masked in all that comes
back from it. So they are in no answer either, where a client's own secrets may be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeVar

from environments import wire
from environments.errors import EnvironmentFault
from environments.runtime.call_outcome import CallOutcome
from environments.runtime.host import PlayedInstance
from environments.runtime.records import RUN_PREFIX
from environments.runtime.secrets_mask import MAX_SECRET_CHARACTERS, MIN_SECRET_CHARACTERS, mask_of

T = TypeVar("T")
MAX_NAME_CHARACTERS = 200


def problem_of(name: str, value: str) -> str:
    """Return why no environment can get this secret, without its value; empty if one can."""
    if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        return (
            f"The name of a secret has 1 to {MAX_NAME_CHARACTERS} characters that can be printed."
        )
    if name.startswith(RUN_PREFIX):
        return f"{name!r} begins with {RUN_PREFIX}, which describes a run; no environment gets it."
    if not MIN_SECRET_CHARACTERS <= len(value) <= MAX_SECRET_CHARACTERS:
        return (
            f"The secret {name!r} has {len(value):,} characters. It needs {MIN_SECRET_CHARACTERS} "
            f"to {MAX_SECRET_CHARACTERS:,}, because others can't be masked."
        )
    return ""


class SecretsSource(Protocol):
    """Where live play reads the operator's secrets."""

    async def of(self, environment: str, owner: str) -> Mapping[str, str]:
        """Return the secrets of an environment, by name, with which sessions of `owner` may
        play."""


class SecretiveInstance:
    """Plays as `instance` does, with further secrets, which it masks in what it returns and
    raises."""

    def __init__(self, instance: PlayedInstance, secrets: Mapping[str, str]) -> None:
        self.instance = instance
        self._secrets, self._mask = dict(secrets), mask_of(tuple(secrets.values()))

    async def construct(self, spec: Any, secrets: dict[str, str], toolset: str | None) -> bool:
        # without a key, openreward's client sends ""
        client_secrets = {name: text for name, text in secrets.items() if text}
        return await self._masking(
            self.instance.construct(spec, self._secrets | client_secrets, toolset)
        )

    async def set_up(self) -> None:
        await self._masking(self.instance.set_up())

    async def restore(self, state: bytes) -> None:
        await self._masking(self.instance.restore(state))

    async def prompt_json(self) -> str:
        return self._mask.json(await self._masking(self.instance.prompt_json()))

    async def messages_json(self) -> str:
        return self._mask.json(await self._masking(self.instance.messages_json()))

    async def task_tools_json(self) -> str:
        return self._mask.json(await self._masking(self.instance.task_tools_json()))

    async def run(self, tool: str, arguments: wire.JSONObject, /) -> CallOutcome:
        outcome, mask = await self.instance.run(tool, arguments), self._mask
        if outcome.output_json is not None:
            outcome.output_json = mask.json(outcome.output_json)
        outcome.error = mask.text(outcome.error)
        outcome.reason = mask.text(outcome.reason)
        outcome.trace = mask.text(outcome.trace)
        return outcome  # no agent gets its snapshot, and the record masks it

    async def score(self, candidates: list[wire.GroupCandidate]) -> str:
        return self._mask.json(await self._masking(self.instance.score(candidates)))

    async def close(self) -> None:
        await self._masking(self.instance.close())

    async def _masking(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except EnvironmentFault as fault:
            raise EnvironmentFault(
                *map(self._mask.text, (fault.kind, fault.text, fault.trace))
            ) from None


def with_secrets(instance: PlayedInstance, secrets: Mapping[str, str]) -> PlayedInstance:
    """Return an instance that plays with these secrets of the operator, if there are any."""
    return SecretiveInstance(instance, secrets) if secrets else instance


def is_played_by(instance: PlayedInstance | None, host_instance: PlayedInstance) -> bool:
    """Return whether `instance` is `host_instance`, perhaps with secrets of the operator."""
    return instance is host_instance or (
        isinstance(instance, SecretiveInstance) and instance.instance is host_instance
    )
