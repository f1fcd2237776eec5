"""GET /ready and GET /metrics, for probes, load balancers and Prometheus.

The status of `/ready` is public. The checks and the metrics name environments and show how busy the
server is, so on a server with keys they need a key with the scope `monitor`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Sequence
from typing import Any

from environments import conf
from environments.agents.http.peer_exchange import PeerConnections
from environments.agents.http.response import JSON_HEADERS, Response
from environments.agents.http.view import ProtocolView
from environments.cluster.membership import Membership, Peer
from environments.hosts.http_connection import HttpError
from environments.keys.agent_key import MONITOR, sent_key
from environments.keys.keyring import ring
from environments.service import ownership_or_none
from environments.wire import value_json
from orsweb.operations.readiness import READINESS, ReadyCheck
from orsweb.operations.server_load import ServerLoad, load_of

RETRY_AFTER = (b"retry-after", b"2")
MAX_PEER_SECONDS = 3.0
"""How long to wait for the figures of each other server on the same port."""
_CONNECTIONS = PeerConnections()
METRICS_HEADERS = ((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),)


class Ready(ProtocolView):
    """GET /ready: 200 if every check is met, or 503, with the checks for those who may read
    them."""

    needs_key = False
    scopes = ()

    async def get(self) -> Response:
        shows_checks = self._may_read_checks()
        checks = await READINESS.checks(self.service)
        is_ready = all(check.is_met for check in checks)
        body: dict[str, Any] = {"status": "ready" if is_ready else "not ready"}
        if shows_checks:
            body |= {"checks": {check.name: check.as_json() for check in checks}}
        headers = JSON_HEADERS if is_ready else (*JSON_HEADERS, RETRY_AFTER)
        return Response(
            value_json(body).encode("ascii"), status=200 if is_ready else 503, headers=headers
        )

    def _may_read_checks(self) -> bool:
        """Return whether the sender may read the checks. Raises: KeyRefused or Forbidden
        for a key that is not in force, or that may not."""
        meta = self.http_request.META
        if conf.has_keys() and sent_key(meta):
            self.key = ring.check(meta, self.http_request.client)
            self.key.require(MONITOR)
            return True
        return not conf.has_keys()


class Metrics(ProtocolView):
    """GET /metrics: the figures of all servers on this port, in the text format of Prometheus."""

    scopes = (MONITOR,)

    async def get(self) -> Response:
        checks = await READINESS.checks(self.service)
        load = await load_of(self.service)
        text = await asyncio.to_thread(_metrics_text, load, checks)
        ownership = ownership_or_none()
        if ownership is None or conf.processes() == 1:
            return Response(text, headers=METRICS_HEADERS)
        # another server asks for this one's figures only
        token = self.http_request.META.get("HTTP_X_ORSWEB_PEER", "").encode("latin-1")
        if hmac.compare_digest(token, ownership.membership.token.encode()):
            return Response(text, headers=METRICS_HEADERS)
        from orsweb.operations.metrics import label_of, merged

        texts = {label_of(conf.cluster_address()): text.decode()}
        # those that the same `serve` has started
        own_parent = conf.process_directory().parent
        peers = [
            peer
            for peer in ownership.membership.peers.values()
            if peer.directory is not None and peer.directory.parent == own_parent
        ]
        answers = await asyncio.gather(*(self._ask(peer, ownership.membership) for peer in peers))
        for peer, answer in zip(peers, answers, strict=True):
            if answer:
                texts[label_of(peer.address)] = answer
        return Response(merged(dict(sorted(texts.items()))).encode(), headers=METRICS_HEADERS)

    async def _ask(self, peer: Peer, membership: Membership) -> str:
        """Return the figures of another server; empty if it does not answer in time."""
        with contextlib.suppress(HttpError, TimeoutError):
            async with asyncio.timeout(MAX_PEER_SECONDS):
                answer = await _CONNECTIONS.send(peer, self.http_request, membership)
                if answer.status_code == 200 and isinstance(answer.body, bytes):
                    return answer.body.decode()
        return ""


def _metrics_text(load: ServerLoad, checks: Sequence[ReadyCheck]) -> bytes:
    """Return the text, which takes milliseconds, so this runs on a thread."""
    # only servers that get such a request load its library
    from orsweb.operations.metrics import metrics_text

    return metrics_text(load, checks)
