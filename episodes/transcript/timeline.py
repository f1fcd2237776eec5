"""One timeline of steps and of what the model and the user wrote, as its client reported it. Used
by the pages of episodes, which show windows of steps, and of rollouts, which show windows of
messages.

A tool call of the conversation is the step that it became, so it is not shown twice, and neither is
a result that is the step's output. Calls are joined to steps by the step's task_id, else in order
by equal arguments, else by the name of the tool between two calls that are joined. Messages stand
before the step that follows them; those after the last step are the tail.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from environments.database.folding import holding
from environments.display.parts import Part
from environments.errors import shorten
from episodes.models import Episode, Rollout, RolloutMessage
from episodes.transcript.cards import MessageCard, message_card
from episodes.transcript.steps import StepLine, TranscriptView, lines_at
from episodes.uploads.matching import Call, EpisodeMatch, call_key, rollout_of
from episodes.uploads.usage import Usage, metadata_in, usage_in

MAX_MESSAGES = 50_000
"""Messages of a rollout that have a place in the timeline."""
OPENING_CHARACTERS = 90
GAP_ENDS = 15
"""Messages at each end of a long gap between two steps that are shown at first."""
GAP_PART = 100
"""Messages that a click on the rest of a gap shows."""
MAX_SHOWN_CHARACTERS = 20_000
TAIL = -1
"""In place of the index of a step: the messages after the last step."""


class _Line(NamedTuple):
    """What places a message in the timeline."""

    pk: int
    kind: str
    name: str
    call_id: str


@dataclass(frozen=True)
class Timeline:
    """Where the messages of a rollout stand among the steps of its episode."""

    rollout: Rollout
    match: EpisodeMatch | None
    order: Sequence[int]
    """Ids of all messages in order."""
    steps: Mapping[int, int] = field(default_factory=dict)
    """Id of a tool call -> index of the step that it became."""
    equal: Collection[int] = frozenset()
    """Ids of the tool calls that have the arguments of their step."""
    results: Mapping[int, int] = field(default_factory=dict)
    """Index of a step -> id of the message with its result."""

    @cached_property
    def gaps(self) -> Mapping[int, Sequence[int]]:
        """Ids of the messages before a step, by its index; those after the last step under TAIL."""
        unseen = {*self.equal, *self.results.values()}
        gaps, waiting = dict[int, list[int]](), list[int]()
        for message in self.order:
            if message not in unseen:
                waiting.append(message)
            if message in self.steps:
                gaps[self.steps[message]], waiting = waiting, []
        gaps[TAIL] = waiting
        return gaps


@dataclass(frozen=True)
class MessageView:
    """A message, ready to show."""

    message: RolloutMessage
    label: str
    card: MessageCard | None
    """The content; None if there is none."""
    summary: MessageCard | None
    is_folded: bool
    characters: int
    """Length of the content and summary."""
    usage: Usage
    """Of the response that the message is part of; empty on all messages of a response but the
    first."""
    opening: str = ""
    """How a folded message begins."""
    is_prompt: bool = False
    """Whether it is the prompt, which the page shows already."""
    is_result: bool = False
    """Whether it is the result of a step, but not equal to the step's output."""


@dataclass(frozen=True)
class HiddenMessages:
    """The messages of a gap that a click shows."""

    step: int
    """Index of the step after them, or TAIL."""
    skip: int
    """Number of messages of the gap before them."""
    count: int


Item = MessageView | HiddenMessages | StepLine


def timeline_of(episode: Episode) -> Timeline | None:
    """Return the timeline of an episode; None if no client has uploaded a conversation of it."""
    rollout_and_match = rollout_of(episode)
    return placed(*rollout_and_match) if rollout_and_match else None


def placed(rollout: Rollout, match: EpisodeMatch | None) -> Timeline:
    """Return where the messages of the rollout stand among the steps of the episode."""
    rows = rollout.messages.order_by("index", "id").values_list(*_Line._fields)[:MAX_MESSAGES]
    lines = [_Line._make(row) for row in rows]
    order = [line.pk for line in lines]
    if match is None:
        return Timeline(rollout, None, order)
    steps, equal = _steps_of_calls(rollout, lines, match.episode)
    return Timeline(rollout, match, order, steps, equal, _results(lines, steps))


