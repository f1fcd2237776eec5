"""Tests of importing trajectories that other programs wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from episodes.attempts.components import components_in
from episodes.models import Episode, Rollout, RolloutMessage, Step
from episodes.transfer.formats.atif.imported import TrialFacts
from episodes.transfer.importing import EpisodeImportReport, Import
from tests.episodes.transfer.formats.atif.sample import (
    RESULT,
    STEPS,
    TRAJECTORY,
    changed_step,
    embedded_image,
    trajectory,
    write_trial,
)
from tests.episodes.transfer.record import everything, exported

pytestmark = pytest.mark.django_db(transaction=True)


def imported(
    tmp_path: Path, *trajectories: dict[str, Any], names: TrialFacts | None = None
) -> EpisodeImportReport:
    path = tmp_path / "found.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in trajectories))
    report = Import([path], names=names).run()
    assert not report.refusals
    return report


def exported_lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(exported("atif")).splitlines()]


def test_each_tool_call_becomes_a_step(tmp_path: Path) -> None:
    report = imported(tmp_path, trajectory())
    assert (report.imported, report.steps) == (1, 2)
    first, second = Step.objects.order_by("index")
    assert (first.tool, first.input, first.task_id, first.status) == (
        "bash",
        '{"command":"ls /data"}',
        "c1",
        "ok",
    )
    assert first.blocks == [{"text": "zebra-1 zebra-2", "detail": None, "type": "text"}]
    assert [block["text"] for block in second.blocks] == ["A picture:", "[image: images/a.png]"]
    assert second.finished and first.started.isoformat() == "2026-03-01T10:00:05.250000+00:00"


def test_the_episode_says_who_played_what(tmp_path: Path) -> None:
    imported(tmp_path, trajectory())
    episode = Episode.objects.select_related("environment", "task", "prompt").get()
    assert (episode.environment.name, episode.session_id, episode.model) == (
        "atif",
        "t-1",
        "anthropic/claude-x",
    )
    assert episode.user_agent == "terminus-2/2.0.0"
    assert json.loads(episode.task.spec) == {"instruction": "Count the zebras in /data."}
    assert episode.prompt is not None
    assert [block["text"] for block in json.loads(episode.prompt.text)] == [
        "You are a careful engineer.",
        "Count the zebras in /data.",
    ]
    assert episode.labels_object["session_id"] == "run-77"


def test_one_without_a_reward_counts_in_no_figure(tmp_path: Path) -> None:
    imported(tmp_path, trajectory())
    episode = Episode.objects.get()
    assert (episode.cause, episode.is_probe, episode.return_last) == ("finished", True, None)
    assert episode.detail == "The trajectory names no reward."


@pytest.mark.parametrize(
    "place", [{"extra": {"reward": 0.5}}, {"final_metrics": {"extra": {"reward": 0.5}}}]
)
def test_a_reward_in_extra_is_the_return(tmp_path: Path, place: dict[str, Any]) -> None:
    imported(tmp_path, trajectory(**place))
    episode = Episode.objects.get()
    assert not episode.is_probe
    assert set(episode.returns.values()) == {0.5}
    assert list(Step.objects.order_by("index").values_list("reward", flat=True)) == [None, 0.5]


def test_names_can_be_given(tmp_path: Path) -> None:
    imported(tmp_path, trajectory(), names=TrialFacts(environment="zebras", run="night"))
    episode = Episode.objects.select_related("environment", "run").get()
    assert (episode.environment.name, episode.run and episode.run.name) == ("zebras", "night")


def test_the_conversation_is_a_rollout_of_the_episode(tmp_path: Path, client: Client) -> None:
    imported(tmp_path, trajectory())
    kinds = list(RolloutMessage.objects.values_list("kind", flat=True))
    assert kinds == [
        *("system_message", "user_message", "reasoning", "assistant_message"),
        *("tool_call", "tool_call", "tool_result", "tool_result", "assistant_message"),
    ]
    page = client.get("/conversations/t-1/").content.decode()
    assert "First look, then count." in page and "by its session id" in page
    episode = Episode.objects.get()
    assert (
        client.get(f"/episodes/{episode.pk}/conversation/").headers["Location"]
        == "/conversations/t-1/"
    )


def test_pages_and_search_find_it(tmp_path: Path, client: Client) -> None:
    imported(tmp_path, trajectory())
    episode = Episode.objects.get()
    assert "zebra-1" in client.get(f"/episodes/{episode.pk}/").content.decode()
    found = client.get("/episodes/?text=zebra-2").content.decode()
    assert f"/episodes/{episode.pk}/" in found


def test_a_second_import_changes_nothing(tmp_path: Path) -> None:
    imported(tmp_path, trajectory())
    before = everything()
    report = imported(tmp_path, trajectory(), trajectory())
    assert (report.imported, report.skipped) == (0, 2)
    assert everything() == before and Rollout.objects.count() == 1


def test_one_without_times_is_imported_once(tmp_path: Path) -> None:
    undated = trajectory()
    for step in undated["steps"]:
        step.pop("timestamp", None)
    imported(tmp_path, undated)
    assert imported(tmp_path, undated).skipped == 1


def test_one_without_an_id_is_known_by_its_content(tmp_path: Path) -> None:
    nameless = trajectory(session_id=None, trajectory_id=None)
    assert imported(tmp_path, nameless, nameless).skipped == 1
    assert imported(tmp_path, nameless | {"notes": "Another."}).imported == 1


def test_continuations_of_a_session_are_episodes_of_their_own(tmp_path: Path) -> None:
    first = trajectory(trajectory_id=None)
    second = changed_step(3, is_copied_context=True)
    del second["trajectory_id"]
    assert imported(tmp_path, first, second).imported == 2


def test_an_export_says_the_same_again(tmp_path: Path) -> None:
    value = trajectory()
    value["steps"][2]["observation"]["results"][1]["content"][1]["source"]["path"] = (
        embedded_image()
    )
    imported(tmp_path, value)
    [line] = exported_lines()
    for name in ("agent", "notes"):
        assert line[name] == TRAJECTORY[name]
    for step, again in zip(value["steps"], line["steps"], strict=True):
        same = {
            name: again.get(name)
            for name in step
            if name not in ("timestamp", "extra", "observation")
        }
        assert same == {name: value for name, value in step.items() if name in same}
    results = line["steps"][2]["observation"]["results"]
    assert [one["content"] for one in results] == [
        one["content"] for one in value["steps"][2]["observation"]["results"]
    ]
    assert line["steps"][2]["extra"]["temperature"] == 0.7
    assert line["final_metrics"]["total_cost_usd"] == 0.002


def test_a_job_of_harbor_has_rewards_names_and_images(tmp_path: Path) -> None:
    report = Import([write_trial(tmp_path)]).run()
    assert (report.imported, report.refused) == (1, 0)
    episode = Episode.objects.select_related("environment", "run", "task").get()
    assert (episode.environment.name, episode.run and episode.run.name) == (
        "Terminal-Bench@2",
        "nightly",
    )
    assert (episode.return_sum, episode.is_probe, episode.cause) == (1.0, False, "finished")
    assert json.loads(episode.task.spec) == {"task_name": "zebras"}
    assert Step.objects.order_by("index")[1].blocks[1]["data"] == embedded_image().partition(",")[2]


@pytest.mark.parametrize(
    ("rewards", "total", "components", "detail"),
    [
        ({"a": 0.5, "b": 1}, None, {"a": 0.5, "b": 1.0}, "no number is named reward"),
        ({"reward": 1, "a": 0.5}, 1.0, {"a": 0.5}, ""),
        (
            {"reward": None, "b": 1},
            None,
            {"b": 1.0},
            "rewards b 1, reward null, but no number is named reward",
        ),
        ({"reward": 1, "a": None}, 1.0, {}, "The trial has the rewards a null."),
        ({"accuracy": 0.25}, 0.25, {}, ""),
        (
            {"acc": None},
            None,
            {},
            "The trial has the rewards acc null, but no number is named reward.",
        ),
        ({"reward": None}, None, {}, "The trajectory names no reward."),
        (0.5, 0.5, {}, ""),
        (0, 0.0, {}, ""),
    ],
)
def test_no_reward_of_a_trial_vanishes(
    tmp_path: Path, rewards: Any, total: float | None, components: dict[str, float], detail: str
) -> None:
    result = RESULT | {"verifier_result": {"rewards": rewards}}
    Import([write_trial(tmp_path, result=result)]).run()
    episode = Episode.objects.get()
    assert (episode.return_last, episode.is_probe) == (total, total is None)
    assert detail in episode.detail and bool(detail) == bool(episode.detail)
    last = Step.objects.order_by("-index")[0]
    assert (last.reward, components_in(last.output_json)) == (total, components)


@pytest.mark.parametrize("result", [RESULT | {"verifier_result": None}, {}])
@pytest.mark.parametrize(
    ("files", "total", "components"),
    [
        ({"reward.txt": "0.25\n"}, 0.25, {}),
        ({"reward.txt": "0", "reward.json": '{"reward": 1, "style": 0.5}'}, 1.0, {"style": 0.5}),
        ({"reward.json": "0.5"}, 0.5, {}),
    ],
)
def test_what_the_verifier_wrote_is_the_reward_where_the_result_has_none(
    tmp_path: Path,
    result: dict[str, Any],
    files: dict[str, str],
    total: float,
    components: dict[str, float],
) -> None:
    job = write_trial(tmp_path, result=result, verifier=files)
    if not result:
        (job / "zebras__a1" / "result.json").unlink()
    Import([job]).run()
    last = Step.objects.order_by("-index")[0]
    assert (Episode.objects.get().return_last, components_in(last.output_json)) == (
        total,
        components,
    )


def test_a_reward_that_repeats_the_one_that_is_read_is_none_of_its_own(tmp_path: Path) -> None:
    result = RESULT | {
        "reward": 1,
        "verifier_result": {"rewards": {"reward": 1.0, "a": 0.5}, "score": None},
    }
    Import([write_trial(tmp_path, result=result)]).run()
    assert Episode.objects.get().return_last == 1.0


@pytest.mark.parametrize("is_zip", [False, True])
def test_each_step_of_a_trial_has_its_own_reward(tmp_path: Path, is_zip: bool) -> None:
    rewards = {"first": {"rewards": {"reward": 0.5}}, "second": None}
    steps = [{"step_name": name, "verifier_result": verdict} for name, verdict in rewards.items()]
    steps[1]["exception_info"] = {
        "exception_type": "AgentTimeoutError",
        "exception_message": "after 60 s",
    }
    job = write_trial(
        tmp_path,
        result=RESULT | {"step_results": steps, "verifier_result": {"rewards": {"reward": 0.5}}},
    )
    for name in rewards:  # whose agent goes on with its session
        shutil.copytree(job / "zebras__a1" / "agent", job / "zebras__a1" / "steps" / name / "agent")
    shutil.rmtree(job / "zebras__a1" / "agent")
    path = (
        Path(shutil.make_archive(str(tmp_path / "jobs"), "zip", tmp_path, "nightly"))
        if is_zip
        else job
    )
    assert Import([path]).run().imported == 2
    first, second = Episode.objects.select_related("task", "run").order_by("pk")
    assert (first.return_last, first.cause, first.run and first.run.name) == (
        0.5,
        "finished",
        "nightly",
    )
    assert (second.return_last, second.cause, second.detail) == (
        None,
        "expired",
        "AgentTimeoutError: after 60 s",
    )
    assert json.loads(first.task.spec) == {"task_name": "zebras", "step_name": "first"}


def test_a_verifier_that_failed_before_it_wrote_a_reward_is_the_ending(tmp_path: Path) -> None:
    info = {"exception_type": "RewardFileEmptyError", "exception_message": "empty"}
    result = RESULT | {"verifier_result": None, "exception_info": info}
    Import([write_trial(tmp_path, result=result, verifier={"reward.txt": "\n"})]).run()
    assert Episode.objects.get().cause == "env_error"


def test_rewards_of_a_trial_without_calls_are_in_its_ending(tmp_path: Path) -> None:
    result = RESULT | {"verifier_result": {"rewards": {"a": 0.5, "b": 1}}}
    Import([write_trial(tmp_path, trajectory(steps=STEPS[:2]), result=result)]).run()
    expected = "The trial has the rewards a 0.5, b 1, but no number is named reward."
    assert Episode.objects.get().detail == expected


@pytest.mark.parametrize("is_zip", [False, True])
def test_a_zip_is_read_like_its_directory(tmp_path: Path, is_zip: bool) -> None:
    path = write_trial(tmp_path)
    path = (
        Path(shutil.make_archive(str(tmp_path / "jobs"), "zip", tmp_path, "nightly"))
        if is_zip
        else path
    )
    assert Import([path]).run().imported == 1
    assert Episode.objects.get().return_sum == 1.0
    assert Import([path]).run().skipped == 1


def test_a_single_file_over_many_lines_is_a_trajectory(tmp_path: Path) -> None:
    path = write_trial(tmp_path) / "zebras__a1" / "agent" / "trajectory.json"
    assert Import([path]).run().imported == 1
    assert Episode.objects.get().return_sum == 1.0


@pytest.mark.parametrize(
    ("kind", "rewards", "cause"),
    [
        ("AgentTimeoutError", None, "expired"),
        ("DockerError", None, "env_error"),
        ("AgentTimeoutError", {"reward": 0.0}, "finished"),
        ("ApiRateLimitError", {"reward": 0.0}, "env_error"),
    ],
)
def test_an_exception_is_the_ending(tmp_path: Path, kind: str, rewards: Any, cause: str) -> None:
    info = {"exception_type": kind, "exception_message": "after 60 s"}
    result = RESULT | {
        "exception_info": info,
        "verifier_result": {"rewards": rewards} if rewards else None,
    }
    result["reward_valid"] = bool(rewards) and kind != "ApiRateLimitError"
    Import([write_trial(tmp_path, result=result)]).run()
    episode = Episode.objects.get()
    assert (episode.cause, episode.detail) == (cause, f"{kind}: after 60 s")


def test_embedded_subagents_are_conversations_without_an_episode(
    tmp_path: Path, client: Client
) -> None:
    sub = trajectory(trajectory_id="sub-1", session_id=None)
    imported(tmp_path, trajectory(subagent_trajectories=[sub]))
    assert Episode.objects.count() == 1
    page = client.get("/conversations/t-1%2Fsub-1/").content.decode()
    assert "This server has no episode of this conversation" in page


def test_nothing_outside_of_the_directory_is_read(tmp_path: Path) -> None:
    value = trajectory()
    value["steps"][2]["observation"]["results"][1]["content"][1]["source"]["path"] = (
        "../../../secret.png"
    )
    (tmp_path / "secret.png").write_bytes(b"secret")
    Import([write_trial(tmp_path, value)]).run()
    assert Step.objects.order_by("index")[1].blocks[1]["text"] == "[image: ../../../secret.png]"
