"""Steps of a trajectory, made from an uploaded conversation and the recorded tool calls.

One turn of the model (reasoning, text, tool calls and their results) is one step. A tool call of
the conversation and the recorded step that it became are one tool call of the trajectory, with the
recorded input and output. Recorded steps that the conversation lacks keep their place in the order
of steps.

`extra.orsweb.messages` of a step has what ATIF lacks of each message. A text stands there only if
it differs from what `derived_text` makes of the step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from environments.database.storable import storable
from environments.wire import value_json
from episodes.models import Rollout, RolloutMessage
from episodes.transfer.chat_messages import IMAGE
from episodes.transfer.export_rows import ExportedStep
from episodes.transfer.formats.atif.schema import AtifMetrics, AtifStepFields, own_fields
from episodes.transfer.formats.atif.steps import (
    EXTRA,
    CallDraft,
    Content,
    StepDraft,
    arguments_text,
    recorded_call,
    recorded_steps,
)
from episodes.uploads.matching import call_key
from episodes.uploads.usage import Usage, usage_in

SOURCES = {"system_message": "system", "user_message": "user"}
AGENT_KINDS = frozenset(("reasoning", "assistant_message", "tool_call", "tool_result"))
"""Types of messages that can belong to one turn of the model; messages of other types are steps of
the system."""
STEP_FIELDS = ("model_name", "reasoning_effort", "is_copied_context", "llm_call_count")
USAGE = "usage"
"""Key in a message's metadata under which an import stores the metrics of a step."""
_METRICS = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "cached_tokens",
    "cost_usd": "cost",
}
"""Field of ATIF -> field of Usage."""
_MESSAGE_FACTS = (
    "event_id",
    "index",
    "name",
    "call_id",
    "summary",
    "reward",
    "is_finished",
    "sent_ms",
    "problem",
)
_DEFAULTS = {
    "name": "",
    "call_id": "",
    "summary": "",
    "reward": None,
    "is_finished": False,
    "problem": "",
}


def conversation_steps(
    messages: Sequence[RolloutMessage], steps: Iterable[ExportedStep]
) -> Iterator[StepDraft]:
    """Yield the steps of the trajectory. `steps` are held in memory, because they are compared with
    the messages."""
    calls = list(steps)
    places = _places(messages, calls)
    turn: _Turn | None = None
    after = 0
    for message in messages:
        if turn is not None and not turn.takes(message):
            yield turn.draft()
            turn = None
        place = places.get(message.pk)
        if place is not None:
            if place > after:
                # what the model said before a call that was not reported
                if turn is not None and not turn.has_calls:
                    yield turn.draft()
                    turn = None
                yield from _unreported(calls[after:place])
            after = place + 1
        turn = turn or _Turn(message)
        turn.add(message, None if place is None else calls[place])
    if turn is not None:
        yield turn.draft()
    yield from _unreported(calls[after:])


def _unreported(steps: Sequence[ExportedStep]) -> Iterator[StepDraft]:
    for draft in recorded_steps(steps):
        draft.extra = {EXTRA: {"is_reported": False}}
        yield draft


def _places(messages: Sequence[RolloutMessage], steps: Sequence[ExportedStep]) -> dict[int, int]:
    """Return the position of the step that each tool call of the conversation became, in ascending
    order."""
    keys: list[Any] = [call_key(step.tool, step.input) for step in steps]
    ids: list[Any] = [step.task_id for step in steps]
    places: dict[int, int] = {}
    start = 0
    for message in messages:
        if message.kind == "tool_call":
            key = call_key(message.name, message.text)
            for values, value in ((ids, message.call_id), (keys, key)):
                if value and value in values[start:]:
                    places[message.pk] = values.index(value, start)
                    start = places[message.pk] + 1
                    break
    return places


