"""Leaderboards equal what plain Python counts from the episodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from environments.models import UNRESTRICTED, Environment, Split, SplitEntry, Task
from environments.runtime.records import RunInfo
from environments.scoring.convention import Convention
from environments.scoring.definition import Definition, definition_of
from episodes.figures.leaderboard.leaderboard import Leaderboard, LeaderboardQuery
from episodes.figures.leaderboard.leaderboard_results import By
from episodes.figures.pass_at_k import PassRate, pass_rates
from episodes.models import Episode
from episodes.rollups.recount import rebuild
from tests.episodes.playing import play
from tests.episodes.recorded import record
from tests.factories import episode_ended, episode_started

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
Rows = dict[str, tuple[Any, ...]]
"""Rows by name, as n, mean, error, successes, tasks and pass@k."""
about: Any = pytest.approx


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.recording.upkeep.Upkeep._recount", lambda upkeep: None)


def echo() -> Environment:
    return Environment.objects.get(name="echo")


def rows_of(found: Leaderboard) -> Rows:
    return {
        row.key: (
            row.n,
            about(row.mean),
            about(row.error),
            row.successes,
            row.tasks,
            _rounded(row.passes),
        )
        for row in found.rows
        if row.n
    }


def _rounded(passes: Sequence[PassRate]) -> list[PassRate]:
    names = ("rate", "low", "high")
    return [
        replace(one, **{name: round(getattr(one, name), 9) for name in names}) for one in passes
    ]


def counted(by: str, definition: Definition, **conditions: Any) -> Rows:
    """Count the episodes of `echo`, by name and task."""
    tasks: dict[str, dict[int, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    chosen = Episode.objects.filter(environment=echo(), is_probe=False, **conditions).exclude(
        **{by: None}
    )
    chosen = chosen if by == "player" else chosen.exclude(player="human")
    for key, task, value in chosen.filter(
        cause__in=("finished", "abandoned", "expired", "no_call")
    ).values_list(by, "task", definition.column):
        tasks[key][task].append(value)
    return {
        key: _expected(list(one.values()), definition.threshold)
        for key, one in tasks.items()
        if key
    }


def _expected(tasks: list[list[float | None]], threshold: float) -> tuple[Any, ...]:
    scores = [[value for value in task if value is not None] for task in tasks]
    scored = sum(map(len, scores))
    mean = sum(map(sum, scores)) / scored
    squares = sum((sum(task) - mean * len(task)) ** 2 for task in scores)
    error = sqrt(squares * len(tasks) / (len(tasks) - 1)) / scored
    successes = [sum(value > threshold for value in task) for task in scores]
    cells = [(len(task), count, 1) for task, count in zip(tasks, successes, strict=True)]
    return (
        sum(map(len, tasks)),
        mean,
        error,
        sum(successes),
        len(tasks),
        _rounded(pass_rates(cells)),
    )


@pytest.mark.parametrize(("by", "column"), [("model", "model"), ("run", "run__name")])
def test_models_and_runs_are_ranked_by_all_their_attempts(by: By, column: str) -> None:
    play(400, other="human")
    found = LeaderboardQuery(echo(), UNRESTRICTED, by=by).result()
    humans = counted("player", definition_of(echo()))["human"]
    assert rows_of(found) == {**counted(column, definition_of(echo())), "human": humans}
    means = [row.mean for row in found.rows]
    assert means == sorted(means, key=lambda mean: -(mean or 0))
    assert not found.is_bounded


def test_players_are_ranked() -> None:
    play(400, other="human")
    assert rows_of(LeaderboardQuery(echo(), UNRESTRICTED, by="player").result()) == counted(
        "player", definition_of(echo())
    )


@pytest.mark.parametrize("by", ["model", "player"])
def test_by_another_definition_episodes_are_read(by: By) -> None:
    play(400)
    definition = Definition("max", 0.7)
    found = rows_of(LeaderboardQuery(echo(), UNRESTRICTED, by=by, definition=definition).result())
    assert {key: found[key] for key in counted(by, definition)} == counted(by, definition)


CONVENTIONS = [
    Convention(),
    Convention(no_call="out"),
    Convention(expired="zero"),
    Convention(expired="out", interrupted="zero", env_error="zero"),
]


@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
def test_what_counts_follows_the_convention(convention: Convention) -> None:
    play(400)
    definition = replace(definition_of(echo()), convention=convention)
    asked = LeaderboardQuery(echo(), UNRESTRICTED, definition=definition).result()
    Environment.objects.update(convention=convention.code)
    rebuild(echo())
    own = LeaderboardQuery(echo(), UNRESTRICTED).result()
    assert rows_of(own) == rows_of(asked)
    assert {row.key: row.coverage.text for row in own.rows} == {
        row.key: row.coverage.text for row in asked.rows
    }
    for row in own.rows:
        assert row.n == row.coverage.counted


def test_a_split_counts_its_tasks() -> None:
    play(300)
    split = Split.objects.get(environment=echo())
    tasks = list(Task.objects.filter(environment=echo())[:4])
    for place, task in enumerate([*tasks, tasks[0]]):
        SplitEntry.objects.create(
            split=split, position=place, task=task, is_hidden=task == tasks[3]
        )
    found = LeaderboardQuery(echo(), UNRESTRICTED, split).result()
    expected = counted("model", definition_of(echo()), task__in=tasks[:3])
    assert {key: row for key, row in rows_of(found).items() if key != "human"} == expected
    assert found.tasks == 3
    assert [row.tasks_share for row in found.rows] == [row.tasks / 3 for row in found.rows]


@pytest.mark.parametrize("definition", [None, Definition("max", 0.7)], ids=["in force", "another"])
@pytest.mark.parametrize(
    ("by", "column"), [("model", "model"), ("run", "run__name"), ("player", "player")]
)
def test_it_can_be_limited_to_the_tasks_that_people_and_others_attempted(
    by: By, column: str, definition: Definition | None
) -> None:
    play(60, other="human")
    by_what, attempts = (
        definition or definition_of(echo()),
        Episode.objects.attempts().filter(environment=echo()),
    )
    others = (
        attempts.exclude(player="human")
        .exclude(**{f"{column}__isnull": True})
        .exclude(**{column: ""})
    )
    shared = set(
        others.filter(task__in=attempts.filter(player="human").values("task")).values_list(
            "task", flat=True
        )
    )
    found = LeaderboardQuery(
        echo(), UNRESTRICTED, by=by, definition=definition, is_shared=True
    ).result()
    people = counted("player", by_what, task__in=shared)["human"]
    assert rows_of(found) == {**counted(column, by_what, task__in=shared), "human": people}
    assert 1 < len(shared) == found.tasks < attempts.values("task").distinct().count()


def test_coverage_is_the_share_of_tasks_that_were_attempted() -> None:
    play(100)
    for number in range(100):
        Task.objects.create(environment=echo(), content_hash=str(number), spec="{}")
    found = LeaderboardQuery(echo(), UNRESTRICTED).result()
    assert found.tasks == Task.objects.filter(environment=echo()).count()
    assert all(row.tasks_share == row.tasks / found.tasks for row in found.rows)


def test_the_coverage_of_a_procedural_environment_is_unknown() -> None:
    play(100)
    Environment.objects.update(is_procedural=True)
    assert {row.tasks_share for row in LeaderboardQuery(echo(), UNRESTRICTED).result().rows} == {
        None
    }


def test_only_the_newest_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.figures.scopes.MAX_ENDINGS", 20)
    play(100)
    found = LeaderboardQuery(echo(), UNRESTRICTED, by="player").result()
    assert found.is_bounded and "newest" in found.note
    assert sum(row.n for row in found.rows) <= 20


def test_huge_returns_have_a_mean_but_no_error() -> None:
    starts = [episode_started(n, spec_json=str(n), run=RunInfo("", None, "m")) for n in (1, 2)]
    record((*starts, *(episode_ended(n, return_sum=1e300 * (-1) ** n) for n in (1, 2))))
    (row,) = LeaderboardQuery(echo(), UNRESTRICTED).result().rows
    assert (row.n, row.mean, row.error) == (2, 0.0, None)


def test_it_costs_five_queries_at_most(django_assert_max_num_queries: Any) -> None:
    play(100)
    environment, split = echo(), Split.objects.get(environment=echo())
    with django_assert_max_num_queries(5):
        LeaderboardQuery(environment, UNRESTRICTED, split, definition=Definition("max")).result()
    with django_assert_max_num_queries(5):
        LeaderboardQuery(environment, UNRESTRICTED, split, is_shared=True).result()
    with django_assert_max_num_queries(4):
        LeaderboardQuery(environment, UNRESTRICTED).result()


def test_nothing_played_has_no_rows() -> None:
    found = LeaderboardQuery(
        Environment.objects.create(name="echo", class_path="x"), UNRESTRICTED
    ).result()
    assert (found.rows, found.tasks) == ([], 0)
