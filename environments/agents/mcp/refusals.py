"""The errors of MCP as JSON-RPC, and the refusal of requests that use MCP incorrectly.

This module does not need the package `mcp_types`, so that importing it is cheap.
"""

from __future__ import annotations

from typing import Any

from environments.agents.http.errors import ErrorReply, reply_to
from environments.errors import OrsError, SessionDeleted
from environments.wire import value_json

INVALID_REQUEST = -32600
"""JSON-RPC's code for a request that cannot be accepted; used wherever no other code says more."""
INTERNAL_ERROR = -32603


class McpRefusal(OrsError):
    """A request that uses MCP incorrectly."""

    def __init__(
        self, status: int, text: str, code: int = INVALID_REQUEST, data: Any = None
    ) -> None:
        super().__init__(text)
        self.status, self.code, self.data = status, code, data


def mcp_refusal_of(error: Exception, methods: list[str]) -> tuple[ErrorReply, int, Any]:
    """Return the response to `error`, its JSON-RPC code, and further data (or None)."""
    if isinstance(error, McpRefusal):
        return ErrorReply(error.status, str(error)), error.code, error.data
    refusal = reply_to(error, methods)
    # MCP has one status for sessions that are over; clients then open another
    if isinstance(error, SessionDeleted):
        refusal = refusal._replace(status=404)
    return refusal, INTERNAL_ERROR if refusal.status >= 500 else INVALID_REQUEST, None


def error_json(message_id: str | int | None, code: int, text: str, data: Any = None) -> bytes:
    """Return a JSON-RPC error. `message_id` is that of the request, or None if it is not known."""
    error = {"code": code, "message": text} | ({} if data is None else {"data": data})
    return value_json({"jsonrpc": "2.0", "id": message_id, "error": error}).encode("ascii")
