"""Tests of trajectories that are wrong: each is refused with the place, the value and what is
allowed."""

from __future__ import annotations

import json
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from environments.files.rows import Unreadable
from episodes.models import Episode, Rollout, RolloutMessage, Step
from episodes.transfer.importing import Import
from tests.episodes.transfer.formats.atif.sample import (
    RESULT,
    STEPS,
    changed_step,
    trajectory,
    write_trial,
)
from tests.episodes.transfer.record import exported, forget_everything
from tests.stored import make_episode, make_step

pytestmark = pytest.mark.django_db(transaction=True)

CALL = {"tool_call_id": "c1", "function_name": "bash", "arguments": {}}


def refusal(tmp_path: Path, value: dict[str, Any] | str) -> str:
    """Return why the second line of a file is refused. The first is imported all the same."""
    path = tmp_path / "wrong.jsonl"
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_text(f"{json.dumps(trajectory(trajectory_id='good'))}\n{text}\n", encoding="utf-8")
    report = Import([path]).run()
    assert (report.imported, report.refused) == (1, 1)
    assert Rollout.objects.count() == Episode.objects.count() == 1
    [(file, refused)] = report.refusals
    assert (file, refused.number) == ("wrong.jsonl", 2)
    return refused.reason


def verdict(rewards: Any) -> str:
    return json.dumps(RESULT | {"verifier_result": {"rewards": rewards}})


def elsewhere(values: dict[str, Any]) -> str:
    """Return a result whose only reward is in `values`."""
    return json.dumps(RESULT | {"verifier_result": None} | values)


def results(*found: dict[str, Any]) -> dict[str, Any]:
    return {"observation": {"results": list(found)}}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            trajectory(schema_version="ATIF-v2.0"),
            "has the schema_version 'ATIF-v2.0'; ATIF-v1.0 to ATIF-v1.8 can be",
        ),
        (trajectory(schema_version=7), "has the schema_version 7; ATIF-v1.0 to ATIF-v1.8"),
        (trajectory(agent=None), "agent is missing"),
        (
            trajectory(mood="good"),
            "mood is unknown; fields that ATIF does not define belong in `extra`",
        ),
        (changed_step(4, colour=1), "steps.3.colour is unknown; fields"),
        (
            changed_step(4, source="tool"),
            "steps.3.source is 'tool': input should be 'system', 'user' or 'agent'",
        ),
        (changed_step(4, message=None), "steps.3.message is missing"),
        (
            changed_step(4, message=5),
            "steps.3.message is 5: give a text or a list of content parts",
        ),
        (changed_step(4, step_id=3), "steps: item 3 has the step_id 3, but step_ids count from 1"),
        (changed_step(4, step_id=9), "so 4 is expected"),
        (
            changed_step(4, timestamp="noon"),
            "steps.3.timestamp is 'noon': give a time as in ISO 8601",
        ),
        (
            changed_step(4, message="a\0b"),
            "steps.3.message is 'a\\x00b': character 2 is NUL, which cannot be stored",
        ),
        (
            changed_step(4, message="a\ud800"),
            "character 2 is a lone surrogate (U+D800), which cannot be stored",
        ),
        (
            changed_step(4, tool_calls=[CALL, CALL]),
            "steps.3: two of its tool calls have the tool_call_id 'c1'",
        ),
        (
            changed_step(4, tool_calls=[{**CALL, "tool_call_id": None}]),
            "steps.3.tool_calls.0.tool_call_id is None",
        ),
        (
            changed_step(4, tool_calls=[{"function_name": "x", "arguments": {}}]),
            "tool_calls.0.tool_call_id is missing",
        ),
        (
            changed_step(4, tool_calls=[{**CALL, "arguments": "{}"}]),
            "tool_calls.0.arguments is '{}': input should be",
        ),
        (
            changed_step(4, tool_calls=[CALL], **results({"source_call_id": "c9"})),
            "has the source_call_id 'c9', but the",
        ),
        (
            changed_step(4, **results({"source_call_id": "c9"})),
            "are none, because the step has no tool calls",
        ),
        (changed_step(4, message=[{"type": "image"}]), "a part of type 'image' needs 'source'"),
        (
            changed_step(2, tool_calls=[CALL]),
            "steps.1: a step of source 'user' cannot have 'tool_calls'",
        ),
        (
            changed_step(3, llm_call_count=0),
            "steps.2: a step with llm_call_count 0 can have neither 'metrics' nor",
        ),
        (trajectory(steps=[]), "steps: list should have at least 1 item"),
        (
            trajectory(subagent_trajectories=[trajectory(trajectory_id=None)]),
            "item 0 has no trajectory_id",
        ),
        ('{"schema_version": "ATIF-v1.7", "steps": [', "is not JSON that can be imported"),
        (
            '{"schema_version": "ATIF-v1.7", "x": ' + "[" * 100_000,
            "is not JSON that can be imported",
        ),
        (
            json.dumps(trajectory())[:-1] + ', "notes": ""}',
            "has the key 'notes' twice in one object; keep one of them",
        ),
        (
            trajectory(final_metrics={"extra": {"score": 1}}),
            "has final_metrics.extra.score, which is 1; a trajectory's",
        ),
        (
            changed_step(3, extra={"reward": 1}),
            "has steps.2.extra.reward, which is 1; a trajectory's reward is read",
        ),
        (
            trajectory(extra={"reward": "high"}),
            "extra.reward is 'high'; it has to be a finite number, or null",
        ),
        (
            trajectory(final_metrics={"extra": {"reward": float("nan")}}),
            "final_metrics.extra.reward is NaN, an infinity",
        ),
        (
            changed_step(4, tool_calls=[{**CALL, "arguments": {"x": [1, float("nan")]}}]),
            "steps.3.tool_calls.0.arguments.x.1 is NaN, an infinity or a number beyond 1.8e308; "
            "write a finite number",
        ),
        (
            json.dumps(changed_step(4, extra={"a": 0})).replace('"a": 0', '"a": 1e999'),
            "steps.3.extra.a is NaN, an infinity or a number beyond 1.8e308; write",
        ),
    ],
)
def test_it_is_refused_with_a_reason(
    tmp_path: Path, value: dict[str, Any] | str, reason: str
) -> None:
    assert reason in refusal(tmp_path, value)


