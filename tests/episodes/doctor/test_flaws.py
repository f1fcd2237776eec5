"""Tests of the reward doctor: it finds each flaw in an environment made to have it, and shows the
episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from environments.models import Split, Task
from environments.wire import NO_NUMBER
from episodes.models import Episode
from episodes.rollups.follower import catch_up
from tests.episodes.api.asking import get
from tests.episodes.ended import count_statistics, end_episodes
from tests.stored import make_blob, make_environment, make_run, make_split, make_step, make_task

pytestmark = pytest.mark.django_db
MATH = "environments/math/doctor"
Shown = set[str]
"""Addresses of pages that evidence links to, or numbers of episodes that its lists show."""


def play(*returns: float | None, **values: Any) -> None:
    """End an attempt for each return."""
    end_episodes(*((value, values) for value in returns))


def numbers(**values: Any) -> Shown:
    return {str(pk) for pk in Episode.objects.filter(**values).values_list("pk", flat=True)}


def rising_without_success() -> Shown:
    play(*[0.1] * 40, *[0.3] * 40, *[0.6] * 40)
    return numbers(return_sum=0.6)


def growing_length() -> Shown:
    for value, steps in ((0.0, 3), (0.5, 6), (1.0, 9)):
        play(*[value] * 40, steps_count=steps)
    return numbers(steps_count=9)


def collapsing() -> Shown:
    run = make_run()
    for step in range(24):
        play(*[1.0 if step < 16 else 0.0] * 7, 0.0, run=run, run_step=step)
    return numbers(run_step=16) | numbers(run_step=15)


def sparse() -> Shown:
    play(*[0.0] * 39, 1.0)
    return numbers(return_sum=0.0)


def numberless() -> Shown:
    play(0.5, 0.5)
    play(0.0, detail=NO_NUMBER)
    return {f"/episodes/{pk}/" for pk in numbers(detail=NO_NUMBER)}


def outside() -> Shown:
    play(*[0.5] * 20, 1.5, -2.0)
    return numbers(return_sum__gt=1) | numbers(return_sum__lt=0)


def outlying() -> Shown:
    task = make_task()
    play(*[1.0, 0.0] * 4, task=make_task())
    play(1.0, 1.0, 1.0, 50.0, task=task)
    return {f"/episodes/{pk}/" for pk in numbers(return_sum__gt=1)}


def _tasks(value: float) -> Shown:
    play(*[1.0 - value] * 4, task=make_task())
    tasks = [make_task() for _ in range(5)]
    for task in tasks:
        play(*[value] * 4, task=task)
    count_statistics()
    return {f"/tasks/{task.pk}/" for task in tasks}


def unsolved() -> Shown:
    return _tasks(0.0)


def solved() -> Shown:
    return _tasks(1.0)


def failing() -> Shown:
    task = make_task()
    make_split(task, make_task())
    failures = {"cause": "env_error", "task": task, "failed_count": 1}
    play(*[None] * 3, **failures)
    for episode in Episode.objects.all():
        make_step(episode, status="failed", reason="KeyError", error="'tests'")
    play(1.0, 1.0)
    count_statistics()
    newest = Episode.objects.filter(task=task).latest("pk")
    return {f"/tasks/{task.pk}/", f"/episodes/{newest.pk}/"}


def flat() -> Shown:
    run = make_run()
    for step in range(12):
        task = make_task()
        play(1.0 if step < 4 else 0.0, 0.0, run=run, run_step=step, task=task)
    return {f"/runs/{run.pk}/groups/?step={step}" for step in (7, 8, 9, 10, 11)}


def gap() -> Shown:
    task = make_task()
    train, test = make_split(task, name="train"), make_split(task, name="test")
    type(test).objects.filter(pk=test.pk).update(type="test")
    play(*[1.0] * 40, split=train)
    play(*[1.0] * 10, *[0.0] * 30, split=test)
    return numbers()


def unused_tool() -> Shown:
    tools = make_blob(
        '{"tools": [{"name": "submit", "description": ""}, {"name": "hint", "description": ""}]}'
    )
    play(*[0.5] * 101, tools=tools)
    return numbers()


def refused_tool() -> Shown:
    play(0.5, refused_count=60, run=make_run())
    episode = Episode.objects.get()
    for _ in range(60):
        make_step(episode, status="refused")
    return {f"/episodes/{episode.pk}/#step-{index}" for index in range(5)} | {str(episode.pk)}


def repeated_call() -> Shown:
    play(*[0.5] * 30, run=make_run(), steps_count=4)
    for episode in Episode.objects.order_by("-pk")[:3]:
        for _ in range(3):
            make_step(episode, reward=0.1)
        make_step(episode, reward=0.1, text="another answer")
    return {
        f"/episodes/{pk}/#step-0"
        for pk in Episode.objects.order_by("-pk").values_list("pk", flat=True)[:3]
    }


def outweighing_steps() -> Shown:
    play(*[2.0] * 20, return_last=0.1)
    flawed = numbers()
    play(*[1.0] * 20)
    return {f"/episodes/{pk}/" for pk in sorted(map(int, flawed))[-5:]}


def differing_scales() -> Shown:
    tasks = [make_task() for _ in range(6)]
    for task, scale in zip(tasks, (0.01, 0.01, 0.02, 0.5, 1.0, 1.0), strict=True):
        play(*[scale] * 4, task=task)
    count_statistics()
    return {f"/tasks/{task.pk}/" for task in (tasks[0], tasks[1], tasks[4], tasks[5])}


def cut_outputs() -> Shown:
    play(0.5, run=make_run(), steps_count=60)
    episode = Episode.objects.get()
    for _ in range(55):
        make_step(episode)
    make_step(episode, text="a a a [Output truncated]")
    make_step(episode, status="failed", reason="result_size", output="")
    long = make_blob(f"{'a' * 9000} (cut after 9000 characters)")
    for _ in range(3):
        make_step(episode, output="", output_blob=long)
    return {f"/episodes/{episode.pk}/#step-{index}" for index in range(55, 60)}


FLAWS: dict[str, tuple[Callable[[], Shown], str]] = {
    "reward_without_success": (rising_without_success, ""),
    "length_with_reward": (growing_length, ""),
    "collapse": (collapsing, "?run=grpo-3"),
    "sparse_rewards": (sparse, ""),
    "numberless_rewards": (numberless, ""),
    "outside_range": (outside, ""),
    "outlying_returns": (outlying, ""),
    "failing_tasks": (failing, ""),
    "unsolved_tasks": (unsolved, ""),
    "solved_tasks": (solved, ""),
    "flat_groups": (flat, "?run=grpo-3"),
    "train_test_gap": (gap, ""),
    "unused_tools": (unused_tool, ""),
    "repeated_calls": (repeated_call, "?run=grpo-3"),
    "outweighing_steps": (outweighing_steps, ""),
    "differing_scales": (differing_scales, ""),
    "cut_outputs": (cut_outputs, "?run=grpo-3"),
    "refused_tools": (refused_tool, "?run=grpo-3"),
}
"""Name of the check -> what makes the flaw, and the query of the scope."""


def finding(check: str, query: str = "") -> dict[str, Any]:
    return next(one for one in get(f"{MATH}{query}")["findings"] if one["check"] == check)


def shown(address: str) -> Shown:
    """Return the numbers of the episodes that a list shows, or the address of another page."""
    path, _, query = address.partition("?")
    if path != "/episodes/":
        return {address}
    return {str(row["id"]) for row in get(f"episodes?{query}&limit=500")["results"]}


@pytest.mark.parametrize("check", FLAWS)
def test_a_flaw_is_found_and_its_evidence_shows_the_episodes(check: str, client: Client) -> None:
    make, query = FLAWS[check]
    flawed = make()
    found = finding(check, query)
    assert found["result"] == "problem"
    evidence = set[str]().union(*(shown(one["address"]) for one in found["evidence"]))
    assert flawed <= evidence
    assert client.get(found["evidence"][0]["address"]).status_code == 200


@pytest.mark.parametrize("query", ["", "?split=train"])
def test_equal_exceptions_of_failing_tasks_are_counted_together(query: str) -> None:
    [task] = [int(page.split("/")[2]) for page in failing() if page.startswith("/tasks/")]
    Episode.objects.filter(task=task).update(split=Split.objects.get())
    report = finding("failing_tasks", query)
    assert "fails at 1 task" in report["sentence"]
    assert "3 of the episodes read ended by one exception." in report["sentence"]
    assert report["evidence"][0]["title"] == "KeyError: 'tests' · 3 episodes"


@pytest.mark.parametrize("query", ["", "?split=train"])
def test_a_quarantined_task_does_not_fail_any_more(query: str) -> None:
    [task] = [int(page.split("/")[2]) for page in failing() if page.startswith("/tasks/")]
    Episode.objects.filter(task=task).update(split=Split.objects.get())
    Task.objects.filter(pk=task).update(state="quarantined")
    report = finding("failing_tasks", query)
    assert report["result"] == "fine" and "3 episodes ended by a failure" in report["sentence"]


def test_a_failure_among_attempts_is_no_failing_task() -> None:
    task = make_task()
    play(*[1.0] * 4, task=task)
    play(None, task=task, cause="env_error")
    count_statistics()
    report = finding("failing_tasks")
    assert report["result"] == "fine" and "1 episode ended by a failure" in report["sentence"]


@pytest.mark.parametrize(
    "returns", [[0.0] * 9 + [1.0], [1.0] * 9 + [-1.0], [50.0, 40.0, 1.0, 1.0], [0.0] * 9]
)
def test_a_rare_success_and_returns_of_which_none_is_alone_are_no_outliers(
    returns: list[float],
) -> None:
    play(*returns, task=make_task())
    assert finding("outlying_returns")["result"] == "fine"


def test_the_farthest_outlier_is_named_first() -> None:
    tasks = [make_task(), make_task()]
    play(1.0, 1.0, 1.0, 20.0, task=tasks[0])
    play(1.0, 1.0, 0.0, -90.0, task=tasks[1])
    found = finding("outlying_returns")
    assert "2 attempts have a return" in found["sentence"]
    assert found["evidence"][0]["title"].endswith(": \N{MINUS SIGN}90")
    assert finding("outlying_returns", "?outlier=30")["evidence"][1:] == []


def test_a_call_that_leads_to_another_output_may_be_paid_again() -> None:
    play(*[0.5] * 30, run=make_run(), steps_count=3)
    for episode in Episode.objects.all():
        for place in range(3):
            make_step(episode, reward=0.1, text=f"You are at {place}")
    assert finding("repeated_calls", "?run=grpo-3")["result"] == "fine"


def test_a_repeated_call_that_ends_the_episode_counts_among_the_others() -> None:
    play(*[0.5] * 30, run=make_run(), steps_count=4)
    result = '{"blocks":[],"metadata":null,"reward":0.1,"finished":%s}'
    for episode in Episode.objects.all():
        for finished in ("false", "false", "false", "true"):
            make_step(episode, reward=0.1, output=result % finished)
    assert "(worst: 4 times, 0.4 together)" in finding("repeated_calls")["sentence"]


def exploit() -> None:
    """Record a run that repeats a paid call from training step 12 on, then a healthy one."""
    run = make_run()
    for step in range(24):
        is_exploit = step >= 12
        rewards = [0.8, 0.85] if is_exploit else [1.0, 0.0]
        play(*rewards * 8, run=run, run_step=step, steps_count=9 if is_exploit else 3)
    for episode in Episode.objects.filter(run_step__in=(12, 22, 23)):
        for _ in range(9):
            make_step(episode, reward=0.09)
    healthy = make_run("grpo-4")
    for step in range(24):
        play(*[1.0, 0.0] * 4, run=healthy, run_step=step, steps_count=2)


@pytest.mark.parametrize(
    ("check", "step"),
    [("reward_without_success", 12), ("length_with_reward", 12), ("repeated_calls", 12)],
)
def test_an_exploit_is_found_where_it_begins(check: str, step: int) -> None:
    exploit()
    of_run = finding(check, "?run=grpo-3")
    assert (of_run["result"], of_run["run"], of_run["step"]) == ("problem", "grpo-3", step)
    assert finding(check, "?run=grpo-4")["result"] == "fine"


@pytest.mark.parametrize(
    ("check", "early", "late"),
    [
        ("collapse", [1.0] * 9 + [0.0], [1.0] * 2 + [0.0] * 8),
        ("collapse", [0.45] * 10, [0.1] * 10),
        ("reward_without_success", [0.1] * 10, [0.4] * 10),
    ],
)
def test_a_problem_begins_after_the_last_phase_without_it(
    check: str, early: list[float], late: list[float]
) -> None:
    run = make_run()
    for step in range(36):
        returns, steps = late if step >= 24 else early, 3 if step < 12 else 9
        play(*returns, run=run, run_step=step, steps_count=steps)
    result = finding(check, "?run=grpo-3")
    assert (result["result"], result["step"]) == ("problem", 24)
    assert result["sentence"].startswith("From training step 24 on, ")


@pytest.mark.parametrize("check", ["reward_without_success", "collapse", "repeated_calls"])
def test_the_environment_shows_the_exploit_of_a_run_that_is_not_the_newest(check: str) -> None:
    exploit()
    result = finding(check)
    assert (result["result"], result["run"]) == ("problem", "grpo-3")
    assert "grpo-3" in result["sentence"]


def test_a_gap_between_different_models_is_no_gap() -> None:
    task = make_task()
    train, test = make_split(task, name="train"), make_split(task, name="test")
    type(test).objects.filter(pk=test.pk).update(type="test")
    play(*[1.0] * 40, split=train, model="strong")
    play(*[0.0] * 40, split=test, model="weak")
    result = finding("train_test_gap")
    assert result["result"] == "too_little_data"
    assert "by the same run or model: train 0, test 40." in result["sentence"]
    assert "Runs are not joined, such as a training and its evaluation" in result["sentence"]


def test_payments_that_are_taken_back_are_not_repeated_ones() -> None:
    play(*[0.1] * 30, run=make_run(), steps_count=6)
    for episode in Episode.objects.all():
        for reward in (0.1, -0.1, 0.1, -0.1, 0.1):
            make_step(episode, reward=reward, text="You are at 1" if reward > 0 else "You are at 0")
    assert finding("repeated_calls", "?run=grpo-3")["result"] == "fine"


def test_groups_that_get_flat_are_found_before_most_are() -> None:
    run = make_run()
    for step in range(12):
        play(0.0 if step > 7 else 1.0, 0.0, run=run, run_step=step, task=make_task())
    found = finding("flat_groups", "?run=grpo-3")
    assert found["result"] == "problem"
    assert "In 4 of 12 groups (33%)" in found["sentence"]
    assert "; from training step 8 on 100% instead of 0%." in found["sentence"]
    assert (found["run"], found["step"]) == ("grpo-3", 8)


def test_groups_that_are_flat_in_the_middle_are_found_where_they_begin() -> None:
    run = make_run()
    for step in range(18):
        play(0.0 if 6 <= step < 12 else 1.0, 0.0, run=run, run_step=step, task=make_task())
    found = finding("flat_groups", "?run=grpo-3")
    assert (found["result"], found["step"]) == ("problem", 6)
    assert "; in training steps 6 to 11 100% instead of 0%." in found["sentence"]


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_run_in_several_environments_is_examined_in_one(*, is_followed: bool) -> None:
    run = make_run()
    play(*[0.5] * 30, run=run, task=make_task())
    assert finding("outside_range", "?run=grpo-3")["result"] == "fine"
    play(5.0, run=run, task=make_task(environment=make_environment("other")))
    if is_followed:
        catch_up()
    assert finding("outside_range", "?run=grpo-3")["result"] == "fine"
    assert get("environments/other/doctor?run=grpo-3")["attempts"] == 1


def test_negative_numbers_have_a_minus_sign() -> None:
    outside()
    assert (
        "outside of 0 to 1; they reach from \N{MINUS SIGN}2 to 1.5. The 1 above it count as"
        in finding("outside_range")["sentence"]
    )


def test_another_definition_of_the_return_is_examined() -> None:
    play(*[0.0] * 40, return_last=1.0)
    assert finding("solved_tasks", "?tasks=1")["result"] == "too_little_data"
    assert finding("solved_tasks", "?tasks=1&return=last")["result"] == "problem"


def test_every_check_has_a_flaw_here() -> None:
    make_environment()
    assert {one["check"] for one in get(MATH)["findings"]} == set(FLAWS)
