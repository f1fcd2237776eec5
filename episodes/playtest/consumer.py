"""PlayConsumer: a player's socket, `/ws/play/<episode>/?after=<index of the last step that the page shows, or -1>`.

A tab asks for calls, for forms and for time, and is told what `liveplay.py` tells. It may drop and come back: a call
that is asked for again, with its task_id unchanged, is never run twice. A stranger's socket is refused before it opens.

From the page: {"type": "call", "tool", "input", "task_id", "anyway"}, {"type": "form", …}, {"type": "alive"},
{"type": "here"}, {"type": "leave"}. To the page: state, ready, running, step, done, invalid, time, form, here,
ended, error; see `liveplay.py`. "here" asks whether the connection still carries anything. It is answered with the
same, on the loop alone, and keeps no session from expiring; "alive" does that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import parse_qs

import structlog
from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError, InterfaceError

from environments import wire
from environments.errors import OrsError, shorten
from environments.runtime.service import SessionService
from environments.service import open_service, service_or_none
from episodes.playtest.forms.answer import answer_form, check_input
from episodes.playtest.forms.checking import is_quick
from episodes.playtest.forms.values import kind_named
from episodes.playtest.live_play import LivePlay, Message
from episodes.playtest.live_plays import tables_of
from episodes.playtest.play_facts import PlayFacts, facts_of
from episodes.playtest.reader_threads import readers
from episodes.playtest.seat import LOGGED_OUT, OVER, can_be_shut_out, may_go_on, seat_of_scope
from episodes.playtest.told_steps import ending_of

log = structlog.get_logger(__name__)

STRANGER, OVERFLOW = 4404, 4408
"""Codes with which a socket is closed."""
MAX_UNSENT = 1000
"""Messages that wait for one tab; one that takes none is dropped, and comes back if it lives."""
LONGEST_TASK_ID = 100
KINDS = ("call", "form", "alive", "here", "leave")


HERE = '{"type":"here"}'
"""As pages write it. Nobody has to be welcome to be told that: the database may be away, and is asked nothing."""
ASKED_AGAIN_SECONDS = 60.0
"""Whether somebody is still welcome who only listens."""


class MessageRefused(Exception):
    """A message that cannot be taken; its words go back to the page."""


class PlayConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """One tab. An `Audience` of its play."""

    facts: PlayFacts | None = None
    play: LivePlay | None = None
    writer: asyncio.Task[None] | None = None
    asking: asyncio.Task[None] | None = None

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        self.facts = await readers().run(_admitted, self.scope)
        if self.facts is None:
            await self.close(STRANGER)
            return
        await self.accept()
        if can_be_shut_out(self.scope):
            self.asking = asyncio.get_running_loop().create_task(self._ask_again())
        self.unsent: asyncio.Queue[Message] = asyncio.Queue(MAX_UNSENT)
        self.writer = asyncio.get_running_loop().create_task(self._write())
        service = service_or_none() or await open_service()
        await self._sit_down(service, self.facts, _after(self.scope))

    async def _sit_down(self, service: SessionService, facts: PlayFacts, after: int) -> None:
        self.play = tables_of(service).find(facts.episode.session_id, facts.episode.key_label)
        if self.play is not None:
            await self.play.join(self, facts, after)
        else:
            self.tell(await readers().run(ending_of, facts.episode.pk))

    async def disconnect(self, code: int) -> None:
        if self.play is not None:
            self.play.part(self)
        for task in (self.writer, self.asking):
            if task is not None:
                task.cancel()

    def tell(self, message: Message) -> None:
        try:
            self.unsent.put_nowait(message)
        except asyncio.QueueFull:  # nobody reads there
            if self.play is not None and self.writer is not None:
                self.play.part(self)
                self.writer.cancel()
                self.writer = asyncio.get_running_loop().create_task(self.close(OVERFLOW))
            self.play = None

    async def _write(self) -> None:
        while True:
            await self.send_json(await self.unsent.get())

    async def dispatch(self, message: Message) -> None:
        """As channels', but for the hop to a thread which there precedes every message, to close connections: the
        database is asked on the readers' threads alone."""
        await getattr(self, get_handler_name(message))(message)

    # --- messages -----------------------------------------------------------------------------------------------------

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        message: Message = {}
        if text_data != HERE and not await self._is_welcome():
            return
        try:
            message = _read(text_data)
            await getattr(self, f"take_{message['type']}")(message)
        except MessageRefused as refused:
            self.tell({"type": "error", "message": str(refused), "task_id": message.get("task_id")})

    async def _is_welcome(self) -> bool:
        """An invite may end, and an account be logged out, with the page open; then the socket closes."""
        if not can_be_shut_out(self.scope) or await readers().run(may_go_on, self.scope):
            return True
        is_guest = self.facts is not None and self.facts.play.guest_id is not None
        await self.send_json({"type": "error", "message": OVER if is_guest else LOGGED_OUT})
        await self.close(STRANGER)
        return False

    async def _ask_again(self) -> None:
        is_welcome = True
        while is_welcome:
            await asyncio.sleep(ASKED_AGAIN_SECONDS)
            with contextlib.suppress(DatabaseError, InterfaceError):  # it is away, so nobody is shut out now
                is_welcome = await self._is_welcome()

    async def take_call(self, message: Message) -> None:
        play, request = self._live(), _request(message)
        if not message.get("anyway"):
            schema = play.tools.get(request.name)
            checked = schema, request.input
            errors = check_input(*checked) if is_quick(*checked) else await asyncio.to_thread(check_input, *checked)
            if errors:
                self.tell({"type": "invalid", "task_id": request.task_id, "errors": errors})
                return
        try:
            await play.call(request)
        except OrsError as error:
            self.tell({"type": "error", "message": f"{str(error).rstrip('.')}.", "task_id": request.task_id})

    async def take_form(self, message: Message) -> None:
        self.tell(await asyncio.to_thread(answer_form, self._live().tools, message))

    async def take_alive(self, message: Message) -> None:
        play = self._live()
        try:
            play.touch()
        except OrsError as error:
            raise MessageRefused(f"{error}.") from error
        self.tell({"type": "time", **play.figures()})

    async def take_here(self, message: Message) -> None:
        self.tell({"type": "here"})

    async def take_leave(self, message: Message) -> None:
        self._live().leave()

    def _live(self) -> LivePlay:
        """Raises: Refused."""
        if self.play is None or self.play.is_over:
            raise MessageRefused("The session has ended; nothing more can be called in it.")
        return self.play


