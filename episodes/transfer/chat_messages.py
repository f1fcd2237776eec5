"""Messages and tools of chat APIs, made from recorded texts: the content of the lines that
`formats/messages.py` writes.

Recorded texts may be anything, because imports bring them too. What is written loads everywhere:
texts contain no lone surrogates and numbers fit into 64 bits, since one such value makes `datasets`
refuse a whole file.

Content has one shape in a file, because `datasets` stores a column of one type: always a text, or
with `images` other than "text" always a list of parts. No API takes images in messages other than
the user's, and many chat templates render only the text of the others. An image of such a message
is therefore replaced by the text `[image]`, and follows in the next user message, which is added
after the tool messages where there is none. This is what OpenAI's API asks for and what TRL's
`prepare_multimodal_messages` counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from environments.database.storable import MAX_BIGINT
from environments.display.images import image_problem
from environments.display.parts import read_json
from environments.schemas.object_schemas import object_schema
from episodes.transfer.export_rows import ExportedStep
from episodes.transfer.training_options import TrainingOptions

Message = dict[str, Any]
IMAGE = "[image]"
"""Text in place of an image that a message cannot hold, or that no model takes."""
MAX_CACHED_TOOLS = 64
"""Lists of tools that are kept in their final form; the episodes of an environment share theirs."""


class UnfaithfulArguments(ValueError):
    """The input of a call is no JSON object that every reader of JSON decodes to the same value."""


class ContentPart(NamedTuple):
    """A part of a message's content."""

    text: str
    is_image: bool = False
    """Whether `text` is the data URI of an image."""


class Turn(NamedTuple):
    """A message before its images have found their place."""

    role: str
    parts: list[ContentPart]
    calls: Sequence[tuple[str, str, str]] = ()
    """Id, tool and input (JSON text) of each tool call."""
    call_id: str = ""
    """Id of the call whose result this is; only of role "tool"."""
    tool: str = ""
    reasoning: str = ""
    """What the model thought before it wrote the rest, as its client reported it."""


class Conversation:
    """Writes the turns of one conversation as messages. It holds images only until the next
    message."""

    def __init__(
        self,
        options: TrainingOptions,
        keep_image: Callable[[str], None],
        *,
        has_images: bool = True,
    ) -> None:
        """Start an empty conversation.

        `keep_image`: is called with each image of the column `images`. `has_images`: False writes
        `[image]` only.
        """
        self._options, self._keep_image = options, keep_image
        self._has_images = has_images and options.images != "text"
        self._images = list[ContentPart]()
        """Those that wait for a message of the user."""

    def messages(self, turns: Iterable[Turn]) -> Iterator[Message]:
        """Yield the messages for `turns`. Raises: UnfaithfulArguments."""
        for turn in turns:
            parts = turn.parts
            if self._has_images:
                if self._images and turn.role not in ("user", "tool"):
                    yield self._images_message()
                if turn.role == "user":
                    parts, self._images = [*self._images, *parts], []
                else:  # its images wait for a message of the user
                    self._images += [part for part in parts if part.is_image]
                    parts = [ContentPart(IMAGE) if part.is_image else part for part in parts]
            yield self._message(turn, parts)
        if self._images:
            yield self._images_message()

    def _images_message(self) -> Message:
        parts, self._images = self._images, []
        return self._message(Turn("user", parts), parts)

    def _message(self, turn: Turn, parts: list[ContentPart]) -> Message:
        reasoning, options = turn.reasoning, self._options
        if options.reasoning == "thinking" and reasoning and turn.calls:
            # gpt-oss's template takes text or thinking before a call, but not both
            reasoning, parts = "\n\n".join([reasoning, *(part.text for part in parts)]), []
        content: str | list[dict[str, Any]] | None = [self._part(part) for part in parts]
        if options.images == "text":
            content = "\n".join([IMAGE if part.is_image else part.text for part in parts])
        elif turn.calls and not parts and options.images == "url":
            content = None  # OpenAI refuses an empty list; templates fail at None
        message: Message = {"role": turn.role, "content": content}
        if turn.role == "tool":
            message["tool_call_id"] = turn.call_id
            # OpenAI's tool messages have no name
            if turn.tool and options.arguments == "object":
                message["name"] = turn.tool
        if reasoning and options.reasoning != "no":
            message[options.reasoning] = reasoning
        if turn.calls:
            message["tool_calls"] = [self._call(*call) for call in turn.calls]
        return message

    def _part(self, part: ContentPart) -> dict[str, Any]:
        if not part.is_image:
            return {"type": "text", "text": part.text}
        if not self._has_images:
            return {"type": "text", "text": IMAGE}
        if self._options.images == "url":
            return {"type": "image_url", "image_url": {"url": part.text}}
        self._keep_image(part.text)
        return {"type": "image"}

    def _call(self, number: str, tool: str, text: str) -> dict[str, Any]:
        arguments = text if self._options.arguments == "string" else arguments_object(text)
        return {
            "id": number,
            "type": "function",
            "function": {"name": tool, "arguments": arguments},
        }


