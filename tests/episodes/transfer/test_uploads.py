"""Tests that files of episodes carry the conversations that clients uploaded, and that imports
bring them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from episodes.models import Rollout, RolloutMessage
from episodes.models.rollouts import RESPONSE_KINDS
from episodes.rollups.follower import catch_up
from tests.episodes.reported import MESSAGES, played, reported
from tests.episodes.transfer.record import (
    HOSTILE,
    forget_everything,
    import_text,
    lines_of,
    text_of,
)
from tests.stored import make_blob, make_run

pytestmark = pytest.mark.django_db(transaction=True)

ALONE = {
    "id",
    "rollout",
    "rollout_id",
    "episode",
    "episode_id",
    "run",
    "run_id",
    "hosted_environment_id",
}
"""Columns with ids of the database's own."""
FURTHER = [
    (
        "reasoning",
        "Hm",
        {"extra": '{"metadata": {"usage": {"prompt_tokens": 7}}, "x":  1e20}', "sent_ms": 3},
    ),
    ("reasoning", "", {"summary_blob": make_blob, "problem": "no valid index", "reward": 0.0}),
    ("assistant_message", HOSTILE[:200], {"is_finished": True, "reward": -0.5}),
]


def make_conversations() -> None:
    """Record two episodes: one with a rollout that has everything and one with as little as
    possible, one with none."""
    played(1)
    played(2)
    facts = {
        "run": make_run(),
        "run_step": 2**40,
        "name": "first",
        "model": "m-1",
        "model_params": 8,
        "sent_ms": 5,
    }
    event = '{"metadata":  {"session_id": "s-1"}, "run_info": {"model_name": "m-1"}}'
    further = [(kind, text, _made(fields)) for kind, text, fields in FURTHER]
    reported(
        "rich", [*MESSAGES, *further], event=event, info='{"x": [1,  2]}', key_label="", **facts
    )
    large = make_blob(event.replace("m-1", "m" * 9000))
    reported("bare", [], event_blob=large, is_announced=False, problem="no runName")
    for message in RolloutMessage.objects.filter(kind__in=RESPONSE_KINDS):
        message.response_characters = len(message.text)
        message.save()
    catch_up()


def _made(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: make_blob("y" * 9000) if value is make_blob else value
        for name, value in fields.items()
    }


def rows() -> list[list[dict[str, Any]]]:
    """Return all rollouts and messages, without ids; texts instead of blobs."""
    found = []
    for model in (Rollout, RolloutMessage):
        values = [
            field.attname for field in model._meta.concrete_fields if field.attname not in ALONE
        ]
        found.append(list(model._default_manager.order_by("pk").values(*values)))
    return found


def test_conversations_come_back(tmp_path: Path) -> None:
    make_conversations()
    before, text = rows(), text_of()
    joined = ("event_id", "episode", "run__name", "hosted_environment__name")
    joins = list(Rollout.objects.order_by("pk").values_list(*joined))
    assert [(pk, name) for _, pk, _, name in joins] == [(1, "echo"), (1, "echo")]
    forget_everything()
    report = import_text(tmp_path, text)
    assert (report.imported, report.refused) == (2, 0)
    assert rows() == before
    assert list(Rollout.objects.order_by("pk").values_list(*joined)) == joins
    assert text_of() == text


def test_texts_are_in_the_line_as_the_json_that_they_are() -> None:
    make_conversations()
    first, second = lines_of()
    rich, bare = first["rollouts"]
    assert rich["event"]["run_info"] == {"model_name": "m-1"} and rich["info"] == {"x": [1, 2]}
    assert rich["messages"][6]["extra"]["metadata"] == {"usage": {"prompt_tokens": 7}}
    assert (bare["is_announced"], bare["messages"]) == (False, [])
    assert "rollouts" not in second


def test_a_long_conversation_is_written_completely() -> None:
    played()
    reported(
        messages=[*MESSAGES, *(("assistant_message", str(number), {}) for number in range(450))]
    )
    catch_up()
    [rollout] = lines_of()[0]["rollouts"]
    assert [message["content"] for message in rollout["messages"][6:]] == [
        str(number) for number in range(450)
    ]


def test_what_is_imported_twice_is_there_once(tmp_path: Path) -> None:
    make_conversations()
    text = text_of()
    before = rows()
    assert import_text(tmp_path, text).skipped == 2
    assert rows() == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"event_id": "bare"}, "two of its rollouts have the same event_id"),
        ({"received": "noon"}, "rollouts.0.received is 'noon'"),
        ({"messages": [{"index": 0}]}, "rollouts.0.messages.0.kind"),
        ({"surprise": 1}, "rollouts.0.surprise is 1"),
    ],
)
def test_a_conversation_that_cannot_be_stored_is_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    make_conversations()
    line = lines_of()[0]
    line["rollouts"][0] |= change
    forget_everything()
    [(_, refusal)] = import_text(tmp_path, json.dumps(line)).refusals
    assert reason in refusal.reason
    assert not Rollout.objects.exists()