def _admitted(scope: dict[str, Any]) -> PlayFacts | None:
    """What a socket is about; None: it is none of its business. Asks the database."""
    seat = seat_of_scope(scope)
    return facts_of(scope["url_route"]["kwargs"]["pk"], seat) if seat is not None else None


def _after(scope: dict[str, Any]) -> int:
    text = parse_qs(scope["query_string"].decode("latin-1")).get("after", ["-1"])[0]
    return int(text) if text.isdecimal() and len(text) < 10 else -1


def _read(text: str | None) -> Message:
    """Raises: Refused."""
    if text is None:
        raise MessageRefused("A message has to be JSON text; this one was bytes.")
    if len(text) > settings.ORSWEB_MAX_BODY_BYTES:
        raise MessageRefused(
            f"The message has {len(text)} characters; ORSWEB_MAX_BODY_BYTES allows {settings.ORSWEB_MAX_BODY_BYTES}."
        )
    try:
        message = json.loads(text)
        wire.check_depth(message)
    except (ValueError, TypeError, RecursionError) as error:
        raise MessageRefused(f"The message is not JSON that can be taken: {shorten(str(error), 200)}.") from error
    if not isinstance(message, dict):
        raise MessageRefused(f"The message is {kind_named(message)}; send a JSON object with a type.")
    if message.get("type") not in KINDS:
        told = shorten(repr(message.get("type")), 60)
        raise MessageRefused(f"type={told} is unknown; use one of {', '.join(KINDS)}.")
    return message


def _request(message: Message) -> wire.ToolCall:
    """Raises: Refused."""
    tool, value, task_id = message.get("tool"), message.get("input"), message.get("task_id")
    if not isinstance(tool, str) or not isinstance(value, dict):
        raise MessageRefused('A call needs "tool", a name, and "input", a JSON object.')
    if not isinstance(task_id, str) or not 0 < len(task_id) <= LONGEST_TASK_ID:
        raise MessageRefused(
            f'A call needs "task_id", a text of 1 to {LONGEST_TASK_ID} characters that no other call has.'
        )
    return wire.ToolCall(name=tool, input=value, task_id=task_id)
