"""The leaderboard of a suite: scores that the API lets anybody compute again, intervals, ranks and
what is missing."""

from __future__ import annotations

import json
from collections import defaultdict
from statistics import fmean
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from environments.models import UNRESTRICTED, Environment, Split, Viewer
from environments.scoring.success_interval import interval
from episodes.figures.leaderboard.leaderboard import LeaderboardQuery
from episodes.models import SuiteVersion
from episodes.suites.scores import TaskSums, score_of
from episodes.suites.standings import SuiteRow, standings
from tests.episodes.api.asking import get
from tests.episodes.ended import count_statistics, end_episode
from tests.episodes.suites.published import (
    attempt,
    broken_core,
    core,
    make_suite,
    member,
    split_of,
    tasks_of,
)

pytestmark = pytest.mark.django_db
about: Any = pytest.approx


def rows_of(version: SuiteVersion, **how: Any) -> dict[str, SuiteRow]:
    return {row.key: row for row in standings(version, UNRESTRICTED, **how).rows}


def recomputed(suite: dict[str, Any], model: str) -> float:
    """Compute the score of a model from the rows of /api/episodes, by what the suite's document
    says."""
    parts: list[tuple[float, float]] = []
    for number, one in enumerate(json.loads(suite["document"])["members"], 1):
        tasks = defaultdict(list)
        query = f"suite={suite['name']}/v{suite['version']['number']}/{number}&environment={one['environment']}"
        for episode in get(f"episodes?{query}&model={model}&limit=500")["results"]:
            if episode["status"] == "ended" and episode["cause"] in ("finished", "abandoned"):
                tasks[episode["task"]["id"]].append(
                    episode["returns"][one["return"]] > one["threshold"]
                )
        assert len(tasks) == one["tasks"]
        parts.append((one["weight"], fmean(map(fmean, tasks.values()))))
    return sum(weight * mean for weight, mean in parts) / sum(weight for weight, _ in parts)


def test_anybody_can_compute_a_score_again_from_the_episodes_of_the_api() -> None:
    core()
    suite = get("suites/core")
    found = {row["key"]: row["score"] for row in suite["rows"] if row["rank"]}
    assert found == {model: about(recomputed(suite, model)) for model in ("strong", "weak")}
    assert found["weak"] == about((0.125 + 2 * 0.5) / 3)


@pytest.mark.parametrize("by", ["model", "run"])
def test_only_who_played_every_task_is_ranked(by: Any) -> None:
    rows = list(rows_of(core(), by=by).values())
    names = [row.key.removeprefix("of ") for row in rows]
    assert [(name, row.rank) for name, row in zip(names, rows, strict=True)] == [
        ("strong", 1), ("weak", 2), ("partial", None),
    ]  # fmt: skip
    assert rows[2].score is None
    assert [(row.member.label, row.missing) for row in rows[2].missing] == [("maze/test", 2)]
    assert (rows[1].attempts, rows[1].tasks) == (7, 6)


def test_equal_scores_share_a_rank() -> None:
    split = split_of("math", 2)
    for model in ("a", "b"):
        attempt(model, tasks_of(split), (1.0, 0.0))
    attempt("c", tasks_of(split), (0.0, 0.0))
    count_statistics()
    assert [row.rank for row in rows_of(make_suite(member(split))).values()] == [1, 1, 3]


@pytest.mark.parametrize("score", ["success", "return"])
def test_episodes_are_read_where_another_definition_is_in_force_and_give_the_same(
    score: Any,
) -> None:
    split = split_of("math", 3)
    version = make_suite(member(split), score=score)
    attempt("m", tasks_of(split), (0.5, 1.0, -2.0))
    attempt("m", tasks_of(split), (1.0, 0.0, 0.0), cause="expired")
    attempt("m", tasks_of(split)[:1], (0.7,), cause="interrupted")
    count_statistics()
    own, notes = rows_of(version)["m"], standings(version, UNRESTRICTED).notes
    Environment.objects.update(success_threshold=0.1, default_return="max", convention="zzoo")
    count_statistics()
    read = rows_of(version)["m"]
    assert "only its newest 50,000 episodes" in standings(version, UNRESTRICTED).notes[
        0
    ] and "newest" not in "".join(notes)
    assert own.score and own.score == about(read.score)
    assert own.interval == about(read.interval)
    assert own.members[0].coverage.text == read.members[0].coverage.text
    assert own.score == about(
        (0.5 * 1 + 0.5 * 1) / 3 if score == "success" else (0.75 + 0.5 - 1.0) / 3
    )


def test_the_episodes_behind_a_figure_are_those_that_it_counts() -> None:
    version = core()
    for row in standings(version, UNRESTRICTED).rows:
        for part in row.members:
            listed = get(f"episodes?{part.query}&limit=500")["results"]
            assert len(listed) == part.sums.attempts


