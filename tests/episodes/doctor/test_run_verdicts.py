"""Tests of what is said first about a run whose success collapses: in the list of runs, on its page
and on the overview."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from episodes.models import Episode
from episodes.rollups.follower import catch_up
from tests.episodes.ended import end_episodes
from tests.stored import make_run

pytestmark = pytest.mark.django_db
FALL = "Success fell from 50% to 0% at step 16"


def play(early: Sequence[float], late: Sequence[float], name: str = "grpo-3") -> int:
    """End the attempts of a run of 24 training steps, the last 8 of which reach other returns;
    return its id."""
    run = make_run(name)
    values = {"run": run, "created": timezone.now()}
    for step in range(24):
        returns = early if step < 16 else late
        end_episodes(*((value, values | {"run_step": step}) for value in returns))
    catch_up()
    return run.pk


@pytest.mark.parametrize(
    "page", ["/", "/runs/", "/runs/?group=lr", "/runs/{pk}/", "/runs/{pk}/?part=figures"]
)
def test_a_collapse_is_announced_with_a_link_to_the_doctor(client: Client, page: str) -> None:
    pk = play([1.0, 0.0] * 4, [0.0] * 8)
    content = client.get(page.format(pk=pk)).content.decode()
    assert FALL in content and f"{FALL} while" not in content
    assert 'href="/environments/math/doctor/?run=grpo-3"' in content


def test_it_says_that_the_return_rose(client: Client) -> None:
    pk = play([1.0, 0.0] * 4, [0.8] * 8)
    content = client.get(f"/runs/{pk}/").content.decode()
    assert f"{FALL} while the return rose." in content
    assert 'href="/episodes/?run=grpo-3&amp;step=16">Episodes of step 16' in content
    assert f">{FALL} while the return rose</a>" in client.get("/runs/").content.decode()
    report = client.get("/environments/math/doctor/?run=grpo-3").content.decode()
    assert "success falls from 50% to 0%, while the mean return goes from 0.5 to 0.8." in report


def test_it_follows_the_definition_in_force(client: Client) -> None:
    play([1.0, 0.0] * 4, [0.8] * 8)
    assert FALL not in client.get("/runs/?threshold=0.5").content.decode()


def test_noise_is_not_announced(client: Client) -> None:
    dice = Random(3)
    run = make_run()
    returns = [float(dice.random() < 0.5) for _ in range(240)]
    end_episodes(*((value, {"run": run, "run_step": at // 8}) for at, value in enumerate(returns)))
    catch_up()
    assert "verdict-line" not in client.get("/runs/").content.decode()


def test_what_comes_later_changes_it(client: Client) -> None:
    pk = play([1.0, 0.0] * 4, [0.0] * 8)
    assert FALL in client.get("/runs/").content.decode()
    attempts = [(1.0, {"run_id": pk, "run_step": step}) for step in range(24, 40) for _ in range(8)]
    end_episodes(*attempts)
    catch_up()
    assert FALL not in client.get("/runs/").content.decode()


def test_the_overview_has_only_runs_that_played_lately(client: Client) -> None:
    play([1.0, 0.0] * 4, [0.0] * 8)
    Episode.objects.update(created=timezone.now() - timedelta(days=4))
    assert FALL not in client.get("/").content.decode()


def test_runs_that_have_not_changed_are_not_examined_again(client: Client) -> None:
    play([1.0, 0.0] * 4, [0.0] * 8)
    with CaptureQueriesContext(connection) as first:
        assert FALL in client.get("/runs/").content.decode()
    with CaptureQueriesContext(connection) as second:
        assert FALL in client.get("/runs/").content.decode()
    assert len(second) < len(first)
