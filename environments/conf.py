"""Settings, read from Django's for everything below the faces; there only `wiring.py` reads them too.

Faces (protocol, admin) read some themselves.

The local operator: the account of whoever reaches a server without accounts; `orsweb/accounts/access.py` logs it in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import cast

from django.conf import settings

from environments.runtime.limits import Limits, ReturnErrors
from environments.scoring.buckets import Thresholds


def limits() -> Limits:
    return Limits(
        keepalive_seconds=settings.ORSWEB_KEEPALIVE,
        session_timeout_seconds=settings.ORSWEB_SESSION_TIMEOUT,
        result_linger_seconds=settings.ORSWEB_RESULT_LINGER,
        setup_wait_seconds=settings.ORSWEB_SETUP_WAIT,
        tool_timeout_seconds=settings.ORSWEB_TOOL_TIMEOUT,
        max_sessions=settings.ORSWEB_MAX_SESSIONS,
        max_result_bytes=settings.ORSWEB_MAX_RESULT_BYTES,
        return_errors=cast(ReturnErrors, settings.ORSWEB_RETURN_ERRORS),  # checked by env_choice
    )


def thresholds() -> Thresholds:
    """Between the buckets of tasks."""
    return Thresholds(
        hopeless=settings.ORSWEB_BUCKET_HOPELESS,
        saturated=settings.ORSWEB_BUCKET_SATURATED,
        attempts=settings.ORSWEB_BUCKET_ATTEMPTS,
    )


def version() -> str:
    """This server's version, as `pyproject.toml` has it."""
    return str(settings.ORSWEB_VERSION)


def build_sha() -> str | None:
    """Of the orsweb that runs here, as its operator names it."""
    return settings.ORSWEB_BUILD_SHA or None


def specifications() -> list[str]:
    """`module:Class` of every class to host; the bundled ones when none is named."""
    return list(settings.ORSWEB_ENVIRONMENTS or settings.ORSWEB_BUNDLED_ENVIRONMENTS)


def has_keys() -> bool:
    """Without any, whoever reaches this server is its operator."""
    return bool(settings.ORSWEB_API_KEYS)


@cache
def key_labels() -> Mapping[bytes, str]:
    """sha256 of each API key -> its label; empty: no key is needed."""
    return {hash_key(key): label for label, key in settings.ORSWEB_API_KEYS.items()}


def hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


OPERATOR = "local operator"
"""Its user name. The blank keeps it apart from every name that a form can give a user."""
