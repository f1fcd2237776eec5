"""The task that a person chooses to play, as the chooser's form sends it, and the session that
plays it.

Used by the page where people choose what to play.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from environments.database.storable import id_in
from environments.errors import OrsError, shorten
from environments.filtering.addresses import FLAG
from environments.models import Environment, Split, Task, Viewer
from environments.models.task_hash import is_sent_task
from environments.runtime.session_request import SessionRequest
from environments.service import ask_service, hidden_fields
from environments.tasks.split_indexes import served
from environments.wire import json_problem, parsed_json
from episodes.models import Invite, Play
from episodes.people.forms.values import kind_name, preview
from episodes.people.player_identity import PlayerSeat
from episodes.people.session_start import session_id

Pick = Literal["random", "next", "number", "spec", "task"]
Field = Literal["environment", "split", "pick", "number", "spec", "task"]
COUNT_SECONDS = 10.0
CHUNK_TASKS = 500


class BadChoice(Exception):
    """The choice is not possible. `field` is the field of the form that shows the sentence."""

    def __init__(self, field: Field, sentence: str) -> None:
        super().__init__(sentence)
        self.field: Field = field


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """The values of the form as they were sent, so that the form can be shown again."""

    environment: str = ""
    split: str = ""
    pick: str = "random"
    number: str = ""
    spec: str = ""
    task: str = ""
    """Id of a task's row, as text."""
    is_blind: bool = False
    once: str = ""
    """A random text of the form, so that a form that is submitted twice opens one session."""


def choice_of(data: Mapping[str, str]) -> TaskChoice:
    """Return the choice in a form, or in the address of the page that shows the form."""
    names = ("environment", "split", "number", "spec", "task", "once")
    texts = {name: data.get(name, "").strip() for name in names}
    usual = "task" if texts["task"] else "random"
    return TaskChoice(**texts, pick=data.get("pick", usual), is_blind=data.get("blind") in FLAG)


def address_problems(choice: TaskChoice, viewer: Viewer) -> dict[Field, str]:
    """Return a sentence by field about what an address chooses and cannot be played."""
    try:
        environment = _environment(choice, viewer) if choice.environment else None
        _check_pick(choice)
        if environment is not None and choice.split:
            _split(choice, environment, viewer)
        if environment is not None and choice.task:
            _task(choice, environment, viewer)
    except BadChoice as error:
        return {error.field: str(error)}
    return {}


def new_session(choice: TaskChoice, seat: PlayerSeat, user_agent: str) -> SessionRequest:
    """Return the session that plays the chosen task. Raises: BadChoice."""
    _check_pick(choice)
    if seat.invite is not None:
        # before any lookup, so that guests cannot find out which names exist
        _check_invite(seat.invite, choice, seat)
    environment = _environment(choice, seat.viewer)
    facts: dict[str, Any] = {
        "sid": session_id(seat, choice.once),
        "owner": seat.owner,
        "environment": environment.name,
    }
    facts |= {"player": "human", "user_agent": user_agent[:300]}
    if choice.pick == "spec":
        reads_all = seat.reads_hidden or hidden_fields(environment.name) == frozenset()
        return SessionRequest(
            **facts, spec=_pasted(choice.spec, environment), is_sent=not reads_all
        )
    if choice.pick == "task":
        task = _task(choice, environment, seat.viewer)
        return SessionRequest(**facts, spec=json.loads(task.spec), is_sent=is_sent_task(task))
    split = _split(choice, environment, seat.viewer)
    return SessionRequest(**facts, split=split.name, index=_index(choice, seat, split))


def _check_pick(choice: TaskChoice) -> None:
    """Raises: BadChoice."""
    if choice.pick not in get_args(Pick):
        raise BadChoice(
            "pick", f"pick={choice.pick[:40]!r} is unknown; use {', '.join(get_args(Pick))}."
        )


def _check_invite(invite: Invite, choice: TaskChoice, seat: PlayerSeat) -> None:
    """Refuse everything that the invite is not for with one sentence. Raises: BadChoice."""
    if choice.pick in ("spec", "task") or not seat.may_play(choice.environment, choice.split):
        place = invite.environment.name + (f" / {invite.split.name}" if invite.split else "")
        sentence = (
            f"Your invite is for {place}. Choose a random task, the next one, or a number there."
        )
        raise BadChoice("environment", sentence)


def _environment(choice: TaskChoice, viewer: Viewer) -> Environment:
    environment = Environment.objects.seen_by(viewer).filter(name=choice.environment[:200]).first()
    if environment is None or not environment.is_hosted:
        raise BadChoice(
            "environment",
            f"{choice.environment[:100]!r} isn't hosted here. Choose one from the list.",
        )
    if sentence := why_unplayable(environment):
        raise BadChoice("environment", sentence)
    return environment


