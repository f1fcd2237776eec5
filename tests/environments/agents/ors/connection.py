"""Requests to the ASGI application, event by event, for tests of streams and of clients that
disconnect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from orsweb import asgi

DEADLINE_SECONDS = 60.0


class Connection:
    """A POST of `body` to `path`. With `more_body`, the test sends further pieces with `feed`."""

    def __init__(
        self,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = {},
        *,
        more_body: bool = False,
    ) -> None:
        pairs = {"Host": "localhost", "Content-Type": "application/json", **headers}
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "scheme": "http",
            "headers": [(name.lower().encode(), value.encode()) for name, value in pairs.items()],
        }
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.feed(content, more_body=more_body)
        self.answer = asyncio.ensure_future(
            asgi.application(self._scope, self._incoming.get, self._outgoing.put)
        )

    def feed(self, content: bytes, *, more_body: bool = False) -> None:
        self._incoming.put_nowait({"type": "http.request", "body": content, "more_body": more_body})

    def leave(self) -> None:
        """Close the connection as the client does."""
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def next(self) -> dict[str, Any]:
        """Return the next ASGI event of the answer."""
        return await asyncio.wait_for(self._outgoing.get(), DEADLINE_SECONDS)

    async def piece(self) -> str:
        """Return the next bytes of the body, as text."""
        while (event := await self.next())["type"] != "http.response.body":
            pass
        return event["body"].decode()  # type: ignore[no-any-return]

    async def rest(self) -> str:
        """Return the body up to its end."""
        text, has_more = "", True
        while has_more:
            event = await self.next()
            if event["type"] == "http.response.body":
                text += event["body"].decode()
                has_more = event.get("more_body", False)
        return text

    async def gone(self) -> None:
        """Wait until the server has noticed that the client left, or has answered."""
        await asyncio.wait_for(self.answer, DEADLINE_SECONDS)
