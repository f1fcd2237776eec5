"""Writes pairs of episodes for preference learning, in JSON Lines: the best and the worst attempt
at a task.

`training.py` describes the lines. Both sides come from the same kind of source: conversations that
clients uploaded if both episodes have one and start with the same messages, otherwise the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db.models import F, Q, QuerySet

from environments.runtime.call_outcome import NO_NUMBER
from environments.scoring.returns import rounded
from episodes.attempts.conventions import ConventionsInForce
from episodes.attempts.rule import AttemptQuerySet
from episodes.models import Episode
from episodes.transfer.chat_messages import (
    Turn,
    UnfaithfulArguments,
    prompt_turns,
    step_turns,
    tools_of,
)
from episodes.transfer.conversations import prompt_and_rest
from episodes.transfer.export_source import UNGUARDED, Recorded, recorded
from episodes.transfer.training import Line, TrainingFile, reported_conversation
from episodes.visibility import TaskGuard

BATCH_TASKS = 200


@dataclass(slots=True)
class _Extremes:
    """Ids and returns of the best and worst attempt so far."""

    best: int
    high: float
    worst: int
    low: float

    @property
    def difference(self) -> float:
        """How far the two are apart; 0 for what rounding leaves of it."""
        return rounded(self.high - self.low)

    def take(self, number: int, value: float) -> None:
        if value > self.high:
            self.best, self.high = number, value
        if value < self.low:
            self.worst, self.low = number, value


def pairs(
    episodes: AttemptQuerySet[Episode], file: TrainingFile, guard: TaskGuard = UNGUARDED
) -> Iterator[bytes]:
    """Yield a pair for each task whose best and worst return differ, by at least the margin of the
    options."""
    options = file.options
    conventions = ConventionsInForce.of(None, options.definition)
    compared = episodes.filter(conventions.attempts).alias(
        own_return=conventions.return_of(options.definition.return_)
    )
    compared = compared.filter(Q(own_return__isnull=False))
    # there is nothing to learn from an episode without a call
    compared = compared.filter(steps_count__gt=0)
    compared = compared.exclude(detail__contains=NO_NUMBER)  # its return lacks that reward
    for tasks in _batches(compared):
        found = _extremes(compared.filter(task__in=tasks))
        distinct = [one for one in found if one.difference and one.difference >= options.margin]
        worst = {one.best: one.worst for one in distinct}
        taken = recorded([number for one in distinct for number in (one.best, one.worst)], guard)
        for chosen in taken:
            with Line(options) as line:
                try:
                    _write_pair(
                        line, chosen, taken, _sides(chosen, worst[chosen.facts.id], file), file
                    )
                except UnfaithfulArguments:
                    file.left_out += 1
                    continue
                file.lines += 1
                yield from line.pieces()


def _batches(episodes: QuerySet[Episode]) -> Iterator[list[int]]:
    """Yield the ids of the episodes' tasks in ascending order, in batches."""
    tasks, last = episodes.order_by("task_id").values_list("task_id", flat=True).distinct(), 0
    while batch := list(tasks.filter(task__gt=last)[:BATCH_TASKS]):
        yield batch
        last = batch[-1]


def _extremes(episodes: QuerySet[Episode]) -> list[_Extremes]:
    """Return the best and worst attempt for each task and prompt, by the episodes' `own_return`, in
    order of tasks."""
    found: dict[tuple[int, str | None], _Extremes] = {}
    rows = episodes.annotate(value=F("own_return")).order_by("task_id", "pk")
    for task, prompt, number, value in rows.values_list(
        "task_id", "prompt_id", "pk", "value"
    ).iterator():
        found.setdefault((task, prompt), _Extremes(number, value, number, value)).take(
            number, value
        )
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Sides:
    """The parts of a pair as clients uploaded them."""

    prompt: list[Turn]
    chosen: list[Turn]
    rejected: list[Turn]


def _sides(chosen: Recorded, rejected: int, file: TrainingFile) -> _Sides | None:
    """Return the uploaded conversations of both episodes; None unless both have one and start
    alike."""
    rollouts = file.rollout_of(chosen.facts.id), file.rollout_of(rejected)
    prompt = list(prompt_turns(file.sources.prompt_of(chosen).text))
    options = replace(file.options, has_final_output=False)
    found = []
    for rollout in rollouts:
        turns = reported_conversation(rollout, prompt, (), options) if rollout else None
        if turns is None:
            return None
        found.append(prompt_and_rest(turns))
    (first, best), (second, worst) = found
    return _Sides(first, best, worst) if first == second else None


def _write_pair(
    line: Line,
    chosen: Recorded,
    following: Iterator[Recorded],
    sides: _Sides | None,
    file: TrainingFile,
) -> None:
    """Write one pair, with the uploaded `sides` if there are any.

    `following` yields the rejected episode after the steps of the chosen one are consumed. Raises:
    UnfaithfulArguments.
    """
    options = file.options
    prompt, tools = file.sources.prompt_of(chosen), file.sources.tools_of(chosen)
    has_images = options.images != "column"
    try:
        line.write('{"prompt": [')
        line.write_turns(sides.prompt if sides else prompt_turns(prompt.text))
        line.write(f'], "tools": {tools_of(tools.text, options)}, "chosen": [')
        steps = step_turns(chosen.steps, has_final_output=False)
        line.write_turns(sides.chosen if sides else steps, has_images=has_images)
    finally:
        rejected = next(following)
    line.write('], "rejected": [')
    steps = step_turns(rejected.steps, has_final_output=False)
    line.write_turns(sides.rejected if sides else steps, has_images=has_images)
    line.write("]")
    rewards = [one.facts.return_by(options.definition) for one in (chosen, rejected)]
    line.end(
        **{"chosen_reward": rewards[0], "rejected_reward": rewards[1]},
        **{"chosen_episode": chosen.facts.id, "rejected_episode": rejected.facts.id},
        **{"environment": chosen.facts.environment, "task": chosen.facts.content_hash},
        **{"conversation": "reported" if sides else "recorded"},
        **{"prompt_source": prompt.source, "tools_source": tools.source},
    )
