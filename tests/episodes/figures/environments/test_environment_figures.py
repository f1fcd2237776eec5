"""The first page's figures, in a number of queries that does not depend on the number of
environments."""

from __future__ import annotations

from typing import Any

import pytest

from environments.models import UNRESTRICTED, Environment, Viewer
from environments.scoring.definition import Definition, DefinitionOverrides
from episodes.figures.activity import activity, together
from episodes.figures.environments.environment_figures import environment_figures
from episodes.figures.environments.tool_figures import tool_figures
from episodes.models import Episode
from episodes.rollups.follower import catch_up
from tests.episodes.playing import THRESHOLD, attempts, causes, play, played
from tests.episodes.recorded import record
from tests.factories import NOON, episode_ended, episode_started, step_taken

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]


def test_activity_counts_the_endings_of_its_span(django_assert_num_queries: Any) -> None:
    play(120)
    catch_up()
    now = NOON + 60 * 120
    with django_assert_num_queries(2):
        minutes = activity("1h", UNRESTRICTED, now=now)
    latest = [one for one in played() if one.ended >= minutes[0].start]
    last_hour = together(minutes)
    assert last_hour.causes == causes(latest)
    assert (len(minutes), last_hour.n) == (60, len(attempts(latest)))


def test_hidden_environments_are_in_no_sum_over_all() -> None:
    play(120)
    catch_up()
    hidden = frozenset([Episode.objects.order_by("pk")[0].environment_id])
    today = activity("30d", Viewer(hidden), now=NOON + 60 * 120)[-1]
    shown = Episode.objects.ended().exclude(environment__in=hidden)
    assert today.episodes == shown.count()
    assert 0 < shown.count() < 120


@pytest.mark.parametrize(
    ("span", "points", "seconds"), [("1h", 60, 60), ("24h", 24, 3600), ("30d", 30, 86400)]
)
def test_activity_has_a_point_for_each_span_of_time(span: Any, points: int, seconds: int) -> None:
    found = activity(span, UNRESTRICTED, now=NOON)
    assert [point.start % seconds for point in found] == [0] * points
    assert found[-1].start <= NOON < found[-1].start + seconds
    assert not any(point.episodes for point in found)


@pytest.mark.parametrize("more", [0, 5])
def test_environments_have_figures_and_a_sparkline(
    more: int, django_assert_num_queries: Any
) -> None:
    play(300)
    catch_up()
    for number in range(more):
        Environment.objects.create(name=f"quiet {number}", class_path="x")
    environments = list(Environment.objects.order_by("pk"))
    with django_assert_num_queries(4):  # no blocks are needed
        found = environment_figures(environments, UNRESTRICTED)
    endings = attempts(played(environment=environments[0]))
    total = found[0].outline.total
    assert total and (total.n, total.successes) == (
        len(endings),
        sum(one.return_sum > THRESHOLD for one in endings),
    )
    assert 20 <= len(found[0].outline.means) <= 40
    assert [one.outline.total for one in found[2:]] == [None] * more


def test_each_environment_has_its_own_definition() -> None:
    play(100)
    Environment.objects.filter(name="math").update(default_return="max", success_threshold=0.1)
    own = {
        one.environment.name: str(one.definition)
        for one in environment_figures(Environment.objects.all(), UNRESTRICTED)
    }
    assert own == {"echo": "sum > 0.5", "math": "max > 0.1"}
    given = environment_figures(
        Environment.objects.all(), UNRESTRICTED, DefinitionOverrides("last", 0.0)
    )
    assert {str(one.definition) for one in given} == {"last > 0"}


def test_an_environments_endings_are_counted_by_cause(django_assert_num_queries: Any) -> None:
    play(100)
    catch_up()
    with django_assert_num_queries(2):
        found = together(
            activity(
                "all", UNRESTRICTED, Environment.objects.get(name="echo"), definitions=Definition()
            )
        )
    assert found.causes == causes(played(environment__name="echo"))


def test_tools_have_calls_errors_and_latency() -> None:
    calls = [step_taken(1, n, tool="echo", duration_ms=100.0) for n in range(19)]
    calls += [
        step_taken(
            1,
            19,
            tool="echo",
            duration_ms=9000.0,
            status="failed",
            reason="ValueError",
            reward=None,
        )
    ]
    calls += [step_taken(1, 20, tool="nope", status="refused", reason="not_found", reward=None)]
    record((episode_started(), *calls, episode_ended()))
    catch_up()
    echo, unknown = tool_figures(Environment.objects.get())
    assert (echo.tool, echo.calls, echo.failed, echo.error_rate, echo.mean_ms) == (
        "echo",
        20,
        1,
        0.05,
        545.0,
    )
    assert echo.p50_ms == pytest.approx(100, rel=0.02) and echo.p95_ms == pytest.approx(
        100, rel=0.02
    )
    assert (unknown.tool, unknown.calls, unknown.refused, unknown.p50_ms) == ("", 1, 1, None)


def test_days_before_do_not_count_when_asked_so() -> None:
    record((episode_started(), step_taken(), episode_ended()))
    catch_up()
    environment = Environment.objects.get()
    assert tool_figures(environment, since=NOON)[0].calls == 1
    assert tool_figures(environment, since=NOON + 86400) == []
