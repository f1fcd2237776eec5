"""Writes episodes as training data, in JSON Lines: conversations for fine-tuning, and pairs for preference learning.

A conversation:  {"messages": […], "tools": […], "reward": …, "episode": …} A pair:          {"prompt": […], "chosen":
[…], "rejected": […], "tools": […], "chosen_reward": …, …}

Messages and tools have the format of OpenAI's chat API: the prompt, then for each call an assistant message with
`tool_calls` and the `tool` message with the result. Images are `image_url` parts with data URIs. A refused or failed
call is answered with its error, as it was to the agent. Episodes without a call are left out.

A pair holds the best and the worst attempt at a task with the same prompt. Among equal attempts the oldest is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.db.models import F, Q, QuerySet

from environments.display.parts import read_json
from episodes.attempts.rule import AttemptQuerySet
from episodes.models import Episode
from episodes.transfer.export_source import ExportedStep, Recorded, recorded

BATCH_TASKS = 200

Message = dict[str, Any]


class Chat:
    """Writes a conversation per episode; see `exporting.EpisodeFileWriter`."""

    needs_steps = True

    def __init__(self, definition: str | None) -> None:
        """`definition`: the definition of return for the reward; None: that of each environment."""
        self._definition = definition

    def start(self) -> str:
        return ""

    def write(self, episode: Recorded) -> Iterator[str]:
        if (first := next(episode.steps, None)) is None:
            return
        prompt = prompt_messages(episode.prompt)
        yield '{"messages": [' + json.dumps(prompt)[1:-1]
        between = ", " if prompt else ""
        yield from pieces_of(chain([first], episode.steps), between)
        facts = episode.facts
        rest = {"tools": tools_of(episode.tools), "reward": facts.return_by(self._definition), "episode": facts.id}
        yield f"], {json.dumps(rest)[1:]}\n"

    def end(self) -> str:
        return ""


def pieces_of(steps: Iterator[ExportedStep], between: str = "") -> Iterator[str]:
    """Yield the messages of `steps` as JSON, separated by commas. `between`: the text before the first one."""
    for step in steps:
        yield f"{between}{json.dumps(step_messages(step))[1:-1]}"
        between = ", "


def prompt_messages(text: str) -> list[Message]:
    """Return the messages of the prompt. `text`: recorded JSON of blocks or messages; empty if there was no prompt."""
    value = read_json(text) if text else []
    if not isinstance(value, list):
        return [{"role": "user", "content": text}]
    if all(isinstance(item, dict) and "role" in item and "blocks" in item for item in value):
        return [message for item in value for message in _turn(item["role"], item["blocks"])]
    return [{"role": "user", "content": _content(value)}]


def step_messages(step: ExportedStep) -> list[Message]:
    """Return the messages of a tool call and its result."""
    call = {"name": step.tool, "arguments": step.input or "{}"}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{step.number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"call_{step.number}", "content": _answer(step)},
    ]


def tools_of(text: str) -> list[dict[str, Any]]:
    """Return the tools of a recorded ListToolsOutput, or none if `text` is something else."""
    value = read_json(text) if text else None
    tools = value.get("tools") if isinstance(value, dict) else None
    return [_tool(tool) for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    parameters = tool.get("input_schema") or {"type": "object", "properties": {}}
    function = {"name": tool.get("name", ""), "description": tool.get("description", ""), "parameters": parameters}
    return {"type": "function", "function": function}


def _answer(step: ExportedStep) -> Any:
    if not step.output:
        return step.error
    value = read_json(step.output)
    blocks = value.get("blocks") if isinstance(value, dict) else None
    return _content(blocks) if isinstance(blocks, list) else step.output


def _turn(role: Any, blocks: Any) -> Iterator[Message]:
    """Yield the messages for one of the protocol's: calls become `tool_calls`, each result a message of its own."""
    items = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    calls = [block for block in items if block.get("type") == "tool_call"]
    results = [block for block in items if block.get("type") == "tool_result"]
    said = [block for block in items if block not in calls and block not in results]
    for result in results:
        yield {
            "role": "tool",
            "tool_call_id": result.get("tool_call_id", ""),
            "content": _content(result.get("blocks") or []),
        }
    if calls:
        yield {"role": role, "content": _content(said) if said else None, "tool_calls": [_call(call) for call in calls]}
    elif said or not results:
        yield {"role": role, "content": _content(said)}


def _call(block: dict[str, Any]) -> dict[str, Any]:
    function = {"name": block.get("name", ""), "arguments": json.dumps(block.get("input", {}))}
    return {"id": block.get("id", ""), "type": "function", "function": function}


def _content(blocks: list[Any]) -> str | list[dict[str, Any]]:
    """Return the content as one text if all blocks are texts, else as a list of parts."""
    parts = [_part(block) for block in blocks]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(block: Any) -> dict[str, Any]:
    """Return the part for a block: text, image, or the JSON of anything else as text."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{block.get('mimeType')};base64,{block.get('data')}"}}
    if kind in ("text", "reasoning") and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    return {"type": "text", "text": json.dumps(block)}


@dataclass(slots=True)
class _Extremes:
    """Ids and returns of the best and worst attempt so far."""

    best: int
    high: float
    worst: int
    low: float

    def take(self, number: int, value: float) -> None:
        if value > self.high:
            self.best, self.high = number, value
        if value < self.low:
            self.worst, self.low = number, value


def pairs(episodes: AttemptQuerySet[Episode], definition: str | None, margin: float) -> Iterator[str]:
    """Yield a pair for each task. `margin`: the minimum difference of the returns, which must differ in any case."""
    compared = episodes.attempts().with_return(definition).filter(Q(own_return__isnull=False))
    compared = compared.filter(steps_count__gt=0)  # there is nothing to learn from an episode without a call
    for tasks in _batches(compared):
        found = _extremes(compared.filter(task__in=tasks))
        ids = [number for one in found if one.high - one.low >= margin and one.high > one.low for number in _ids(one)]
        taken = recorded(ids)
        for chosen in taken:
            yield from _line(chosen, taken, definition)


def _ids(extremes: _Extremes) -> tuple[int, int]:
    return extremes.best, extremes.worst


def _batches(episodes: QuerySet[Episode]) -> Iterator[list[int]]:
    """Yield the ids of the episodes' tasks in ascending order, in batches."""
    tasks, last = episodes.order_by("task_id").values_list("task_id", flat=True).distinct(), 0
    while batch := list(tasks.filter(task__gt=last)[:BATCH_TASKS]):
        yield batch
        last = batch[-1]


def _extremes(episodes: QuerySet[Episode]) -> list[_Extremes]:
    """Return the best and worst attempt for each task and prompt, by the episodes' `own_return`, in order of tasks."""
    found: dict[tuple[int, str | None], _Extremes] = {}
    rows = episodes.annotate(value=F("own_return")).order_by("task_id", "pk")
    for task, prompt, number, value in rows.values_list("task_id", "prompt_id", "pk", "value").iterator():
        found.setdefault((task, prompt), _Extremes(number, value, number, value)).take(number, value)
    return list(found.values())


def _line(chosen: Recorded, following: Iterator[Recorded], definition: str | None) -> Iterator[str]:
    """Yield one pair. `following` yields the rejected episode after the steps of the chosen one are consumed."""
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
