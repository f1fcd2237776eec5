"""`/mcp/{environment}`: the Model Context Protocol over streamable HTTP. One MCP session is one
episode.

This module is loaded with the URLs. The package `mcp_types` takes 0.4 CPU s and 10 MB to load, so
everything that needs it is in `endpoint.py` and the modules that it imports, which a thread loads
when the first request arrives.

Every response to an error is a JSON-RPC error with the status and the text that
`agents/http/errors.py` gives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.http.request import validate_host
from rest_framework.exceptions import MethodNotAllowed

from environments import conf
from environments.agents.http.response import JSON_HEADERS, Response, header_pairs
from environments.agents.http.view import ProtocolView
from environments.agents.mcp.refusals import McpRefusal, error_json, mcp_refusal_of
from environments.errors import shorten

if TYPE_CHECKING:
    from environments.agents.mcp.endpoint import Endpoint

_endpoint_class: type[Endpoint] | None = None


class McpView(ProtocolView):
    """Answers the three methods of streamable HTTP."""

    http_method_names = ["get", "post", "delete"]
    session_meta = "HTTP_MCP_SESSION_ID"
    over_quota = "wait"
    is_of_session = True
    endpoint: Endpoint | None = None

    async def post(self) -> Response:
        return await (await self._open_endpoint()).post()

    async def get(self) -> Response:
        if self.http_request.is_head:  # GET opens a stream
            raise MethodNotAllowed("HEAD")
        return await (await self._open_endpoint()).get()

    async def delete(self) -> Response:
        return await (await self._open_endpoint()).delete()

    def refuse(self, error: Exception) -> Response:
        (status, detail, headers), code, data = mcp_refusal_of(error, self.allowed_methods)
        message_id = self.endpoint.message_id if self.endpoint else None
        body = error_json(message_id, code, detail, data)
        return Response(body, status=status, headers=JSON_HEADERS + header_pairs(headers))

    async def _open_endpoint(self) -> Endpoint:
        """Return what answers this request. Raises: McpRefusal."""
        global _endpoint_class
        check_origin(self.http_request.META)
        if self.path_environment is None:
            addresses = ", ".join(
                f"{conf.path_prefix()}/mcp/{name}"
                for name in self.key.among(self.service.registry.names)[:20]
            )
            raise McpRefusal(
                404, f"The address names no environment; this server has {addresses or 'none'}"
            )
        if _endpoint_class is None:
            _endpoint_class = await asyncio.to_thread(_import_endpoint)
        environment = self.service.registry.get(self.path_environment).name
        self.endpoint = _endpoint_class(self.service, self.key, environment, self.http_request)
        return self.endpoint


def _import_endpoint() -> type[Endpoint]:
    from environments.agents.mcp.endpoint import Endpoint

    return Endpoint


def check_origin(meta: Mapping[str, str]) -> None:
    """Refuse a request of a web page from another site, as the specification of MCP demands.
    Raises: McpRefusal."""
    origin = meta.get("HTTP_ORIGIN")
    if origin is None:
        return
    try:
        host = urlsplit(origin).hostname or ""
    except ValueError:
        host = ""
    if not host or not validate_host(host, conf.allowed_hosts()):
        raise McpRefusal(
            403,
            f"Origin {shorten(origin, 200)!r} is not allowed here; add it to ORSWEB_ALLOWED_HOSTS",
        )
