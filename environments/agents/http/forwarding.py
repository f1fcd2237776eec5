"""Passes requests about a session on to the server that has it, where several servers share the
database.

A request whose server dies before it has answered is sent again, to the server that takes the
session over; that is what its client would do. docs/scale.md describes what clients see.
"""

from __future__ import annotations

import asyncio
import hmac
import time
import uuid

import structlog

from environments.agents.http.handler import MCP_PATH, Answer
from environments.agents.http.peer_exchange import PeerConnections
from environments.agents.http.request import HttpRequest
from environments.agents.http.response import Response, refusal
from environments.cluster.passed_requests import REQUEST_META
from environments.cluster.takeover import Ownership
from environments.hosts.http_connection import HttpError
from environments.runtime.service import SessionService
from environments.service import ownership_or_none, service_or_none

NOT_HERE = 421
"""Status of the answer to a server that passed on a request about a session that is no longer here,
or that meant the server that listened here before: the successor of a dead one may answer before
its death is known."""
MAX_SECONDS = 30.0
"""How long a request waits for a server that does not answer and is not known to be dead."""
RETRY_SECONDS = 0.1
_AWAY = "The server that has this session does not answer; try again."

log = structlog.get_logger(__name__)


class Forwarding:
    """Answers requests in place of `answer`, to which it leaves those about sessions of this
    server."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._connections = PeerConnections()

    async def __call__(self, request: HttpRequest) -> Response:
        sid = request.META.get(
            "HTTP_MCP_SESSION_ID" if request.path.startswith(MCP_PATH) else "HTTP_X_SESSION_ID", ""
        )
        service, ownership = service_or_none(), ownership_or_none()
        if not sid or service is None or ownership is None or service.is_live(sid):
            return await self._answer(request)
        try:
            sid = sid.encode("latin-1").decode("utf-8").strip()
        except UnicodeDecodeError:
            return await self._answer(request)  # refuses it
        if service.is_live(sid):
            return await self._answer(request)
        if (token := request.META.get("HTTP_X_ORSWEB_PEER")) is not None:
            return await self._answer_peer(request, sid, token, service, ownership)
        return await self._pass_on(request, sid, ownership)

    async def _answer_peer(
        self,
        request: HttpRequest,
        sid: str,
        token: str,
        service: SessionService,
        ownership: Ownership,
    ) -> Response:
        """Answer a request that another server has passed on about a session that is not live
        here."""
        if not hmac.compare_digest(token.encode("latin-1"), ownership.membership.token.encode()):
            return refusal(
                NOT_HERE,
                "Only servers of this cluster send X-Orsweb-Peer, to the server that they know",
            )
        ownership.forget_place(sid)
        is_here = _opens(request) or await ownership.place_of(sid) is None
        if is_here and not service.is_suspended(sid):
            return await self._answer(request)
        return refusal(NOT_HERE, "This server does not have the session")

    async def _pass_on(self, request: HttpRequest, sid: str, ownership: Ownership) -> Response:
        until = time.monotonic() + MAX_SECONDS
        request_id = request.META.get(REQUEST_META) or uuid.uuid4().hex
        while True:
            peer = await ownership.place_of(sid, is_new=_opens(request))
            if peer is None:
                request.META[REQUEST_META] = request_id
                try:
                    return await self._answer(request)
                finally:
                    if _opens(request):
                        ownership.settle_claim(sid)
            try:
                response = await self._connections.send(
                    peer, request, ownership.membership, request_id
                )
            except HttpError as error:
                log.info("a server does not answer", server=peer.id, reason=str(error))
                ownership.counts.passed_on["no answer"] += 1
                await ownership.check_peers()
            else:
                if response.status_code != NOT_HERE:
                    ownership.counts.passed_on["answered"] += 1
                    return response
                ownership.counts.passed_on["moved"] += 1
                await ownership.check_peers()
            ownership.forget_place(sid)
            if time.monotonic() > until or request.has_disconnected():
                ownership.counts.passed_on["given up"] += 1
                return refusal(503, _AWAY, {"Retry-After": "2"})
            await asyncio.sleep(RETRY_SECONDS)


def _opens(request: HttpRequest) -> bool:
    """Return whether the request opens a session."""
    return request.method == "POST" and request.path.strip("/") == "create"
