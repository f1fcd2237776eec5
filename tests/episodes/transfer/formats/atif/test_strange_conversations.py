"""Tests that any conversation that clients upload becomes a valid trajectory, and comes back from
it unchanged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from environments.wire import value_json
from tests.episodes.reported import played, reported
from tests.episodes.transfer.formats.atif.schema import VALIDATOR, problems_of
from tests.episodes.transfer.formats.atif.test_round_trip import conversations, file_of, taken_back
from tests.episodes.transfer.record import everything, exported

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = (
    "system_message",
    "user_message",
    "reasoning",
    "assistant_message",
    "tool_call",
    "tool_result",
    "strange",
    "",
)
TEXTS = (
    "",
    "hi",
    "[image]",
    '{"text": "hi"}',
    '{"text":"again"}',
    "[1]",
    "NaN",
    '{"a": "\\ud800"}',
    "<b>\u2028",
)
EXTRAS: tuple[Any, ...] = (
    {},
    {"metadata": {"usage": {"prompt_tokens": -1, "completion_tokens": 5, "cost": "free"}}},
    {
        "metadata": {
            "metrics": {"logprobs": [0.5, True], "completion_token_ids": [1, 2]},
            "cost": 10**400,
        }
    },
    {"metadata": {"atif": {"step_id": 1, "model_name": "m", "extra": {"a": 1}}}},
    {"metadata": {"atif": "no object", "a": "\ud800"}},
    {
        "metadata": {
            "atif": {
                "step_id": "x",
                "parts": 5,
                "extra": [1],
                "is_copied_context": "yes",
                "model_name": 3,
            }
        }
    },
)


def message(chance: random.Random) -> tuple[str, str, dict[str, Any]]:
    extra = chance.choice(EXTRAS)
    further = {
        "call_id": chance.choice(("", "c1", "c2", "1-0")),
        "reward": chance.choice((None, 0.5)),
    }
    further |= {"name": chance.choice(("", "echo")), "summary": chance.choice(("", "short"))}
    further |= {
        "sent_ms": chance.choice((None, 1, -1, 2**62)),
        "extra": value_json(extra) if extra else "",
    }
    return chance.choice(KINDS), chance.choice(TEXTS), further


@pytest.mark.parametrize("seed", range(8))
def test_a_random_conversation(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    played(
        inputs=tuple(
            chance.choices(('{"text":"hi"}', '{"text":"again"}', "[1]"), k=chance.randrange(4))
        )
    )
    info = value_json({"usage": [1, chance.choice((5, {"prompt_tokens": 3}))]})
    messages = [message(chance) for _ in range(chance.randrange(12))]
    reported(messages=messages, event='{"metadata":{"session_id":"s-1"}}', info=info)
    before, steps = conversations(), everything()["steps"]
    content = (path := file_of(tmp_path, "atif")).read_bytes()
    trajectory = json.loads(content)
    VALIDATOR.validate(trajectory)
    assert not problems_of(trajectory)
    taken_back(path)
    assert conversations() == before
    assert everything()["steps"] == steps
    assert b"".join(exported("atif")) == content
