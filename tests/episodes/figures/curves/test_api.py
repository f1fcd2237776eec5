"""Tests of curves in the API."""

from __future__ import annotations

from typing import Any

import pytest

from environments.models import Task
from environments.scoring.convention import Convention
from episodes.models import Episode, EpisodeComponent, RewardComponent
from tests.episodes.api.asking import get
from tests.episodes.ended import end_episode
from tests.episodes.reported import reported
from tests.rows import each
from tests.stored import make_environment, make_episode, make_run, make_task

DEFAULT = {"no_call": "zero", "expired": "keep", "interrupted": "out", "env_error": "out"}
LAB = {"X-API-Key": "lab-key-1"}
pytestmark = pytest.mark.django_db


def played(count: int, **values: object) -> None:
    for number in range(1, count + 1):
        make_episode(
            end_number=number, return_sum=number % 2, return_last=0.0, steps_count=3, **values
        )


def test_a_curve_tells_return_success_and_length() -> None:
    played(10, failed_count=1, refused_count=2)
    content = get("curves?environment=math")
    assert content["definition"] == {
        "return": "sum",
        "threshold": 0.9,
        **DEFAULT,
        "environments": [],
    }
    total = content["total"]
    assert (total["n"], total["mean"], total["success"], total["length_mean"]) == (
        10,
        0.5,
        0.5,
        3.0,
    )
    assert (total["tool_errors"], total["refused_calls"]) == (3.0, 2.0)
    assert sum(point["n"] for point in content["points"]) == 10


def test_tokens_are_given_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    played(3)
    assert get("curves?environment=math")["tokens"] is None
    for episode in Episode.objects.all():
        reported(
            f"r-{episode.pk}",
            (),
            episode=episode,
            joined_by="calls",
            output_tokens=episode.end_number * 10,
        )
    found = get("curves?environment=math&tokens=yes")["tokens"]
    assert found["total"] == {"attempts": 3, "known": 3, "input_tokens": None, "output_tokens": 20}
    assert [point["output_tokens"] for point in found["points"]] == [10, 20, 30]
    monkeypatch.setattr("episodes.figures.curves.components.MAX_EPISODES", 2)
    assert get("curves?environment=math&tokens=yes")["tokens"]["total"]["attempts"] == 2


def test_the_definition_can_be_switched() -> None:
    played(10)
    content = get("curves?environment=math&return=last&threshold=-1")
    assert content["definition"] == {
        "return": "last",
        "threshold": -1.0,
        **DEFAULT,
        "environments": [],
    }
    assert (content["total"]["mean"], content["total"]["success"]) == (0.0, 1.0)


def test_probes_and_failures_are_counted_separately() -> None:
    played(2)
    make_episode(end_number=3, is_probe=True, cause="abandoned")
    make_episode(end_number=4, cause="env_error", return_sum=9.0)
    content = get("curves?environment=math")
    assert content["excluded"] == {"probe": 1, "env_error": 1}
    assert content["total"]["n"] == 2


def test_a_curve_over_steps_of_a_run() -> None:
    run = make_run()
    for step in (1, 1, 2):
        make_episode(run=run, run_step=step, end_number=10 + step * 3 + run.episodes.count())
    content = get("curves?run=grpo-3&x=step")
    assert [(point["x"], point["n"]) for point in content["points"]] == [(1.0, 2), (2.0, 1)]


@each("query", ["", "ending=attempt", "environment=math&player=agent", "since=24h"])
def test_any_filter_has_a_curve(query: str) -> None:
    played(3)
    assert get(f"curves?{query}")["is_bounded"] is False


def test_a_point_leads_to_its_episodes() -> None:
    played(4)
    [point, *_] = get("curves?environment=math&points=2")["points"]
    found = get(f"episodes?ends_from={point['first_end']}&ends_to={point['last_end']}")["results"]
    assert len(found) == point["n"]


def test_a_point_of_training_steps_leads_to_its_episodes() -> None:
    for step in (1, 7, 2, 8) * 20:
        end_episode(run=make_run(), run_step=step)
    for point in get("curves?environment=math&x=step&points=2")["points"]:
        query = f"step={point['x']}..{point['x_to']}&ends_from={point['first_end']}&ends_to={point['last_end']}"
        assert len(get(f"episodes?{query}&limit=100")["results"]) == point["n"] == 40


def make_rollouts() -> None:
    played(24)
    for number, cause in enumerate(["no_call"] * 6 + ["env_error", "setup_failed"], 25):
        make_episode(end_number=number, cause=cause, return_last=0.0)


def test_a_curve_says_how_many_rollouts_it_counts() -> None:
    make_rollouts()
    content = get("curves?environment=math")
    assert content["total"]["rollouts"] == {
        "rollouts": 32,
        "own": 24,
        "zero": {"no_call": 6},
        "out": {"env_error": 1, "setup_failed": 1},
        "numberless": 0,
        "text": "30 attempts; 6 no call scored 0, 2 infrastructure failures excluded",
    }
    assert (content["total"]["n"], content["total"]["mean"]) == (30, 0.4)


