"""Tests of trajectories that exports write."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from environments.scoring.convention import Convention
from episodes.models import EnvironmentRevision, Episode, RolloutMessage
from episodes.rollups.follower import catch_up
from tests.episodes.reported import MESSAGES, played, reported
from tests.episodes.transfer.formats.atif.schema import VALIDATOR, problems_of
from tests.episodes.transfer.record import PROMPT, TOOLS, exported, make_rich_episodes, text_of
from tests.stored import make_blob, make_environment, make_episode, make_run, make_step, make_task

pytestmark = pytest.mark.django_db(transaction=True)

PICTURE = '{"blocks":[{"data":"iVBORw0KGgo=","mimeType":"image/png","detail":null,"type":"image"}],"metadata":null}'
CACHED = {"cached_tokens": 4}
SESSION = '{"metadata":{"session_id":"s-1"}}'


def trajectories() -> list[dict[str, Any]]:
    """Return the exported trajectories, each of which is valid."""
    catch_up()
    found = [json.loads(line) for line in text_of("atif").splitlines()]
    for one in found:
        VALIDATOR.validate(one)
        assert not problems_of(one)
    return found


def archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(b"".join(exported("harbor"))))


def test_every_episode_is_a_valid_trajectory() -> None:
    make_rich_episodes()
    make_step(make_episode(), output=PICTURE)
    assert [one["session_id"] for one in trajectories()] == list(
        Episode.objects.order_by("pk").values_list("session_id", flat=True)
    )


def test_a_tool_call_stands_with_its_result() -> None:
    make_step(make_episode(prompt=make_blob(PROMPT), tools=make_blob(TOOLS)), reward=0.5)
    [one] = trajectories()
    prompt, call = one["steps"]
    assert (prompt["source"], prompt["message"]) == ("user", "2 + 2?")
    assert call["tool_calls"][0]["function_name"] == "submit"
    assert call["tool_calls"][0]["arguments"] == {"answer": 42}
    [result] = call["observation"]["results"]
    assert result["content"] == "42 is right" and result["extra"]["orsweb"]["reward"] == 0.5
    assert one["agent"]["tool_definitions"][0]["function"]["name"] == "submit"


def test_it_says_who_played_what_and_how_it_ended() -> None:
    episode = make_episode(
        run=make_run(), model="m-1", user_agent="openreward/0.1 (x)", return_sum=1.5, run_step=3
    )
    episode.revision = EnvironmentRevision.objects.create(
        environment=episode.environment,
        code="a" * 32,
        versions="{}",
        first_episode=1,
        created=episode.created,
    )
    episode.save()
    [one] = trajectories()
    assert one["agent"] == {"name": "openreward", "version": "0.1", "model_name": "m-1"}
    assert one["final_metrics"]["extra"] == {"reward": 1.5, "return": "sum", "cause": "finished"}
    own = one["extra"]["orsweb"]
    assert (own["run"]["name"], own["run_step"], own["environment"]["name"]) == (
        "grpo-3",
        3,
        "math",
    )
    assert own["revision"]["code"] == "a" * 32


def test_an_input_that_is_no_object_is_an_argument() -> None:
    make_step(make_episode(), input="[1]")
    [one] = trajectories()
    assert one["steps"][-1]["tool_calls"][0]["arguments"] == {"input": "[1]"}


def test_the_conversation_of_the_client_is_in_it() -> None:
    played()
    reported(event=SESSION)
    [one] = trajectories()
    system, user, agent = one["steps"]
    assert [(step["source"], step["message"]) for step in (system, user)] == [
        ("system", "Be brief."),
        ("user", "What is <2 + 2>?"),
    ]
    assert (agent["reasoning_content"], agent["message"]) == ("It must be four.", "Let me check.")
    assert [call["function_name"] for call in agent["tool_calls"]] == ["echo"]
    assert one["extra"]["orsweb_rollout"]["event_id"] == "r-1"


def test_a_conversation_that_is_only_a_guess_is_not() -> None:
    played(1)
    played(2)
    reported(messages=MESSAGES[:2])
    assert all(step["source"] == "agent" for one in trajectories() for step in one["steps"])


def test_calls_that_the_client_did_not_report_keep_their_place() -> None:
    played(inputs=('{"text":"first"}', '{"text":"hi"}', '{"text":"last"}'))
    reported(event=SESSION)
    [one] = trajectories()
    calls = [
        call["arguments"]["text"] for step in one["steps"] for call in step.get("tool_calls", ())
    ]
    assert calls == ["first", "hi", "last"]


def test_calls_that_this_server_did_not_record_stand_with_what_the_client_reported() -> None:
    played(inputs=())
    reported(event=SESSION)
    [one] = trajectories()
    assert one["steps"][-1]["tool_calls"][0]["tool_call_id"] == "c1"
    assert one["steps"][-1]["observation"]["results"] == [{"source_call_id": "c1", "content": "hi"}]


@pytest.mark.parametrize(
    "metadata",
    [
        {
            "usage": {
                "prompt_tokens": 7,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            "cost": 0.5,
        },
        {
            "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 4},
            "cost_usd": 0.5,
        },
        {"prompt_tokens": 7, "completion_tokens": 2, "cached_tokens": 4, "cost_usd": 0.5},
    ],
)
def test_tokens_and_costs_are_metrics(metadata: dict[str, Any]) -> None:
    played()
    reported(event=SESSION)
    RolloutMessage.objects.filter(kind="assistant_message").update(
        extra=json.dumps({"metadata": metadata})
    )
    [one] = trajectories()
    expected = {"prompt_tokens": 7, "completion_tokens": 2, "cached_tokens": 4, "cost_usd": 0.5}
    assert one["steps"][-1]["metrics"] == expected
    assert {f"total_{name}": value for name, value in expected.items()}.items() <= one[
        "final_metrics"
    ].items()


def test_totals_may_be_told_for_the_whole_rollout() -> None:
    played()
    reported(event=SESSION, info='{"usage":[1,{"prompt_tokens":9,"completion_tokens":"many"}]}')
    [one] = trajectories()
    assert one["final_metrics"]["total_prompt_tokens"] == 9
    assert "total_completion_tokens" not in one["final_metrics"]


def test_it_says_how_the_episode_counts_and_how_many_of_the_file_do() -> None:
    convention = Convention(env_error="zero").code
    task = make_task(environment=make_environment(convention=convention, success_threshold=0.5))
    for cause in ("finished", "no_call", "env_error", "interrupted"):
        make_episode(task=task, cause=cause)
    exports = [one["extra"]["orsweb_export"] for one in trajectories()]
    assert [one["counts"] for one in exports] == ["keep", "zero", "zero", "out"]
    told = "3 attempts; 1 no call scored 0, 1 environment error scored 0, 1 interrupted excluded"
    assert {one["coverage"] for one in exports} == {told}
    parts = {"no_call": "zero", "expired": "keep", "interrupted": "out", "env_error": "zero"}
    assert exports[0]["definition"] == {"return": "sum", "threshold": 0.5, **parts}


def test_a_job_of_harbor_has_a_directory_for_each_episode() -> None:
    make_rich_episodes()
    make_step(make_episode(id=12, return_sum=0.5), output=PICTURE)
    with archive() as file:
        assert {name for name in file.namelist() if "__12" in name} == {
            *(
                "orsweb/math__12/config.json",
                "orsweb/math__12/result.json",
                "orsweb/math__12/agent/trajectory.json",
            ),
            "orsweb/math__12/agent/images/74b29bc9ea71854e532e8f39139705b2.png",
        }
        for name in file.namelist():
            if name.endswith("trajectory.json"):
                VALIDATOR.validate(json.loads(file.read(name)))
        assert json.loads(file.read("orsweb/math__12/result.json"))["verifier_result"] == {
            "rewards": {"reward": 0.5}
        }
        assert json.loads(file.read("orsweb/result.json"))["n_total_trials"] == 3


def test_a_failure_of_the_machinery_is_an_exception_of_its_trial() -> None:
    make_episode(id=3, cause="env_error", detail="It broke.")
    with archive() as file:
        result = json.loads(file.read("orsweb/math__3/result.json"))
    assert result["verifier_result"] is None
    assert result["exception_info"]["exception_type"] == "env_error"


def test_notes_of_people_are_left_out_for_keys() -> None:
    make_rich_episodes()
    assert '"notes"' not in text_of("atif", has_additions=False)
