"""One HTTP request of streamable HTTP: POST sends a message, GET follows a session or resumes a
stream, DELETE ends it.

Source: Model Context Protocol 2025-11-25, "Transports", "Streamable HTTP".

The package `mcp` has a transport for this, which is not used; docs/decisions/0020-mcp.md explains
why. The versions without sessions (2026-07-28) are refused as the specification prescribes; clients
then use an older version.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace

from mcp_types import (
    INVALID_PARAMS,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    InitializeRequestParams,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from environments import conf
from environments.agents.http.request import HttpRequest
from environments.agents.http.response import JSON_HEADERS, Response
from environments.agents.http.view import utf8
from environments.agents.mcp.methods import answer_to, introduction
from environments.agents.mcp.parameters import (
    MAX_USER_AGENT_CHARACTERS,
    new_session,
    read_parameters,
)
from environments.agents.mcp.refusals import McpRefusal
from environments.agents.mcp.sessions import (
    Answer,
    HasLeft,
    McpSession,
    PendingRequest,
    result_of,
    sessions_of,
)
from environments.database.storable import id_in
from environments.errors import SessionNotFound, UnknownEnvironment, shorten
from environments.keys.agent_key import AgentKey
from environments.keys.keyring import ring
from environments.keys.open_streams import OpenStream, open_streams
from environments.runtime.ids import new_session_id
from environments.runtime.service import SessionService
from environments.wire import json_problem, may_be_infinite, parsed_json, value_json

MAX_FAST_SECONDS = 0.5
"""An answer that is ready within this time is sent as one JSON body, which has no limit of size:
the stream reader of the package `mcp` refuses events of more than 1 MB."""
MAX_QUOTED_CHARACTERS = 200
MAX_UNNOTICED_SECONDS = 2.0
"""Maximum time until the server notices that the client of a stream without a request has left, or
that its key is not in force. The stop of the server, which closes such connections, waits for
that."""
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
SESSION_HEADER = b"mcp-session-id"
PING = b": ping\n\n"
"""A comment, which shows that the connection is alive."""


class Endpoint:
    """Answers one HTTP request. `message_id` is the id of its JSON-RPC request, once that is
    known."""

    def __init__(
        self, service: SessionService, key: AgentKey, environment: str, http_request: HttpRequest
    ) -> None:
        self._service, self._environment = service, environment
        self._key, self._owner = key, key.label
        self._http_request, self._meta = http_request, http_request.META
        self.message_id: str | int | None = None

    async def post(self) -> Response:
        self._check_content_type()
        message = self._message()
        if isinstance(message, JSONRPCRequest):
            self.message_id = message.id
        self._check_version()
        if isinstance(message, JSONRPCRequest) and message.method == "initialize":
            return await self._initialize(message)
        session = self._session()
        if isinstance(message, JSONRPCRequest):
            return await self._respond(session.start(message, answer_to))
        if isinstance(message, JSONRPCNotification):
            session.notice(message)
        # to a response too: this server sends no requests
        return Response(b"", status=202, headers=())

    async def get(self) -> Response:
        """Resume the stream of a request, or show that the client is there, which keeps the session
        from expiring."""
        if not self._accepts("text/event-stream"):
            raise McpRefusal(
                406, "GET opens an event stream; Accept must include text/event-stream"
            )
        self._check_version()
        session = self._session()
        place = open_streams.enter(self._owner, conf.address_of(*self._http_request.client))
        last_event = self._meta.get("HTTP_LAST_EVENT_ID")
        events = self._presence(session)
        if last_event:
            number = id_in(last_event.partition("-")[0])
            pending = None if number is None else session.requests.get(number)
            if pending is None:
                quotation = shorten(last_event, MAX_QUOTED_CHARACTERS)
                raise McpRefusal(
                    400,
                    f"Last-Event-ID {quotation!r} is unknown: its request was answered, or has no "
                    "result any more",
                )
            events = self._join(pending)
        return Response(_count_as_stream(events, place), headers=STREAM_HEADERS)

    async def delete(self) -> Response:
        """End the episode."""
        session = self._session()
        await self._service.delete(session.sid, self._owner)
        return Response(b"", status=204, headers=())

    # --- opening ----------------------------------------------------------------------------------

    async def _initialize(self, message: JSONRPCRequest) -> Response:
        # the request came as one of a session that is still live
        if self._environment in self._key.hidden_environments:
            raise UnknownEnvironment(
                self._environment, self._key.among(self._service.registry.names)
            )
        try:
            client = InitializeRequestParams.model_validate(message.params or {}, by_name=False)
        except ValidationError as error:
            raise McpRefusal(
                400, f"Invalid parameters of initialize: {_problems(error)}", INVALID_PARAMS
            ) from None
        parameters = read_parameters(self._http_request.query_string, self._meta)
        shows_rewards = parameters.shows_rewards
        sid = new_session_id()
        request = await new_session(
            parameters, self._environment, self._meta, self._service.tasks, sid=sid, key=self._key
        )
        await self._service.create(
            replace(request, user_agent=_user_agent(client, request.user_agent))
        )
        version = client.protocol_version
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            version = LATEST_HANDSHAKE_VERSION
        sessions_of(self._service).open(
            McpSession(
                self._service,
                sid,
                self._owner,
                self._environment,
                version,
                shows_rewards=shows_rewards,
            )
        )
        answer = result_of(message.id, introduction(self._environment, version))
        return Response(answer.body, headers=(*JSON_HEADERS, (SESSION_HEADER, sid.encode("ascii"))))

    def _session(self) -> McpSession:
        """Return the session that the request names, and mark it as used.

        Raises: McpRefusal; SessionNotFound for a session that is over or belongs to another key.
        """
        sid = utf8(self._meta.get("HTTP_MCP_SESSION_ID", ""), "Mcp-Session-Id").strip()
        if not sid:
            raise McpRefusal(
                400, "Mcp-Session-Id header is required; the request initialize opens a session"
            )
        session = sessions_of(self._service).find(sid, self._owner)
        if session.environment != self._environment:
            raise McpRefusal(
                409,
                f"This session plays {session.environment!r}, but the address names "
                f"{self._environment!r}; use /mcp/{session.environment}",
            )
        self._service.ping(sid, self._owner)
        return session

    # --- what the request says --------------------------------------------------------------------

    def _check_content_type(self) -> None:
        content_type = self._meta.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise McpRefusal(
                415,
                f"Content-Type must be application/json, not {content_type[:100] or 'absent'!r}",
            )
        if not (self._accepts("application/json") or self._accepts("text/event-stream")):
            raise McpRefusal(406, "Accept must include application/json and text/event-stream")

    def _accepts(self, kind: str) -> bool:
        kinds = {
            part.partition(";")[0].strip().lower()
            for part in self._meta.get("HTTP_ACCEPT", "*/*").split(",")
        }
        return bool(kinds & {kind, f"{kind.partition('/')[0]}/*", "*/*"})

    def _check_version(self) -> None:
        version = self._meta.get("HTTP_MCP_PROTOCOL_VERSION")
        if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
            return
        versions = list(HANDSHAKE_PROTOCOL_VERSIONS)
        quotation = shorten(version, MAX_QUOTED_CHARACTERS)
        raise McpRefusal(
            400,
            f"Unsupported protocol version {quotation!r}; this server has sessions, and supports "
            f"{', '.join(versions)}",
            UNSUPPORTED_PROTOCOL_VERSION,
            {"supported": versions, "requested": quotation},
        )

    def _message(self) -> JSONRPCMessage:
        body = self._http_request.content
        try:
            # lone surrogates are accepted by Python's parser only
            with suppress(ValidationError):
                if not may_be_infinite(body):
                    return jsonrpc_message_adapter.validate_json(body, by_name=False)
            return jsonrpc_message_adapter.validate_python(parsed_json(body), by_name=False)
        except ValidationError as error:
            raise McpRefusal(
                400, f"The body is not one message of JSON-RPC 2.0: {_problems(error)}"
            ) from None
        except (ValueError, RecursionError) as error:
            raise McpRefusal(
                400, f"JSON decode error: {json_problem(error)}", PARSE_ERROR
            ) from None

    # --- answers ----------------------------------------------------------------------------------

    async def _respond(self, pending: PendingRequest) -> Response:
        """Return one body for an answer that is ready soon, and else a stream, which shows that the
        server is alive."""
        if not self._accepts("application/json"):
            return Response(self._join(pending), headers=STREAM_HEADERS)
        has_left = self._http_request.has_disconnected
        keepalive = self._service.limits.keepalive_seconds
        pending.join(has_left)
        is_done = await pending.wait(min(MAX_FAST_SECONDS, keepalive))
        if not is_done and self._accepts("text/event-stream"):
            return Response(self._events(pending, has_left), headers=STREAM_HEADERS)
        while not is_done and not has_left():
            is_done = await pending.wait(keepalive)
        pending.leave(has_left, is_delivered=is_done and not has_left())
        answer = pending.answer or Answer(b"")
        return Response(answer.body, status=answer.status)

    def _join(self, pending: PendingRequest) -> AsyncGenerator[bytes, None]:
        has_left = self._http_request.has_disconnected
        pending.join(has_left)
        return self._events(pending, has_left)

    async def _events(
        self, pending: PendingRequest, has_left: HasLeft
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of a request: its id, comments and progress while it runs, and the
        answer."""
        is_delivered = False
        start = time.monotonic()
        try:
            if pending.session.is_resumable:
                yield b"id: %d-0\ndata: \n\n" % pending.number
            while not await pending.wait(self._service.limits.keepalive_seconds):
                if has_left():
                    return
                yield _progress(pending, time.monotonic() - start)
            assert pending.answer is not None
            # checked before the last event: a client may leave right after reading it
            was_there = not has_left()
            yield _event(pending.answer.body)
            is_delivered = was_there
        finally:
            pending.leave(has_left, is_delivered=is_delivered)

    async def _presence(self, session: McpSession) -> AsyncGenerator[bytes, None]:
        """Yield the comments until the session or the connection ends; the server has nothing to
        say by itself."""
        assert session.gone is not None
        keepalive = self._service.limits.keepalive_seconds
        last = -keepalive
        while not (
            session.gone.done()
            or self._http_request.has_disconnected()
            or ring.current(self._key) is None
        ):
            if (now := time.monotonic()) - last >= keepalive:
                try:
                    self._service.ping(session.sid, self._owner)
                except SessionNotFound:
                    return
                last = now
                yield PING
            await asyncio.wait([session.gone], timeout=min(MAX_UNNOTICED_SECONDS, keepalive))


