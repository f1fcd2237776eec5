"""Pairs: JSONL of preferences, for each task its best attempt beside its worst.

    {"prompt": [messages], "chosen": [messages], "rejected": [messages], "tools": […], "chosen_reward": …, …}

Only attempts that were told the same are compared: the same task and the same prompt. Of equals the oldest is taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import QuerySet

from episodes.models import Episode
from episodes.transfer.chat import pieces_of, prompt_messages, tools_of
from episodes.transfer.source import Recorded, recorded
from episodes.transfer.thresholds import attempts, return_by

BATCH_TASKS = 200


@dataclass(slots=True)
class _Extremes:
    """Ids and returns of the best and the worst attempt so far."""

    best: int
    high: float
    worst: int
    low: float

    def take(self, number: int, value: float) -> None:
        if value > self.high:
            self.best, self.high = number, value
        if value < self.low:
            self.worst, self.low = number, value


def pairs(episodes: QuerySet[Episode], definition: str | None, margin: float) -> Iterator[str]:
    """`margin`: what the best has to be better by, and in any case it has to be better."""
    compared = attempts(episodes).alias(its_return=return_by(definition)).filter(its_return__isnull=False)
    compared = compared.filter(steps_count__gt=0)  # nothing is learnt from an answer without a call
    for tasks in _batches(compared):
        found = _extremes(compared.filter(task__in=tasks), definition)
        ids = [number for one in found if one.high - one.low >= margin and one.high > one.low for number in _ids(one)]
        taken = recorded(ids)
        for chosen in taken:
            yield from _line(chosen, taken, definition)


def _ids(extremes: _Extremes) -> tuple[int, int]:
    return extremes.best, extremes.worst


def _batches(episodes: QuerySet[Episode]) -> Iterator[list[int]]:
    """Ids of their tasks in rising order."""
    tasks, last = episodes.order_by("task_id").values_list("task_id", flat=True).distinct(), 0
    while batch := list(tasks.filter(task__gt=last)[:BATCH_TASKS]):
        yield batch
        last = batch[-1]


def _extremes(episodes: QuerySet[Episode], definition: str | None) -> list[_Extremes]:
    """By task and prompt, in order of the tasks."""
    found: dict[tuple[int, str | None], _Extremes] = {}
    rows = episodes.annotate(value=return_by(definition)).order_by("task_id", "pk")
    for task, prompt, number, value in rows.values_list("task_id", "prompt_id", "pk", "value").iterator():
        found.setdefault((task, prompt), _Extremes(number, value, number, value)).take(number, value)
    return list(found.values())


def _line(chosen: Recorded, following: Iterator[Recorded], definition: str | None) -> Iterator[str]:
    """`following` gives the rejected one once the steps of the chosen one are used up."""
    head = {"prompt": prompt_messages(chosen.prompt), "tools": tools_of(chosen.tools)}
    yield f'{json.dumps(head)[:-1]}, "chosen": ['
    yield from pieces_of(chosen.steps)
    rejected = next(following)
    yield '], "rejected": ['
    yield from pieces_of(rejected.steps)
    rewards = [one.facts.return_by(definition) for one in (chosen, rejected)]
    facts = {
        **{"chosen_reward": rewards[0], "rejected_reward": rewards[1]},
        **{"chosen_episode": chosen.facts.id, "rejected_episode": rejected.facts.id},
        **{"environment": chosen.facts.environment, "task": chosen.facts.content_hash},
    }
    yield f"], {json.dumps(facts)[1:]}\n"
