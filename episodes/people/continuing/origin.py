"""The step of a recorded episode from which a person wants to continue, and whether that is
possible."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from environments import command_line
from environments.database.storable import index_in
from environments.models.task_hash import is_sent_task
from environments.runtime.secrets_mask import STARS
from environments.runtime.session_request import SessionRequest
from episodes.models import Episode, Step
from episodes.people.player_identity import PlayerSeat
from episodes.people.session_start import session_id
from episodes.people.task_choice import why_unplayable

NOT_RECORDED = '{"not recorded":'
"""Prefix of the text that is recorded for an input without a JSON form
(`environments/runtime/live_episode.py`)."""


class CannotContinue(Exception):
    """The episode can't be continued from that step; it can from the step `instead`."""

    def __init__(self, sentence: str, instead: int | None = None) -> None:
        super().__init__(sentence)
        self.instead = instead


@dataclass(frozen=True, slots=True)
class Origin:
    """A step from which an episode can be continued."""

    episode: Episode
    """The episode with its environment and task."""
    step: int
    """Index of the last step that is run again."""
    steps_with_stars: list[int]
    """Steps up to `step` whose input has stars in the place of a possible secret."""

    @property
    def count(self) -> int:
        """Number of steps that are run again."""
        return self.step + 1

    def session(self, seat: PlayerSeat, user_agent: str, once: str) -> SessionRequest:
        """Return a session of the recorded task, whatever its splits contain now; `once` as in
        `session_id`."""
        return SessionRequest(
            sid=session_id(seat, once),
            owner=seat.owner,
            environment=self.episode.environment.name,
            spec=json.loads(self.episode.task.spec),
            is_sent=is_sent_task(self.episode.task),
            player="human",
            user_agent=user_agent[:300],
        )


def origin_of(episode: Episode, index: str) -> Origin:
    """Return the step from which to continue. `episode` has its environment and task; `index` comes
    from a form.

    Raises: CannotContinue.
    """
    last = episode.steps.order_by("-index").values_list("index", flat=True).first()
    if last is None:
        raise CannotContinue(
            f"No tool was called in episode {episode.pk}, so there is no step to continue from."
        )
    if not index:
        raise CannotContinue(f"Choose the step to continue from: 0 to {last}.", last)
    step = index_in(index)
    if step is None or step > last:
        raise CannotContinue(
            f"Episode {episode.pk} has no step {index[:40]!r}; it has steps 0 to {last}.", last
        )
    _check_playable(episode)
    _check_steps(episode, step)
    return Origin(episode, step, _masked(episode, step))


def _check_playable(episode: Episode) -> None:
    environment = episode.environment
    if episode.status == "running":
        raise CannotContinue(
            f"Episode {episode.pk} is still running. You can continue it once it has ended."
        )
    if not environment.is_hosted:
        how = f"serve its class again: {command_line.command(f'serve {environment.class_path}')}"
        raise CannotContinue(f"{environment.name} is no longer hosted here. To continue, {how}")
    if sentence := why_unplayable(environment):
        raise CannotContinue(sentence)
    has_stars = STARS in episode.task.spec
    if has_stars or json.loads(episode.task.spec) is None:
        why = "a secret in it was replaced by stars" if has_stars else "it is null"
        raise CannotContinue(
            f"This task wasn't recorded as it was played: {why}. Play a task of the same split "
            "instead."
        )


def _check_steps(episode: Episode, step: int) -> None:
    steps = episode.steps.filter(index__lte=step).order_by("index")
    obstacles = (
        (steps.filter(finished=True), "Step {} ended the episode, so nothing can follow it."),
        (
            steps.filter(input__startswith=NOT_RECORDED),
            "The input of step {} couldn't be recorded, so the step can't be run again.",
        ),
    )
    for rows, sentence in obstacles:
        index = rows.values_list("index", flat=True).first()
        if index is not None:
            way = f"Continue from step {index - 1} instead." if index else "Start the task again."
            raise CannotContinue(f"{sentence.format(index)} {way}", index - 1 if index else None)


def _masked(episode: Episode, step: int) -> list[int]:
    """Return the steps up to `step` whose tool or input has stars."""
    rows: Any = Step.objects.filter(episode=episode, index__lte=step).order_by("index")
    short = rows.filter(Q(input__contains=STARS) | Q(tool__contains=STARS)).values_list(
        "index", flat=True
    )
    large = rows.filter(input_blob__isnull=False).select_related("input_blob")
    indexes = {row.index for row in large.iterator(50) if STARS in row.input_json}
    return sorted({*short, *indexes})
