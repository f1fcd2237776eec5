"""Steps of a trajectory, made from a recorded prompt and recorded tool calls.

A text of a trajectory contains no NUL and no lone surrogates, because readers refuse them. Wherever
a recorded text is not what a reader of the trajectory would get back, the exact text is in
`extra.orsweb`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from environments.database.storable import storable
from environments.display.parts import read_json
from environments.wire import ImageBlock, TextBlock, ToolOutput, model_json, value_json
from episodes.transfer.chat_messages import (
    ContentPart,
    UnfaithfulArguments,
    arguments_object,
    prompt_turns,
    result_parts,
)
from episodes.transfer.embedded_json import TEXT, embedded, is_embeddable
from episodes.transfer.export_source import ExportedStep

EXTRA = "orsweb"
"""Key of `extra` under which exports store what ATIF has no field for."""
_DATA_URI = re.compile(r"data:([\w./+-]+);base64,(.*)", re.DOTALL)

Content = str | list[dict[str, Any]]
"""A text, or parts of type text and image as ATIF has them."""
PlaceImage = Callable[[str], str]
"""Takes the data URI of an image and returns the path under which the trajectory refers to it."""


@dataclass(slots=True)
class CallDraft:
    """A tool call with its result."""

    call_id: str
    name: str
    arguments: str
    """JSON text of an object."""
    content: Content | None = None
    """Content of the result; None if there is none."""
    extra: str = ""
    """JSON text of the object that becomes `extra.orsweb` of the result; empty if there is none."""


@dataclass(slots=True)
class StepDraft:
    """A step before it has a number."""

    source: str
    message: Content = ""
    timestamp: str | None = None
    reasoning: str | None = None
    calls: list[CallDraft] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    """Results that belong to none of `calls`."""
    metrics: dict[str, Any] | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the step that are as simple as `model_name`."""
    extra: dict[str, Any] = field(default_factory=dict)

    def text(self, number: int, place_image: PlaceImage) -> str:
        """Return the step as JSON."""
        values: dict[str, Any] = {"step_id": number}
        if self.timestamp:
            values["timestamp"] = self.timestamp
        values |= {"source": self.source} | self.fields
        values["message"] = placed(self.message, place_image)
        if self.reasoning is not None:
            values["reasoning_content"] = storable(self.reasoning)
        text = json.dumps(values)[:-1]
        if self.calls:
            text += f', "tool_calls": [{", ".join(map(_call_text, self.calls))}]'
        results = [
            _result_text(call, place_image)
            for call in self.calls
            if call.content is not None or call.extra
        ]
        results += [json.dumps(result) for result in self.results]
        if results:
            text += f', "observation": {{"results": [{", ".join(results)}]}}'
        if self.metrics:
            text += f', "metrics": {json.dumps(self.metrics)}'
        if self.extra:
            text += f', "extra": {json.dumps(self.extra)}'
        return f"{text}}}"


def _call_text(call: CallDraft) -> str:
    head = json.dumps(
        {"tool_call_id": storable(call.call_id), "function_name": storable(call.name)}
    )
    return f'{head[:-1]}, "arguments": {call.arguments}}}'


def _result_text(call: CallDraft, place_image: PlaceImage) -> str:
    values: dict[str, Any] = {"source_call_id": storable(call.call_id)}
    if call.content is not None:
        values["content"] = placed(call.content, place_image)
    extra = f', "extra": {{"{EXTRA}": {call.extra}}}' if call.extra else ""
    return f"{json.dumps(values)[:-1]}{extra}}}"


def placed(content: Content, place_image: PlaceImage) -> Content:
    """Return the content with the path of each image in place of its data URI."""
    if isinstance(content, str):
        return content
    return [
        {**part, "source": {**part["source"], "path": place_image(part["source"]["path"])}}
        if part["type"] == "image"
        else part
        for part in content
    ]


def content_of(parts: Iterable[ContentPart]) -> Content:
    """Return texts and images as content: a single text as a string."""
    found = [_content_part(part) for part in parts]
    if len(found) == 1 and found[0]["type"] == "text":
        return str(found[0]["text"])
    return found


def _content_part(part: ContentPart) -> dict[str, Any]:
    if part.is_image:
        kind, _ = data_of(part.text)
        return {"type": "image", "source": {"media_type": kind, "path": part.text}}
    return {"type": "text", "text": storable(part.text)}


def data_of(uri: str) -> tuple[str, str]:
    """Return the type and the base64 of a data URI; two empty texts for anything else."""
    found = _DATA_URI.fullmatch(uri)
    return (found[1], found[2]) if found else ("", "")


