"""Opening: begins a session that a person will play, and notes whose it is. Called by views, on their threads."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from environments.errors import EnvironmentFault, OrsError
from environments.runtime.live_episode import NewSession
from environments.runtime.service import SessionService
from environments.service import ask_service
from episodes.models import Episode, Play
from episodes.playtest.live_plays import tables_of
from episodes.playtest.seat import PlayerSeat

OPEN_SECONDS = 10.0
"""A page waits so long for a session to be ready; what takes longer is waited for on the player's page."""
ANSWER_SECONDS = 5.0
"""More than that, before the service counts as hung."""
RECORD_SECONDS = 5.0
"""The record follows the beginning of construction within milliseconds, unless the database is away."""
LOOK_SECONDS = 0.05


class NotOpened(OrsError):
    """The session could not begin; `episode` is its record, where it came to that, and the cause what went wrong."""

    def __init__(self, sentence: str, episode: int | None = None) -> None:
        super().__init__(sentence)
        self.episode = episode


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a play goes on from."""

    parent: Episode
    step: int
    """Last of the parent's steps that is run again."""


def open_play(seat: PlayerSeat, request: NewSession, *, is_blind: bool, continues: Continuation | None = None) -> Play:
    """Begin the session of `request`, which is `seat`'s. It may still be starting when this returns.

    Raises: NotOpened with a sentence for the player.
    """
    assert request.owner == seat.owner and request.player == "human"
    try:
        is_ready = ask_service(lambda service: _begin(service, request), OPEN_SECONDS + ANSWER_SECONDS)
    except TimeoutError as error:
        raise NotOpened("The server did not answer in time; look at its log, then try again.") from error
    except EnvironmentFault as error:
        play = _note(seat, request, is_blind, continues)
        with_what = "" if request.spec is None else " with this task"
        told = f"The environment could not be set up{with_what}: {_sentence(error)}"
        raise NotOpened(told, play.pk if play else None) from error
    except OrsError as error:
        raise NotOpened(_sentence(error)) from error
    if is_ready:
        _await_record(request.sid, prompt__isnull=False)  # else the page would find the session still starting
    play = _note(seat, request, is_blind, continues)
    if play is None:
        raise NotOpened("The beginning of the session was not recorded in time; try again in a while.")
    return play


async def _begin(service: SessionService, request: NewSession) -> bool:
    """Whether it has begun; else it is still starting. Raises: OrsError."""
    play = tables_of(service).open(request)
    try:
        await asyncio.wait([play.beginning], timeout=OPEN_SECONDS)
    finally:
        play.expect()
    if play.fault is not None:
        raise play.fault
    return play.beginning.done()


def _note(seat: PlayerSeat, request: NewSession, is_blind: bool, continues: Continuation | None) -> Play | None:
    """The row that says who plays; None: the episode did not come to be recorded."""
    episode = _await_record(request.sid)
    if episode is None:
        return None
    parent, step = (continues.parent, continues.step) if continues else (None, None)
    return Play.objects.create(
        episode=episode, user_id=seat.user_id, guest=seat.guest, is_blind=is_blind, parent=parent, parent_step=step
    )


def _await_record(sid: str, **conditions: object) -> Episode | None:
    """The episode of that session, once `conditions` hold of it. None: it has not come to that in time."""
    until = time.monotonic() + RECORD_SECONDS
    while (episode := Episode.objects.filter(session_id=sid, **conditions).only("pk").first()) is None:
        if time.monotonic() > until:
            return None
        time.sleep(LOOK_SECONDS)
    return episode


def _sentence(error: OrsError) -> str:
    return f"{str(error).rstrip('.')}."