def why_unplayable(environment: Environment) -> str:
    """Return the sentence about why people cannot play a hosted environment; empty if they can."""
    if environment.unavailable:
        where = "" if environment.is_remote else " on this machine"
        return f"{environment.name} can't be played{where}. {environment.unavailable}"
    if not environment.is_enabled:
        return f"{environment.name} is disabled. You can enable it on its page in the admin."
    return ""


def _split(choice: TaskChoice, environment: Environment, viewer: Viewer) -> Split:
    rows = environment.splits.seen_by(viewer).filter(is_served=True).select_related("environment")
    splits = {split.name: split for split in rows}
    if choice.split not in splits:
        names = ", ".join(splits) or "no splits"
        raise BadChoice(
            "split", f"{environment.name} has no split {choice.split[:100]!r}; it has {names}."
        )
    return splits[choice.split]


def _index(choice: TaskChoice, seat: PlayerSeat, split: Split) -> int:
    count = _count(split)
    if not count:
        raise BadChoice(
            "split", f"{split.environment.name} / {split.name} has no tasks. Choose another split."
        )
    if choice.pick == "random":
        return secrets.randbelow(count)
    if choice.pick == "number":
        return _numbered(choice.number, count)
    index = next_unplayed(seat, split)
    if index is None or index >= count:
        raise BadChoice(
            "pick",
            f"You've played all {count} tasks of {split.name}. Choose a random task or a number.",
        )
    return index


def next_unplayed(seat: PlayerSeat, split: Split) -> int | None:
    """Return the index of the first task of `split` that the person has not played yet; None if all
    were played.

    A split that generates its tasks always has one. Episodes without a tool call do not count as
    played.
    """
    mine = Play.objects.filter(
        seat.plays, episode__environment=split.environment_id, episode__is_probe=False
    )
    if split.is_generated:
        indexes = set(
            mine.filter(episode__split=split).values_list("episode__task_index", flat=True)
        )
        return next(index for index in range(len(indexes) + 1) if index not in indexes)
    tasks_played = set(mine.values_list("episode__task", flat=True))
    tasks = (
        served(split)
        .order_by("position")
        .values_list("task_id", flat=True)
        .iterator(chunk_size=CHUNK_TASKS)
    )
    return next((index for index, task in enumerate(tasks) if task not in tasks_played), None)


def _numbered(text: str, count: int) -> int:
    number = id_in(text)
    if number is None or number >= count:
        sentence = (
            f"{text[:40]!r} is not the number of a task"
            if text
            else "The number of the task is missing"
        )
        raise BadChoice("number", f"{sentence}. Enter a whole number from 0 to {count - 1}.")
    return number


def _count(split: Split) -> int:
    """Return the number of tasks of `split`. The service asks a class that generates its tasks.
    Raises: BadChoice."""
    try:
        return ask_service(
            lambda service: service.tasks.count(split.environment.name, split.name), COUNT_SECONDS
        )
    except TimeoutError as error:
        raise BadChoice(
            "split",
            f"{split.name} did not report its number of tasks within {COUNT_SECONDS:g} s. "
            "Try again.",
        ) from error
    except OrsError as error:
        raise BadChoice("split", f"{str(error).rstrip('.')}.") from error


def _pasted(text: str, environment: Environment) -> Any:
    if not text:
        raise BadChoice("spec", "The task is missing. Paste its content as JSON, such as {}.")
    try:
        value = parsed_json(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}"
        near = shorten(text[error.pos : error.pos + 40].split("\n")[0], 30)
        raise BadChoice(
            "spec", f"This is not JSON: {error.msg} at {at}{f', near {near!r}' if near else ''}."
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadChoice("spec", f"This JSON can't be used: {json_problem(error)}.") from error
    if value is None:
        raise BadChoice("spec", "A task can't be null. Paste its content as JSON, such as {}.")
    # tasks are JSON objects, as the protocol says, unless the class declares another type
    schema = json.loads(environment.task_schema or "{}")
    needs_object = not isinstance(schema, dict) or schema.get("type", "object") == "object"
    if needs_object and not isinstance(value, dict):
        description = f"{kind_name(value)}, {preview(value)}"
        raise BadChoice(
            "spec",
            f"A task of {environment.name} is a JSON object, such as {{}}; this is {description}.",
        )
    return value


def _task(choice: TaskChoice, environment: Environment, viewer: Viewer) -> Task:
    task = (
        Task.objects.seen_by(viewer)
        .filter(pk=id_in(choice.task) or 0, environment=environment)
        .first()
    )
    if task is None:
        raise BadChoice(
            "task",
            f"{environment.name} has no task {choice.task[:40]!r}. Its page lists its tasks.",
        )
    return task
