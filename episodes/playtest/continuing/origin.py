"""Origin: a step of a recorded episode from which somebody wants to play on, and whether that can be done."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from environments import command_line
from environments.runtime.live_episode import NewSession
from environments.runtime.secrets_mask import STARS
from episodes.models import Episode, Step
from episodes.playtest.seat import PlayerSeat

NOT_RECORDED = '{"not recorded":'
"""So begins what stands in the place of an input that has no JSON form (`environments/runtime/live_episode.py`)."""


class NoWayOn(Exception):
    """One cannot play on from there; the message says why, and `instead` is the last step from which one can."""

    def __init__(self, sentence: str, instead: int | None = None) -> None:
        super().__init__(sentence)
        self.instead = instead


@dataclass(frozen=True, slots=True)
class Origin:
    episode: Episode
    """With its environment and task."""
    step: int
    """The last that is run again."""
    masked: list[int]
    """Steps up to it whose input has stars, where a secret may have stood."""

    @property
    def count(self) -> int:
        return self.step + 1

    def session(self, seat: PlayerSeat, user_agent: str) -> NewSession:
        """Of the recorded task itself, whatever its splits hold now."""
        return NewSession(
            sid=str(uuid.uuid4()),
            owner=seat.owner,
            environment=self.episode.environment.name,
            spec=json.loads(self.episode.task.spec),
            player="human",
            user_agent=user_agent[:300],
        )


def origin_of(episode: Episode, asked: str) -> Origin:
    """`episode` with its environment and task; `asked` is the step's index. Raises: NoWayOn."""
    last = episode.steps.order_by("-index").values_list("index", flat=True).first()
    if last is None:
        raise NoWayOn(f"No tool was called in episode {episode.pk}, so there is no step to play on from.")
    if not (asked.isdecimal() and len(asked) < 10 and int(asked) <= last):
        raise NoWayOn(f"Episode {episode.pk} has no step {asked[:40]!r}; it has 0 to {last}.", last)
    step = int(asked)
    _check_playable(episode)
    _check_steps(episode, step)
    return Origin(episode, step, _masked(episode, step))


def _check_playable(episode: Episode) -> None:
    environment = episode.environment
    if episode.status == "running":
        raise NoWayOn(f"Episode {episode.pk} is still being played; one can play on from its steps once it has ended.")
    if not environment.is_hosted:
        how = f"serve its class again: {command_line.command(f'serve {environment.class_path}')}"
        raise NoWayOn(f"{environment.name} is no longer hosted here. To play on, {how}")
    if environment.unavailable:
        raise NoWayOn(f"{environment.name} cannot be played on this machine. {environment.unavailable}")
    if not environment.is_enabled:
        raise NoWayOn(f"{environment.name} is switched off; its page in the admin can switch it on.")
    if STARS in episode.task.spec or json.loads(episode.task.spec) is None:
        raise NoWayOn(
            "The record does not hold this task as it was played: "
            + ("stars stand where a secret stood" if STARS in episode.task.spec else "it is null")
            + ". Play a task of the same split instead."
        )


def _check_steps(episode: Episode, step: int) -> None:
    steps = episode.steps.filter(index__lte=step).order_by("index")
    end = steps.filter(finished=True).values_list("index", flat=True).first()
    if end is not None:
        after = "Play the task anew instead." if end == 0 else f"Play on from step {end - 1} instead."
        raise NoWayOn(f"Step {end} ended the episode, so nothing can be played after it. {after}", _before(end))
    lost = steps.filter(input__startswith=NOT_RECORDED).values_list("index", flat=True).first()
    if lost is not None:
        raise NoWayOn(
            f"The input of step {lost} could not be recorded, so that step cannot be run again. "
            + (f"Play on from step {lost - 1}." if lost else "Play the task anew."),
            _before(lost),
        )


def _before(index: int) -> int | None:
    return index - 1 if index else None


def _masked(episode: Episode, step: int) -> list[int]:
    rows: Any = Step.objects.filter(episode=episode, index__lte=step).order_by("index")
    short = rows.filter(Q(input__contains=STARS) | Q(tool__contains=STARS)).values_list("index", flat=True)
    large = rows.filter(input_blob__isnull=False).select_related("input_blob")
    found = {one.index for one in large.iterator(50) if STARS in one.input_json}
    return sorted({*short, *found})