def _steps_of_calls(
    rollout: Rollout, lines: Sequence[_Line], episode: Episode
) -> tuple[dict[int, int], set[int]]:
    """Return the step of each tool call by the id of its message, and the ids of those with the
    step's arguments."""
    calls = [line for line in lines if line.kind == "tool_call"]
    rows = episode.steps.select_related("input_blob").order_by("index")
    steps = list(rows.only("index", "tool", "task_id", "input", "input_blob", "episode"))
    if not calls or not steps:
        return {}, set()
    messages = rollout.messages.filter(kind="tool_call").select_related("content_blob")
    keys_of_calls = {
        message.pk: call_key(message.name, message.text)
        for message in messages.only("name", "content", "content_blob", "rollout")
    }
    keys_of_steps = {step.index: call_key(step.tool, step.input_json) for step in steps}
    by_task = {step.task_id: step.index for step in steps}
    places = defaultdict[Call, list[int]](list)
    for index, key in keys_of_steps.items():
        places[key].append(index)
    matches, last = dict[int, int](), -1
    for line in calls:
        index = by_task.get(line.call_id, -1)
        if index <= last:
            equal = places.get(keys_of_calls[line.pk], [])
            place = bisect_left(equal, last + 1)
            index = equal[place] if place < len(equal) else -1
        if index > last:
            matches[line.pk] = last = index
    matches |= _by_name(calls, matches, [(step.index, step.tool) for step in steps])
    return matches, {
        pk for pk, index in matches.items() if keys_of_calls[pk] == keys_of_steps[index]
    }


def _by_name(
    calls: Sequence[_Line], matches: Mapping[int, int], steps: Sequence[tuple[int, str]]
) -> dict[int, int]:
    """Return steps for calls that have none: of the same tool, in order, and between the steps of
    their neighbours."""
    more, last = dict[int, int](), -1
    indexes = sorted(matches.values())
    for line in calls:
        if line.pk in matches:
            last = matches[line.pk]
            continue
        place = bisect_left(indexes, last + 1)
        end = indexes[place] if place < len(indexes) else len(steps)
        between = (index for index, tool in steps[last + 1 : end] if tool == line.name)
        if (index := next(between, None)) is not None:
            more[line.pk] = last = index
    return more


def _results(lines: Sequence[_Line], steps: Mapping[int, int]) -> dict[int, int]:
    """Return the message with the result of each step."""
    by_call = {line.call_id: steps[line.pk] for line in lines if line.pk in steps and line.call_id}
    results, before = dict[int, int](), None
    for line in lines:
        if line.kind == "tool_result":
            index = by_call.get(line.call_id) if line.call_id else before
            if index is not None:
                results.setdefault(index, line.pk)
        before = steps.get(line.pk)
    return results


def steps_near(timeline: Timeline, text: str, most: int) -> set[int]:
    """Return the steps before which a message contains `text`; for messages after the last step,
    that step."""
    messages = timeline.rollout.messages.all()
    holds = holding(messages, text, ("content", "summary"))
    holds |= holding(messages.filter(kind="tool_call"), text, (), ("content",))  # its arguments
    rows = messages.filter(holds).order_by("index").values_list("pk", flat=True)
    ids, last = set(rows[:most]), max(timeline.steps.values(), default=0)
    return {
        last if step == TAIL else step
        for step, gap in timeline.gaps.items()
        if not ids.isdisjoint(gap)
    }


# --- what a page shows ----------------------------------------------------------------------------


def items_of(
    timeline: Timeline, lines: Sequence[StepLine], *, has_tail: bool, prompt: str = ""
) -> list[Item]:
    """Return consecutive steps with the messages before each of them, and with `has_tail` those
    after the last step.

    `prompt`: text of the prompt that the page shows; an equal message refers to it.
    """
    by_step = {line.step.index: line for line in lines}
    places = [*by_step, TAIL] if has_tail else list(by_step)
    ends = {place: _ends(timeline.gaps.get(place, ())) for place in places}
    results = [timeline.results[place] for place in places if place in timeline.results]
    messages = _read(
        [*results, *(pk for first, _, last in ends.values() for pk in (*first, *last))]
    )
    items: list[Item] = []
    for place in places:
        first, count, last = ends[place]
        items += (view_of(messages[pk], prompt) for pk in first if pk in messages)
        if count:
            items.append(HiddenMessages(place, len(first), count))
        items += (view_of(messages[pk], prompt) for pk in last if pk in messages)
        if (line := by_step.get(place)) is not None:
            items.append(line)
            items += _differing(line, messages.get(timeline.results.get(place, 0)))
    return _usage_once(items)


def items_of_messages(
    timeline: Timeline, first: int, count: int, definition: str = ""
) -> list[Item]:
    """Return the messages from position `first` on, each joined tool call as its step.

    `definition`: of the return so far; empty: that of the environment.
    """
    part = timeline.order[first : first + count]
    messages, lines = _read(part), _lines_of_calls(timeline, part, definition)
    steps = {message: step for step, message in timeline.results.items()}
    items: list[Item] = []
    for pk in part:
        line = lines.get(timeline.steps.get(pk, TAIL))
        if pk in steps and steps[pk] in lines:
            items += _differing(lines[steps[pk]], messages.get(pk))
        elif pk in messages and (line is None or pk not in timeline.equal):
            items.append(view_of(messages[pk]))
        if line is not None:
            items.append(line)
    return _usage_once(items)