class _Turn:
    """A step of the trajectory while its messages are added."""

    def __init__(self, first: RolloutMessage) -> None:
        source = SOURCES.get(first.kind) or ("agent" if first.kind in AGENT_KINDS else "system")
        self._draft = StepDraft(source, timestamp=_time(first.sent_ms))
        self._own = own_step(first)
        self._is_open = first.kind in AGENT_KINDS
        self._has_results = False
        self._messages = list[tuple[RolloutMessage, int | None]]()  # with the position of its call
        if source == "agent":
            values = {name: getattr(self._own, name) for name in STEP_FIELDS}
            self._draft.fields = {
                name: value for name, value in values.items() if value is not None
            }

    @property
    def has_calls(self) -> bool:
        return bool(self._draft.calls)

    def takes(self, message: RolloutMessage) -> bool:
        """Return whether a message belongs to the same turn."""
        number, other = self._own.step_id, own_step(message).step_id
        is_agents = message.kind in AGENT_KINDS
        if number is not None or other is not None:
            is_possible = message.kind == "tool_result" or (
                self._draft.source == "agent" and is_agents
            )
            return number == other and is_possible
        if not self._is_open or not is_agents:
            return False
        if message.kind == "tool_result":
            return True
        if self._has_results or message.kind == "reasoning":
            return False
        return message.kind == "tool_call" or not (self._draft.message or self._draft.calls)

    def add(self, message: RolloutMessage, step: ExportedStep | None) -> None:
        draft, place = self._draft, None
        if message.kind == "tool_call":
            place = self._add_call(message, step)
        elif message.kind == "tool_result":
            place = self._add_result(message)
        elif message.kind == "reasoning":
            draft.reasoning = storable(message.text or message.summary_text)
        else:
            draft.message = _content(message)
        if draft.source == "agent" and draft.metrics is None:
            draft.metrics = metrics_of(message.extra_object)
        self._messages.append((message, place))

    def draft(self) -> StepDraft:
        """Return the step with all messages."""
        draft = self._draft
        texts = StepTexts(
            draft.message,
            draft.reasoning or "",
            [(call.arguments, call.content) for call in draft.calls],
            [result.get("content") for result in draft.results],
        )
        facts = [_facts(message, place, texts) for message, place in self._messages]
        draft.extra = self._own.extra | {EXTRA: {"messages": facts}}
        return draft

    def _add_call(self, message: RolloutMessage, step: ExportedStep | None) -> int:
        calls = self._draft.calls
        if step is not None:
            call = recorded_call(step)
        else:
            call_id = message.call_id or f"message-{message.index}"
            call = CallDraft(call_id, message.name, arguments_text(message.text)[0])
        if any(call.call_id == other.call_id for other in calls):
            call.call_id = f"{call.call_id}-{message.index}"
        calls.append(call)
        return len(calls) - 1

    def _add_result(self, message: RolloutMessage) -> int | None:
        """Add a result to its call, or to the last call if it names none. Return the position of
        the call."""
        self._has_results = True
        place = len(self._draft.calls) - 1
        for call, call_place in self._messages:
            if call_place is not None and call.call_id and call.call_id == message.call_id:
                place = call_place
        if place < 0:
            self._draft.results.append({"content": _content(message)})
            return None
        if self._draft.calls[place].content is None:
            self._draft.calls[place].content = _content(message)
        return place


@dataclass(frozen=True, slots=True)
class StepTexts:
    """What a step of a trajectory says, for `derived_text`."""

    message: Content
    reasoning: str
    calls: Sequence[tuple[str, Content | None]]
    """Arguments (JSON text) and result of each call."""
    results: Sequence[Content | None]
    """Results that belong to no call."""


def derived_text(kind: str, place: int | None, step: StepTexts) -> str:
    """Return the text that a message of this kind has if the step says everything about it.

    `place`: position of the call to which it belongs.
    """
    call = step.calls[place] if place is not None and place < len(step.calls) else None
    if kind == "tool_call":
        return call[0] if call else ""
    if kind == "tool_result":
        return plain_text(call[1] if call else next(iter(step.results), None))
    return step.reasoning if kind == "reasoning" else plain_text(step.message)


def plain_text(content: Content | None) -> str:
    """Return the texts of a content, with a mark in place of each image."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join([part["text"] if part["type"] == "text" else IMAGE for part in content])


def _content(message: RolloutMessage) -> Content:
    """Return the content of a message; an import of parts stores them as metadata."""
    parts = own_step(message).parts
    if parts is None:
        return storable(message.text)
    return [part.model_dump(exclude_none=True) for part in parts]


def own_step(message: RolloutMessage) -> AtifStepFields:
    """Return what an import stored of the step of a message."""
    return own_fields(AtifStepFields, message.extra_object.get("metadata"))


def _facts(message: RolloutMessage, place: int | None, step: StepTexts) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": message.kind}
    if place is not None:
        facts["call"] = place
    for name in _MESSAGE_FACTS:
        value = message.summary_text if name == "summary" else getattr(message, name)
        if name not in _DEFAULTS or value != _DEFAULTS[name]:
            facts[name] = value
    facts["received"] = message.received.isoformat()
    # as it is stored, with what pages cannot show
    if extra := json.loads(message.extra_json or "{}"):
        facts["extra"] = value_json(extra)
    if message.text != derived_text(message.kind, place, step):
        facts["content"] = message.text
    return facts


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return None


def metrics_of(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the metrics of a message with these further fields; None if there are none."""
    metadata = extra.get("metadata")
    values = metadata if isinstance(metadata, dict) else extra
    try:
        metrics = AtifMetrics.model_validate(values.get(USAGE)).model_dump(exclude_none=True)
    except ValidationError:
        usage = usage_in(values)
        metrics = _metrics(usage)
        if usage.reasoning_tokens is not None:
            metrics["extra"] = {"reasoning_tokens": usage.reasoning_tokens}
    return metrics or None


def totals_of(rollout: Rollout) -> dict[str, Any]:
    """Return the totals of a trajectory, as the follower has summed up the rollout."""
    return {f"total_{name}": value for name, value in _metrics(rollout).items()}


def _metrics(usage: Usage | Rollout) -> dict[str, Any]:
    values = {name: getattr(usage, field) for name, field in _METRICS.items()}
    return {name: value for name, value in values.items() if value is not None}
