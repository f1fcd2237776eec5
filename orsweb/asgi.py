"""The ASGI application: pages to Django, everything else over HTTP to the protocol, websockets to channels.

Environment names live at the URL root, so a path is a page's only when its first segment is one of `reserved.PAGES`.
Driven by uvicorn (`manage.py serve`) and by daphne (`manage.py runserver`, which sends no lifespan).
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable
from functools import cache
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.core.asgi import get_asgi_application
from django.urls import re_path
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orsweb.settings")

django: Any = get_asgi_application()

# Importing these needs the applications that get_asgi_application() has set up.
from django.conf import settings  # noqa: E402
from django.urls import reverse  # noqa: E402

from environments.protocol.handler import ProtocolHandler, Receive, Send  # noqa: E402
from environments.service import current_service, open_service  # noqa: E402
from orsweb.accounts.access import LocalOperatorSockets, OwnPagesOnly  # noqa: E402
from orsweb.pages.page_threads import PageThreads  # noqa: E402
from orsweb.pages.upload_limits import BoundedUploads  # noqa: E402
from orsweb.server.exchange import Agents  # noqa: E402
from orsweb.server.lifespan import lifespan  # noqa: E402

SERVED_PAGES = frozenset(
    (
        "accounts", "admin", "api", "compare", "environments", "episodes", "events", "play", "runs", "static", "tasks",
    )
)  # fmt: skip
"""Names in `reserved_names.PAGES` under which there are pages; the protocol answers the others in JSON.

Written out, like `IMPORT_PATH`, so that the server listens before the pages are loaded. A test compares both with
the urls.
"""
IMPORT_PATH = "/admin/environments/task/import/"
"""The page that takes large uploads."""

# Only pages ask for the scheme and the client's address, so only they pay for reading a proxy's headers.
trusted_proxies: list[str] = settings.FORWARDED_ALLOW_IPS
bounded: Any = BoundedUploads(
    PageThreads(django),
    small_bytes=settings.ORSWEB_MAX_BODY_BYTES,
    large_bytes=settings.ORSWEB_MAX_UPLOAD_BYTES,
    large_path=IMPORT_PATH,
)
pages: Any = ProxyHeadersMiddleware(bounded, trusted_proxies)
protocol = ProtocolHandler()


def http(scope: dict[str, Any], receive: Receive, send: Send) -> Awaitable[None]:
    """Pages have Django's ordinary handling, on a few threads (`page_threads.py`); the protocol its lean handler."""
    if not is_page(scope["method"], scope["path"]):
        return protocol(scope, receive, send)
    handler = play if current_service() is None and scope["path"].startswith("/play/") else pages
    answered: Awaitable[None] = handler(scope, receive, send)
    return answered


async def play(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Under `runserver` the service opens at the first request of the protocol, or of somebody who wants to play."""
    await open_service()
    await pages(scope, receive, send)


def is_page(method: str, path: str) -> bool:
    """Whether Django's urls answer `path`. POST /tasks lists an environment's tasks and is the protocol's."""
    first, _, rest = path[1:].partition("/")
    if first == "tasks" and not rest and method == "POST":
        return False
    return first in SERVED_PAGES if first else path == "/"


def is_agents(method: str, path: str) -> bool:
    return not is_page(method, path)


agents = Agents(is_agents, protocol.respond, protocol.refuse_host, settings.ORSWEB_MAX_BODY_BYTES)
"""The short way to the protocol, for a server that has one."""


@cache
def player_sockets() -> Any:
    from episodes.playtest.urls import routes  # pages: loaded after the server listens

    return LocalOperatorSockets(URLRouter([*routes, re_path("", WebsocketDenier.as_asgi())]))


async def sockets(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The player's sockets. The first one may have to load the pages, which takes too long for the loop."""
    handler = await asyncio.to_thread(player_sockets)
    await handler(scope, receive, send)


websocket = OwnPagesOnly(ProxyHeadersMiddleware(AuthMiddlewareStack(sockets), trusted_proxies))

application = ProtocolTypeRouter({"http": http, "websocket": websocket, "lifespan": lifespan})


def load_pages() -> None:
    """Import the pages and their addresses, which no request of an agent needs; meanwhile one of a page waits."""
    reverse("overview")
    player_sockets()
    # What was loaded stays for good, so the collector need not look at it again.
    gc.collect()
    gc.freeze()
