"""Requests below ORSWEB_PATH_PREFIX, the path at which a proxy has this server, such as
https://lab.example/ors/.

A proxy passes the prefix on or takes it off, and probes and both SDKs ask without it, so both are
accepted. Inside, paths have no prefix. Only Django's requests (`upload_limits.py`) and URLs
(`urls.py`) have it, because Django builds addresses from them.

A proxy's header X-Forwarded-Prefix is not read: addresses are also built where there is no request,
some are kept for other requests, and the path of cookies has to be known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


def inner_path(path: str, prefix: str) -> str:
    """Return `path` without the prefix; empty for the prefix alone."""
    rest = path.removeprefix(prefix)
    return rest if rest[:1] in ("", "/") else path  # /orsweb is not below /ors


class InnerPaths:
    """ASGI middleware that takes the prefix off. `connection.py` does so for requests that it
    passes to agents."""

    def __init__(self, app: App, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if "path" in scope:  # not that of the lifespan
            scope = {**scope, "path": inner_path(scope["path"], self._prefix)}
        await self._app(scope, receive, send)
