"""The check that a server without API keys can be reached from this machine only."""

from __future__ import annotations

import ipaddress

from django.conf import settings

_REMEDY = "set ORSWEB_API_KEYS=label:key (each key at least 8 characters) first"


def refusal_of(host: str) -> str | None:
    """Return a sentence that says what to set before the server may listen on `host`; None if it may."""
    if settings.ORSWEB_API_KEYS:
        return None
    if not is_loopback(host):
        return f"Listening on {host} gives other machines access without a key; {_REMEDY}, or listen on 127.0.0.1."
    if settings.ORSWEB_ALLOWED_HOSTS:
        names = ", ".join(settings.ORSWEB_ALLOWED_HOSTS)
        return f"ORSWEB_ALLOWED_HOSTS={names} gives other machines access without a key; {_REMEDY}, or unset it."
    return None


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address or "localhost"."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
