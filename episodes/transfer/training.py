"""Writes episodes and uploaded rollouts as conversations for fine-tuning, in JSON Lines. `pairs.py`
writes pairs.

A conversation:  {"messages": […], "tools": […], "reward": …, "episode": …, "conversation": …, "rollout": …,
                  "prompt_source": …, "tools_source": …}
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

A pair holds the best and the worst attempt at a task with the same prompt, by the conventions in
force. Among equal attempts the oldest is used. Images stand in `images` only as far as the prompt
has them, because TRL's trainers expect none in completions.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import TracebackType
from typing import Self

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
    ReportedConversations,
    messages_of,
    reported_turns,
    until_last_said,
)
from episodes.transfer.export_source import Recorded
from episodes.transfer.prompt_sources import PromptSources
from episodes.transfer.training_options import TrainingOptions
from episodes.uploads.usage import USAGE_FIELDS

BATCH_ROLLOUTS = 200
MAX_MEMORY_BYTES = 4 * 1024 * 1024
"""Size of a line from which it is collected in a temporary file."""
BATCH_MESSAGES = 50
PIECE_BYTES = 256 * 1024


@dataclass(slots=True)
class TrainingFile:
    """What one file of messages or pairs is made with, and what was left out of it."""

    options: TrainingOptions = field(default_factory=TrainingOptions)
    sources: PromptSources = field(default_factory=PromptSources)
    reported: ReportedConversations = field(default_factory=ReportedConversations)
    coverage: str = ""
    """How many rollouts of the whole file count, for trajectories, which say so themselves."""
    lines: int = 0
    """Number of conversations or pairs that were written so far."""
    left_out: int = 0
    """Number of episodes or pairs that were left out so far because a call's input is no object."""

    def rollout_of(self, episode: int) -> Rollout | None:
        """Return the rollout whose conversation takes the place of the recorded one; None: there is
        none."""
        return self.reported.of(episode) if self.options.is_reported else None


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._text.close()
        self._images.close()

    def write(self, text: str) -> None:
        self._text.write(text.encode("ascii"))

    def write_turns(self, turns: Iterable[Turn], *, has_images: bool = True) -> None:
        """Write the messages of `turns`, separated by commas. Raises: UnfaithfulArguments."""
        conversation = Conversation(self._options, self._keep_image, has_images=has_images)
        between, waiting, characters = "", list[Message](), 0
        for message in conversation.messages(turns):
            waiting.append(message)  # several at once are encoded in less time
            characters += (
                len(message["content"] or "") if self._options.images == "text" else PIECE_BYTES
            )
            if len(waiting) >= BATCH_MESSAGES or characters >= PIECE_BYTES:
                self.write(f"{between}{dumped(waiting)[1:-1]}")
                between, waiting, characters = ", ", [], 0
        if waiting:
            self.write(f"{between}{dumped(waiting)[1:-1]}")

    def end(self, **facts: str | float | None) -> None:
        """Write the column of images, if there is one, and the facts."""
        if self._options.images == "column":
            self.write(', "images": [')
            self._copy_images()
            self.write("]")
        self.write(f", {json.dumps(facts)[1:]}\n")

    def pieces(self) -> Iterator[bytes]:
        """Yield the line."""
        self._text.seek(0)
        while piece := self._text.read(PIECE_BYTES):
            yield piece

    def _keep_image(self, uri: str) -> None:
        between = b", " if self._images.tell() else b""
        self._images.write(between + dumped(uri).encode("ascii"))

    def _copy_images(self) -> None:
        self._images.seek(0)
        while piece := self._images.read(PIECE_BYTES):
            self._text.write(piece)


def _conversation(
    file: TrainingFile, turns: Iterable[Turn], tools: str, facts: Mapping[str, str | float | None]
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
        file.lines += 1
        yield from line.pieces()


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
    turns = turns if turns[0].role != "assistant" else [*prompt, *turns]
    return turns if options.has_final_output else until_last_said(turns)


def _source(rollout: Rollout | None) -> dict[str, str]:
    """Return the columns that say whose conversation a row is."""
    return {
        "conversation": "reported" if rollout else "recorded",
        "rollout": rollout.event_id if rollout else "",
    }


def _usage(rollout: Rollout | None) -> dict[str, float | None]:
    return {name: getattr(rollout, name) if rollout else None for name in USAGE_FIELDS}


def conversations(rollouts: QuerySet[Rollout], file: TrainingFile) -> Iterator[bytes]:
    """Yield a conversation for each rollout, with an episode here or without, in ascending order of
    ids."""
    last = 0
    while batch := list(rollouts.order_by("id").filter(pk__gt=last)[:BATCH_ROLLOUTS]):
        for rollout in batch:
            if (turns := reported_conversation(rollout, (), (), file.options)) is None:
                file.left_out += 1
                continue
            facts = {
                "reward": _last_reward(rollout),
                "episode": rollout.episode_id,
                **_source(rollout),
            }
            facts |= {"environment": rollout.environment_name, "model": rollout.model}
            yield from _conversation(
                file, turns, _tools(rollout), facts | _usage_if(rollout, file.options)
            )
        last = batch[-1].pk


def _usage_if(rollout: Rollout | None, options: TrainingOptions) -> dict[str, float | None]:
    return _usage(rollout) if options.has_usage else {}


def _last_reward(rollout: Rollout) -> float | None:
    if rollout.is_summarised:
        return rollout.reward
    rewarded = rollout.messages.filter(reward__isnull=False).order_by("-index", "-id")
    return rewarded.values_list("reward", flat=True).first()


def _tools(rollout: Rollout) -> str:
    """Return the tools of the rollout's episode; empty if there is none."""
    episode = rollout.episode
    return episode.tools.text if episode and episode.tools else ""


class Chat:
    """Writes a conversation per episode; see `exporting.EpisodeFileWriter`."""

    needs_steps = True

    def __init__(self, file: TrainingFile) -> None:
        self._file = file

    def start(self) -> str:
        return ""

    def write(self, episode: Recorded) -> Iterator[bytes]:
        if (first := next(episode.steps, None)) is None:
            return
        sources, facts = self._file.sources, episode.facts
        prompt, tools = sources.prompt_of(episode), sources.tools_of(episode)
        steps = step_turns(
            chain([first], episode.steps), has_final_output=self._file.options.has_final_output
        )
        rollout, turns = self._turns(facts.id, list(prompt_turns(prompt.text)), steps)
        yield from _conversation(
            self._file,
            turns,
            tools.text,
            {
                **{"reward": facts.return_by(self._file.options.definition), "episode": facts.id},
                **_source(rollout),
                **{"prompt_source": prompt.source, "tools_source": tools.source},
                **_usage_if(rollout, self._file.options),
            },
        )

    def _turns(
        self, episode: int, prompt: list[Turn], steps: Iterator[Turn]
    ) -> tuple[Rollout | None, Iterable[Turn]]:
        """Return the rollout whose conversation is used, None for the recorded one, and the
        turns."""
        rollout = self._file.rollout_of(episode)
        if rollout is None:
            return None, chain(prompt, steps)
        recorded_steps = list(steps)
        turns = reported_conversation(rollout, prompt, recorded_steps, self._file.options)
        return (None, [*prompt, *recorded_steps]) if turns is None else (rollout, turns)

    def end(self) -> str:
        return ""
