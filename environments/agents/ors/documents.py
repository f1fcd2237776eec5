"""GET /openapi.json and /schema.json: the protocol's own description, for authors of clients.

Neither needs a key, because both are the same on every server. FastAPI, and so both references, has
its document at the same address.
"""

from __future__ import annotations

import asyncio

from environments.agents.http.response import Response, text_response
from environments.agents.http.view import ProtocolView


class OpenApiDocument(ProtocolView):
    needs_key = False
    over_quota = "answer"

    async def get(self) -> Response:
        return text_response(await asyncio.to_thread(_document, "openapi"))


class JsonSchemaDocument(ProtocolView):
    needs_key = False
    over_quota = "answer"

    async def get(self) -> Response:
        return text_response(await asyncio.to_thread(_document, "json_schema"))


def _document(name: str) -> str:
    # its types need not be built at the start of every server
    from environments.agents.ors import openapi

    return openapi.openapi_json() if name == "openapi" else openapi.json_schema_json()
