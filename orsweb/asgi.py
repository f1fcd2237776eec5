"""The ASGI application. Django handles the pages, `agents` all other HTTP requests, channels the
websockets.

Environment names are first segments of paths, so a path belongs to a page only if its first segment
is in `reserved_names.PAGES`. uvicorn runs this application (`manage.py serve`), or daphne
(`manage.py runserver`, which sends no lifespan events).
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable
from functools import cache
from typing import Any

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.apps import apps
from django.urls import re_path
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orsweb.settings")

if not apps.ready:  # otherwise it was `manage.py` that imported this
    django.setup(set_prefix=False)

# These imports need the applications that setup() loads.
from django.conf import settings
from django.urls import reverse
from django.utils.module_loading import import_string

from environments import conf
from environments.agents.http.forwarding import Forwarding
from environments.agents.http.handler import ProtocolHandler
from environments.agents.http.request import HttpRequest
from environments.cluster.passed_requests import FromPeers
from environments.features import url_patterns
from environments.service import open_service, ownership_or_none, service_or_none
from orsweb.accounts.access import LocalOperatorSockets, OwnPagesOnly
from orsweb.operations.readiness import READINESS
from orsweb.pages.hanging_database import HangingDatabase
from orsweb.pages.paced_streams import PacedStreams, StreamTurns
from orsweb.pages.page_threads import PageThreads
from orsweb.pages.upload_limits import BoundedUploads, PageHandler
from orsweb.server.asgi_exchange import Receive, Send, answer_agent
from orsweb.server.exposure import Unproxied
from orsweb.server.lifespan import lifespan
from orsweb.server.path_prefix import InnerPaths

SERVED_PAGES = frozenset(
    (
        "accounts", "admin", "api", "compare", "conversations", "environments", "episodes", "events", "operations",
        "play", "rollout", "rollouts", "runs", "static", "suites", "tasks",
    )
)  # fmt: skip
"""Names in `reserved_names.PAGES` under which there are pages; the protocol answers the others in
JSON.

Written out, like `IMPORT_PATH`, so that the server listens before the pages are loaded. A test
compares both with the urls.
"""
IMPORT_PATH = "/admin/environments/task/import/"
"""The page that takes large uploads."""


def is_page(method: str, path: str) -> bool:
    """Return whether Django's URLs serve `path`. POST /tasks lists tasks and belongs to the
    protocol."""
    first, _, rest = path[1:].partition("/")
    if first == "tasks" and not rest and method == "POST":
        return False
    # Django redirects from the first to the second
    return first in SERVED_PAGES if first else path in ("", "/")


def is_agents(method: str, path: str) -> bool:
    """Return whether the protocol serves the request."""
    return not is_page(method, path)


# by its path: the packages that send traces are optional
watch_requests = (
    import_string("orsweb.operations.tracing.watch_requests") if settings.ORSWEB_TRACES else None
)
protocol = ProtocolHandler(
    "orsweb.agent_urls", is_agents, watch_requests, Forwarding if conf.is_one_of_several() else None
)
"""What answers agents. `serve` passes most of their requests to it directly (`connection.py`)."""


def has_key(scope: Any) -> bool:
    """Return whether a request for the API carries a valid key."""
    return protocol.may_send(HttpRequest(scope, no_body))


async def no_body() -> dict[str, Any]:
    raise AssertionError("only the headers of this request are read")


def from_peers(app: Any) -> Any:
    """Return `app`; on one of several servers with a wrapper that restores requests that others
    have passed on."""

    def own_token() -> str | None:
        ownership = ownership_or_none()
        return None if ownership is None else ownership.membership.token

    return FromPeers(app, own_token) if conf.is_one_of_several() else app


# Only pages use the scheme and the client's address, so a proxy's headers are read for pages only.
trusted_proxies: list[str] = settings.FORWARDED_ALLOW_IPS
uploads: Any = BoundedUploads(
    HangingDatabase(PageThreads(PageHandler()), READINESS.database_answers),
    small_bytes=settings.ORSWEB_MAX_BODY_BYTES,
    large_bytes=settings.ORSWEB_MAX_UPLOAD_BYTES,
    large_path=IMPORT_PATH,
    has_key=has_key,
)
stream_turns = StreamTurns()
pages: Any = ProxyHeadersMiddleware(
    from_peers(PacedStreams(uploads, stream_turns)), trusted_proxies
)


def http(scope: dict[str, Any], receive: Receive, send: Send) -> Awaitable[None]:
    """Pass pages to Django, on a few threads (`page_threads.py`), and all other requests to the
    protocol's handler."""
    if protocol.serves(scope["method"], scope["path"], scope["headers"]):
        return answer_agent(protocol, scope, receive, send)
    handler = play if service_or_none() is None and scope["path"].startswith("/play/") else pages
    response: Awaitable[None] = handler(scope, receive, send)
    return response


async def play(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Open the service before a page of people, because `runserver` sends no lifespan events that
    would open it."""
    await open_service()
    await pages(scope, receive, send)


@cache
def routed_sockets() -> Any:
    routes = url_patterns("sockets")  # loads pages, so it is called after the server listens
    return LocalOperatorSockets(URLRouter([*routes, re_path("", WebsocketDenier.as_asgi())]))


async def sockets(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Pass a websocket to the feature that has its address. The first may have to load the pages,
    which would hold the loop for too long."""
    handler = await asyncio.to_thread(routed_sockets)
    await handler(scope, receive, send)


websocket = OwnPagesOnly(
    ProxyHeadersMiddleware(
        from_peers(PacedStreams(AuthMiddlewareStack(sockets), stream_turns)), trusted_proxies
    )
)

router = ProtocolTypeRouter({"http": http, "websocket": websocket, "lifespan": lifespan})
# the prefix is taken off, and a server without keys refuses what came through a proxy
application = InnerPaths(Unproxied(router), conf.path_prefix())


def load_pages() -> None:
    """Import the pages and their addresses, which no request of an agent needs; meanwhile one of a
    page waits."""
    reverse("overview")
    routed_sockets()
    # what was loaded stays for good, so the collector need not scan it again
    gc.collect()
    gc.freeze()
