"""Exports of conversations as clients uploaded them: reasoning, texts, calls and what the model
got."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from episodes.models import Episode, Rollout, RolloutMessage
from episodes.rollups.follower import catch_up
from episodes.transfer.conversations import LostCall, reported_turns
from episodes.transfer.export_file import ExportFile
from episodes.transfer.formats.messages import rollout_lines
from episodes.transfer.training_options import TrainingOptions
from tests.episodes.reported import MESSAGES, played, reported
from tests.episodes.transfer.record import exported

pytestmark = pytest.mark.django_db(transaction=True)


def rows(format: Any = "messages", **options: str) -> list[dict[str, Any]]:
    file = ExportFile(Episode.objects.all(), TrainingOptions.parse(options))
    content = b"".join(exported(format, file))
    return [json.loads(line) for line in content.splitlines()]


CALL = {"id": "c1", "type": "function", "function": {"name": "echo", "arguments": {"text": "hi"}}}
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is <2 + 2>?"},
    {
        **{
            "role": "assistant",
            "content": "Let me check.",
            "reasoning_content": "It must be four.",
        },
        "tool_calls": [CALL],
    },
]


def test_the_real_conversation_takes_the_place_of_the_recorded_one() -> None:
    episode = played()
    reported()
    catch_up()
    (row,) = rows()
    assert row["messages"] == CONVERSATION
    assert (row["conversation"], row["rollout"], row["episode"], row["reward"]) == (
        "reported",
        "r-1",
        episode.pk,
        0.5,
    )
    (row,) = rows(conversation="recorded")
    assert (row["conversation"], row["rollout"]) == ("recorded", "")
    assert [message["role"] for message in row["messages"]] == ["assistant"]


def test_the_last_output_is_what_the_model_got() -> None:
    played()
    reported()
    catch_up()
    (row,) = rows(final_output="yes")
    assert row["messages"][-1] == {
        "role": "tool",
        "content": "hi",
        "tool_call_id": "c1",
        "name": "echo",
    }


@pytest.mark.parametrize("member", ["thinking", "no"])
def test_the_member_with_reasoning_can_be_chosen(member: str) -> None:
    played()
    reported()
    catch_up()
    message = rows(reasoning=member)[0]["messages"][2]
    assert message.get("thinking") == (
        "It must be four.\n\nLet me check." if member == "thinking" else None
    )
    assert "reasoning_content" not in message


def test_a_guess_is_not_used() -> None:
    played(1)
    played(2)
    reported()
    catch_up()
    assert {row["conversation"] for row in rows()} == {"recorded"}


def test_a_conversation_that_starts_with_the_model_gets_the_recorded_prompt() -> None:
    played()
    reported(messages=MESSAGES[2:])
    catch_up()
    (row,) = rows()
    assert row["conversation"] == "reported"
    assert row["messages"][-1]["reasoning_content"] == "It must be four."


def test_usage_has_columns_of_its_own() -> None:
    played()
    extra = '{"metadata": {"usage": {"prompt_tokens": 7, "completion_tokens": 2}, "cost": 0.5}}'
    reported(
        messages=[*MESSAGES[:-2], ("tool_call", '{"text":"hi"}', {"name": "echo", "extra": extra})]
    )
    catch_up()
    (row,) = rows(usage="yes")
    assert (row["input_tokens"], row["output_tokens"], row["cost"]) == (7, 2, 0.5)
    assert "cost" not in rows()[0]
    head, line = b"".join(exported("csv")).decode().splitlines()
    values = dict(zip(head.split(","), line.split(","), strict=True))
    assert (values["rollout"], values["input_tokens"], values["cost"]) == ("r-1", "7", "0.5")


def test_pairs_use_real_conversations_of_both_sides() -> None:
    for number, text in ((1, "hi"), (2, "no")):
        played(number, inputs=(f'{{"text":"{text}"}}',))
        call = ("tool_call", f'{{"text":"{text}"}}', {"name": "echo", "call_id": "c1"})
        reported(f"r-{number}", messages=[*MESSAGES[:4], call])
    Episode.objects.filter(pk=2).update(return_sum=0.0)
    catch_up()
    (row,) = rows("pairs")
    assert row["conversation"] == "reported"
    assert row["prompt"] == CONVERSATION[:2]
    assert (
        row["chosen"][0]["reasoning_content"]
        == row["rejected"][0]["reasoning_content"]
        == "It must be four."
    )
    Rollout.objects.filter(event_id="r-2").update(episode=None, joined_by="")
    assert rows("pairs")[0]["conversation"] == "recorded"


def test_rollouts_without_an_episode_are_exported() -> None:
    reported("alone", environment_name="chess", model="m")
    reported("empty", messages=[("user_message", "hello", {})])
    catch_up()
    file = ExportFile(Episode.objects.none())
    lines = b"".join(rollout_lines(Rollout.objects.all(), file)).splitlines()
    (row,) = map(json.loads, lines)
    assert row["messages"] == CONVERSATION
    assert (row["rollout"], row["episode"], row["reward"], row["model"]) == (
        "alone",
        None,
        0.5,
        "m",
    )
    assert file.left_out == 1


# --- turns ----------------------------------------------------------------------------------------


def turns(*messages: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return role, texts, reasoning, and calls or call id of each turn. Messages: kind, text, call
    id."""
    made = [
        RolloutMessage(
            kind=kind,
            name="echo" if kind == "tool_call" else "",
            content=text,
            call_id="".join(call_ids),
        )
        for kind, text, *call_ids in messages
    ]
    return [
        (
            turn.role,
            [part.text for part in turn.parts],
            turn.reasoning,
            [call[0] for call in turn.calls] or turn.call_id,
        )
        for turn in reported_turns(made)
    ]


