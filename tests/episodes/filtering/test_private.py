"""What filters find and name for a reader from whom private environments are hidden."""

from __future__ import annotations

from typing import Any

import pytest

from environments.models import Environment
from episodes.filtering import names
from episodes.filtering.conditions import NamedRows, episodes_of
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.page import match_count_of, page_of
from episodes.filtering.rollouts import RolloutFilter
from episodes.filtering.running_episodes import ended, running, running_count
from episodes.models import EnvironmentRevision, Episode, Rollout, Run
from episodes.models.privacy import visible_runs
from tests.episodes.reported import reported
from tests.rows import each
from tests.stored import make_environment, make_episode, make_run, make_task

pytestmark = pytest.mark.django_db

CANARY = "quetzal"


@pytest.fixture
def hidden() -> frozenset[int]:
    """Two ended episodes and a running one of a public and of a private environment; the id of the latter."""
    public, private = make_environment("public"), make_environment(CANARY)
    make_revisions(public, private)
    for environment, name in ((public, "plain"), (private, CANARY)):
        task = make_task(environment=environment)
        values: dict[str, Any] = {"environment": environment, "task": task, "model": name, "run": make_run(name)}
        make_episode(**values, return_sum=1.0)
        make_episode(**values, status="running", cause="")
        make_episode(environment=environment, task=task, player="human", key_label=f"@{name}")
        reported(name, environment_name=name, model=name)
    return frozenset({private.pk})


def make_revisions(*environments: Environment) -> None:
    for environment in environments:
        values = {"digest": "0", "versions": "{}", "first_episode": 1, "created": "2026-01-01T00:00Z"}
        code = f"{environment.name[:8]:0<8}"
        EnvironmentRevision.objects.create(environment=environment, code=code, **values)


def asked(hidden: frozenset[int], **query: str) -> EpisodeFilter:
    return EpisodeFilter.parse(query, hidden=hidden)


@each("sort", ["", "return", "-steps", "-duration"])
def test_lists_and_counts_leave_out_its_episodes(hidden: frozenset[int], sort: str) -> None:
    page = page_of(asked(hidden), sort)
    assert {row.episode.environment.name for row in page.rows} == {"public"}
    assert match_count_of(asked(hidden), page).count == 3
    assert episodes_of(asked(frozenset())).count() == 6


def test_the_newest_episodes_leave_out_its_own(hidden: frozenset[int]) -> None:
    found = [*running(9, hidden=hidden), *ended(9, hidden=hidden)]
    assert {one.episode.environment.name for one in found} == {"public"}
    assert (running_count(hidden), running_count()) == (1, 2)


def test_names_that_only_it_has_are_not_offered(hidden: frozenset[int]) -> None:
    offered = [names.models, names.models_of_rollouts, names.runs, names.people, names.revisions]
    assert [len(one()) for one in offered] == [2, 2, 2, 2, 2]
    assert [one(hidden) for one in offered] == [["plain"], ["plain"], ["plain"], ["@plain"], ["public00"]]


@each("name", ["environment", "model", "run", "who", "revision", "task"])
def test_a_name_of_its_own_gets_the_same_answer_as_one_that_nobody_has(hidden: frozenset[int], name: str) -> None:
    task = Episode.objects.filter(environment__in=hidden).values_list("task", flat=True).first()
    own = {"who": f"@{CANARY}", "revision": f"{CANARY}0", "task": str(task)}.get(name, CANARY)
    other = {"who": "@nobody", "task": "987654"}.get(name, "nowhere1")
    assert NamedRows.of(asked(frozenset(), **{name: own})).unknown == ""
    unknown = NamedRows.of(asked(hidden, **{name: own})).unknown
    assert unknown.replace(own, "?") == NamedRows.of(asked(hidden, **{name: other})).unknown.replace(other, "?")
    assert not episodes_of(asked(hidden, **{name: own})).exists()


def test_rollouts_that_belong_to_it_or_name_it_are_left_out(hidden: frozenset[int]) -> None:
    episode = Episode.objects.filter(environment__in=hidden).first()
    reported("joined", environment_name="", episode=episode)
    reported("elsewhere", environment_name="nowhere")
    reported("unknown", environment_name="")
    found = RolloutFilter.parse({}, hidden=hidden).rollouts()
    assert {one.event_id for one in found} == {"plain", "elsewhere"}
    assert RolloutFilter.parse({}).rollouts().count() == 5


def test_a_run_is_hidden_as_soon_as_one_episode_or_rollout_is(hidden: frozenset[int]) -> None:
    public = Environment.objects.get(name="public")
    both = make_run("both")
    make_episode(environment=public, run=both)
    assert visible(hidden) == {"plain", "both"}
    Rollout.objects.filter(event_id=CANARY).update(run=both)
    assert visible(hidden) == {"plain"}


def visible(hidden: frozenset[int]) -> set[str]:
    return set(Run.objects.filter(visible_runs(hidden)).values_list("name", flat=True))


def test_nothing_hidden_changes_no_query() -> None:
    assert str(episodes_of(asked(frozenset())).query) == str(Episode.objects.order_by().query)
    assert str(Run.objects.filter(visible_runs(frozenset())).query) == str(Run.objects.all().query)