async def _count_as_stream(
    events: AsyncGenerator[bytes, None], place: OpenStream
) -> AsyncGenerator[bytes, None]:
    """Yield the events, which count as an open stream until they end."""
    with place:
        async with aclosing(events):
            async for event in events:
                yield event


def _progress(pending: PendingRequest, seconds: float) -> bytes:
    """Return a notification of progress if the client wants any, else a comment."""
    if (token := pending.progress_token) is None:
        return PING
    params = {
        "progressToken": token,
        "progress": round(seconds, 3),
        "message": f"running for {seconds:.0f} s",
    }
    message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    return _event(value_json(message).encode("ascii"))


def _event(body: bytes) -> bytes:
    return b"event: message\ndata: %b\n\n" % body


def _user_agent(client: InitializeRequestParams, header: str) -> str:
    """Return the client's name and version, its User-Agent, and the version of MCP that it
    offers."""
    name = f"{client.client_info.name}/{client.client_info.version}"
    agent = header if header.startswith(name) else f"{name} {header}".rstrip()
    agent = f"{agent[: MAX_USER_AGENT_CHARACTERS - 20]} MCP/{client.protocol_version}"
    return agent[:MAX_USER_AGENT_CHARACTERS]


def _problems(error: ValidationError) -> str:
    """Return the fields that are wrong, without their values, which may hold secrets."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems
    )
