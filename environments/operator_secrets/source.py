"""Reads the operator's secrets for live play and for commands."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

import structlog
from django.db import DatabaseError, InterfaceError

from environments import conf
from environments.database.worker_threads import Workers
from environments.errors import nearest
from environments.keys.agent_key import SECRETS
from environments.keys.keyring import ring
from environments.operator_secrets.stored import stored_secrets

FRESH_SECONDS = 0.5
"""Age up to which secrets that were read are used for further sessions."""
_OF_PEOPLE = "@"
"""First character of the owner of a person's session."""

log = structlog.get_logger(__name__)


def secrets_of_operator() -> dict[str, dict[str, str]]:
    """Return the secrets of all environments, by name: those of the file, and those of the admin
    that are readable."""
    secrets = {
        environment: {name: text for name, text in texts.items() if text is not None}
        for environment, texts in stored_secrets().items()
    }
    for environment, texts in conf.environment_secrets().items():
        secrets[environment] = secrets.get(environment, {}) | dict(texts)
    return secrets


def may_use(owner: str) -> bool:
    """Return whether sessions of `owner`, a key's label or a person, get the operator's secrets."""
    if owner.startswith(_OF_PEOPLE) or not conf.has_keys():
        return True
    key = ring.named(owner)
    return key is not None and key.may(SECRETS)


def warn_of_unusable(environment_names: Iterable[str]) -> None:
    """Log environments of the file that this server does not host, and secrets that it cannot
    decrypt."""
    names = list(environment_names)
    for name in sorted(conf.environment_secrets().keys() - set(names)):
        hint = nearest(name, names).strip()
        log.warning(
            "ORSWEB_ENVIRONMENT_SECRETS_FILE names no hosted environment",
            name=name,
            hint=hint or None,
        )
    for environment, secrets in stored_secrets().items():
        if unreadable := [name for name, text in secrets.items() if text is None]:
            log.warning(
                "secrets cannot be decrypted; set them again",
                environment=environment,
                names=unreadable,
            )


class OperatorSecrets:
    """Implements `environments.runtime.environment_secrets.SecretsSource`. For use from one event
    loop.

    `of_sandboxes`: secrets that every session gets, with which code finds this machine's sandboxes.
    """

    def __init__(self, of_sandboxes: Mapping[str, str]) -> None:
        self._of_sandboxes = of_sandboxes
        self._reader = Workers(1, "secrets")
        self._secrets: Mapping[str, Mapping[str, str]] = conf.environment_secrets()
        self._until = 0.0

    async def of(self, environment: str, owner: str) -> Mapping[str, str]:
        """Return the secrets of an environment, by name, with which sessions of `owner` may
        play."""
        if time.monotonic() >= self._until:
            # while the database is away, those read last are used
            with suppress(DatabaseError, InterfaceError):
                self._secrets = await self._reader.run(secrets_of_operator)
            self._until = time.monotonic() + FRESH_SECONDS
        secrets = dict(self._of_sandboxes)
        if environment in self._secrets and may_use(owner):
            secrets |= self._secrets[environment]
        return secrets

    def close(self) -> None:
        self._reader.close()