def arguments_object(text: str) -> dict[str, Any]:
    """Return the input of a call as an object.

    Raises: UnfaithfulArguments for what is no JSON object, and for values that readers of JSON
    refuse or change: NaN, numbers beyond 64 bits, lone surrogates.
    """
    try:
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise UnfaithfulArguments(str(error)) from error
    if not isinstance(value, dict):
        raise UnfaithfulArguments(f"{type(value).__name__} instead of an object")
    return value


def _number(text: str, kind: type[int] | type[float]) -> Any:
    value = kind(text)
    if not (-MAX_BIGINT <= value <= MAX_BIGINT if kind is int else math.isfinite(value)):
        raise ValueError(f"{text[:40]} does not fit into 64 bits")
    return value


_DECODER = json.JSONDecoder(
    parse_int=lambda text: _number(text, int),
    parse_float=lambda text: _number(text, float),
    parse_constant=lambda text: _number(text, float),
)


def prompt_turns(text: str) -> Iterator[Turn]:
    """Yield the turns of a prompt. `text`: recorded JSON of blocks or messages; empty if there was
    no prompt."""
    value = read_json(text) if text else []
    if not isinstance(value, list):
        yield Turn("user", [ContentPart(text)])
    elif all(isinstance(item, dict) and "role" in item and "blocks" in item for item in value):
        for item in value:
            yield from _turns(str(item["role"]), item["blocks"])
    else:
        yield Turn("user", _parts(value))


def step_turns(steps: Iterator[ExportedStep], *, has_final_output: bool) -> Iterator[Turn]:
    """Yield the turns of tool calls, each with its result.

    has_final_output: False ends with the assistant's last turn. The call that ended the episode is
    the last one, since calls after it are answered only with the sentence that the episode has
    finished.
    """
    answer = None
    for step in steps:
        if answer:
            yield answer
        number = f"call_{step.number}"
        yield Turn("assistant", [], [(number, step.tool, step.input)])
        answer = Turn("tool", result_parts(step), call_id=number, tool=step.tool)
        if step.finished and not has_final_output:
            return
    if answer and has_final_output:
        yield answer


def tools_of(text: str, options: TrainingOptions) -> str:
    """Return the tools of a recorded ListToolsOutput as the JSON to be written; none if `text` is
    something else."""
    tools = _tools(text)
    return json.dumps(tools) if options.tools == "text" else tools


def dumped(value: Any) -> str:
    """Return the JSON of a value, in which every text is valid Unicode."""
    text = json.dumps(value)
    return json.dumps(_loadable(value)) if "\\ud" in text else text


@lru_cache(MAX_CACHED_TOOLS)
def _tools(text: str) -> str:
    value = read_json(text) if text else None
    tools = value.get("tools") if isinstance(value, dict) else None
    functions = [
        {
            "name": tool.get("name", ""),
            "description": tool.get("description", ""),
            "parameters": object_schema(tool.get("input_schema")),
        }
        for tool in (tools if isinstance(tools, list) else ())
        if isinstance(tool, dict)
    ]
    return json.dumps(
        _loadable([{"type": "function", "function": function} for function in functions])
    )


def _loadable(value: Any) -> Any:
    """Return a value with valid Unicode, without NaN and infinities, and with integers of 64
    bits."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_loadable(name): _loadable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_loadable(item) for item in value]
    if isinstance(value, int) and not -MAX_BIGINT <= value <= MAX_BIGINT:
        return _loadable(float(value)) if abs(value) < 10**300 else None
    return None if isinstance(value, float) and not math.isfinite(value) else value


def result_parts(step: ExportedStep) -> list[ContentPart]:
    """Return what a call returned to the agent: the blocks of its output, or its error."""
    if not step.output:
        return [ContentPart(step.error)]
    value = read_json(step.output)
    blocks = value.get("blocks") if isinstance(value, dict) else None
    return _parts(blocks) if isinstance(blocks, list) else [ContentPart(step.output)]


def _turns(role: str, blocks: Any) -> Iterator[Turn]:
    """Yield the turns for one of the protocol's messages: each result is a turn of its own, before
    the other blocks."""
    calls, results, rest = list[Any](), list[Any](), list[Any]()
    groups = {"tool_call": calls, "tool_result": results}
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict):
            groups.get(str(block.get("type")), rest).append(block)
    for result in results:
        call_id = str(result.get("tool_call_id", ""))
        yield Turn("tool", _parts(result.get("blocks")), call_id=call_id)
    if calls or rest or not results:
        yield Turn(role, _parts(rest), [_call(call) for call in calls])


def _call(block: dict[str, Any]) -> tuple[str, str, str]:
    return str(block.get("id", "")), str(block.get("name", "")), json.dumps(block.get("input", {}))


def _parts(blocks: Any) -> list[ContentPart]:
    """Return a part for each block: text, image, `[image]` for one that no model takes, or else its
    JSON as text."""
    parts = list[ContentPart]()
    for block in blocks if isinstance(blocks, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "image":
            media, data = block.get("mimeType"), block.get("data")
            is_good = not image_problem(media, data)
            uri = f"data:{media};base64,{data}" if is_good else IMAGE
            parts.append(ContentPart(uri, is_image=is_good))
        elif kind in ("text", "reasoning") and isinstance(block.get("text"), str):
            parts.append(ContentPart(block["text"]))
        else:
            parts.append(ContentPart(json.dumps(block)))
    return parts
