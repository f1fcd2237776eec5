"""Steps as HTML: each has its own texts in the frame of its shape."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.utils.safestring import SafeString

from environments.display.parts import Part
from environments.models import Environment
from episodes.models import Episode, Step
from episodes.transcript.cards import Card, message_cards
from episodes.transcript.step_html import step_html
from tests.rows import each

EPISODE = Episode(pk=7, environment=Environment(name="echo", reward_low=-1, reward_high=1))
OPTIONS: dict[str, Any] = {"episode": EPISODE, "definition": "sum"}


def step(**fields: Any) -> Step:
    facts = {
        "index": 3,
        "tool": "echo",
        "status": "ok",
        "reward": 0.25,
        "duration_ms": 12.0,
        "task_id": "task-3",
    }
    return Step(
        **{
            **facts,
            "waited_ms": 0.0,
            "started": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            **fields,
        }
    )


def card(text: str = "hello", **fields: Any) -> Card:
    row = step(**fields)
    return Card(
        step=row,
        tool=row.tool,
        error=row.error,
        running=1.5,
        input=message_cards([Part("text", "text", text)], "input"),
        output=message_cards([Part("image", "data:image/png;base64,AAAA", "image/png")], "output"),
        components=[("speed", 0.75)],
        metadata=SafeString("{}"),
        is_whole=True,
    )


def test_steps_of_one_shape_keep_their_own_texts() -> None:
    left, right = (
        step_html(card(index=index, tool=tool), OPTIONS)
        for index, tool in ((3, "left"), (4, "right"))
    )
    assert 'id="step-3"' in left and "left" in left and "right" not in left
    assert 'id="step-4"' in right and "right" in right and "left" not in right


def test_recorded_texts_are_escaped() -> None:
    hostile = '<img src=x onerror="alert(1)">'
    fields = {
        "tool": hostile,
        "error": hostile,
        "reason": hostile,
        "task_id": hostile,
        "status": "failed",
    }
    html = step_html(replace(card(**fields), components=[(hostile, 1.0)]), OPTIONS)
    assert "<img src=x" not in html
    assert html.count("&lt;img") >= 5


def test_missing_texts_leave_no_markup() -> None:
    bare = replace(card(), input=[], output=[], components=[], metadata=SafeString(), is_whole=True)
    html = step_html(bare, OPTIONS)
    assert '<p class="none">none</p>' in html
    assert not any(
        word in html
        for word in ("error", "components", 'data-side="output"', "metadata", "wait</span>")
    )


@each("text", ["+0.25", "+1.50", "speed", ".json"])
def test_a_blind_step_shows_no_reward(text: str) -> None:
    assert text in step_html(card(), OPTIONS)
    assert text not in step_html(replace(card(), components=[]), {**OPTIONS, "is_blind": True})


def test_addresses_of_images_are_below_the_page() -> None:
    assert 'src="/episodes/7/steps/3/images/0"' in step_html(card(), OPTIONS)
    assert 'src="/play/7/steps/3/images/0"' in step_html(card(), {**OPTIONS, "base": "/play/7/"})
    assert 'src="data:image/png;base64,AAAA"' in step_html(card(), {**OPTIONS, "is_bare": True})


def test_people_can_continue_from_a_step_that_did_not_finish() -> None:
    options = {**OPTIONS, "may_continue": True}
    assert 'href="/play/continue/7/?step=3"' in step_html(card(), options)
    assert "play on" not in step_html(card(finished=True), options)
