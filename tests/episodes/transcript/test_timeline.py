"""Tests of the timeline: steps, and the messages between them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from episodes.models import Episode, Rollout, RolloutMessage
from episodes.transcript.steps import StepLine, TranscriptView, lines_at
from episodes.transcript.timeline import (
    GAP_ENDS,
    GAP_PART,
    TAIL,
    HiddenMessages,
    Item,
    Timeline,
    hidden_items,
    items_of,
    items_of_messages,
    timeline_of,
)
from tests.episodes.reported import MESSAGES, played, reported

pytestmark = pytest.mark.django_db(transaction=True)

HI, YO = '{"text":"hi"}', '{"text":"yo"}'
SESSION = '{"metadata": {"session_id": "s-1"}}'
"""Joins a rollout to the first episode, whatever its calls are."""


def call(text: str, number: str = "", name: str = "echo") -> tuple[str, str, dict[str, Any]]:
    return "tool_call", text, {"name": name, "call_id": number}


def result(text: str, number: str = "") -> tuple[str, str, dict[str, Any]]:
    return "tool_result", text, {"call_id": number}


def said(text: str) -> tuple[str, str, dict[str, Any]]:
    return "assistant_message", text, {}


def timeline(episode: Episode) -> Timeline:
    found = timeline_of(episode)
    assert found is not None
    return found


def shown(episode: Episode) -> list[str]:
    """Return the whole timeline: `step N`, or the type of a message and how it begins."""
    lines = lines_at(episode, 0, 10_000, TranscriptView(10_000))
    return [_word(item) for item in items_of(timeline(episode), lines, has_tail=True)]


def _word(item: Item) -> str:
    if isinstance(item, StepLine):
        return f"step {item.step.index}"
    return (
        f"{item.count} hidden"
        if isinstance(item, HiddenMessages)
        else f"{item.label}: {item.message.text[:20]}"
    )


def test_messages_stand_before_the_step_that_follows_them() -> None:
    episode = played()
    reported(messages=[*MESSAGES, said("Done.")])
    assert shown(episode) == [
        "system: Be brief.",
        "user: What is <2 + 2>?",
        "reasoning: It must be four.",
        "assistant: Let me check.",
        "step 0",
        "assistant: Done.",
    ]


def test_parallel_calls_are_steps_and_their_results_are_not_shown_twice() -> None:
    episode = played(inputs=(HI, YO))
    reported(
        messages=[
            said("Both."),
            call(HI, "a"),
            call(YO, "b"),
            result("hi", "a"),
            result("hi", "b"),
            said("Ok."),
        ]
    )
    assert shown(episode) == ["assistant: Both.", "step 0", "step 1", "assistant: Ok."]


def test_a_result_that_differs_from_the_output_is_shown() -> None:
    episode = played()
    reported(messages=[call(HI, "a"), result("hi, cut off", "a")])
    assert shown(episode) == ["step 0", "result as the model got it: hi, cut off"]


def test_a_call_with_other_arguments_is_joined_by_the_name_of_its_tool_and_shown() -> None:
    episode = played(inputs=(HI, YO, HI))
    reported(
        messages=[call(HI), said("Then"), call('{"text":"YO"}'), said("Last"), call(HI)],
        event=SESSION,
    )
    assert shown(episode) == [
        *("step 0", "assistant: Then", 'tool call: {"text":"YO"}'),
        *("step 1", "assistant: Last", "step 2"),
    ]


def test_a_call_that_this_server_did_not_get_is_a_message() -> None:
    episode = played(inputs=(HI,))
    reported(messages=[call("{}", name="other"), call(HI)], event=SESSION)
    assert shown(episode) == ["tool call: {}", "step 0"]


def test_steps_that_the_client_left_out_are_shown() -> None:
    episode = played(inputs=(HI, YO, HI))
    reported(messages=[said("One"), call(YO), said("Two")], event=SESSION)
    assert shown(episode) == ["step 0", "assistant: One", "step 1", "step 2", "assistant: Two"]


def test_without_a_rollout_there_is_no_timeline() -> None:
    assert timeline_of(played()) is None


def test_a_rollouts_page_shows_its_messages_in_order() -> None:
    episode = played(inputs=(HI, YO))
    reported(
        messages=[said("A"), call(HI, "a"), result("hi", "a"), said("B"), call(YO), result("no")]
    )
    found = timeline(episode)
    words = [_word(item) for item in items_of_messages(found, 0, 100)]
    assert words == [
        "assistant: A",
        "step 0",
        "assistant: B",
        "step 1",
        "result as the model got it: no",
    ]
    assert [_word(item) for item in items_of_messages(found, 3, 2)] == ["assistant: B", "step 1"]


def test_usage_of_a_response_is_shown_once() -> None:
    episode = played()
    extra = '{"metadata": {"usage": {"prompt_tokens": 5}}}'
    thought = (
        '{"metadata": {"usage": {"prompt_tokens": 5}}, "contentReference": "anthropic:thinking:x"}'
    )
    reported(
        messages=[
            ("reasoning", "a", {"extra": thought}),
            ("assistant_message", "b", {"extra": extra}),
            call(HI),
        ]
    )
    items = items_of(timeline(episode), [], has_tail=True)
    assert items == []
    lines = lines_at(episode, 0, 10, TranscriptView())
    usages = [
        item.usage.input_tokens for item in items_of(timeline(episode), lines, has_tail=True)[:2]
    ]  # type: ignore[union-attr]
    assert usages == [5, None]


def test_the_search_in_an_episode_finds_messages(client: Client) -> None:
    episode = played(inputs=(HI, YO))
    reported(messages=[call(HI), said("Then a zebra"), call(YO), said("Bye, zebra.")])
    assert client.get(f"/episodes/{episode.pk}/find.json?text=ZEBRA").json() == {
        "steps": [1],
        "is_all": True,
    }
    assert client.get(f"/episodes/{episode.pk}/find.json?text=hi").json()["steps"] == [0, 1]


# --- long conversations ---------------------------------------------------------------------------


def talked(count: int, **fields: Any) -> tuple[Episode, Rollout]:
    """Return an episode without steps and its rollout with `count` messages."""
    episode, rollout, now = (
        played(inputs=()),
        reported(messages=[], event=SESSION, **fields),
        timezone.now(),
    )
    kinds = ("user_message", "assistant_message")
    RolloutMessage.objects.bulk_create(
        RolloutMessage(
            rollout=rollout,
            index=n,
            event_id=str(n),
            kind=kinds[n % 2],
            content=f"text {n} " + "word " * 80,
            received=now,
        )
        for n in range(count)
    )
    return episode, rollout


def test_a_long_gap_is_shown_in_part() -> None:
    episode, _ = talked(200)
    words = shown(episode)
    assert len(words) == 2 * GAP_ENDS + 1
    assert words[GAP_ENDS] == f"{200 - 2 * GAP_ENDS} hidden"
    more = [_word(item) for item in hidden_items(timeline(episode), TAIL, GAP_ENDS)]
    assert more[0].startswith(f"{'user' if GAP_ENDS % 2 == 0 else 'assistant'}: text {GAP_ENDS} ")
    assert (len(more), more[-1]) == (GAP_PART + 1, f"{200 - 2 * GAP_ENDS - GAP_PART} hidden")
    rest = hidden_items(timeline(episode), TAIL, GAP_ENDS + GAP_PART)
    assert len(rest) == 200 - 2 * GAP_ENDS - GAP_PART


def test_five_thousand_messages_are_read_in_parts(client: Client) -> None:
    episode, rollout = talked(5_000)
    client.get("/conversations/")  # creates the operator
    for path, most in [
        (f"/episodes/{episode.pk}/", 400_000),
        (f"/episodes/{episode.pk}/messages/?step=-1&skip=15", 400_000),
        (f"/conversations/{rollout.event_id}/", 400_000),
        (f"/conversations/{rollout.event_id}/?from=4900", 400_000),
    ]:
        start = time.process_time()
        answer = client.get(path)
        spent = time.process_time() - start
        assert (answer.status_code, len(answer.content) < most, spent < 2.0) == (200, True, True), (
            path,
            spent,
        )
        print(path, round(spent * 1000), "ms", len(answer.content))


def test_a_long_episode_with_messages_is_placed_quickly() -> None:
    inputs = tuple(f'{{"text":"{n}"}}' for n in range(1_000))
    episode = played(inputs=inputs)
    messages = [
        one
        for n, text in enumerate(inputs)
        for one in (said(f"t{n}"), call(text, f"c{n}"), result("x", f"c{n}"))
    ]
    reported(messages=messages, event=SESSION)
    start = time.process_time()
    found = timeline(episode)
    assert (len(found.steps), len(found.results)) == (1_000, 1_000)
    assert time.process_time() - start < 2.0
    print(round((time.process_time() - start) * 1000), "ms")
