"""Typed functions that read environment variables for `settings.py`.

Every one raises ImproperlyConfigured, with the variable's name and the allowed values, when a value
is wrong. A secret may be stored in a file, whose path is in the variable with `_FILE` appended to
its name.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
import tomllib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import overload
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from environments.authoring.reserved_names import RESERVED_NAMES
from environments.database.storable import whole_in

_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def env_str(name: str, default: str = "") -> str:
    """Return the variable's text without surrounding white space; `default` when unset or empty."""
    return os.environ.get(name, "").strip() or default


def env_bool(name: str, *, default: bool = False) -> bool:
    """Return True for 1, true, yes and on; False for 0, false, no and off; `default` when unset or
    empty."""
    text = env_str(name).lower()
    if text and text not in _TRUE | _FALSE:
        raise ImproperlyConfigured(
            f"{name}={text!r} is neither true nor false; use one of 1, 0, true, false."
        )
    return text in _TRUE if text else default


def env_int(name: str, default: int, *, minimum: int = 0, maximum: int | None = None) -> int:
    """Return a whole number from `minimum` to `maximum`."""
    text = env_str(name)
    value = whole_in(text) if text else default
    if value is None:
        raise ImproperlyConfigured(f"{name}={text!r} is not a whole number.")
    if value < minimum:
        raise ImproperlyConfigured(f"{name}={value} is too small; the minimum is {minimum}.")
    if maximum is not None and value > maximum:
        raise ImproperlyConfigured(f"{name}={value} is too large; the maximum is {maximum}.")
    return value


@overload
def env_seconds(name: str, default: float) -> float: ...
@overload
def env_seconds(name: str, default: None) -> float | None: ...
def env_seconds(name: str, default: float | None) -> float | None:
    """Return a positive number of seconds. "none" means no limit if `default` is None."""
    text = env_str(name)
    if not text or (text.lower() == "none" and default is None):
        return default
    try:
        value = float(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={text!r} is not a number of seconds.") from error
    if not 0 < value < float("inf"):
        raise ImproperlyConfigured(f"{name}={text} must be more than 0 seconds.")
    return value


def env_share(name: str, default: float) -> float:
    """Return a number from 0 to 1."""
    text = env_str(name)
    try:
        value = float(text) if text else default
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name}={text!r} is not a number; use one from 0 to 1."
        ) from error
    if not 0 <= value <= 1:
        raise ImproperlyConfigured(f"{name}={text} is not in the range from 0 to 1.")
    return value


def env_choice(name: str, default: str, choices: Sequence[str]) -> str:
    """Return the value of the setting, which must be one of `choices`."""
    text = env_str(name, default)
    if text not in choices:
        raise ImproperlyConfigured(f"{name}={text!r} is unknown; use one of {', '.join(choices)}.")
    return text


def env_list(name: str) -> list[str]:
    """Return the comma-separated entries without surrounding white space; empty ones are
    dropped."""
    return [entry.strip() for entry in env_str(name).split(",") if entry.strip()]


def env_addresses(name: str, default: str) -> list[str]:
    """Return comma-separated IP addresses and networks, or `*` alone for all addresses."""
    entries = env_list(name) or [default]
    for entry in entries:
        try:
            if entries != ["*"]:
                ipaddress.ip_network(entry)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name}: {entry!r} is not an IP address or a network such as 10.0.0.0/8; use * "
                "for all addresses."
            ) from error
    return entries


def env_url(name: str) -> str:
    """Return the address of a server without a slash at its end: https, or http on this machine;
    empty when unset."""
    text = env_str(name).rstrip("/")
    try:
        parts = urlsplit(text)
        is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={text!r} is not an address.") from error
    if text and not (
        parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_local))
    ):
        raise ImproperlyConfigured(
            f"{name}={text!r} has to begin with https:// (http:// only on this machine)."
        )
    return text


def env_path_prefix(name: str) -> str:
    """Return a path without a slash at its end, such as /ors; empty when unset or /."""
    text = env_str(name).removesuffix("/")
    parts = text.split("/")[1:]
    if text and not (_PATH.fullmatch(text) and {".", ".."}.isdisjoint(parts)):
        raise ImproperlyConfigured(
            f"{name}={text!r} is not a path such as /ors or /lab/ors; it begins with a slash, and "
            "its parts have letters, digits and . _ ~ - only."
        )
    # a proxy may take the path off, so both forms are accepted
    if parts and parts[0].lower() in RESERVED_NAMES:
        raise ImproperlyConfigured(
            f"{name}={text!r} begins like an address of this server, /{parts[0]}; use another "
            "path, such as /ors."
        )
    return text


def env_secret(name: str, default: str = "") -> str:
    """Return the variable's text, or the content of the file whose path is in `<name>_FILE`."""
    path = env_str(f"{name}_FILE")
    if not path:
        return env_str(name, default)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}_FILE={path!r} cannot be read: {error.strerror}."
        ) from error
    except UnicodeDecodeError:  # its message would show a part of the secret
        raise ImproperlyConfigured(f"{name}_FILE={path!r} is not UTF-8 text.") from None