def test_a_version_of_an_embedded_trajectory_is_checked_too(tmp_path: Path) -> None:
    sub = trajectory(trajectory_id="sub", schema_version="ATIF-v9")
    assert "schema_version is 'ATIF-v9'" in refusal(
        tmp_path, trajectory(subagent_trajectories=[sub])
    )


def test_a_call_without_a_result_is_a_failed_step(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(changed_step(3, observation=None)))
    Import([path]).run()
    step = Step.objects.order_by("index")[0]
    assert (step.status, step.reason, step.error) == (
        "failed",
        "no_result",
        "The trajectory has no result of this call.",
    )


def test_the_same_call_id_in_two_steps_is_taken_apart(tmp_path: Path) -> None:
    value = trajectory(
        steps=[*STEPS, {"step_id": 5, "source": "agent", "message": "", "tool_calls": [CALL]}]
    )
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(value))
    assert Import([path]).run().steps == 3
    assert list(Step.objects.order_by("index").values_list("task_id", flat=True)) == [
        "c1",
        "c2",
        "c1#2",
    ]


def test_a_message_of_10_mb_comes_through(tmp_path: Path) -> None:
    text = "zebra " * (10 * 1024 * 1024 // 6)
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps(changed_step(4, message=text)))
    assert Import([path]).run().imported == 1
    assert RolloutMessage.objects.order_by("-index")[0].text == text
    line = json.loads(b"".join(exported("atif")))
    assert line["steps"][3]["message"] == text


@pytest.mark.parametrize("key", ["index", "output"])
def test_what_was_changed_by_hand_in_an_export_is_named(tmp_path: Path, key: str) -> None:
    make_step(make_episode(steps_count=1))
    value = json.loads(b"".join(exported("atif")))
    own = value["steps"][0]["observation"]["results"][0]["extra"]["orsweb"]
    own |= {"index": -1} if key == "index" else {"surprise": 1}
    forget_everything()
    reason = refusal(tmp_path, value)
    assert ("steps.0.index is -1" if key == "index" else "has the unknown key 'surprise'") in reason


def test_a_directory_without_trajectories_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unreadable, match=r"empty has no agent/trajectory\.json in it"):
        Import([tmp_path / "empty"])


