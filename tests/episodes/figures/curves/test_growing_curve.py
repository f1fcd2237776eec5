"""Curves of records that grow, of which blocks know only a part, and of those that are read only in
part."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client

from environments.models import Environment
from environments.scoring.definition import Definition, DefinitionOverrides, definition_of
from episodes.figures import summary_cover as covers
from episodes.figures.curves import zoomed_range as zooms
from episodes.figures.curves.curve_points import Curve, curve
from episodes.figures.curves.zoomed_range import Range
from episodes.figures.scopes import Scope, filtered, scope_of
from episodes.figures.summary_cover import STILL_COUNTED
from episodes.models import Episode, Progress
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.follower import catch_up, start_over
from tests.episodes.api.asking import get
from tests.episodes.drawing import OF, SUM, from_blocks
from tests.episodes.ended import end_episode, end_episodes
from tests.episodes.playing import play, played
from tests.stored import make_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]


def side_by_side() -> Scope:
    """Record three runs that take turns, each ahead of the one before, and episodes without a step
    between them."""
    runs = [make_run(f"side {place}") for place in range(3)]
    places = [(number // 5, number % 5) for number in range(300)]
    of_runs = (
        {"run": runs[place], "run_step": step + 40 * place} if place < 3 else {}
        for step, place in places
    )
    rewards = (float(place) if place < 3 else -1.0 for _, place in places)
    end_episodes(
        *(
            (reward, {"player": "script", **run})
            for reward, run in zip(rewards, of_runs, strict=True)
        )
    )
    return scope_of(Environment.objects.get())


def points_of(found: Curve) -> list[tuple[Any, ...]]:
    names = (
        "x",
        "x_to",
        "episodes",
        "n",
        "first_end",
        "last_end",
        "mean",
        "success",
        "p10",
        "length_mean",
        "causes",
    )
    return [tuple(getattr(point, name) for name in names) for point in found.points]


def test_runs_side_by_side_share_the_points_of_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    scope, ranges = side_by_side(), (Range(), Range(20, 70), Range(None, 39), Range(139, 500))
    catch_up()
    expected = [curve(scope, SUM, "step", zoom=shown) for shown in ranges]
    for module, name in (
        (covers, "MAX_RAW_ENDINGS"),
        (covers, "MIN_RAW"),
        (zooms, "MAX_RAW_ENDINGS"),
    ):
        monkeypatch.setattr(module, name, 0)
    found = [curve(scope, SUM, "step", zoom=shown) for shown in ranges]
    assert [points_of(one) for one in found] == [points_of(one) for one in expected]
    assert [one.stepless for one in found] == [one.stepless for one in expected] == [120, 0, 0, 0]


def test_points_lie_in_order_though_a_run_goes_through_its_steps_again(blocks_alone: None) -> None:
    run = make_run("again")
    # the second block reaches from one end to the other
    steps = [60] * 128 + [299, 0] * 64 + [299] * 256
    end_episodes(*((1.0, {"run": run, "run_step": step}) for step in steps))
    catch_up()
    places = [point.x for point in curve(scope_of(run), SUM, "step").points]
    assert len(places) > 1 and places == sorted(places)


def test_the_newest_have_no_points_smaller_than_others() -> None:
    play(900, cause="finished")
    catch_up()
    found = from_blocks(OF["environment"](), SUM)
    assert [point.episodes for point in found.points[:-1]] == [512] * (len(found.points) - 1)


def test_few_episodes_have_a_point_each() -> None:
    play(20, cause="finished")
    found = curve(OF["environment"](), SUM)
    assert [point.episodes for point in found.points] == [1] * len(played(environment__name="echo"))


def test_what_blocks_do_not_know_yet_is_read_from_episodes(blocks_alone: None) -> None:
    play(500)
    catch_up()
    play(100, first=501)
    found = curve(OF["environment"](), SUM)
    assert found.total and found.total.episodes == len(played(environment__name="echo"))
    assert not found.is_bounded


def test_a_follower_far_behind_makes_a_curve_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covers, "MAX_ENDINGS", 50)
    play(300)
    catch_up()
    play(100, first=301)
    found = curve(OF["environment"](), SUM)
    assert found.is_bounded and "still being counted" in found.note
    numbers = [one.number for one in played(environment__name="echo")]
    assert found.total and found.total.episodes == sum(
        not 300 < number <= 350 for number in numbers
    )


def test_endings_that_were_not_read_do_not_count_as_stepless(
    blocks_alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade, blocks are complete while spans are still being rebuilt."""
    play(20)
    catch_up()
    play(380, first=21)
    monkeypatch.setattr("episodes.rollups.follower.make_parts", lambda: [BlocksPart()])
    catch_up()
    monkeypatch.setattr(covers, "MAX_ENDINGS", 50)
    found = curve(OF["environment"](), SUM, "step")
    assert found.is_bounded
    assert found.stepless == 0


