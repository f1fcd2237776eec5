"""Checks that a server without API keys can be reached from this machine only."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from environments import conf, security_log
from environments.agents.http.proxy_signs import meta_name, refusal_of_proxied
from environments.wire import value_json

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]

_REMEDY = "set ORSWEB_API_KEYS=label:key (each key at least 8 characters) first"


def refusal_of(host: str) -> str | None:
    """Return a sentence that says what to set before the server may listen on `host`; None if it
    may."""
    if conf.has_keys():
        return None
    if not is_loopback(host):
        return (
            f"Listening on {host} gives other machines access without a key; {_REMEDY}, or listen "
            "on 127.0.0.1."
        )
    if settings.ORSWEB_ALLOWED_HOSTS:
        names = ", ".join(settings.ORSWEB_ALLOWED_HOSTS)
        return (
            f"ORSWEB_ALLOWED_HOSTS={names} gives other machines access without a key; {_REMEDY}, "
            "or unset it."
        )
    return None


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address or "localhost"."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Unproxied:
    """Refuses everything that comes through a proxy to a server without keys: requests of agents,
    pages, static files, websockets.

    `connection.py` passes most requests of agents directly to their handler, which checks their
    headers itself.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        sentence = ""
        if not conf.has_keys() and scope["type"] != "lifespan":
            names = tuple(meta_name(name) for name, _ in scope["headers"])
            sentence = refusal_of_proxied(names, scope.get("http_version", "1.1"))
        if not sentence:
            await self._app(scope, receive, send)
            return
        address, _ = scope.get("client") or ("", 0)
        security_log.note("proxy_refused", who="", address=address, detail=sentence)
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "Not through a proxy"})
        else:
            body = value_json({"detail": sentence}).encode("ascii")
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
            ]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})
