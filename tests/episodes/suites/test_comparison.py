"""Two models compared over a suite: in each member, and over all of them by their weights."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from environments.filtering.parameters import BadFilter
from environments.models import UNRESTRICTED, Environment
from episodes.figures.comparison.paired_statistics import evidence_of, evidence_over
from episodes.suites.comparison import compare
from tests.episodes.ended import count_statistics
from tests.episodes.suites.published import (
    attempt,
    core,
    make_suite,
    member,
    split_of,
    tasks_of,
)

pytestmark = pytest.mark.django_db
about: Any = pytest.approx


def test_the_difference_is_that_of_the_scores() -> None:
    found = compare(core(), "model", ("weak", "strong"), UNRESTRICTED)
    assert [(member.first, member.second) for member in found.members] == [
        (0.125, 0.75),
        (0.5, 1.0),
    ]
    assert found.evidence and found.evidence.difference == about((0.625 + 2 * 0.5) / 3)
    assert (found.evidence.wins, found.evidence.losses, found.shared) == (4, 0, 6)
    assert [pair.difference for pair in found.tasks] == [1.0, 1.0, 1.0, 0.5]


def test_members_read_from_episodes_give_the_same() -> None:
    version = core()
    own = compare(version, "run", ("of weak", "of strong"), UNRESTRICTED)
    Environment.objects.update(success_threshold=0.1)
    count_statistics()
    read = compare(version, "run", ("of weak", "of strong"), UNRESTRICTED)
    assert read.notes and own.evidence == read.evidence


def test_a_member_that_only_one_has_played_leaves_no_difference_over_the_suite() -> None:
    found = compare(core(), "model", ("partial", "strong"), UNRESTRICTED)
    assert found.evidence is None and found.lacking == ["maze/test"]
    assert found.members[0].evidence and found.members[0].evidence.difference == -0.25


def test_significant_tasks_come_first_with_the_attempts_of_each() -> None:
    split = split_of("math", 3)
    few, many, less = tasks_of(split)
    for model, of_few, of_many, of_less in (("old", 1.0, 0.8, 0.0), ("new", 0.0, 0.2, 1.0)):
        attempt(model, [few, less], (of_few, of_less))
        for place in range(20):
            attempt(model, [many], (float(place < 20 * of_many),))
    count_statistics()
    found = compare(make_suite(member(split)), "model", ("old", "new"), UNRESTRICTED)
    assert [(pair.task, pair.is_significant) for pair in found.tasks] == [
        (many.pk, True), (few.pk, False), (less.pk, False),
    ]  # fmt: skip
    assert [pair.task for pair in found.worse] == [many.pk, few.pk]
    first = found.tasks[0]
    assert (first.first.counts.attempts, first.second.counts.attempts) == (20, 20)


def test_a_small_p_of_one_among_many_tasks_is_not_called_significant() -> None:
    split = split_of("math", 10)
    tasks = tasks_of(split)
    for model, reward in (("old", 1.0), ("new", 0.0)):
        for _ in range(4):
            attempt(model, tasks, (reward, *[1.0] * 9))
    count_statistics()
    [pair] = compare(make_suite(member(split)), "model", ("old", "new"), UNRESTRICTED).tasks
    assert pair.p == pytest.approx(2 / 70) and not pair.is_significant


def test_mean_returns_of_a_task_have_no_test() -> None:
    split = split_of("math", 2)
    attempt("old", tasks_of(split), (1.0, 1.0))
    attempt("new", tasks_of(split), (0.0, 0.5))
    count_statistics()
    suite = make_suite(member(split), score="return")
    found = compare(suite, "model", ("old", "new"), UNRESTRICTED)
    assert [(pair.difference, pair.p) for pair in found.tasks] == [(-1.0, None), (-0.5, None)]


def test_who_has_not_played_is_named() -> None:
    with pytest.raises(BadFilter, match="second='nobody' cannot be used: no model of that name"):
        compare(core(), "model", ("weak", "nobody"), UNRESTRICTED)


def test_strata_have_their_own_error() -> None:
    """Differences between strata are no noise; one stratum alone is the comparison without
    strata."""
    one, other = [1.0, 1.0, 1.1] * 200, [0.0, 0.0, 0.1] * 200
    found = evidence_over([(0.5, one), (0.5, other)])
    pooled = evidence_of([*one, *other])
    assert found.difference == about(pooled.difference)
    assert found.high - found.low < (pooled.high - pooled.low) / 5
    assert evidence_over([(1.0, one)]) == evidence_of(one)


def test_the_pages_say_what_decides(client: Client) -> None:
    core()
    page = client.get("/suites/core/v1/compare/?first=weak&second=strong").content.decode()
    assert "the interval excludes 0, which decides; the sign test ignores sizes" in page
    board = client.get("/suites/core/v1/").content.decode()
    assert "a paired comparison can still tell two of them apart" in board
