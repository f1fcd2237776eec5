"""Writes pairs of episodes for preference learning, in JSON Lines: the best and the worst attempt
at a task with the same prompt, by the conventions in force.

`messages.py` describes the lines. Both sides come from the same kind of source: conversations that
clients uploaded if both episodes have one and start with the same messages, otherwise the record.
Among equal attempts the oldest is used. Images stand in `images` only as far as the prompt has
them, because TRL's trainers expect none in completions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from django.db.models import F, Q, QuerySet

from environments.scoring.returns import rounded
from environments.wire import NO_NUMBER
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
from episodes.transfer.export_file import ExportFile
from episodes.transfer.export_rows import Recorded
from episodes.transfer.formats import ExportFormat, ExportLink
from episodes.transfer.formats.messages import Line, reported_conversation

BATCH_TASKS = 200


def pairs(file: ExportFile) -> Iterator[bytes]:
    """Yield a pair for each task whose best and worst return differ, by at least the margin of the
    options."""
    options = file.options
    conventions = ConventionsInForce.of(None, options.definition)
    attempts = (
        cast("AttemptQuerySet[Episode]", file.episodes)
        .filter(conventions.attempts)
        .alias(own_return=conventions.return_of(options.definition.return_))
        .filter(Q(own_return__isnull=False), steps_count__gt=0)  # a call is what can be learned
        .exclude(detail__contains=NO_NUMBER)  # its return lacks that reward
    )
    tasks, last = attempts.order_by("task_id").values_list("task_id", flat=True).distinct(), 0
    while batch := list(tasks.filter(task__gt=last)[:BATCH_TASKS]):
        last = batch[-1]
        worst = _worst_by_best(attempts.filter(task__in=batch), options.margin)
        ids = [number for pair in worst.items() for number in pair]
        episodes = file.recorded(ids)
        for best in episodes:
            with Line(options) as line:
                try:
                    _write_pair(
                        line, best, episodes, _sides(best, worst[best.facts.id], file), file
                    )
                except UnfaithfulArguments:
                    file.left_out += 1
                    continue
                file.count += 1
                yield from line.pieces()


FORMATS = [
    ExportFormat(
        name="pairs",
        label="Pairs",
        position=5,
        media_type="application/jsonl",
        extension="pairs.jsonl",
        pieces=pairs,
        links=[ExportLink("Pairs", "best and worst attempt per task, for preference training")],
        noun="pair",
        has_running=False,
        why_empty=(
            "There are no pairs: a pair needs two attempts at one task that called a tool and have "
            "different returns. Attempts whose tool input isn't a JSON object are only in files "
            "with arguments=string."
        ),
    )
]


def _worst_by_best(episodes: QuerySet[Episode], margin: float) -> dict[int, int]:
    """Return the best attempt of each task and prompt with the worst one, by `own_return`, in order
    of tasks; without those that differ by less than the margin, or only by what rounding leaves."""
    best: dict[tuple[int, str | None], tuple[float, int]] = {}
    worst: dict[tuple[int, str | None], tuple[float, int]] = {}
    rows = episodes.annotate(value=F("own_return")).order_by("task_id", "pk")
    for task, prompt, number, value in rows.values_list(
        "task_id", "prompt_id", "pk", "value"
    ).iterator():
        key = task, prompt
        if key not in best or value > best[key][0]:
            best[key] = value, number
        if key not in worst or value < worst[key][0]:
            worst[key] = value, number
    differences = {key: rounded(high - worst[key][0]) for key, (high, _) in best.items()}
    return {
        best[key][1]: worst[key][1]
        for key, difference in differences.items()
        if difference and difference >= margin
    }


@dataclass(frozen=True, slots=True)
class _Sides:
    """The parts of a pair as clients uploaded them."""

    prompt: list[Turn]
    chosen: list[Turn]
    rejected: list[Turn]


def _sides(best: Recorded, worst: int, file: ExportFile) -> _Sides | None:
    """Return the uploaded conversations of both episodes; None unless both have one and start
    alike."""
    prompt = list(prompt_turns(file.sources.prompt_of(best).text))
    options = replace(file.options, has_final_output=False)
    sides = list[tuple[list[Turn], list[Turn]]]()
    for rollout in (file.rollout_of(best.facts.id), file.rollout_of(worst)):
        turns = reported_conversation(rollout, prompt, (), options) if rollout else None
        if turns is None:
            return None
        sides.append(prompt_and_rest(turns))
    (first, chosen), (second, rejected) = sides
    return _Sides(first, chosen, rejected) if first == second else None


def _write_pair(
    line: Line,
    best: Recorded,
    following: Iterator[Recorded],
    sides: _Sides | None,
    file: ExportFile,
) -> None:
    """Write one pair, with the uploaded `sides` if there are any.

    `following` yields the worst episode after the steps of the best one are consumed. Raises:
    UnfaithfulArguments.
    """
    options = file.options
    prompt, tools = file.sources.prompt_of(best), file.sources.tools_of(best)
    has_images = options.images != "column"
    try:
        line.write('{"prompt": [')
        line.write_turns(sides.prompt if sides else prompt_turns(prompt.text))
        line.write(f'], "tools": {tools_of(tools.text, options)}, "chosen": [')
        steps = step_turns(best.steps, has_final_output=False)
        line.write_turns(sides.chosen if sides else steps, has_images=has_images)
    finally:
        worst = next(following)
    line.write('], "rejected": [')
    steps = step_turns(worst.steps, has_final_output=False)
    line.write_turns(sides.rejected if sides else steps, has_images=has_images)
    line.write("]")
    line.end(
        chosen_reward=best.facts.return_by(options.definition),
        rejected_reward=worst.facts.return_by(options.definition),
        chosen_episode=best.facts.id,
        rejected_episode=worst.facts.id,
        environment=best.facts.environment,
        task=best.facts.content_hash,
        conversation="reported" if sides else "recorded",
        prompt_source=prompt.source,
        tools_source=tools.source,
    )