def env_fernet_keys(name: str) -> list[str]:
    """Return the keys of the cipher Fernet in the variable or its file, a line for each."""
    keys = env_secret(name).split()
    if not keys and not env_str(f"{name}_FILE"):
        return []
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        raise ImproperlyConfigured(
            f"{name}_FILE needs a package: pip install 'cryptography>=45'."
        ) from None
    for number, key in enumerate(keys or [""], 1):
        try:
            Fernet(key)
        except ValueError:  # its message is of no use
            how = "openssl rand -base64 32 | tr +/ -_"
            raise ImproperlyConfigured(
                f"{name}_FILE: line {number} is not a key; make one with: {how}"
            ) from None
    return keys


def env_secrets(prefix: str) -> dict[str, str]:
    """Return the secrets of all variables whose names begin with `prefix`, by the rest of their
    names."""
    names = {name.removesuffix("_FILE") for name in os.environ if name.startswith(prefix)}
    return {name.removeprefix(prefix): env_secret(name) for name in sorted(names)}


def env_environment_secrets(name: str) -> dict[str, dict[str, str]]:
    """Return the secrets of environments in a file in TOML, a table for each environment.

    Raises: ImproperlyConfigured, without showing a value.
    """
    if not env_str(name):
        return {}
    # with pydantic, which settings don't need
    from environments.runtime.environment_secrets import problem_of

    path = Path(env_str(name))
    try:
        if path.stat().st_mode & stat.S_IRWXO:
            raise ImproperlyConfigured(
                f"{name}={str(path)!r} can be read by other users; run: chmod o= {path}"
            )
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}={str(path)!r} cannot be read: {error.strerror}."
        ) from error
    except ValueError as error:  # its message may show a part of a secret
        place = re.search(r"line \d+", str(error))
        raise ImproperlyConfigured(
            f"{name}={str(path)!r} is not TOML{f': see {place[0]}' if place else ''}."
        ) from None
    for environment, secrets in tables.items():
        if not isinstance(secrets, dict):
            raise ImproperlyConfigured(
                f"{name}: {environment!r} is outside of a table; write [ENVIRONMENT] above it."
            )
        for key, value in secrets.items():
            if not isinstance(value, str):
                raise ImproperlyConfigured(
                    f"{name}: {key!r} of {environment!r} is no text; write it in quotes."
                )
            if problem := problem_of(key, value):
                raise ImproperlyConfigured(f"{name}, [{environment}]: {problem}")
    return tables


def env_keys(name: str) -> dict[str, str]:
    """Return the API keys by label, from `label:key,label:key`. Raises: ImproperlyConfigured,
    without showing a key."""
    keys: dict[str, str] = {}
    entries = [entry.strip() for entry in env_secret(name).split(",")]
    for number, entry in enumerate(filter(None, entries), start=1):
        label, colon, key = (part.strip() for part in entry.partition(":"))
        if not (colon and label and key):
            raise ImproperlyConfigured(f"{name}: entry {number} does not have the form label:key.")
        if len(key) < 8:
            raise ImproperlyConfigured(
                f"{name}: the key of {label!r} is shorter than 8 characters."
            )
        # owners of people's sessions start with @, and no key may open those
        if label.startswith("@"):
            raise ImproperlyConfigured(
                f"{name}: the label {label!r} starts with @, which is reserved for people."
            )
        if label in keys or key in keys.values():
            raise ImproperlyConfigured(f"{name}: entry {number} repeats a label or a key.")
        keys[label] = key
    return keys


def env_traces() -> bool:
    """Return whether OpenTelemetry's own variables name a collector to which traces are sent.

    Raises: ImproperlyConfigured if its packages are missing.
    """
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    variable = next(filter(env_str, names), "")
    is_off = env_str("OTEL_TRACES_EXPORTER") == "none" or env_bool("OTEL_SDK_DISABLED")
    if not variable or is_off:
        return False
    if (
        find_spec("opentelemetry") is None
        or find_spec("opentelemetry.exporter.otlp.proto.http") is None
    ):
        raise ImproperlyConfigured(
            f"{variable} is set, but the packages that send traces are not installed: run make "
            "extras EXTRAS=otel, or unset it."
        )
    return True


def env_session_hosts(name: str) -> str | None:
    """Return the address of the Ray cluster that plays sessions; empty: as Ray finds one; None:
    this machine does."""
    text = env_str(name, "local")
    kind, _, address = text.partition("=")
    if kind not in ("local", "ray") or (kind == "local" and address):
        raise ImproperlyConfigured(f"{name}={text!r} is unknown; use local, ray or ray=HOST:PORT.")
    if kind == "local":
        return None
    if address and not address.rpartition(":")[2].isdecimal():
        raise ImproperlyConfigured(f"{name}={text!r} has no port; use ray=HOST:PORT.")
    if find_spec("ray") is None:
        raise ImproperlyConfigured(f"{name}={text!r} needs a package: pip install 'ray>=2.44,<3'.")
    return address


def env_cluster_address(name: str, ports: int = 1) -> str:
    """Return where other servers of the same database reach this one: host:port, or the path of a
    Unix socket.

    `ports`: how many ports are used, from that one on.
    """
    text = env_str(name)
    host, _, port = text.rpartition(":")
    is_path = text.startswith("/")
    if text and not is_path and not (host and port.isdecimal() and 0 < int(port) < 65_536):
        raise ImproperlyConfigured(
            f"{name}={text!r} is neither HOST:PORT nor the absolute path of a Unix socket."
        )
    if text and not is_path and int(port) + ports > 65_536:
        raise ImproperlyConfigured(
            f"{name}={text!r}: {ports} ports are needed from there on, and 65535 is the last."
        )
    return text