def prompt_steps(text: str) -> list[StepDraft]:
    """Return the steps of a prompt. `text`: recorded JSON of blocks or messages; empty if there was
    no prompt.

    What the prompt shows the agent as said by itself is marked as copied context.
    """
    found = list[StepDraft]()
    for turn in prompt_turns(text):
        extra = {EXTRA: {"is_prompt": True}}
        if turn.role == "assistant":
            calls = [CallDraft(*call[:2], arguments_text(call[2])[0]) for call in turn.calls]
            draft = StepDraft(
                "agent", content_of(turn.parts) if turn.parts else "", calls=calls, extra=extra
            )
            draft.fields["is_copied_context"] = True
            found.append(draft)
        elif turn.role == "tool" and (call := _call_in(found, turn.call_id)):
            call.content = content_of(turn.parts)
        else:
            source = "system" if turn.role == "system" else "user"
            found.append(StepDraft(source, content_of(turn.parts), extra=extra))
    return found


def _call_in(steps: list[StepDraft], call_id: str) -> CallDraft | None:
    calls = [call for call in steps[-1].calls if call.call_id == call_id] if steps else []
    return calls[0] if calls else None


def arguments_text(text: str) -> tuple[str, bool]:
    """Return the input of a call as the JSON text of an object, and whether that is the exact text.

    What is no object, not decoded alike by every reader, or nested too deeply for a trajectory,
    becomes
    the object {"input": text}.
    """
    as_text = json.dumps({"input": storable(text)}), False
    try:
        arguments_object(text)
    except UnfaithfulArguments:
        return as_text
    if (member := exact("a", text)).startswith(', "a": '):
        return member.removeprefix(', "a": '), True
    arguments = value_json(json.loads(text))
    return (arguments, False) if is_embeddable(arguments) else as_text


def recorded_call(step: ExportedStep) -> CallDraft:
    """Return a recorded step as a tool call. Its reward and everything else that ATIF lacks is in
    `extra`."""
    arguments, is_exact = arguments_text(step.input)
    call = CallDraft(step.task_id, step.tool, arguments)
    facts: dict[str, Any] = {
        "index": step.number,
        "reward": _unsigned(step.reward),
        "finished": step.finished,
    }
    facts |= {"status": step.status, "reason": step.reason, "error": step.error}
    facts |= {
        "started": _time(step.started),
        "duration_ms": step.duration_ms,
        "waited_ms": step.waited_ms,
    }
    if call.call_id != storable(call.call_id) or call.name != storable(call.name):
        facts |= {"task_id": step.task_id, "tool": step.tool}
    facts = {
        name: value for name, value in facts.items() if value != _DEFAULTS.get(name, _NO_DEFAULT)
    }
    call.content = content_of(result_parts(step))
    texts = "" if is_exact else exact("input", step.input) or f', "input{TEXT}": ""'
    if step.output:
        texts += _output_members(step, call.content)
    elif step.status == "ok":
        texts += f', "output{TEXT}": ""'
    call.extra = f"{value_json(facts)[:-1]}{texts}}}"
    return call


_NO_DEFAULT = object()
_DEFAULTS: dict[str, Any] = {
    "finished": False,
    "status": "ok",
    "reason": "",
    "error": "",
    "waited_ms": 0.0,
}


def _output_members(step: ExportedStep, content: Content) -> str:
    """Return the members from which, with the content, the exact output can be made again."""
    value = read_json(step.output)
    metadata = value.get("metadata") if isinstance(value, dict) else None
    try:
        if (
            step.status == "ok"
            and output_text(content, metadata, step.reward, is_finished=step.finished)
            == step.output
        ):
            return "" if metadata is None else exact("metadata", value_json(metadata))
    except (TypeError, ValueError):
        pass
    return exact("output", step.output)


def output_text(content: Content, metadata: Any, reward: float | None, *, is_finished: bool) -> str:
    """Return the JSON of the ToolOutput with this content. Raises: ValueError, TypeError."""
    blocks = list[TextBlock | ImageBlock]()
    parts: list[dict[str, Any]] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    for part in parts:
        if part["type"] == "text":
            blocks.append(TextBlock(text=part["text"]))
        else:
            kind, data = data_of(part["source"]["path"])
            blocks.append(ImageBlock(data=data, mimeType=kind))
    return model_json(
        ToolOutput(blocks=blocks, metadata=metadata, reward=reward, finished=is_finished)
    )


def exact(key: str, text: str) -> str:
    """Return the member for an exact JSON text, as a string if readers of the trajectory could
    refuse its value."""
    member = embedded(key, text)
    if (
        "\\u" in text
        and storable(plain := json.dumps(read_json(text), ensure_ascii=False)) != plain
    ):
        return f', "{key}{TEXT}": {json.dumps(text)}'
    return member


def recorded_steps(steps: Iterable[ExportedStep]) -> Iterator[StepDraft]:
    """Yield a step of the trajectory for each recorded tool call."""
    for step in steps:
        yield StepDraft("agent", timestamp=_time(step.started), calls=[recorded_call(step)])


def _unsigned(value: float | None) -> float | None:
    """Return -0.0 as 0.0, because SQLite drops its sign and both databases must give the same
    file."""
    return None if value is None else value + 0.0


def _time(moment: datetime) -> str:
    return moment.isoformat()