def test_parallel_calls_are_one_turn() -> None:
    found = turns(
        ("tool_call", "{}", "a"),
        ("tool_call", "{}", "b"),
        ("tool_result", "A", "a"),
        ("tool_result", "B", "b"),
    )
    assert found == [
        ("assistant", [], "", ["a", "b"]),
        ("tool", ["A"], "", "a"),
        ("tool", ["B"], "", "b"),
    ]


def test_calls_without_ids_are_answered_in_order() -> None:
    found = turns(
        ("tool_call", "{}"), ("tool_call", "{}"), ("tool_result", "A"), ("tool_result", "B")
    )
    assert [turn[3] for turn in found] == [["call_0", "call_1"], "call_0", "call_1"]


def test_reasoning_after_a_call_starts_a_turn() -> None:
    found = turns(("tool_call", "{}", "a"), ("reasoning", "hm"), ("assistant_message", "Done."))
    assert found == [("assistant", [], "", ["a"]), ("assistant", ["Done."], "hm", "")]


@pytest.mark.parametrize(
    "messages", [[("tool_result", "A", "a")], [("tool_call", "{}", "a"), ("tool_result", "B", "b")]]
)
def test_a_result_without_its_call_makes_a_conversation_unusable(
    messages: Sequence[tuple[str, ...]],
) -> None:
    with pytest.raises(LostCall):
        turns(*messages)


def test_results_that_were_not_reported_are_the_recorded_ones() -> None:
    played(inputs=('{"text":"hi"}', '{"text":"yo"}'))
    calls = [
        ("tool_call", f'{{"text": "{text}"}}', {"name": "echo", "call_id": text})
        for text in ("hi", "yo")
    ]
    reported(messages=[calls[0], ("assistant_message", "Next", {}), calls[1]])
    catch_up()
    (row,) = rows()
    assert [message["role"] for message in row["messages"]] == ["assistant", "tool", "assistant"]
    assert row["messages"][1]["content"] == "hi"


def test_the_command_exports_rollouts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reported("alone", environment_name="chess")
    reported("empty", messages=[("user_message", "hello", {})])
    path = tmp_path / "chess.jsonl"
    call_command("export_rollouts", "-o", str(path), "--joined", "no")
    assert [json.loads(line)["rollout"] for line in path.read_text().splitlines()] == ["alone"]
    assert "Conversations that are left out: 1." in capsys.readouterr().err
    with pytest.raises(CommandError, match="No conversations match"):
        call_command("export_rollouts", "--run", "nope")
    with pytest.raises(CommandError, match="allowed are yes, guess, no"):
        call_command("export_rollouts", "--joined", "maybe")
