"""Wish: which task somebody wants to play, as the chooser's form says it, and the session that it asks for.

Unplayed: the first task of a split that somebody has not played yet. Asks the database; pages call it.
"""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from environments.database.storable import MAX_BIGINT
from environments.errors import OrsError, shorten
from environments.models import Environment, Split, Task
from environments.runtime.live_episode import NewSession
from environments.service import ask_service
from environments.tasks.split_positions import served
from environments.wire import parsed_json
from episodes.models import Invite, Play
from episodes.playtest.forms.values import kind_named, shown
from episodes.playtest.seat import PlayerSeat

CHUNK = 500


def next_unplayed(seat: PlayerSeat, split: Split) -> int | None:
    """Its index; None where all were played. A split whose tasks are made up as they are asked for never ends.

    What ended without a tool call was not played.
    """
    mine = Play.objects.filter(seat.plays, episode__environment=split.environment_id, episode__is_probe=False)
    if split.is_generated:
        indexes = set(mine.filter(episode__split=split).values_list("episode__task_index", flat=True))
        return next(index for index in range(len(indexes) + 1) if index not in indexes)
    played = set(mine.values_list("episode__task", flat=True))
    tasks = served(split).order_by("position").values_list("task_id", flat=True).iterator(chunk_size=CHUNK)
    return next((index for index, task in enumerate(tasks) if task not in played), None)


Pick = Literal["random", "next", "number", "spec", "task"]
Field = Literal["environment", "split", "pick", "number", "spec", "task"]
COUNT_SECONDS = 10.0


class BadWish(Exception):
    """It cannot be met; `field` is where the sentence belongs."""

    def __init__(self, field: Field, sentence: str) -> None:
        super().__init__(sentence)
        self.field: Field = field


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """The form as it was sent, so that it can be shown again."""

    environment: str = ""
    split: str = ""
    pick: str = "random"
    number: str = ""
    spec: str = ""
    task: str = ""
    """Id of a task's row."""
    is_blind: bool = False

    @property
    def place(self) -> Field:
        """Where a failure of the environment belongs."""
        return cast(Field, self.pick) if self.pick in ("number", "spec", "task") else "pick"


def wish_of(data: Mapping[str, str]) -> TaskChoice:
    """From a form, or from an address that leads to it."""
    names = ("environment", "split", "number", "spec", "task")
    texts = {name: data.get(name, "").strip() for name in names}
    usual = "task" if texts["task"] else "random"
    return TaskChoice(**texts, pick=data.get("pick", usual), is_blind=data.get("blind") == "on")


def misnamed(wish: TaskChoice) -> dict[Field, str]:
    """What of an address leads nowhere, in a sentence by field."""
    try:
        environment = _environment(wish) if wish.environment else None
        if environment is not None and wish.split:
            _split(wish, environment)
    except BadWish as error:
        return {error.field: str(error)}
    return {}


def session_of(wish: TaskChoice, seat: PlayerSeat, user_agent: str) -> NewSession:
    """Raises: BadWish."""
    if wish.pick not in get_args(Pick):
        raise BadWish("pick", f"pick={wish.pick[:40]!r} is no way to choose a task; use {', '.join(get_args(Pick))}.")
    if seat.invite is not None:
        _keep_to(seat.invite, wish, seat)  # before any name is looked up, or it would tell which there are
    environment = _environment(wish)
    facts: dict[str, Any] = {"sid": str(uuid.uuid4()), "owner": seat.owner, "environment": environment.name}
    facts |= {"player": "human", "user_agent": user_agent[:300]}
    if wish.pick in ("spec", "task"):
        return NewSession(
            **facts, spec=_pasted(wish.spec, environment) if wish.pick == "spec" else _spec_of(wish, environment)
        )
    split = _split(wish, environment)
    return NewSession(**facts, split=split.name, index=_index(wish, seat, split))