def test_among_the_newest_episodes_of_a_filter_stepless_ones_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = make_run("some")
    for step in [*range(10)] * 3 + [None] * 20:
        end_episode(run=run, run_step=step, model="some")
    monkeypatch.setattr("episodes.figures.scopes.MAX_ENDINGS", 25)
    found = curve(filtered(Episode.objects.filter(model="some"), ""), SUM, "step")
    assert found.is_bounded
    assert found.stepless == 20


def test_no_block_is_used_while_blocks_are_rebuilt() -> None:
    play(300)
    catch_up()
    start_over()
    assert Progress.objects.get(name="blocks").end_number < 0
    found = curve(OF["environment"](), SUM)
    assert found.total and found.total.episodes == len(played(environment__name="echo"))


def test_nothing_played_is_an_empty_curve() -> None:
    environment = Environment.objects.create(name="echo", class_path="x")
    found = curve(scope_of(environment), definition_of(environment))
    assert (found.points, found.total, found.excluded, found.note) == ([], None, {}, "")


def test_definitions_come_from_the_environment_unless_given() -> None:
    environment = Environment(default_return="max", success_threshold=2.0)
    assert definition_of(environment) == Definition("max", 2.0)
    assert definition_of(environment, DefinitionOverrides("last")) == Definition("last", 2.0)
    assert definition_of(environment, DefinitionOverrides(threshold=0.0)) == Definition("max", 0.0)
    assert definition_of(None) == Definition("sum", 0.9)


if connection.vendor == "sqlite":  # its plan does not depend on the content of the tables

    @pytest.mark.parametrize("name", OF)
    def test_a_tail_is_read_along_an_index(name: str) -> None:
        play(3)
        plan = Episode.objects.filter(
            **{f"{name}_id": 1}, end_number__gt=5, status="ended"
        ).explain()
        assert f"INDEX episode_{name}_end ({name}_id=? AND end_number>?)" in plan


def test_a_follower_far_behind_makes_the_pages_say_so(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(300)
    catch_up()
    play(15, first=301)
    run = Episode.objects.filter(run__isnull=False).values_list("run", flat=True)[0]
    pages = (
        "/",
        "/environments/echo/",
        "/runs/",
        f"/runs/{run}/?splits=together",
        "/runs/curves/?environment=echo",
    )
    assert not any(STILL_COUNTED in client.get(page).content.decode() for page in pages)
    monkeypatch.setattr(covers, "MAX_ENDINGS", 10)
    assert [page for page in pages if STILL_COUNTED not in client.get(page).content.decode()] == []


def test_pages_say_so_of_activity_tools_and_totals_of_runs_too(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(30)
    catch_up()
    play(10, first=31)
    pages = ("/?part=now", "/environments/echo/", "/runs/", "/runs/?group=lr")
    assert not any(STILL_COUNTED in client.get(page).content.decode() for page in pages)
    monkeypatch.setattr(covers, "MAX_UNCOUNTED", 5)
    assert [page for page in pages if STILL_COUNTED not in client.get(page).content.decode()] == []


@pytest.mark.parametrize("path", ["environments", "runs"])
def test_a_follower_far_behind_makes_the_api_say_so(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    play(300)
    catch_up()
    play(15, first=301)
    assert STILL_COUNTED not in str(get(path))
    monkeypatch.setattr(covers, "MAX_ENDINGS", 10)
    assert f"'note': '{STILL_COUNTED}'" in str(get(path))
