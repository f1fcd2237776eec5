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
from episodes.transfer.embedded_json import TEXT, exact_member, is_embeddable
from episodes.transfer.export_rows import ExportedStep

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

    def text(self) -> str:
        """Return the call as JSON."""
        values = {"tool_call_id": storable(self.call_id), "function_name": storable(self.name)}
        return f'{json.dumps(values)[:-1]}, "arguments": {self.arguments}}}'

    def result_text(self, place_image: PlaceImage) -> str:
        """Return its result as JSON."""
        values: dict[str, Any] = {"source_call_id": storable(self.call_id)}
        if self.content is not None:
            values["content"] = _placed(self.content, place_image)
        extra = f', "extra": {{"{EXTRA}": {self.extra}}}' if self.extra else ""
        return f"{json.dumps(values)[:-1]}{extra}}}"


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
        values["message"] = _placed(self.message, place_image)
        if self.reasoning is not None:
            values["reasoning_content"] = storable(self.reasoning)
        text = json.dumps(values)[:-1]
        if self.calls:
            text += f', "tool_calls": [{", ".join(call.text() for call in self.calls)}]'
        results = [
            call.result_text(place_image)
            for call in self.calls
            if call.content is not None or call.extra
        ]
        results += map(json.dumps, self.results)
        if results:
            text += f', "observation": {{"results": [{", ".join(results)}]}}'
        for name, value in (("metrics", self.metrics), ("extra", self.extra)):
            if value:
                text += f', "{name}": {json.dumps(value)}'
        return f"{text}}}"


def _placed(content: Content, place_image: PlaceImage) -> Content:
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
    content = list[dict[str, Any]]()
    for part in parts:
        if part.is_image:
            source = {"media_type": data_of(part.text)[0], "path": part.text}
            content.append({"type": "image", "source": source})
        else:
            content.append({"type": "text", "text": storable(part.text)})
    if len(content) == 1 and content[0]["type"] == "text":
        return str(content[0]["text"])
    return content


def data_of(uri: str) -> tuple[str, str]:
    """Return the type and the base64 of a data URI; two empty texts for anything else."""
    match = _DATA_URI.fullmatch(uri)
    return (match[1], match[2]) if match else ("", "")


def prompt_steps(text: str) -> list[StepDraft]:
    """Return the steps of a prompt. `text`: recorded JSON of blocks or messages; empty if there was
    no prompt.

    What the prompt shows the agent as said by itself is marked as copied context.
    """
    drafts, calls = list[StepDraft](), dict[str, CallDraft]()
    for turn in prompt_turns(text):
        if turn.role == "tool" and turn.call_id in calls:
            calls[turn.call_id].content = content_of(turn.parts)
            continue
        draft = StepDraft(
            {"system": "system", "assistant": "agent"}.get(turn.role, "user"),
            content_of(turn.parts),
            extra={EXTRA: {"is_prompt": True}},
        )
        if turn.role == "assistant":
            draft.message = draft.message or ""
            draft.calls = [CallDraft(*call[:2], arguments_text(call[2])[0]) for call in turn.calls]
            draft.fields["is_copied_context"] = True
        calls = {call.call_id: call for call in reversed(draft.calls)}
        drafts.append(draft)
    return drafts


def arguments_text(text: str) -> tuple[str, bool]:
    """Return the input of a call as the JSON text of an object, and whether that is the exact text.

    What is no object, not decoded alike by every reader, or nested too deeply for a trajectory,
    becomes the object {"input": text}.
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


_DEFAULTS: dict[str, Any] = {
    "finished": False,
    "status": "ok",
    "reason": "",
    "error": "",
    "waited_ms": 0.0,
}


def recorded_call(step: ExportedStep) -> CallDraft:
    """Return a recorded step as a tool call. Its reward and everything else that ATIF lacks is in
    `extra`."""
    arguments, is_exact = arguments_text(step.input)
    content = content_of(result_parts(step))
    facts: dict[str, Any] = {
        "index": step.number,
        # SQLite drops the sign of -0.0, and both databases must give the same file
        "reward": None if step.reward is None else step.reward + 0.0,
        "finished": step.finished,
        "status": step.status,
        "reason": step.reason,
        "error": step.error,
        "started": step.started.isoformat(),
        "duration_ms": step.duration_ms,
        "waited_ms": step.waited_ms,
    }
    for name, value in _DEFAULTS.items():
        if facts[name] == value:
            del facts[name]
    if step.task_id != storable(step.task_id) or step.tool != storable(step.tool):
        facts |= {"task_id": step.task_id, "tool": step.tool}
    texts = "" if is_exact else exact("input", step.input) or f', "input{TEXT}": ""'
    if step.output:
        texts += _output_members(step, content)
    elif step.status == "ok":
        texts += f', "output{TEXT}": ""'
    extra = f"{value_json(facts)[:-1]}{texts}}}"
    return CallDraft(step.task_id, step.tool, arguments, content, extra)


def _output_members(step: ExportedStep, content: Content) -> str:
    """Return the members from which, with the content, the exact output can be made again."""
    value = read_json(step.output)
    metadata = value.get("metadata") if isinstance(value, dict) else None
    try:
        text = output_text(content, metadata, step.reward, is_finished=step.finished)
    except (TypeError, ValueError):
        text = ""
    if step.status != "ok" or text != step.output:
        return exact("output", step.output)
    return "" if metadata is None else exact("metadata", value_json(metadata))


def output_text(content: Content, metadata: Any, reward: float | None, *, is_finished: bool) -> str:
    """Return the JSON of the ToolOutput with this content. Raises: ValueError, TypeError."""
    blocks = list[TextBlock | ImageBlock]()
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for part in content:
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
    if "\\u" in text:
        plain = json.dumps(read_json(text), ensure_ascii=False)
        if storable(plain) != plain:
            return f', "{key}{TEXT}": {json.dumps(text)}'
    return exact_member(key, text)


def recorded_steps(steps: Iterable[ExportedStep]) -> Iterator[StepDraft]:
    """Yield a step of the trajectory for each recorded tool call."""
    for step in steps:
        yield StepDraft("agent", timestamp=step.started.isoformat(), calls=[recorded_call(step)])
