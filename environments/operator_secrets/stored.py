"""The secrets of environments in the database, encrypted under a key that is made of the server's
secret key.

A backup has them only encrypted, as the secret key is in the data directory.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from importlib.util import find_spec

from django.utils.crypto import salted_hmac

from environments import conf
from environments.errors import OrsError
from environments.models import Environment, EnvironmentSecret
from environments.runtime.operator_secrets import problem_of
from environments.runtime.secrets_vault import SecretsVault

SALT = "environments.operator_secrets"


class SecretRefused(OrsError):
    """A secret cannot be given; the message is a sentence without its value."""


def unavailable() -> str:
    """Return why no secret can be stored here; empty if one can."""
    if find_spec("cryptography") is not None:
        return ""
    return (
        "Secrets are stored encrypted, which needs a package: pip install 'cryptography>=45'. Or "
        "give them in the "
        "file ORSWEB_ENVIRONMENT_SECRETS_FILE."
    )


def keep(environment: Environment, name: str, value: str) -> None:
    """Store a secret instead of the one of this name, if there is one. Raises: SecretRefused."""
    if problem := problem_of(name, value):
        raise SecretRefused(problem)
    if name in conf.environment_secrets().get(environment.name, {}):
        raise SecretRefused(
            f"{name!r} comes from the file ORSWEB_ENVIRONMENT_SECRETS_FILE. Change it there."
        )
    sealed = _vault().seal({name: value}, ())
    EnvironmentSecret.objects.update_or_create(
        environment=environment, name=name, defaults={"sealed": sealed}
    )


def remove(environment: Environment, name: str) -> None:
    """Remove a secret. Raises: SecretRefused if there is none of this name."""
    if not EnvironmentSecret.objects.filter(environment=environment, name=name).delete()[0]:
        raise SecretRefused(f"There is no stored secret {name!r}.")


def stored_secrets() -> dict[str, dict[str, str | None]]:
    """Return all stored secrets, by environment and name; None: it cannot be decrypted."""
    secrets = defaultdict[str, dict[str, str | None]](dict)
    rows = EnvironmentSecret.objects.order_by("environment", "name")
    for environment, name, sealed in rows.values_list("environment__name", "name", "sealed"):
        secrets[environment][name] = _unsealed(name, bytes(sealed))
    return secrets


def _unsealed(name: str, sealed: bytes) -> str | None:
    try:
        unsealed = _vault().unseal(sealed)
    except SecretRefused:  # the package is missing
        return None
    return None if unsealed is None else unsealed[0].get(name)


def _vault() -> SecretsVault:
    """Raises: SecretRefused if the package is not installed that encrypts."""
    if problem := unavailable():
        raise SecretRefused(problem)
    return SecretsVault(
        [base64.urlsafe_b64encode(salted_hmac(SALT, "", algorithm="sha256").digest()).decode()]
    )
