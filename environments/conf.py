"""Typed access to the Django settings that several rooms need.

Faces (protocol, admin) and `environments/service.py` also read some settings directly; nothing else
does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from django.conf import settings
from django.core.signals import setting_changed

from environments.limits import (
    NO_SETTINGS,
    Limits,
    LoadingSettings,
    SandboxSettings,
    WorkerSettings,
)
from environments.quotas import Quotas
from environments.scoring.task_buckets import Thresholds

IPV6_NETWORK_BITS = 64
WHOLE_ANSWER_SECONDS_IN_CLUSTER = 0.05
"""Clients soon have the id of a call, with which they find its result at another server: a server
that dies with its machine, after it has recorded a step, may not have answered it, and nobody else
knows that."""


def limits() -> Limits:
    """Return the limits of live play: each field that is a setting has that setting's value."""
    names = [field.name for field in fields(Limits) if field.name not in NO_SETTINGS]
    values = {
        name: getattr(settings, f"ORSWEB_{name.removesuffix('_seconds').upper()}") for name in names
    }
    if settings.ORSWEB_CLUSTER:
        values["whole_answer_seconds"] = WHOLE_ANSWER_SECONDS_IN_CLUSTER
    return Limits(**values)


def loading() -> LoadingSettings:
    """Return how environments are loaded."""
    return LoadingSettings(
        remote_keys(),
        path_prefix(),
        settings.ORSWEB_IMPORT_SECONDS,
        settings.DATA_DIR / "interpreters",
    )


def workers() -> WorkerSettings:
    """Return which environments are played in worker processes."""
    memory_bytes = settings.ORSWEB_WORKER_MEMORY_MB * 1024 * 1024
    return WorkerSettings(
        settings.ORSWEB_WORKERS,
        memory_bytes,
        settings.ORSWEB_WORKER_CPU_SECONDS,
        settings.ORSWEB_IMPORT_SECONDS,
        settings.ORSWEB_SESSION_HOSTS,
    )


def sandboxes() -> SandboxSettings | None:
    """Return what sandboxes environments of openreward get here; None: none."""
    if not settings.ORSWEB_SANDBOXES:
        return None
    return SandboxSettings(
        Path(settings.ORSWEB_SANDBOXES),
        settings.ORSWEB_SANDBOX_GB,
        settings.ORSWEB_SANDBOXES_AT_ONCE,
    )


def quotas() -> Quotas:
    """Return the quotas of every key that has none of its own, and of clients without a key."""
    names = [field.name for field in fields(Quotas)]
    return Quotas(**{name: getattr(settings, f"ORSWEB_QUOTA_{name.upper()}") for name in names})


def thresholds() -> Thresholds:
    """Return the thresholds between the difficulty buckets of tasks."""
    return Thresholds(
        hopeless=settings.ORSWEB_BUCKET_HOPELESS,
        saturated=settings.ORSWEB_BUCKET_SATURATED,
        attempts=settings.ORSWEB_BUCKET_ATTEMPTS,
    )


def retention_days() -> int | None:
    """Return the days after which episodes are removed that have no retention period of their own;
    None: never."""
    return int(settings.ORSWEB_RETENTION_DAYS) or None


def security_log_days() -> int:
    """Return the days for which entries of the security log are kept; 0: for ever."""
    return int(settings.ORSWEB_SECURITY_LOG_DAYS)


def version() -> str:
    """Return this server's version."""
    return str(settings.ORSWEB_VERSION)


def build_sha() -> str | None:
    """Return the commit of the running orsweb, as its operator set it; None if unset."""
    return settings.ORSWEB_BUILD_SHA or None


def max_body_bytes() -> int:
    """Return the limit on the body of an agent's request."""
    return int(settings.ORSWEB_MAX_BODY_BYTES)


def allowed_hosts() -> list[str]:
    """Return the names under which this server may be reached, as Django's `ALLOWED_HOSTS`."""
    return list(settings.ALLOWED_HOSTS)


def path_prefix() -> str:
    """Return the path at which a proxy has this server, without a slash at its end; empty: at its
    root."""
    return str(settings.ORSWEB_PATH_PREFIX)


def database_name() -> str:
    """Return what tells the database from others."""
    database = settings.DATABASES["default"]
    return "|".join(str(database.get(part, "")) for part in ("HOST", "PORT", "NAME"))