def test_a_damaged_zip_is_refused(tmp_path: Path) -> None:
    make_step(make_episode())
    content = bytearray(b"".join(exported("harbor")))
    at = content.index(b"agent/trajectory.json") + 60
    content[at : at + 20] = b"\xff" * 20
    path = tmp_path / "damaged.zip"
    path.write_bytes(content)
    forget_everything()
    report = Import([path]).run()
    assert report.imported == 0
    assert "damaged" in report.refusals[0][1].reason


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("[oops", "has a result.json that cannot be read: Expecting value at line 1, column 2"),
        (
            json.dumps(RESULT)[:-1] + ', "task_name": "zebras"}',
            "result.json that cannot be read: has the key 'task_name'",
        ),
        ("[]", "has a result.json that is not an object, so its reward is unknown"),
        (verdict({"reward": "1.0"}), "rewards.reward is '1.0'; a reward has to be a finite number"),
        (
            verdict({"reward": float("nan")}),
            "rewards.reward is nan; a reward has to be a finite number",
        ),
        (verdict({"reward": 1, "a": float("inf")}), "verifier_result.rewards.a is inf"),
        (
            verdict({"reward": True}),
            "belongs to trial 'zebras__a1', whose verifier_result.rewards.re",
        ),
        (verdict({"reward": 10**400}), "a reward has to be a finite number"),
        (
            verdict({"reward": 1, "a\0b": 0.5}),
            r"trial 'zebras__a1', whose verifier_result.rewards "
            r"has 'a\x00b', which",
        ),
        (verdict({"reward": 1, "": 0.5}), "rewards has '', which cannot be a component"),
        (
            verdict({"reward": 1} | {f"part {n}": n for n in range(41)}),
            "has 'part 40', which cannot be a component",
        ),
        (verdict({"reward": 1, "x" * 81: 0.5}), "with names of 1 to 80 characters without NUL"),
        (verdict("high"), "belongs to trial 'zebras__a1', whose verifier_result.rewards is 'high'"),
        (json.dumps(RESULT | {"verifier_result": "1"}), "whose verifier_result is '1'"),
        (
            elsewhere({"verifier_result": {"score": 0.5}}),
            "'zebras__a1', whose verifier_result.score is 0.5; a reward is",
        ),
        (
            elsewhere({"verifier_result": {"rewards": {}, "Scores": [1]}}),
            "whose verifier_result.Scores is [1]; a reward",
        ),
        (
            elsewhere({"verifier_result": {"rewards": {"reward": 1}, "reward": 0.5}}),
            "whose verifier_result.reward is 0.5",
        ),
        (
            elsewhere({"reward": 0.5}),
            "whose reward is 0.5; a reward is read only in verifier_result.rewards",
        ),
        (
            elsewhere({"rewards": {"reward": 0}}),
            "whose rewards is {'reward': 0}; a reward is read only in",
        ),
        (elsewhere({"extra": {"reward": 1}}), "whose extra.reward is 1; a reward is read only in"),
        (
            elsewhere(
                {"step_results": [{"step_name": "a", "verifier_result": {"rewards": {"b": 1}}}]}
            ),
            "whose step_results.0.verifier_result.rewards is {'b': 1}; a reward is read only in",
        ),
        ('{"reward": 0.5}', "belongs to a trial whose reward is 0.5; a reward is read only in"),
    ],
)
def test_a_trial_whose_reward_cannot_be_read_is_refused(
    tmp_path: Path, result: str, reason: str
) -> None:
    job = write_trial(tmp_path)
    (job / "zebras__a1" / "result.json").write_text(result)
    report = Import([job]).run()
    assert (report.imported, report.refused) == (0, 1)
    assert report.refusals[0][0] == "nightly/zebras__a1/agent/trajectory.json"
    assert reason in report.refusals[0][1].reason


def test_a_reward_of_a_trial_is_none_of_a_step_that_the_result_does_not_name(
    tmp_path: Path,
) -> None:
    job = write_trial(tmp_path)
    shutil.copytree(job / "zebras__a1" / "agent", job / "zebras__a1" / "steps" / "first" / "agent")
    shutil.rmtree(job / "zebras__a1" / "agent")
    [(_, refused)] = Import([job]).run().refusals
    assert "in verifier_result.rewards of step 'first' in step_results" in refused.reason


def test_a_trajectory_whose_only_reward_stands_elsewhere_is_refused_with_its_trial(
    tmp_path: Path,
) -> None:
    job = write_trial(
        tmp_path, trajectory(extra={"rewards": {"a": 1}}), RESULT | {"verifier_result": None}
    )
    [(_, refused)] = Import([job]).run().refusals
    assert refused.reason == (
        "belongs to trial 'zebras__a1' and has extra.rewards, which is {'a': 1}; a trajectory's "
        "reward is read only in "
        "extra.reward and final_metrics.extra.reward"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("txt", ""),
        ("txt", "nan"),
        ("json", "{"),
        ("json", '{"a": "1"}'),
        ("json", '{"a": 1, "a": 0}'),
    ],
)
def test_a_reward_that_the_verifier_wrote_wrong_is_refused(
    tmp_path: Path, name: str, text: str
) -> None:
    result = RESULT | {"verifier_result": None}
    report = Import([write_trial(tmp_path, result=result, verifier={f"reward.{name}": text})]).run()
    assert (report.imported, report.refused) == (0, 1)
    assert (
        f"belongs to trial 'zebras__a1', whose verifier/reward.{name}"
        in report.refusals[0][1].reason
    )


@pytest.mark.parametrize("name", ["agent/trajectory.json", "result.json"])
def test_a_path_that_a_zip_has_twice_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    write_trial(tmp_path)
    path = Path(shutil.make_archive(str(tmp_path / "jobs"), "zip", tmp_path, "nightly"))
    with zipfile.ZipFile(path, "a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the duplicate name
        file.writestr(f"nightly/zebras__a1/{name}", json.dumps(trajectory(trajectory_id="t-2")))
    report = Import([path]).run()
    assert (report.imported, report.refused) == (0, 1)
    assert f"the zip has 2 files 'nightly/zebras__a1/{name}'" in report.refusals[0][1].reason
