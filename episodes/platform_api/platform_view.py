"""What the endpoints under /v1/ share, and the answer where there is none. Keys are checked as at
the protocol's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qsl

from environments.agents.http.errors import reply_to
from environments.agents.http.response import JSON_HEADERS, Response, json_response
from environments.agents.http.view import ProtocolView
from environments.database.storable import id_in
from environments.errors import InvalidRequest
from environments.keys.agent_key import READ
from environments.wire import value_json
from episodes.uploads.upload_body import BadUpload

MAX_PAGE = 500
LOCAL = "local"
"""Namespace of everyone on a server without API keys."""


class PlatformView(ProtocolView):
    """Handles one request. An error is `{"detail": …, "message": …}`: the SDK reads the first, `orwd` the second."""

    scopes: ClassVar[tuple[str, ...]] = (READ,)
    arguments: Mapping[str, str]

    async def dispatch(self, http_request: Any, **kwargs: str) -> Response:  # type: ignore[override]
        self.arguments = kwargs
        return await super().dispatch(http_request)

    def refuse(self, error: Exception) -> Response:
        if isinstance(error, BadUpload):
            return failure(422, str(error))
        status, detail, headers = reply_to(error, self.allowed_methods)
        return failure(status, detail, headers)

    def require_json(self) -> None:
        """Refuse a body that is not declared as JSON: a foreign web page could send it. Raises: BadUpload."""
        kind = self.http_request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise BadUpload(
                f"Content-Type must be application/json, not {kind[:100] or 'absent'!r}."
            )

    @property
    def namespace(self) -> str:
        """The name under which the sender owns what this server hosts."""
        return self.owner or LOCAL

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the address; of a repeated one the last value."""
        return dict(
            parse_qsl(self.http_request.query_string, keep_blank_values=True, encoding="utf-8")
        )

    def number(self, name: str) -> int | None:
        """Return a parameter that is a whole number. Raises: InvalidRequest."""
        text = self.query.get(name, "").strip(" \t")
        value = id_in(text)
        if text and value is None:
            raise InvalidRequest(f"{name} is {text[:40]!r}; it must be a whole number from 0")
        return value

    def page(self, size: int) -> slice:
        """Return the part of a list between `offset` and `limit`. Raises: InvalidRequest."""
        first, limit = self.number("offset") or 0, self.number("limit")
        return slice(first, first + min(size if limit is None else limit, MAX_PAGE))


class UnknownAddress(PlatformView):
    """What the platform offers and this server does not, such as deployments and files."""

    http_method_names = ["get", "post", "put", "patch", "delete"]
    scopes = ()

    async def get(self) -> Response:
        return failure(
            404,
            f"This server has no /v1/{self.arguments['rest'][:200]}. It has rollouts, "
            "environments, runs and "
            "namespace/current of the platform's API; everything else is on its pages and under "
            "/api/.",
        )

    post = put = patch = delete = get


def failure(status: int, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response to a request that failed."""
    message = detail if isinstance(detail, str) else value_json(detail)
    pairs = tuple(
        (name.lower().encode("ascii"), value.encode("latin-1"))
        for name, value in (headers or {}).items()
    )
    response = json_response({"detail": detail, "message": message})
    return Response(response.body, status=status, headers=JSON_HEADERS + pairs)


class CurrentNamespace(PlatformView):
    """The label of the key, or `local` on a server without keys. There are no organisations."""

    http_method_names = ["get"]
    scopes = ()

    async def get(self) -> Response:
        if self.query.get("type") == "org":
            return failure(404, "This server has no organisations; use type=user.")
        return json_response({"name": self.namespace, "id": self.namespace, "type": "user"})
