"""The list behind each point of a chart has exactly the episodes that the point counts, whatever it
was read from."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from django.http import QueryDict

from environments.models import UNRESTRICTED
from episodes.figures import summary_cover as covers
from episodes.figures.block_queries import Axis
from episodes.figures.curves import zoomed_range
from episodes.figures.curves.curve_chart import charts_of
from episodes.figures.curves.curve_parameters import CurveQuery
from episodes.figures.curves.curve_series import CurveCharts, curve_charts
from episodes.figures.curves.figure_menu import FIGURES
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.rollups import blocks, step_spans
from episodes.rollups.follower import catch_up
from tests.episodes.playing import play
from tests.factories import NOON

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
AXES: tuple[Axis, ...] = ("episode", "time", "step")
READ = {"rows": (10_000, 1280), "blocks": (0, 0)}
"""Most endings that are read one by one: of one scope, and of each of several."""


@pytest.fixture(params=READ.values(), ids=READ)
def played(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record episodes of which the newest are in no block, and some ended earlier than those before
    them."""
    most, least = request.param
    for module, name, value in (
        (covers, "MAX_RAW_ENDINGS", most),
        (covers, "MIN_RAW", least),
        (zoomed_range, "MAX_RAW_ENDINGS", most),
        (blocks, "BLOCK_ENDINGS", 8),
        ("episodes.figures.block_queries", "BLOCK_ENDINGS", 8),
        (zoomed_range, "BLOCK_ENDINGS", 8),
        (step_spans, "MAX_SPANS", 4),
    ):
        if isinstance(module, str):
            monkeypatch.setattr(f"{module}.{name}", value)
        else:
            monkeypatch.setattr(module, name, value)
    play(150)
    play(30, first=151, ended=NOON + 7777)
    catch_up()
    play(20, first=181)


def counted(query: str, behind: dict[str, str]) -> tuple[int, int]:
    """Return the number of episodes in the list of a point, and how many of them are attempts."""
    asked = EpisodeFilter.parse(QueryDict(query).dict() | behind, UNRESTRICTED)
    return NamedRows.of(asked).episodes().count(), NamedRows.of(
        replace(asked, ending="attempt")
    ).episodes().count()


def parts(scope: str, axis: Axis) -> list[CurveCharts]:
    """Return the whole curve with all of its charts, and a zoomed one."""
    query = {**QueryDict(scope).dict(), "x": axis, "y": ",".join(FIGURES)}
    whole = curve_charts(CurveQuery.parse(query, UNRESTRICTED))
    first, *_, last = whole.series[0].curve.points
    begin, width = first.x, last.x_to - first.x
    ends = {"from": repr(begin + 0.2 * width), "to": repr(begin + 0.45 * width)}
    return [whole, curve_charts(CurveQuery.parse(query | ends, UNRESTRICTED))]


@pytest.mark.usefixtures("played")
def test_it_has_the_episodes_of_each_point_in_each_chart() -> None:
    for axis, scope in product(
        AXES, ("environment=echo", "environment=echo&split=train", "run=r1", "run=r1&model=m1")
    ):
        for found in parts(scope, axis):
            [series], points = found.series, found.series[0].curve.points
            expected = [(point.episodes, point.n) for point in points]
            behind = {
                tuple(tuple(one["behind"].items()) for one in chart["series"][0]["points"])
                for chart in charts_of(found)
            }
            [shown] = behind
            assert [counted(series.filter.to_query(), dict(one)) for one in shown] == expected, (
                axis,
                scope,
            )
            listed = (
                counted(series.listed.to_query(), {})
                if series.is_zoomed or axis == "step"
                else None
            )
            assert listed in (None, tuple(map(sum, zip(*expected, strict=True)))), scope
