"""Tests of the list of runs grouped by a value of their configurations."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from environments.models import UNRESTRICTED
from episodes.models import Run, RunTotal
from episodes.rollups.follower import catch_up
from episodes.runs.description import parsed_description
from episodes.runs.trainer_updates import steer
from tests.episodes.ended import end_episode
from tests.stored import make_environment, make_task

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sweep() -> None:
    for rate, seed, reward in ((1e-5, 0, 0.2), (1e-5, 1, 0.4), (3e-5, 0, 1.0), (3e-5, 1, 0.9)):
        config = {"lr": rate, "optimizer": {"seed": seed}}
        description = parsed_description({"state": "ended", "config": config})
        run = steer(f"lr{rate:g}-s{seed}", description, UNRESTRICTED, []).run
        for _ in range(2):
            end_episode(reward, run=run)
    steer("bare", parsed_description({"state": "ended"}), UNRESTRICTED, [])
    catch_up()


def test_seeds_of_a_value_are_together_with_mean_and_deviation(client: Client) -> None:
    page = client.get("/runs/?group=lr")
    first, second, rest = (group for group, *_ in page.context["groups"])
    assert (first.values, len(first.runs), first.attempts) == (("1e-05",), 2, 4)
    assert first.returns == (pytest.approx(0.3), pytest.approx(0.1414, abs=1e-4), 2)
    assert (second.values, second.success) == (
        ("3e-05",),
        (0.5, pytest.approx(0.7071, abs=1e-4), 2),
    )
    assert (rest.values, len(rest.runs), rest.returns) == ((None,), 1, None)
    text = page.content.decode()
    assert '+0.30 <span class="hint">± 0.14</span>' in text and "lr3e-05-s0</a>" in text
    assert "mean ± SD of runs</span>" in text
    assert "Mean of 2 runs; ± is their standard deviation" in text


def test_the_best_run_of_a_group_succeeds_most_often(client: Client) -> None:
    for name, rewards in (("honest", (1.0, 0.0)), ("greedy", (0.8, 0.8))):
        run = steer(name, parsed_description({"config": {"lr": 1}}), UNRESTRICTED, []).run
        for reward in rewards:
            end_episode(reward, run=run)
    catch_up()
    page = client.get("/runs/?group=lr&config=lr=1")
    assert [row.best.name for row in page.context["groups"]] == ["honest"]
    assert '<circle cx="4.0"' in page.content.decode()
    assert '<circle cx="60.0"' in page.content.decode()


def test_groups_are_sorted_by_a_figure_and_lead_to_their_runs(client: Client) -> None:
    rows = client.get("/runs/?group=lr&sort=-return").context["groups"]
    assert [group.values for group, *_ in rows] == [("3e-05",), ("1e-05",), (None,)]
    listed = client.get(f"/runs/?{rows[0].address}").context["rows"]
    assert {row.line.run.name for row in listed} == {"lr3e-05-s0", "lr3e-05-s1"}


def test_groups_are_of_the_runs_that_the_filter_finds(client: Client) -> None:
    rows = client.get("/runs/?group=optimizer.seed&config=lr>2e-5").context["groups"]
    assert [(group.values, len(group.runs)) for group, *_ in rows] == [(("0",), 1), (("1",), 1)]
    assert client.get("/runs/?group=lr&text=bare").context["groups"][0][0].values == (None,)


def test_equal_numbers_are_together_and_booleans_apart(client: Client) -> None:
    for name, value in (("whole", 1), ("point", 1.0), ("large", 10**20), ("exponent", 1e20)):
        steer(name, parsed_description({"config": {"on": value}}), UNRESTRICTED, [])
    steer("flag", parsed_description({"config": {"on": True}}), UNRESTRICTED, [])
    rows = client.get("/runs/?group=on").context["groups"]
    groups = [(*group.values, len(group.runs)) for group, *_ in rows]
    assert groups == [("1", 2), ("1" + 20 * "0", 2), ("true", 1), (None, 5)]


def test_runs_without_the_value_are_a_group_of_their_own(client: Client) -> None:
    rows = client.get("/runs/?group=nothing").context["groups"]
    assert [(group.values, len(group.runs)) for group, *_ in rows] == [((None,), 5)]


def test_runs_are_grouped_by_several_values(client: Client) -> None:
    page = client.get("/runs/?group=lr,optimizer.seed&sort=-return")
    rows = page.context["groups"]
    assert [group.values for group, *_ in rows] == [
        ("3e-05", "0"),
        ("3e-05", "1"),
        ("1e-05", "1"),
        ("1e-05", "0"),
        (None, None),
    ]
    listed = client.get(f"/runs/?{rows[0].address}").context["rows"]
    assert [row.line.run.name for row in listed] == ["lr3e-05-s0"] and not rows[-1].address
    assert 'href="?group=lr&amp;sort=-return" aria-current="true"' in page.content.decode()


def test_a_group_says_how_many_of_its_runs_are_not_whole_and_leads_to_them(client: Client) -> None:
    for name, state in (("lr1e-05-s0", "failed"), ("lr3e-05-s0", "running"), ("bare", "failed")):
        Run.objects.filter(name=name).update(state=state)
    past = timezone.now() - timedelta(hours=5)
    silent = Run.objects.filter(name="lr3e-05-s1")
    silent.update(state="running", created=past, updated=past)
    RunTotal.objects.filter(scope_id=silent.get().pk).update(ended=past)
    first, second, rest = client.get("/runs/?group=lr").context["groups"]
    assert [(state, count) for state, count, _ in first.states] == [("failed", 1)]
    assert [(state, count) for state, count, _ in second.states] == [("silent", 1), ("running", 1)]
    assert rest.states == [("failed", 1, "")]
    listed = client.get(f"/runs/?{first.states[0][2]}").context["rows"]
    assert [row.line.run.name for row in listed] == ["lr1e-05-s0"]


def test_runs_at_different_places_have_no_mean(client: Client) -> None:
    task = make_task(environment=make_environment("maze"))
    config = {"lr": 1e-5, "optimizer": {"seed": 2}}
    run = steer("other", parsed_description({"config": config}), UNRESTRICTED, []).run
    end_episode(1.0, run=run, task=task)
    catch_up()
    first, second = client.get("/runs/?group=lr").context["groups"][:2]
    assert (first.group.returns, first.group.places) == (None, ["math", "maze"])
    assert (second.group.returns.mean, second.group.places) == (0.95, ["math"])


def test_runs_that_failed_can_be_left_out(client: Client) -> None:
    steer("lr3e-05-s1", parsed_description({"state": "failed"}), UNRESTRICTED, [])
    page = client.get("/runs/?group=lr&failed=no&sort=-return")
    assert [len(group.runs) for group, *_ in page.context["groups"]] == [1, 2, 1]
    assert (
        '?group=lr&amp;sort=-return" aria-current="true" title="Leave out' in page.content.decode()
    )
    assert "lr3e-05-s1" not in client.get("/runs/?failed=no").content.decode()
