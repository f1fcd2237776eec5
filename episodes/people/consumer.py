"""A player's socket,
`/ws/play/<episode>/?after=<index of the last step that the page shows, or -1>`.

A tab can disconnect and come back: a call that is sent twice with the same task_id runs once. A
visitor who does not play the episode is refused before the socket opens.

From the page:

    {"type": "call", "tool", "task_id", "entry" of a form or "input", "anyway"}
    {"type": "form", "id", "tool", "entry"}   see forms/form.py
    {"type": "alive"}   the player is there; keeps the session from expiring
    {"type": "here"}    tests the connection; answered on the loop, without a query
    {"type": "leave"}   ends the episode

To the page: state, ready, running, step, done, invalid, time, form, here, ended, error;
`live_play.py` sends most of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from urllib.parse import parse_qs

import structlog
from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from environments import wire
from environments.cluster.membership import Peer
from environments.database.storable import index_in
from environments.errors import OrsError, OverQuota, shorten
from environments.keys.open_streams import OpenStream, open_streams
from environments.service import open_service, service_or_none
from episodes.people.forms.checking import Problem, check, is_quick
from episodes.people.forms.form import answer_form, is_entry, read_entry
from episodes.people.forms.values import kind_name
from episodes.people.live_play import LivePlay, Message
from episodes.people.live_play_registry import live_plays_of
from episodes.people.play_facts import PlayFacts, facts_of
from episodes.people.play_steps import ending_of
from episodes.people.player_identity import access_problem, can_lose_access, seat_of_scope
from episodes.people.reader_threads import readers
from episodes.people.remote_play import check_peers, open_socket, peer_of

log = structlog.get_logger(__name__)

STRANGER, OVERFLOW, TRY_AGAIN = 4404, 4408, 1013
"""Codes with which a socket is closed: no access, too many unsent messages, and the server that has
the play is gone."""
MAX_UNSENT = 1000
"""Messages that wait for one tab. The socket of a tab that reads none is closed; a living page
connects again."""
MAX_TASK_ID_CHARACTERS = 100
TYPES = ("call", "form", "alive", "here", "leave")
HERE = '{"type":"here"}'
"""The text as pages write it. It is answered without an access check, which would need the
database."""
RECHECK_SECONDS = 4.0
"""How often the access of a tab that only listens is checked."""


class MessageRefused(Exception):
    """A message cannot be handled; the page gets the reason."""


class PlayConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """The socket of one tab, which is a `live_play.Tab` of its play."""

    facts: PlayFacts | None = None
    play: LivePlay | None = None
    remote: ClientConnection | None = None
    writer: asyncio.Task[None] | None = None
    recheck: asyncio.Task[None] | None = None
    place: OpenStream | None = None

    # --- opening and closing ----------------------------------------------------------------------

    async def connect(self) -> None:
        self.facts = await readers().run(_facts_for, self.scope)
        if self.facts is None:
            await self.close(STRANGER)
            return
        address, _ = self.scope.get("client") or ("", 0)
        try:
            self.place = open_streams.enter(self.facts.episode.key_label, address)
        except OverQuota as error:
            await self._refuse(error)
            return
        await self.accept()
        service = service_or_none() or await open_service()
        self.play = live_plays_of(service).find(
            self.facts.episode.session_id, self.facts.episode.key_label
        )
        if self.play is None and self.facts.episode.status == "running":
            peer = await peer_of(self.scope, self.facts.episode.session_id)
            if peer is not None:
                await self._pass_on(peer)
                return
        if can_lose_access(self.scope):
            self.recheck = asyncio.get_running_loop().create_task(self._recheck_access())
        self.unsent: asyncio.Queue[Message] = asyncio.Queue(MAX_UNSENT)
        self.writer = asyncio.get_running_loop().create_task(self._write())
        if self.play is not None:
            query = parse_qs(self.scope["query_string"].decode("latin-1"))
            after = index_in(query.get("after", [""])[0])
            await self.play.join(self, self.facts, -1 if after is None else after)
        else:
            self.enqueue(await readers().run(ending_of, self.facts.episode.pk))

    async def _refuse(self, error: OverQuota) -> None:
        """Answer the request to open the socket with a 429; its page tries again."""
        if "websocket.http.response" not in self.scope.get("extensions", {}):  # daphne
            await self.close(TRY_AGAIN)
            return
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"retry-after", b"%d" % error.retry_seconds),
        ]
        await self.base_send(
            {"type": "websocket.http.response.start", "status": 429, "headers": headers}
        )
        await self.base_send({"type": "websocket.http.response.body", "body": f"{error}.".encode()})

    async def _pass_on(self, peer: Peer) -> None:
        """Let the server that has the session speak with the page. A page whose socket is closed
        opens another."""
        try:
            self.remote = await open_socket(peer, self.scope)
        except (OSError, TimeoutError, InvalidHandshake) as error:
            log.info("a server does not open a socket", server=peer.id, reason=type(error).__name__)
            await check_peers()
            await self.close(TRY_AGAIN)
        else:
            self.writer = asyncio.get_running_loop().create_task(self._relay(self.remote))

    async def _relay(self, remote: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self.send(text_data=await remote.recv(decode=True))
        await self.close(STRANGER if remote.close_code == STRANGER else TRY_AGAIN)

    async def disconnect(self, code: int) -> None:
        if self.play is not None:
            self.play.detach(self)
        for task in (self.writer, self.recheck):
            if task is not None:
                task.cancel()
        if self.place is not None:
            self.place.leave()
        if self.remote is not None:
            await self.remote.close()

    def enqueue(self, message: Message) -> None:
        try:
            self.unsent.put_nowait(message)
        except asyncio.QueueFull:  # the page reads nothing
            if self.play is not None and self.writer is not None:
                self.play.detach(self)
                self.writer.cancel()
                self.writer = asyncio.get_running_loop().create_task(self.close(OVERFLOW))
            self.play = None

    async def _write(self) -> None:
        while True:
            await self.send_json(await self.unsent.get())

    async def dispatch(self, message: Message) -> None:
        """Handle a message like channels does, but without its hop to a thread that closes database
        connections.

        Only the threads of `reader_threads` query the database.
        """
        await getattr(self, get_handler_name(message))(message)

    # --- messages ---------------------------------------------------------------------------------

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any
    ) -> None:
        if self.remote is not None:
            with contextlib.suppress(ConnectionClosed):  # `_relay` closes this socket too
                await self.remote.send(text_data if text_data is not None else bytes_data or b"")
            return
        message: Message = {}
        if text_data != HERE and not await self._has_access():
            return
        try:
            message = _parsed(text_data)
            await getattr(self, f"take_{message['type']}")(message)
        except MessageRefused as refused:
            self.enqueue(
                {"type": "error", "message": str(refused), "task_id": message.get("task_id")}
            )

    async def _has_access(self) -> bool:
        """Check access again: invites end, people log out, permissions change. Without it, say so
        and close."""
        episode = self.facts and self.facts.episode
        problem = (
            await readers().run(access_problem, self.scope, episode)
            if can_lose_access(self.scope)
            else ""
        )
        if problem:
            await self.send_json({"type": "error", "message": problem})
            await self.close(STRANGER)
        return not problem

    async def _recheck_access(self) -> None:
        is_allowed = True
        while is_allowed:
            await asyncio.sleep(RECHECK_SECONDS)
            # the database is away: check again later
            with contextlib.suppress(DatabaseError, InterfaceError):
                is_allowed = await self._has_access()

    async def take_call(self, message: Message) -> None:
        play, tool, task_id = self._live(), *_call_of(message)
        schema = play.tools.get(tool)
        if is_quick(schema, message):
            value, problems = _input_of(schema, message)
        else:
            value, problems = await asyncio.to_thread(_input_of, schema, message)
        if problems:
            errors = [problem._asdict() for problem in problems]
            self.enqueue({"type": "invalid", "task_id": task_id, "errors": errors})
            return
        try:
            await play.call(wire.ToolCall(name=tool, input=value, task_id=task_id))
        except OrsError as error:
            sentence = f"{str(error).rstrip('.')}."
            self.enqueue({"type": "error", "message": sentence, "task_id": task_id})

    async def take_form(self, message: Message) -> None:
        is_plain = self.facts is not None and self.facts.is_plain
        self.enqueue(
            await asyncio.to_thread(answer_form, self._live().tools, message, is_plain=is_plain)
        )

    async def take_alive(self, message: Message) -> None:
        play = self._live()
        try:
            play.touch()
        except OrsError as error:
            raise MessageRefused(f"{error}.") from error
        self.enqueue({"type": "time", **play.figures()})

    async def take_here(self, message: Message) -> None:
        self.enqueue({"type": "here"})

    async def take_leave(self, message: Message) -> None:
        self._live().abandon()

    def _live(self) -> LivePlay:
        """Return the live play. Raises: MessageRefused."""
        if self.play is None or self.play.is_over:
            raise MessageRefused("The session has ended, so no more tools can be called.")
        return self.play


def _facts_for(scope: dict[str, Any]) -> PlayFacts | None:
    """Return facts of the play that a socket asks for; None if its visitor does not play that
    episode, or may not.

    Makes queries.
    """
    seat = seat_of_scope(scope)
    if seat is None or access_problem(scope):
        return None
    return facts_of(scope["url_route"]["kwargs"]["pk"], seat)


def _parsed(text: str | None) -> Message:
    """Return the parsed message. Raises: MessageRefused."""
    if text is None:
        raise MessageRefused("The message is bytes; send JSON text.")
    if len(text) > settings.ORSWEB_MAX_BODY_BYTES:
        raise MessageRefused(
            f"The message has {len(text):,} characters; at most {settings.ORSWEB_MAX_BODY_BYTES:,} "
            "are allowed"
            " (ORSWEB_MAX_BODY_BYTES)."
        )
    try:
        message = wire.parsed_json(text)
    except (ValueError, RecursionError) as error:
        raise MessageRefused(
            f"The message is not valid JSON: {shorten(wire.json_problem(error), 200)}."
        ) from error
    if not isinstance(message, dict):
        raise MessageRefused(
            f"The message is {kind_name(message)}; send a JSON object with a type."
        )
    if message.get("type") not in TYPES:
        kind = shorten(repr(message.get("type")), 60)
        raise MessageRefused(f"type={kind} is unknown; use one of {', '.join(TYPES)}.")
    return message


def _call_of(message: Message) -> tuple[str, str]:
    """Return the tool and the task_id of a call. Raises: MessageRefused."""
    tool, task_id = message.get("tool"), message.get("task_id")
    has_entry = is_entry(message.get("entry"))
    if not isinstance(tool, str) or not (has_entry or isinstance(message.get("input"), dict)):
        raise MessageRefused(
            'A call needs "tool" (a name) and "input" (a JSON object) or "entry" (of a form).'
        )
    if not isinstance(task_id, str) or not 0 < len(task_id) <= MAX_TASK_ID_CHARACTERS:
        raise MessageRefused(
            f'A call needs "task_id", a unique text of 1 to {MAX_TASK_ID_CHARACTERS} characters.'
        )
    return tool, task_id


def _input_of(schema: Any, message: Message) -> tuple[Any, list[Problem]]:
    """Return the input of a call, and why it is not made. A call that is made anyway only has to be
    readable."""
    value, problems = message.get("input"), list[Problem]()
    if is_entry(message.get("entry")):
        value, problems = read_entry(schema, message["entry"])
    if problems or message.get("anyway"):
        return value, problems
    return value, check(schema, value)