def process_directory(address: str | None = None) -> Path:
    """Return the directory in which the process that serves the database notes what it runs, for
    its successor.

    `address`: where other servers reach that process; None: this one's.
    """
    name = database_name()
    if address := cluster_address() if address is None else address:
        name += f"|{address}"  # other servers on this machine may have the same database
    return Path(settings.DATA_DIR) / f"process-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def cluster_address() -> str:
    """Return where other servers of the same database reach this one; empty if it has its database
    alone."""
    return str(settings.ORSWEB_CLUSTER)


def processes() -> int:
    """Return how many servers `serve` runs on this machine."""
    return int(settings.ORSWEB_PROCESSES)


def is_one_of_several() -> bool:
    """Return whether other servers may share the database with this one."""
    return bool(cluster_address()) or processes() > 1


def process_address(number: int) -> str:
    """Return where others reach one of this machine's servers: a Unix socket in a directory that
    only its user reads, unless ORSWEB_CLUSTER says where. Ports are counted from the one that it
    names, and paths end in the number.
    """
    base = cluster_address()
    if processes() == 1:
        return base
    if base and not base.startswith("/"):
        host, _, port = base.rpartition(":")
        return f"{host}:{int(port) + number}"
    return f"{base or process_directory() / 'server'}.{number}"


def specifications() -> list[str]:
    """Return `module:Class` or a URL for every environment; the bundled ones when the operator
    named none."""
    return list(settings.ORSWEB_ENVIRONMENTS or settings.ORSWEB_BUNDLED_ENVIRONMENTS)


def new_environments_are_private() -> bool:
    """Return whether an environment is private when it is hosted for the first time."""
    return bool(settings.ORSWEB_NEW_ENVIRONMENTS_PRIVATE)


def remote_keys() -> Mapping[str, str]:
    """Return the keys for remote environments, by what follows `ORSWEB_REMOTE_KEY_` in the names of
    their variables."""
    return dict(settings.ORSWEB_REMOTE_KEYS)


def environment_secrets() -> Mapping[str, Mapping[str, str]]:
    """Return the secrets in the file ORSWEB_ENVIRONMENT_SECRETS_FILE, by environment and name."""
    secrets: Mapping[str, Mapping[str, str]] = settings.ORSWEB_ENVIRONMENT_SECRETS
    return secrets


@cache
def has_keys() -> bool:
    """Return whether requests need an API key and pages a login; else everyone who reaches this
    server operates it.

    Every request of an agent asks. Only tests change settings, and Django says so.
    """
    return bool(settings.ORSWEB_API_KEYS or settings.ORSWEB_REQUIRE_KEYS)


setting_changed.connect(
    lambda **_: has_keys.cache_clear(), weak=False, dispatch_uid="environments.conf.has_keys"
)


def settings_keys() -> Mapping[str, str]:
    """Return the keys of ORSWEB_API_KEYS by label."""
    return dict(settings.ORSWEB_API_KEYS)


def max_wrong_keys() -> int:
    """Return how many unknown keys an address may send in a minute."""
    return int(settings.ORSWEB_KEY_ATTEMPTS)


def address_of(client: str, header: str) -> str:
    """Return the address of the sender of a request that came from `client` with this
    `X-Forwarded-For`.

    The header counts only if a trusted proxy sent it; of its addresses, the last one that is no
    trusted proxy's.
    """
    proxies = settings.FORWARDED_ALLOW_IPS
    for address in (part.strip() for part in reversed(header.split(","))):
        if not (address and _is_among(client, proxies)):
            break
        client = address
    return client


def network_of(address: str) -> str:
    """Return what limits count of a client's address: itself, or its network of IPv6.

    A machine has all addresses of such a network.
    """
    if ":" not in address:
        return address
    try:
        network = IPv6Network((address.partition("%")[0], IPV6_NETWORK_BITS), strict=False)
    except ValueError:  # a proxy's name for a client
        return address
    ipv4 = IPv6Address(address.partition("%")[0]).ipv4_mapped
    return str(ipv4 or network)


def max_streams() -> tuple[int, int]:
    """Return how many event streams and sockets a key or a person may have open, and how many an
    address."""
    return settings.ORSWEB_MAX_STREAMS_PER_KEY, settings.ORSWEB_MAX_STREAMS_PER_ADDRESS


def _is_among(address: str, networks: Sequence[str]) -> bool:
    try:
        return any(
            network == "*" or ip_address(address) in ip_network(network) for network in networks
        )
    except ValueError:
        return False
