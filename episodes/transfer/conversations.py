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
from itertools import chain, pairwise, takewhile

from django.db.models import Q

from episodes.models import Rollout, RolloutMessage
from episodes.transfer.chat_messages import ContentPart, Turn
from episodes.uploads.matching import call_key, rollouts_of_episodes

RANGE = 1_000
"""Neighbouring episode ids whose rollouts are looked up together."""
BATCH_MESSAGES = 200
"""Messages that one query reads."""
MODEL_KINDS = ("reasoning", "assistant_message", "tool_call")
_ROLES = {"system_message": "system", "user_message": "user"}


class LostCall(ValueError):
    """The upload holds the result of a tool call, but not the call."""


@dataclass
class ReportedConversations:
    """Finds the rollouts of episodes for one file. Joins that are guesses are left out."""

    _is_any: bool | None = None
    _start: int | None = None
    _rollouts: dict[int, Rollout] = field(default_factory=dict)

    def of(self, episode: int) -> Rollout | None:
        """Return the rollout of an episode; None if it has none."""
        if self._is_any is None:
            self._is_any = Rollout.objects.filter(episode__isnull=False).exists()
        start = episode - episode % RANGE
        if self._is_any and start != self._start:
            self._start, self._rollouts = start, rollouts_of_episodes(range(start, start + RANGE))
        return self._rollouts.get(episode)


def messages_of(rollout: Rollout) -> Iterator[RolloutMessage]:
    """Yield the messages of a rollout in order. Each query is read to its end, so no transaction
    stays open in between."""
    blobs = ("content_blob", "summary_blob", "extra_blob")
    rows, rest = rollout.messages.order_by("index", "pk").select_related(*blobs), Q()
    while batch := list(rows.filter(rest)[:BATCH_MESSAGES]):
        yield from batch
        last = batch[-1]
        rest = Q(index__gt=last.index) | Q(index=last.index, pk__gt=last.pk)


def reported_turns(messages: Iterable[RolloutMessage], outputs: Sequence[Turn] = ()) -> list[Turn]:
    """Return the turns of a conversation. `outputs`: recorded turns with results, for calls that
    have none.

    Raises: LostCall.
    """
    turns, tools, without_result = list[Turn](), dict[str, str](), list[str]()
    draft = _Draft()
    for number, message in enumerate(messages):
        is_models = message.kind in MODEL_KINDS
        if not is_models or (message.kind != "tool_call" and draft.calls):
            turns += draft.turns()
            draft = _Draft()
        if is_models:
            if call := draft.add(message, f"call_{number}"):
                tools[call] = message.name
                without_result.append(call)
        elif message.kind == "tool_result":
            call = message.call_id or next(iter(without_result), "")
            if call not in tools:
                raise LostCall(message.call_id)
            if call in without_result:
                without_result.remove(call)
            turns.append(Turn("tool", [ContentPart(message.text)], call_id=call, tool=tools[call]))
        elif message.kind in _ROLES:
            turns.append(Turn(_ROLES[message.kind], [ContentPart(message.text)]))
    turns += draft.turns()
    if not without_result or not outputs:
        return turns
    answers = _answers(turns, outputs)
    complete = list[Turn]()
    for turn in turns:
        complete.append(turn)
        for call, _, _ in turn.calls:
            if call in without_result and call in answers:
                complete.append(answers[call]._replace(call_id=call))
    return complete


class _Draft:
    """What the model has said in its current turn."""

    def __init__(self) -> None:
        self.reasoning = list[str]()
        self.texts = list[str]()
        self.calls = list[tuple[str, str, str]]()

    def add(self, message: RolloutMessage, number: str) -> str:
        """Add a message; return the id of its call if it is one."""
        if message.kind == "tool_call":
            call = message.call_id or number
            self.calls.append((call, message.name, message.text or "{}"))
            return call
        is_reasoning = message.kind == "reasoning"
        text = message.text or (message.summary_text if is_reasoning else "")
        if text:
            (self.reasoning if is_reasoning else self.texts).append(text)
        return ""

    def turns(self) -> list[Turn]:
        """Return the turn; nothing if the model has said nothing."""
        if not (self.reasoning or self.texts or self.calls):
            return []
        texts = [ContentPart(text) for text in self.texts]
        return [Turn("assistant", texts, self.calls, reasoning="\n\n".join(self.reasoning))]


def _answers(turns: Sequence[Turn], outputs: Sequence[Turn]) -> dict[str, Turn]:
    """Return the recorded result of each call, by the call's id: in order, that of the next equal
    call."""
    results = [
        (call_key(name, text), answer)
        for turn, answer in pairwise(outputs)
        for _, name, text in turn.calls
    ]
    answers, start = dict[str, Turn](), 0
    for call, name, text in chain.from_iterable(turn.calls for turn in turns):
        key = call_key(name, text)
        place = next((n for n in range(start, len(results)) if results[n][0] == key), None)
        if place is not None:
            answers[call], start = results[place][1], place + 1
    return answers


def without_final_output(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns up to and including the assistant's last one."""
    last = max((place for place, turn in enumerate(turns) if turn.role == "assistant"), default=-1)
    return list(turns[: last + 1])


def prompt_and_rest(turns: Sequence[Turn]) -> tuple[list[Turn], list[Turn]]:
    """Return the turns before the assistant's first one, and the others."""
    prompt = list(takewhile(lambda turn: turn.role != "assistant", turns))
    return prompt, list(turns[len(prompt) :])
