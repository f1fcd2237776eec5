"""GET /v1/namespace/current: who the sender of a request is."""

from __future__ import annotations

from environments.agents.http.response import Response, json_response
from episodes.platform_api.platform_view import PlatformView, failure


class CurrentNamespace(PlatformView):
    """The label of the key, or `local` on a server without keys. There are no organisations."""

    http_method_names = ["get"]
    scopes = ()

    async def get(self) -> Response:
        if self.query.get("type") == "org":
            return failure(404, "This server has no organisations; use type=user.")
        return json_response({"name": self.namespace, "id": self.namespace, "type": "user"})