def test_one_attempt_at_each_task_has_wilsons_interval() -> None:
    sums = TaskSums()
    for figure in (1.0, 1.0, 1.0, 0.0):
        sums.add(figure, 1)
    assert sums.interval("success") == about(interval(3, 4))
    assert score_of([sums], [7.0], "success")[1] == about(interval(3, 4))


def test_the_interval_of_tasks_that_are_all_alike_depends_on_their_attempts() -> None:
    solved, half = TaskSums(), TaskSums()
    for _ in range(5):
        solved.add(1.0, 8)
        half.add(0.5, 8)
    assert solved.interval("success") == about(interval(5, 5))
    assert half.interval("success") == about(interval(20, 40))


def test_members_are_added_up_like_strata_for_returns() -> None:
    one, other = TaskSums(), TaskSums()
    for figure in (3.0, 5.0, 10.0):
        one.add(figure, 1)
    for figure in (-1.0, 1.0):
        other.add(figure, 2)
    score, ends = score_of([one, other], [3.0, 1.0], "return")
    variance = 0.75**2 * 13.0 / 3 + 0.25**2 * 2.0 / 2
    assert score == about(4.5) and ends
    assert ends.high - 4.5 == about(1.959964 * variance**0.5)


def test_a_leaderboard_has_the_interval_of_a_suite_of_the_same_attempts() -> None:
    split = split_of("math", 5)
    for rewards in (
        (1.0, 1.0, 0.0, 0.0, 1.0),
        (1.0, 1.0, 0.0, 1.0, 1.0),
        (1.0, 1.0, 0.0, 0.0, 1.0),
    ):
        attempt("m", tasks_of(split), rewards)
    count_statistics()
    suite = rows_of(make_suite(member(split)))["m"]
    board = LeaderboardQuery(split.environment, UNRESTRICTED, split).result()
    [row] = [row for row in board.rows if row.key == "m"]
    assert row.interval == about(suite.interval)
    assert row.interval.high - row.interval.low > 1.2 * (
        interval(10, 15).high - interval(10, 15).low
    )


def test_overlapping_intervals_allow_several_ranks() -> None:
    split = split_of("math", 4)
    for model, rewards in (("a", (1.0,) * 4), ("b", (1.0, 1.0, 1.0, 0.0)), ("c", (0.0,) * 4)):
        attempt(model, tasks_of(split), rewards)
    count_statistics()
    rankings = [row.ranking for row in rows_of(make_suite(member(split))).values()]
    assert rankings == [(1, 1, 2), (2, 1, 3), (3, 2, 3)]


def test_huge_returns_have_a_mean_and_no_interval() -> None:
    split = split_of("math", 2)
    attempt("m", tasks_of(split), (1e300, -1e300))
    count_statistics()
    row = rows_of(make_suite(member(split), score="return"))["m"]
    assert (row.score, row.interval) == (0.0, None)


def test_queries_depend_on_members_alone(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    version = core()
    with django_assert_num_queries(4):
        standings(version, UNRESTRICTED)


@pytest.mark.parametrize("definition", ["in force", "another one"])
def test_a_task_that_fails_for_everybody_keeps_nobody_from_a_provisional_rank(
    definition: str,
) -> None:
    version, [_, always] = broken_core()
    if definition == "another one":
        Environment.objects.update(success_threshold=0.1)
        count_statistics()
    results = standings(version, UNRESTRICTED)
    assert [(row.key, row.rank) for row in results.rows] == [
        ("strong", 1), ("steady", 2), ("weak", None),
    ]  # fmt: skip
    assert results.ranked[0].score == about((2 / 3 + 2 * 1.0) / 3)
    assert [(part.member.label, part.missing) for part in results.others[0].missing] == [
        ("math/test", 1)
    ]
    assert [(task.task, task.failures) for task in results.failing_tasks] == [(always.pk, 4)]
    assert results.is_provisional and results.failing == 1


@pytest.mark.parametrize("definition", ["in force", "another one"])
def test_a_task_that_fails_in_runs_and_is_solved_without_a_run_does_not_fail(
    definition: str,
) -> None:
    version, [_, always] = broken_core()
    end_episode(1.0, task=always, environment=always.environment, model="strong")
    if definition == "another one":
        Environment.objects.update(success_threshold=0.1)
    count_statistics()
    results = standings(version, UNRESTRICTED, "run")
    assert not results.is_provisional and not results.ranked
    assert {row.key for row in results.rows} == {"of weak", "of strong", "of steady"}


def test_failures_that_count_as_zero_are_attempts() -> None:
    version, _ = broken_core()
    version.members.update(convention="zkoz")
    results = standings(version, UNRESTRICTED)
    assert [row.rank for row in results.rows] == [1, 2, 2] and not results.is_provisional


def test_a_task_that_does_not_exist_for_the_viewer_is_not_named() -> None:
    version, _ = broken_core()
    split = Split.objects.get(environment__name="math")
    results = standings(version, Viewer(sealed_splits={split.pk: split.environment_id}))
    assert results.is_provisional and not results.failing_tasks
