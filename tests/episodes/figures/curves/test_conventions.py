"""Every convention gives the same figures in curves, comparisons, groups and tables, from blocks
and from episodes."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest

from environments.models import UNRESTRICTED, Environment
from environments.scoring.convention import CONVENTION_PARTS, Convention
from environments.scoring.definition import Definition, definition_of, definitions_in_force
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.figures.activity import activity, together
from episodes.figures.comparison.run_comparison import pairing_of
from episodes.figures.curves.curve_points import Curve, curve, curve_of
from episodes.figures.groups.groups import group_of, groups_of
from episodes.figures.players import at_task
from episodes.figures.scopes import scope_of
from episodes.figures.summary_cover import covers_of
from episodes.models import Episode, Run
from episodes.rollups.follower import catch_up
from tests.episodes.ended import end_episode
from tests.episodes.playing import THRESHOLD, play, played
from tests.filters import episode_filter
from tests.stored import make_run, make_task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
CONVENTIONS = [Convention(*values) for values in product(*CONVENTION_PARTS.values())]
SOME = [
    CONVENTIONS[0],
    Convention(no_call="out"),
    Convention(expired="zero"),
    Convention("out", "out", "zero", "zero"),
]


def expected(convention: Convention, name: str, **conditions: Any) -> list[float]:
    """Return the returns that count, as plain Python finds them among the episodes."""
    treatments, found = convention.treatments, list[float]()
    for one in played(**conditions):
        treatment, value = treatments.get(one.kind, "keep"), getattr(one, name)
        if treatment == "zero":
            found.append(0.0)
        elif treatment == "keep" and value is not None:
            found.append(value)
    return found


def check(found: Curve, returns: list[float]) -> None:
    total = found.total
    assert total
    assert (total.scored, total.successes) == (
        len(returns),
        sum(value > THRESHOLD for value in returns),
    )
    assert total.mean == pytest.approx(sum(returns) / len(returns))
    assert total.n == total.coverage.counted
    assert sum(point.coverage.rollouts for point in found.points) == total.coverage.rollouts


def test_a_curve_follows_every_convention() -> None:
    play(400)
    catch_up()
    scope = scope_of(Environment.objects.get(name="echo"))
    for convention in CONVENTIONS:
        for return_ in ("sum", "last"):
            definition = Definition(return_, THRESHOLD, convention)  # type: ignore[arg-type]
            returns = expected(convention, f"return_{return_}", environment__name="echo")
            check(curve(scope, definition), returns)
            blocks = covers_of([scope], definition, least_blocks=1, most_rows=0)[0]
            assert blocks.blocks
            check(curve_of(blocks, scope, definition, "episode"), returns)


def test_a_filter_for_attempts_finds_what_the_figures_count() -> None:
    play(120)
    scope = scope_of(Environment.objects.get(name="echo"))
    for convention in SOME:
        total = curve(scope, Definition(convention=convention)).total
        given = {name: getattr(convention, name) for name in CONVENTION_PARTS}
        asked = episode_filter(environment="echo", ending="attempt", **given)
        assert total and EpisodeListQuery(asked).result().matches in (None, total.n)
        assert len(EpisodeListQuery(asked, size=500).result().rows) == total.n


def test_activity_follows_the_conventions_of_its_environments() -> None:
    play(200)
    catch_up()
    for convention in SOME:
        Environment.objects.filter(name="echo").update(convention=convention.code)
        point = together(activity("all", UNRESTRICTED, definitions=definitions_in_force()))
        returns = expected(convention, "return_sum", environment__name="echo")
        returns += expected(Convention(), "return_sum", environment__name="math")
        assert (point.n, point.scored) == (len(returns), len(returns))
        assert point.successes == sum(value > THRESHOLD for value in returns)
        assert point.mean == pytest.approx(sum(returns) / len(returns))


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_comparison_of_runs_follows_the_convention(is_followed: bool) -> None:
    task = make_task()
    for name in ("first", "second"):
        for cause, value in CAUSES.items():
            end_episode(value, run=make_run(name), task=task, cause=cause)
    if is_followed:
        catch_up()
    runs = list(Run.objects.order_by("pk"))
    for convention in SOME:
        found = pairing_of(runs, Definition(convention=convention), 9)
        returns = expected(convention, "return_sum", run=runs[0])
        means = {line.measure.name: line.runs[0].mean for line in found.measures}
        assert means["return"] == pytest.approx(sum(returns) / len(returns))
        assert found.coverage[0].rollouts == len(CAUSES)
        assert found.coverage[0].counted == len(returns)


CAUSES = {
    "finished": 1.0,
    "expired": 0.5,
    "no_call": 0.0,
    "interrupted": 0.25,
    "env_error": 0.25,
    "setup_failed": 0.0,
}


@pytest.mark.parametrize("convention", SOME, ids=str)
def test_a_group_shows_all_members_with_their_marks(convention: Convention) -> None:
    task, run = make_task(), make_run()
    for cause, value in CAUSES.items():
        end_episode(value, run=run, run_step=3, task=task, cause=cause)
    definition = Definition(convention=convention)
    group = group_of(task, run, 3, definition)
    marks = {one.episode.cause: one.mark for one in group.attempts}
    assert marks == {cause: convention.treatments[cause] for cause in CAUSES}
    assert group.coverage == groups_of(run, 3, definition).lines[0].coverage
    returns = expected(convention, "return_sum")
    assert (group.spread.scored, group.spread.mean) == (
        len(returns),
        pytest.approx(sum(returns) / len(returns)),
    )
    assert [one for one in group.attempts if one.advantage is None] == [
        one for one in group.attempts if one.mark == "out"
    ]


@pytest.mark.parametrize("convention", SOME, ids=str)
def test_kinds_of_players_follow_the_convention(convention: Convention) -> None:
    task = make_task()
    for cause, value in CAUSES.items():
        end_episode(value, task=task, cause=cause)
    [_, agents] = at_task(task, Definition(convention=convention), UNRESTRICTED)
    returns = expected(convention, "return_sum")
    assert (agents.n, agents.mean) == (len(returns), pytest.approx(sum(returns) / len(returns)))
    assert agents.coverage.rollouts == len(CAUSES)


def test_a_class_declares_the_convention_of_its_environment() -> None:
    end_episode(0.0, cause="no_call")
    Environment.objects.update(convention=Convention(no_call="out").code)
    environment = Environment.objects.get()
    total = curve(scope_of(environment), definition_of(environment)).total
    assert total and total.coverage.text == "0 attempts; 1 no call excluded"
    assert Counter(Episode.objects.values_list("cause", flat=True)) == {"no_call": 1}
