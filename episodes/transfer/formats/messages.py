"""Writes episodes and uploaded rollouts as conversations for fine-tuning, in JSON Lines. `pairs.py`
writes pairs.

A conversation:  {"messages": […], "tools": […], "reward": …, "success": …, "episode": …, "conversation": …,
                  "rollout": …, "prompt_source": …, "tools_source": …}
A pair:          {"prompt": […], "chosen": […], "rejected": […], "tools": […], "chosen_reward": …, …}

Messages and tools have the format of chat APIs; `training_options.py` lists what can be chosen. A
conversation is the prompt, then for each call an assistant message with `tool_calls` and the `tool`
message with the result. A refused or failed call is answered with its error, as it was to the
agent. Both formats end with the assistant's last turn, so that a model does not learn the words of
a grader; only a conversation can include the last output. Episodes without a call are left out. So
are those with a call whose input is no JSON object if arguments are written as objects: the object
would be invented.

Where a client uploaded the conversation, that takes the place of what is made of the record
(`conversations.py`), unless the join is a guess or a call of it is lost. Both sides of a pair come
from the same kind of source.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Self

from django.db.models import QuerySet

from episodes.models import Rollout
from episodes.transfer.chat_messages import (
    Conversation,
    Message,
    Turn,
    UnfaithfulArguments,
    dumped,
    prompt_turns,
    step_turns,
    tools_of,
)
from episodes.transfer.conversations import (
    LostCall,
    messages_of,
    reported_turns,
    without_final_output,
)
from episodes.transfer.export_file import ExportFile
from episodes.transfer.export_rows import ExportedStep, Recorded
from episodes.transfer.formats import ExportFormat, ExportLink
from episodes.transfer.training_options import TrainingOptions
from episodes.uploads.usage import USAGE_FIELDS

BATCH_ROLLOUTS = 200
MAX_MEMORY_BYTES = 4 * 1024 * 1024
"""Size of a line from which it is collected in a temporary file."""
BATCH_MESSAGES = 50
PIECE_BYTES = 256 * 1024


def conversations(file: ExportFile) -> Iterator[bytes]:
    """Yield a conversation for each episode with a call."""
    for episode in file.recorded():
        if (first := next(episode.steps, None)) is not None:
            yield from _episode_line(file, episode, chain([first], episode.steps))


FORMATS = [
    ExportFormat(
        name="messages",
        label="Messages",
        position=4,
        media_type="application/jsonl",
        extension="messages.jsonl",
        pieces=conversations,
        links=[
            ExportLink("Messages", "chat JSONL for fine-tuning, images left out"),
            ExportLink("Messages with images", "for vision-language models", "images=column"),
            ExportLink(
                "Messages for OpenAI",
                "arguments as strings, images as URLs",
                "arguments=string&images=url",
            ),
        ],
        noun="conversation",
        why_empty=(
            "There are no conversations: none of these episodes has called a tool. Those whose "
            "tool input isn't a JSON object are only in files with arguments=string."
        ),
    )
]


def _episode_line(
    file: ExportFile, episode: Recorded, steps: Iterator[ExportedStep]
) -> Iterator[bytes]:
    prompt, tools = file.sources.prompt_of(episode), file.sources.tools_of(episode)
    first = list(prompt_turns(prompt.text))
    turns = step_turns(steps, has_final_output=file.options.has_final_output)
    rollout, conversation = file.rollout_of(episode.facts.id), None
    if rollout is not None:
        recorded_turns = list(turns)
        conversation = reported_conversation(rollout, first, recorded_turns, file.options)
        turns = iter(recorded_turns)
    if conversation is None:
        rollout = None
    definition = file.options.definition
    facts = {
        "reward": episode.facts.return_by(definition),
        "success": episode.facts.success_by(definition),
        "episode": episode.facts.id,
        **_source(rollout),
        "prompt_source": prompt.source,
        "tools_source": tools.source,
        **_usage(rollout, file.options),
    }
    yield from _line(file, conversation or chain(first, turns), tools.text, facts)


def rollout_lines(rollouts: QuerySet[Rollout], file: ExportFile) -> Iterator[bytes]:
    """Yield a conversation for each uploaded rollout, with an episode here or without, in ascending
    order of ids. `file` says how, and counts what is left out."""
    rows, last = rollouts.select_related("run", "event_blob", "episode__tools").order_by("id"), 0
    while batch := list(rows.filter(pk__gt=last)[:BATCH_ROLLOUTS]):
        for rollout in batch:
            turns = reported_conversation(rollout, (), (), file.options)
            if turns is None:
                file.left_out += 1
                continue
            reward, episode = rollout.reward, rollout.episode
            if not rollout.is_summarised:
                messages = rollout.messages.filter(reward__isnull=False).order_by("-index", "-id")
                reward = messages.values_list("reward", flat=True).first()
            facts = {
                "reward": reward,
                "episode": rollout.episode_id,
                **_source(rollout),
                "environment": rollout.environment_name,
                "model": rollout.model,
                **_usage(rollout, file.options),
            }
            tools = episode.tools.text if episode and episode.tools else ""
            yield from _line(file, turns, tools, facts)
        last = batch[-1].pk


def _source(rollout: Rollout | None) -> dict[str, str]:
    """Return the columns that say whose conversation a row is."""
    return {
        "conversation": "reported" if rollout else "recorded",
        "rollout": rollout.event_id if rollout else "",
    }


def _usage(rollout: Rollout | None, options: TrainingOptions) -> dict[str, float | None]:
    return {name: getattr(rollout, name, None) for name in USAGE_FIELDS if options.has_usage}


def _line(
    file: ExportFile, turns: Iterable[Turn], tools: str, facts: Mapping[str, Any]
) -> Iterator[bytes]:
    """Yield a line with a conversation; nothing if a call's input is no object, which is counted as
    left out."""
    with Line(file.options) as line:
        try:
            line.write('{"messages": [')
            line.write_turns(turns)
        except UnfaithfulArguments:
            file.left_out += 1
            return
        line.write(f'], "tools": {tools_of(tools, file.options)}')
        line.end(**facts)
        file.count += 1
        yield from line.pieces()


class Line:
    """One line of a file. It is collected before any of it is sent, because a call far down may
    turn out unfit for it.

    The images of its column are collected apart, because they come after the messages.
    """

    def __init__(self, options: TrainingOptions) -> None:
        self._options = options
        self._text = tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES)  # noqa: SIM115  # closed by __exit__
        self._images = tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()
        self._images.close()

    def write(self, text: str) -> None:
        self._text.write(text.encode("ascii"))

    def write_turns(self, turns: Iterable[Turn], *, has_images: bool = True) -> None:
        """Write the messages of `turns`, separated by commas. Raises: UnfaithfulArguments."""
        conversation = Conversation(self._options, self._keep_image, has_images=has_images)
        between, batch, characters = "", list[Message](), 0
        for message in conversation.messages(turns):
            batch.append(message)  # several at once are encoded in less time
            characters += (
                len(message["content"] or "") if self._options.images == "text" else PIECE_BYTES
            )
            if len(batch) >= BATCH_MESSAGES or characters >= PIECE_BYTES:
                self.write(f"{between}{dumped(batch)[1:-1]}")
                between, batch, characters = ", ", [], 0
        if batch:
            self.write(f"{between}{dumped(batch)[1:-1]}")

    def _keep_image(self, uri: str) -> None:
        between = b", " if self._images.tell() else b""
        self._images.write(between + dumped(uri).encode("ascii"))

    def end(self, **facts: str | float | None) -> None:
        """Write the column of images, if there is one, and the facts."""
        if self._options.images == "column":
            self.write(', "images": [')
            self._text.writelines(_pieces(self._images))
            self.write("]")
        self.write(f", {json.dumps(facts)[1:]}\n")

    def pieces(self) -> Iterator[bytes]:
        """Yield the line."""
        return _pieces(self._text)


def _pieces(file: tempfile.SpooledTemporaryFile[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece


def reported_conversation(
    rollout: Rollout, prompt: Sequence[Turn], steps: Sequence[Turn], options: TrainingOptions
) -> list[Turn] | None:
    """Return the turns that the client uploaded, after the recorded prompt if they have none; None:
    not usable."""
    try:
        turns = reported_turns(messages_of(rollout), steps)
    except LostCall:
        return None
    if not any(turn.role == "assistant" for turn in turns):
        return None
    if turns[0].role == "assistant":
        turns = [*prompt, *turns]
    return turns if options.has_final_output else without_final_output(turns)