def test_the_convention_can_be_switched() -> None:
    make_rollouts()
    content = get("curves?environment=math&no_call=out&env_error=zero")
    assert content["definition"]["no_call"] == "out"
    assert (
        content["total"]["rollouts"]["text"] == "26 attempts; 2 infrastructure failures scored 0, "
        "6 no call excluded"
    )
    assert content["total"]["mean"] == 12 / 26


def test_a_value_that_no_convention_has_is_refused() -> None:
    error = get("curves?no_call=keep", status=400)
    assert (error["field"], error["allowed"]) == ("no_call", "zero, out")


def test_components_of_rewards_are_picked_by_name() -> None:
    episode = end_episode(1.0)
    for name in ("format", "length"):
        component = RewardComponent.objects.create(environment_id=episode.environment_id, name=name)
        figures = dict.fromkeys(("value_sum", "value_last", "value_max", "value_mean"), 0.5)
        EpisodeComponent.objects.create(episode=episode, component=component, **figures)
    assert get("curves?environment=math")["components"] == []
    [one] = get("curves?environment=math&component=length")["components"]
    assert (one["name"], one["total"], one["points"]) == (
        "length",
        {"n": 1, "mean": 0.5},
        [{"n": 1, "mean": 0.5}],
    )
    assert len(get("curves?environment=math&component=*")["components"]) == 2
    assert (
        "Did you mean 'format'?" in get("curves?environment=math&component=fromat", 400)["detail"]
    )


def play_by_convention() -> None:
    """End a success and a rollout without a call of a run whose environment leaves out the
    latter."""
    convention = Convention(no_call="out").code
    guess = make_environment(
        "guess", convention=convention, success_threshold=0.5, default_return="max"
    )
    for cause, reward in (("finished", 0.8), ("no_call", 0.0)):
        task = make_task(environment=guess)
        end_episode(
            reward, environment=guess, task=task, run=make_run(), cause=cause, key_label="lab"
        )


def check_convention(content: dict[str, Any]) -> None:
    definition = content["definition"]
    assert (definition["return"], definition["threshold"], definition["no_call"]) == (
        "max",
        0.5,
        "out",
    )
    assert (content["total"]["mean"], content["total"]["success"]) == (0.8, 1.0)


def test_a_run_has_the_definition_of_its_environment() -> None:
    play_by_convention()
    for query in ("", "&environment=guess", "&x=step", "&player=agent"):
        content = get(f"curves?run=grpo-3{query}")
        if query != "&x=step":
            check_convention(content)
        assert content["definition"]["no_call"] == "out"
    assert get("curves?run=grpo-3&no_call=zero&threshold=0.9")["total"]["success"] == 0.0
    check_convention(get("curves"))


@pytest.mark.usefixtures("keys")
def test_a_run_has_the_definition_of_the_newest_episode_that_the_key_may_read() -> None:
    play_by_convention()
    end_episode(run=make_run(), key_label="home")
    check_convention(get("curves?run=grpo-3", **LAB))
    assert get("curves?run=unknown", **LAB)["definition"]["threshold"] == 0.9


def play_groups() -> None:
    """End two groups of a run in each of two training steps; the first is flat in both steps, the
    second in one."""
    tasks = [make_task(), make_task()]
    for step, returns in ((1, [(1.0, 1.0), (0.0, 1.0)]), (2, [(0.0, 0.0), (1.0, 1.0)])):
        for task, rewards in zip(tasks, returns, strict=True):
            for reward in rewards:
                end_episode(reward, task=task, run=make_run(), run_step=step, key_label="lab")


def groups_in(content: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (point["x"], point["groups"], point["flat_groups"], point["flat_share"])
        for point in content["points"]
    ]


GROUPS = [(1, 2, 1, 0.5), (2, 2, 2, 1.0)]


def test_a_run_has_groups_also_where_the_filter_names_its_environment() -> None:
    play_groups()
    end_episode(0.5, run=make_run("another"), run_step=1)
    for query in ("", "&environment=math"):
        assert groups_in(get(f"curves?run=grpo-3&x=step{query}")) == GROUPS
    assert groups_in(get("curves?run=grpo-3&x=step&environment=math&from=2")) == GROUPS[1:]
    assert groups_in(get("curves?run=grpo-3&x=step&environment=math&step=1")) == GROUPS[:1]


@pytest.mark.parametrize(
    "query", ["environment=math&x=step", "run=grpo-3&x=step&return_from=1", "run=grpo-3"]
)
def test_other_filters_have_no_groups(query: str) -> None:
    play_groups()
    assert {point["groups"] for point in get(f"curves?{query}")["points"]} == {None}


@pytest.mark.usefixtures("keys")
def test_a_key_reads_the_groups_that_it_played() -> None:
    play_groups()
    end_episode(0.5, run=make_run(), run_step=2, task=Task.objects.latest("pk"), key_label="home")
    for query in ("", "&environment=math"):
        assert groups_in(get(f"curves?run=grpo-3&x=step{query}", **LAB)) == GROUPS


def test_groups_are_those_of_the_episodes_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    play_groups()
    monkeypatch.setattr("episodes.figures.scopes.MAX_ENDINGS", 4)
    content = get("curves?run=grpo-3&x=step&environment=math&step=1..2")
    assert content["is_bounded"] and groups_in(content) == GROUPS[1:]