def _keep_to(invite: Invite, wish: TaskChoice, seat: PlayerSeat) -> None:
    """Raises: BadWish, in one sentence for all that the invite is not for."""
    if wish.pick in ("spec", "task") or not seat.may_play(wish.environment, wish.split):
        place = invite.environment.name + (f" / {invite.split.name}" if invite.split else "")
        told = f"Your invite is for {place}; choose a task there at random, the next or by number."
        raise BadWish("environment", told)


def _environment(wish: TaskChoice) -> Environment:
    found = Environment.objects.filter(name=wish.environment[:200]).first()
    if found is None or not found.is_hosted:
        raise BadWish("environment", f"{wish.environment[:100]!r} is not hosted here; choose one of the list.")
    if found.unavailable:
        raise BadWish("environment", f"{found.name} cannot be played on this machine. {found.unavailable}")
    if not found.is_enabled:
        raise BadWish("environment", f"{found.name} is switched off; its page in the admin can switch it on.")
    return found


def _split(wish: TaskChoice, environment: Environment) -> Split:
    splits = {split.name: split for split in environment.splits.select_related("environment").filter(is_served=True)}
    if wish.split not in splits:
        legal = ", ".join(splits) or "no split at all"
        raise BadWish("split", f"{wish.split[:100]!r} is no split of {environment.name}; it has {legal}.")
    return splits[wish.split]


def _index(wish: TaskChoice, seat: PlayerSeat, split: Split) -> int:
    count = _count(split)
    if not count:
        raise BadWish("split", f"{split.environment.name} / {split.name} has no tasks; choose another split.")
    if wish.pick == "random":
        return secrets.randbelow(count)
    if wish.pick == "number":
        return _numbered(wish.number, count)
    index = next_unplayed(seat, split)
    if index is None or index >= count:
        raise BadWish("pick", f"You have played all {count} tasks of {split.name}; choose one at random or by number.")
    return index


def _numbered(text: str, count: int) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) < 19 and int(text) < count):
        told = f"{text[:40]!r} is not the number of a task" if text else "The number of the task is missing"
        raise BadWish("number", f"{told}; give a whole number from 0 to {count - 1}.")
    return int(text)


def _count(split: Split) -> int:
    """As the service says, which asks a class that makes its tasks up."""
    try:
        return ask_service(lambda service: service.tasks.count(split.environment.name, split.name), COUNT_SECONDS)
    except TimeoutError as error:
        raise BadWish("split", f"{split.name} did not say within {COUNT_SECONDS:g} s how many tasks it has.") from error
    except OrsError as error:
        raise BadWish("split", f"{str(error).rstrip('.')}.") from error


def _pasted(text: str, environment: Environment) -> Any:
    if not text:
        raise BadWish("spec", "The task is missing; paste its content as JSON, such as {}.")
    try:
        value = parsed_json(text.encode("utf-8", "surrogatepass"))
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}"
        near = shorten(text[error.pos : error.pos + 40].split("\n")[0], 30)
        raise BadWish("spec", f"This is not JSON: {error.msg} at {at}{f', near {near!r}' if near else ''}.") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise BadWish("spec", f"This JSON cannot be taken: {error}.") from error
    if value is None:
        raise BadWish("spec", "null is no task; paste its content as JSON, such as {}.")
    if not isinstance(value, dict) and _takes_objects(environment):
        given = f"{kind_named(value)}, {shown(value)}"
        raise BadWish("spec", f"A task of {environment.name} is a JSON object, such as {{}}; this is {given}.")
    return value


def _takes_objects(environment: Environment) -> bool:
    """So the protocol has it, unless the class declares its tasks to be something else."""
    schema = json.loads(environment.task_schema or "{}")
    return not isinstance(schema, dict) or schema.get("type", "object") == "object"


def _spec_of(wish: TaskChoice, environment: Environment) -> Any:
    pk = int(wish.task) if wish.task.isdecimal() and len(wish.task) < 19 else MAX_BIGINT
    found = Task.objects.filter(pk=pk, environment=environment).first()
    if found is None:
        raise BadWish("task", f"{environment.name} has no task {wish.task[:40]!r}; its page leads to those it has.")
    return json.loads(found.spec)
