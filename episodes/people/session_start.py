"""Starting a session that a person plays, and recording who plays it. Called by views, on their
threads."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass

from environments.errors import EnvironmentFault, OrsError, SessionExists
from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest
from environments.service import ask_service
from episodes.attempts.rule import FAILURES
from episodes.models import Episode, Play, SeenTask
from episodes.people.live_play_registry import live_plays_of
from episodes.people.play_clock import PlayTimes
from episodes.people.player_identity import PlayerSeat
from episodes.people.studies.dealing import USES_ATTEMPT

MAX_START_SECONDS = 10.0
"""A view waits this long for the session to be ready. After that, the player's page waits."""
MAX_ANSWER_SECONDS = 5.0
"""Additional time before the service counts as hung."""
MAX_RECORD_SECONDS = 5.0
"""The session is on record milliseconds after its construction starts, unless the database is
away."""
POLL_SECONDS = 0.05


class NotStarted(OrsError):
    """The session could not be started; `episode` is the id of its record, if there is one."""

    def __init__(self, sentence: str, episode: int | None = None) -> None:
        super().__init__(sentence)
        self.episode = episode


@dataclass(frozen=True, slots=True)
class Continuation:
    """The recorded step from which a play continues."""

    parent: Episode
    step: int
    """Index of the last step of the parent that is run again."""


def session_id(seat: PlayerSeat, once: str) -> str:
    """Return the id of the session that the form with the text `once` opens: the same as long as
    that session runs.

    So a form that is submitted twice opens one session, and one that a browser has kept opens
    another later.
    """
    sid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seat.owner} {once}") if once else uuid.uuid4())
    has_ended = Episode.objects.filter(session_id=sid, status="ended").exists()
    return str(uuid.uuid4()) if has_ended else sid


def start_play(
    seat: PlayerSeat,
    request: SessionRequest,
    *,
    is_blind: bool,
    continues: Continuation | None = None,
) -> Play:
    """Start the session of `request`, whose owner is `seat`. It may still be starting when this
    returns.

    Raises: NotStarted, with a sentence for the player.
    """
    assert request.owner == seat.owner and request.player == "human"
    study = seat.study
    times = None if study is None else PlayTimes(study.pause_seconds, study.limit_seconds)
    try:
        is_ready = ask_service(
            lambda service: _start(service, request, times), MAX_START_SECONDS + MAX_ANSWER_SECONDS
        )
    except TimeoutError as error:
        raise NotStarted(
            "The server did not answer in time. Check its log, then try again."
        ) from error
    except SessionExists:  # another server has it: the form was submitted twice
        is_ready = True
    except EnvironmentFault as error:
        play = _save_play(seat, request, is_blind, continues)
        with_what = "" if request.spec is None else " with this task"
        sentence = f"The environment could not be set up{with_what}: {_sentence(error)}"
        raise NotStarted(sentence, play.pk if play else None) from error
    except OrsError as error:
        raise NotStarted(_sentence(error)) from error
    if is_ready:
        # otherwise the page would show that the session is still starting
        _await_record(request.sid, prompt__isnull=False)
    play = _save_play(seat, request, is_blind, continues)
    if play is None:
        raise NotStarted("The session was not recorded in time. Try again in a moment.")
    return play


async def _start(service: SessionService, request: SessionRequest, times: PlayTimes | None) -> bool:
    """Return whether the session is ready; otherwise it is still starting. Raises: OrsError."""
    plays = live_plays_of(service)
    # a form that is submitted twice opens it once
    play = plays.find(request.sid, request.owner) or plays.open(request, times)
    try:
        await asyncio.wait([play.start_task], timeout=MAX_START_SECONDS)
    finally:
        play.start_grace()
    if play.fault is not None:
        raise play.fault
    return play.start_task.done()


def _save_play(
    seat: PlayerSeat, request: SessionRequest, is_blind: bool, continues: Continuation | None
) -> Play | None:
    """Save who plays the episode; None if the episode was not recorded in time."""
    episode = _await_record(request.sid)
    if episode is None:
        return None
    facts = {
        "user_id": seat.user_id,
        "guest": seat.guest,
        "is_blind": is_blind,
        "is_repeat": _is_repeat(seat, episode),
        "counts_left": None if seat.study is None else seat.study.counts_left,
        "parent": continues.parent if continues else None,
        "parent_step": continues.step if continues else None,
    }
    if seat.guest is not None:
        seat.guest.refresh_from_db(fields=["excluded"])  # the start may have taken long
        facts["is_excluded"] = seat.guest.excluded is not None
    play, _ = Play.objects.get_or_create(episode=episode, defaults=facts)
    return play


def _is_repeat(seat: PlayerSeat, episode: Episode) -> bool:
    """Return whether this is no first attempt: the person has played the task of `episode`, or seen
    it on a page, before. Two queries at most.

    Guests see no content of a task, so an episode without a call, or one that the server failed,
    tells them nothing.
    """
    earlier = Play.objects.filter(episode__task=episode.task_id, episode__lt=episode.pk)
    if seat.guest is None:
        has_seen = SeenTask.objects.filter(user=seat.user_id, task=episode.task_id)
        return earlier.filter(user=seat.user_id, guest=None).exists() or has_seen.exists()
    earlier = earlier.filter(guest=seat.guest)
    if seat.study is not None:
        return earlier.filter(USES_ATTEMPT).exists()
    return earlier.exclude(episode__is_probe=True).exclude(episode__cause__in=FAILURES).exists()


def _await_record(sid: str, **conditions: object) -> Episode | None:
    """Wait for the episode of that session to meet `conditions`; None if it does not in time."""
    until = time.monotonic() + MAX_RECORD_SECONDS
    while (
        episode := Episode.objects.filter(session_id=sid, **conditions).only("pk", "task").first()
    ) is None:
        if time.monotonic() > until:
            return None
        time.sleep(POLL_SECONDS)
    return episode


def _sentence(error: OrsError) -> str:
    return f"{str(error).rstrip('.')}."
