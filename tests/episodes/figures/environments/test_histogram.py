"""Histograms hold every attempt of a scope, with a bin for each value if there are few."""

from __future__ import annotations

import pytest

from environments.models import Environment
from environments.scoring.definition import Definition
from episodes.figures.environments.histogram import MAX_BINS, Bin, Histogram, histogram
from episodes.figures.scopes import scope_of
from episodes.rollups.follower import catch_up
from tests.episodes.playing import attempts, play, played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]


def of_echo(definition: Definition) -> Histogram:
    return histogram(scope_of(Environment.objects.get(name="echo")), definition)


def test_few_values_have_a_bin_each() -> None:
    play(100)
    values = [one.return_last for one in attempts(played(environment__name="echo"))]
    found = of_echo(Definition("last"))
    assert found.is_exact
    assert found.bins == [Bin(value, value, values.count(value)) for value in (0.0, 1.0)]


def test_many_fall_into_bins_of_one_width() -> None:
    play(300)
    values = [one.return_max or 0.0 for one in attempts(played(environment__name="echo"))]
    found = of_echo(Definition("max"))
    assert not found.is_exact
    assert (len(found.bins), sum(one.n for one in found.bins)) == (MAX_BINS, len(values))
    assert (found.bins[0].low, found.bins[-1].high) == (min(values), max(values))
    assert all(
        one.high == other.low for one, other in zip(found.bins, found.bins[1:], strict=False)
    )


def test_from_blocks_it_holds_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    play(300)
    expected = of_echo(Definition("max"))
    catch_up()
    monkeypatch.setattr("episodes.figures.summary_cover.MAX_RAW_ENDINGS", 0)
    monkeypatch.setattr("episodes.figures.summary_cover.MIN_RAW", 0)
    found = of_echo(Definition("max"))
    assert (sum(one.n for one in found.bins), found.causes) == (
        sum(one.n for one in expected.bins),
        expected.causes,
    )
    assert (expected.is_grouped, found.is_grouped) == (False, True)


def test_outliers_do_not_stretch_it() -> None:
    play(300, cause="finished")
    play(1, first=301, cause="finished", return_max=1e290, seed=1)
    found = of_echo(Definition("max"))
    assert sum(one.n > 0 for one in found.bins) > 20


def test_outliers_among_few_values_share_a_bin_at_an_end() -> None:
    play(800, cause="finished")
    play(1, first=801, cause="finished", return_last=40.0, seed=1)
    found = of_echo(Definition("last"))
    assert found.bins[-1] == Bin(40.0, 40.0, 1, is_outer=True)
    assert [part.is_outer for part in found.bins] == [False, False, True]
    assert (found.is_exact, found.values) == (True, 3)
    assert found.reach(2) == (40.0, 40.0)


def test_nothing_played_has_no_bins() -> None:
    environment = Environment.objects.create(name="echo", class_path="x")
    found = histogram(scope_of(environment), Definition())
    assert (found.bins, found.most, found.total, found.causes) == ([], 0, None, {})
