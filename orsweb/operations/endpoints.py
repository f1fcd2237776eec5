"""GET /ready and GET /metrics, for probes, load balancers and Prometheus.

Anybody learns from the status of `/ready` whether the server can be used. What it found, and the metrics, name
environments and say how busy the server is, so on a server with keys they take a key with the scope `monitor`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from environments import conf
from environments.agent_http.response import JSON_HEADERS, Response
from environments.agent_http.view import ANYBODY, ProtocolView, authentication_error
from environments.errors import KeyRefused
from environments.keys.agent_key import MONITOR, sent_key
from environments.keys.keyring import ring
from environments.wire import value_json
from orsweb.operations.readiness import READINESS, ReadyCheck
from orsweb.operations.server_load import ServerLoad, load_of

RETRY_AFTER = (b"retry-after", b"2")
METRICS_HEADERS = ((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),)


class Ready(ProtocolView):
    """GET /ready: 200 if every check is met, else 503, with the checks for those who may read them."""

    authenticators = ANYBODY
    scopes = ()

    async def get(self) -> Response:
        shows_checks = self._may_read_checks()
        checks = await READINESS.checks(self.service)
        is_ready = all(check.is_met for check in checks)
        body: dict[str, Any] = {"status": "ready" if is_ready else "not ready"}
        if shows_checks:
            body |= {"checks": {check.name: check.as_json() for check in checks}}
        headers = JSON_HEADERS if is_ready else (*JSON_HEADERS, RETRY_AFTER)
        return Response(value_json(body).encode("ascii"), status=200 if is_ready else 503, headers=headers)

    def _may_read_checks(self) -> bool:
        """Raises: AuthenticationFailed, Forbidden for a key that was sent and is not in force, or may not read them."""
        meta = self.http_request.META
        if conf.has_keys() and sent_key(meta):
            try:
                self.key = ring.check(meta, self.http_request.client)
            except KeyRefused as error:
                raise authentication_error(error) from None
            self.key.require(MONITOR)
            return True
        return not conf.has_keys()


class Metrics(ProtocolView):
    """GET /metrics: the server's figures, in the text format of Prometheus."""

    scopes = (MONITOR,)

    async def get(self) -> Response:
        checks = await READINESS.checks(self.service)
        load = load_of(self.service)
        return Response(await asyncio.to_thread(_metrics_text, load, checks), headers=METRICS_HEADERS)


def _metrics_text(load: ServerLoad, checks: Sequence[ReadyCheck]) -> bytes:
    """Return the text, which takes milliseconds, so it is made on a thread."""
    from orsweb.operations.metrics import metrics_text  # its library is loaded by the servers that are asked

    return metrics_text(load, checks)
