"""The secrets of environments in the database, encrypted under a key derived from the server's
secret key. That key is in the data directory, so a backup of the database has no readable secret.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from contextlib import suppress
from importlib.util import find_spec

from django.utils.crypto import salted_hmac

from environments import conf
from environments.errors import OrsError
from environments.models import Environment, EnvironmentSecret
from environments.runtime.environment_secrets import problem_of
from environments.runtime.secrets_vault import SecretsVault

SALT = "environments.operator_secrets"


class SecretRefused(OrsError):
    """A secret cannot be stored or removed; the message is a sentence without its value."""


def unavailable() -> str:
    """Return why no secret can be stored here; empty if one can."""
    if find_spec("cryptography") is not None:
        return ""
    return (
        "Secrets are stored encrypted, which needs a package: pip install 'cryptography>=45'. Or "
        "give them in the file ORSWEB_ENVIRONMENT_SECRETS_FILE."
    )


def keep(environment: Environment, name: str, value: str) -> None:
    """Store a secret, which replaces one of the same name. Raises: SecretRefused."""
    if problem := problem_of(name, value):
        raise SecretRefused(problem)
    if name in conf.environment_secrets().get(environment.name, {}):
        raise SecretRefused(
            f"{name!r} comes from the file ORSWEB_ENVIRONMENT_SECRETS_FILE. Change it there."
        )
    defaults = {"sealed": _vault().seal({name: value}, ())}
    EnvironmentSecret.objects.update_or_create(
        environment=environment, name=name, defaults=defaults
    )


def remove(environment: Environment, name: str) -> None:
    """Remove a secret. Raises: SecretRefused if there is none of this name."""
    if not EnvironmentSecret.objects.filter(environment=environment, name=name).delete()[0]:
        raise SecretRefused(f"There is no stored secret {name!r}.")


def stored_secrets() -> dict[str, dict[str, str | None]]:
    """Return all stored secrets, by environment and name; None: it cannot be decrypted."""
    secrets = defaultdict[str, dict[str, str | None]](dict)
    rows = EnvironmentSecret.objects.order_by("environment", "name")
    for environment, name, encrypted_secret in rows.values_list(
        "environment__name", "name", "sealed"
    ):
        contents = None
        with suppress(SecretRefused):  # the package is missing
            contents = _vault().unseal(bytes(encrypted_secret))
        secrets[environment][name] = None if contents is None else contents[0].get(name)
    return secrets


def _vault() -> SecretsVault:
    """Return what encrypts secrets. Raises: SecretRefused if its package is not installed."""
    if problem := unavailable():
        raise SecretRefused(problem)
    key = salted_hmac(SALT, "", algorithm="sha256").digest()
    return SecretsVault([base64.urlsafe_b64encode(key).decode()])
