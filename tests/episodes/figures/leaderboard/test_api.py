"""Tests of leaderboards in the API."""

from __future__ import annotations

import pytest

from environments.models import TaskStatistics
from tests.episodes.api.asking import get
from tests.stored import make_episode, make_split, make_task

pytestmark = pytest.mark.django_db


def test_models_are_listed_best_first_with_their_interval_and_coverage() -> None:
    task, _ = make_task(), make_task()
    for by, key, successes in (("all", "", 4), ("model", "weak", 1), ("model", "strong", 3)):
        counted = {
            "attempts": 4,
            "scored": 4,
            "successes": successes,
            "return_total": successes,
            "rate": successes / 4,
        }
        TaskStatistics.objects.create(
            task=task, environment=task.environment, by=by, key=key, **counted
        )
    content = get("environments/math/leaderboard")
    assert [(row["key"], row["n"], row["mean"], row["coverage"]) for row in content["rows"]] == [
        ("strong", 4, 0.75, 0.5),
        ("weak", 4, 0.25, 0.5),
    ]
    assert [one["k"] for one in content["rows"][0]["passes"]] == [1, 2, 4]


def test_humans_have_a_row_of_their_own() -> None:
    task = make_task()
    make_split(task)
    make_episode(task=task, player="human", return_sum=1.0)
    [row] = get("environments/math/leaderboard?split=train")["rows"]
    assert (row["key"], row["is_human"], row["success"]) == ("human", True, 1.0)
    limited = get("environments/math/leaderboard?tasks=shared")
    assert (limited["tasks"], limited["rows"]) == (0, [])


def test_another_definition_reads_the_episodes() -> None:
    task = make_task()
    make_episode(task=task, model="m", return_sum=1.0, return_last=0.0)
    content = get("environments/math/leaderboard?return=last")
    assert content["definition"]["return"] == "last"
    assert content["rows"][0]["mean"] == 0.0
