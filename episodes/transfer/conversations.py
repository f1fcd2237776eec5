"""Uploaded conversations as turns of training data: what the model really read, thought and wrote.

Reasoning, text and tool calls that follow each other in this order are one turn of the assistant.
Results are those that the model got, as the client reported them; where a client reports none, the
recorded output takes its place. The prompt is the recorded one if the upload starts with the model.
A conversation in which a result has no call is not used, because a client has left out the call
(the recorder's `log_openai_completions` does that with parallel calls).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

from episodes.models import Rollout
from episodes.transfer.chat_messages import ContentPart, Turn
from episodes.uploads.matching import call_key, rollouts_of_episodes

RANGE = 1_000
"""Neighbouring episode ids whose rollouts are looked up together."""
MODEL_KINDS = ("reasoning", "assistant_message", "tool_call")
_ROLES = {"system_message": "system", "user_message": "user"}


class ReportedMessage(NamedTuple):
    """What a turn needs of a message."""

    kind: str
    name: str
    call_id: str
    text: str
    summary: str


class LostCall(ValueError):
    """The upload holds the result of a tool call, but not the call."""


@dataclass
class ReportedConversations:
    """Finds the rollouts of episodes for one file. Joins that are guesses are left out."""

    _is_any: bool | None = None
    _start: int = 0
    _found: dict[int, Rollout] = field(default_factory=dict)

    def of(self, episode: int) -> Rollout | None:
        """Return the rollout of an episode; None if it has none."""
        if self._is_any is None:
            self._is_any = Rollout.objects.filter(episode__isnull=False).exists()
        if not self._is_any:
            return None
        start = episode - episode % RANGE
        if start != self._start or not self._found:
            self._start, self._found = start, rollouts_of_episodes(range(start, start + RANGE))
        return self._found.get(episode)


def messages_of(rollout: Rollout) -> Iterator[ReportedMessage]:
    """Yield the messages of a rollout in order."""
    rows = rollout.messages.order_by("index", "id").select_related("content_blob", "summary_blob")
    for row in rows.iterator(chunk_size=200):
        yield ReportedMessage(row.kind, row.name, row.call_id, row.text, row.summary_text)


def reported_turns(messages: Iterable[ReportedMessage], outputs: Sequence[Turn] = ()) -> list[Turn]:
    """Return the turns of a conversation. `outputs`: recorded turns with results, for calls that
    have none.

    Raises: LostCall.
    """
    turns, calls, unanswered = list[Turn](), dict[str, str](), list[str]()
    said = _Said()
    for number, message in enumerate(messages):
        if message.kind in MODEL_KINDS:
            if message.kind != "tool_call" and said.calls:
                turns.append(said.turn())
                said = _Said()
            call = said.add(message, f"call_{number}")
            if call:
                calls[call] = message.name
                unanswered.append(call)
            continue
        if said:
            turns.append(said.turn())
            said = _Said()
        if message.kind == "tool_result":
            call = message.call_id if message.call_id in calls else next(iter(unanswered), "")
            if not call or (message.call_id and message.call_id not in calls):
                raise LostCall(message.call_id)
            if call in unanswered:
                unanswered.remove(call)
            turns.append(Turn("tool", [ContentPart(message.text)], call_id=call, tool=calls[call]))
        elif message.kind in _ROLES:
            turns.append(Turn(_ROLES[message.kind], [ContentPart(message.text)]))
    if said:
        turns.append(said.turn())
    return _completed(turns, unanswered, outputs)


class _Said:
    """What the model has said in its current turn."""

    def __init__(self) -> None:
        self.reasoning = list[str]()
        self.texts = list[str]()
        self.calls = list[tuple[str, str, str]]()

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.texts or self.calls)

    def add(self, message: ReportedMessage, number: str) -> str:
        """Add a message; return the id of its call if it is one."""
        if message.kind == "tool_call":
            call = message.call_id or number
            self.calls.append((call, message.name, message.text or "{}"))
            return call
        text = message.text or (message.summary if message.kind == "reasoning" else "")
        if text:
            (self.reasoning if message.kind == "reasoning" else self.texts).append(text)
        return ""

    def turn(self) -> Turn:
        texts = [ContentPart(text) for text in self.texts]
        return Turn("assistant", texts, self.calls, reasoning="\n\n".join(self.reasoning))


def _completed(turns: list[Turn], unanswered: Sequence[str], outputs: Sequence[Turn]) -> list[Turn]:
    """Return the turns with recorded results after calls whose results were not reported, as far as
    there are any."""
    if not unanswered or not outputs:
        return turns
    recorded = _answers(turns, outputs)
    completed: list[Turn] = []
    for turn in turns:
        completed.append(turn)
        for call, _, _ in turn.calls:
            if call in unanswered and (answer := recorded.get(call)):
                completed.append(answer._replace(call_id=call))
    return completed


def _answers(turns: Sequence[Turn], outputs: Sequence[Turn]) -> dict[str, Turn]:
    """Return the recorded result of each call, by the call's id: in order, that of the next equal
    call."""
    made = [
        (call_key(name, text), answer)
        for turn, answer in pairwise(outputs)
        for _, name, text in turn.calls
    ]
    found, start = dict[str, Turn](), 0
    for call, name, text in chain.from_iterable(turn.calls for turn in turns):
        wanted = call_key(name, text)
        place = next((n for n in range(start, len(made)) if made[n][0] == wanted), None)
        if place is not None:
            found[call], start = made[place][1], place + 1
    return found


def without_final_output(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns up to and including the assistant's last one."""
    last = max((place for place, turn in enumerate(turns) if turn.role == "assistant"), default=-1)
    return list(turns[: last + 1])


def prompt_and_rest(turns: Sequence[Turn]) -> tuple[list[Turn], list[Turn]]:
    """Return the turns before the assistant's first one, and the others."""
    first = next(
        (place for place, turn in enumerate(turns) if turn.role == "assistant"), len(turns)
    )
    return list(turns[:first]), list(turns[first:])