def _lines_of_calls(
    timeline: Timeline, part: Sequence[int], definition: str
) -> dict[int, StepLine]:
    """Return the steps of the calls and results in this part of the messages."""
    if timeline.match is None:
        return {}
    results = {message: step for step, message in timeline.results.items()}
    indexes = {timeline.steps.get(pk, results.get(pk, TAIL)) for pk in part} - {TAIL}
    if not indexes:
        return {}
    episode = timeline.match.episode
    view = TranscriptView(
        len(part), definition or episode.environment.default_return, MAX_SHOWN_CHARACTERS
    )
    first = min(indexes)
    lines = lines_at(episode, first, min(max(indexes) + 1, first + len(part)), view)
    return {line.step.index: line for line in lines if line.step.index in indexes}


def hidden_items(timeline: Timeline, step: int, skip: int) -> list[Item]:
    """Return the next GAP_PART messages of a gap after `skip`, and what then remains hidden."""
    gap = timeline.gaps.get(step, ())
    end = max(skip, len(gap) - GAP_ENDS)
    part = gap[skip : min(end, skip + GAP_PART)]
    messages = _read(part)
    items: list[Item] = [view_of(messages[pk]) for pk in part if pk in messages]
    count = end - skip - len(part)
    if count > 0:
        items.append(HiddenMessages(step, skip + len(part), count))
    return items


def _usage_once(items: Sequence[Item]) -> list[Item]:
    """Return the items with the usage of a response on its first message only; serialisers repeat
    it on each."""
    results: list[Item] = []
    last: Mapping[str, Any] = {}
    for item in items:
        metadata: Mapping[str, Any] = {}
        if isinstance(item, MessageView):
            metadata = metadata_in(item.message.extra_json)
            if metadata and metadata == last:
                item = replace(item, usage=Usage())
        results.append(item)
        last = metadata
    return results


def view_of(message: RolloutMessage, prompt: str = "") -> MessageView:
    """Return a message, ready to show. One that equals `prompt` refers to it."""
    kind = message.kind.removesuffix("_message").replace("_", " ") or "message"
    text, summary = message.text, message.summary_text
    is_prompt = (
        bool(prompt)
        and message.kind in ("user_message", "system_message")
        and text.strip() == prompt.strip()
    )
    card = None
    if not is_prompt:
        card = card_of_text(text, "json" if message.kind == "tool_call" else "text")
    opening = " ".join((summary or text)[: 4 * OPENING_CHARACTERS].split())
    return MessageView(
        message=message,
        label=kind,
        card=card,
        summary=card_of_text(summary, "text"),
        is_folded=message.kind == "reasoning",
        characters=len(text) + len(summary),
        usage=usage_in(metadata_in(message.extra_json)) if message.extra_json else Usage(),
        opening=shorten(opening, OPENING_CHARACTERS),
        is_prompt=is_prompt,
    )


def card_of_text(text: str, kind: Literal["text", "json"]) -> MessageCard | None:
    if not text:
        return None
    omitted_count = max(0, len(text) - MAX_SHOWN_CHARACTERS)
    return message_card(Part(kind, text[:MAX_SHOWN_CHARACTERS], omitted=omitted_count), "output", 0)


def _ends(gap: Sequence[int]) -> tuple[Sequence[int], int, Sequence[int]]:
    """Return the first and last messages of a gap, and between them how many are hidden."""
    if len(gap) <= 2 * GAP_ENDS + 1:
        return gap, 0, ()
    return gap[:GAP_ENDS], len(gap) - 2 * GAP_ENDS, gap[-GAP_ENDS:]


def _differing(line: StepLine, result: RolloutMessage | None) -> Iterator[MessageView]:
    """Yield the result of a step as the client reported it, if it is not the step's output."""
    if result is not None and not _is_output(result.text, line):
        label = "result as the model got it"
        yield replace(view_of(result), label=label, is_folded=True, is_result=True)


def _is_output(text: str, line: StepLine) -> bool:
    """Return whether a text is the output of the step, or starts with as much of it as the page
    shows."""
    result = _squeezed(text)
    if result in (_squeezed(line.step.error), _squeezed(line.step.output)):
        return True
    output = _squeezed("".join(part.text for part in line.output if part.kind != "image"))
    is_cut = any(part.omitted for part in line.output)
    return result == output or (is_cut and result.startswith(output))


def _squeezed(text: str) -> str:
    """Return the text without white space, which serialisers of messages change."""
    return "".join(text.split())


def _read(messages: Iterable[int]) -> dict[int, RolloutMessage]:
    rows = RolloutMessage.objects.select_related("content_blob", "summary_blob", "extra_blob")
    return rows.in_bulk(list(messages))
