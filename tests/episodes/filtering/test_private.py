"""What filters find and name for a reader from whom private environments are hidden."""

from __future__ import annotations

from typing import Any

import pytest

from environments.models import UNRESTRICTED, Environment, Viewer
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.browsing.running_episodes import ended, running, running_count
from episodes.filtering import names
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.rollouts import RolloutFilter
from episodes.models import EnvironmentRevision, Episode, Rollout, Run
from tests.episodes.reported import reported
from tests.rows import each
from tests.stored import make_environment, make_episode, make_run, make_task

pytestmark = pytest.mark.django_db

CANARY = "quetzal"


@pytest.fixture
def viewer() -> Viewer:
    """Two ended episodes and a running one of a public and of a private environment; from whom the
    latter is hidden."""
    public, private = make_environment("public"), make_environment(CANARY)
    make_revisions(public, private)
    for environment, name in ((public, "plain"), (private, CANARY)):
        task = make_task(environment=environment)
        values: dict[str, Any] = {
            "environment": environment,
            "task": task,
            "model": name,
            "run": make_run(name),
        }
        make_episode(**values, return_sum=1.0)
        make_episode(**values, status="running", cause="")
        make_episode(environment=environment, task=task, player="human", key_label=f"@{name}")
        reported(name, environment_name=name, model=name)
    return Viewer(frozenset({private.pk}))


def make_revisions(*environments: Environment) -> None:
    for environment in environments:
        values = {
            "digest": "0",
            "versions": "{}",
            "first_episode": 1,
            "created": "2026-01-01T00:00Z",
        }
        code = f"{environment.name[:8]:0<8}"
        EnvironmentRevision.objects.create(environment=environment, code=code, **values)


def asked(viewer: Viewer, **query: str) -> EpisodeFilter:
    return EpisodeFilter.parse(query, viewer=viewer)


@each("sort", ["", "return", "-steps", "-duration"])
def test_lists_and_counts_leave_out_its_episodes(viewer: Viewer, sort: str) -> None:
    page = EpisodeListQuery(asked(viewer), sort).result()
    assert {row.episode.environment.name for row in page.rows} == {"public"}
    assert EpisodeListQuery(asked(viewer), sort).match_count(page).count == 3
    assert NamedRows.of(asked(UNRESTRICTED)).episodes().count() == 6


def test_the_newest_episodes_leave_out_its_own(viewer: Viewer) -> None:
    found = [*running(9, viewer=viewer), *ended(9, viewer=viewer)]
    assert {one.episode.environment.name for one in found} == {"public"}
    assert (running_count(viewer), running_count(UNRESTRICTED)) == (1, 2)


def test_names_that_only_it_has_are_not_offered(viewer: Viewer) -> None:
    offered = [names.models, names.models_of_rollouts, names.runs, names.people, names.revisions]
    assert [len(one(UNRESTRICTED)) for one in offered] == [2, 2, 2, 2, 2]
    assert [one(viewer) for one in offered] == [
        ["plain"],
        ["plain"],
        ["plain"],
        ["@plain"],
        ["public00"],
    ]


@each("name", ["environment", "model", "run", "who", "revision", "task"])
def test_a_name_of_its_own_gets_the_same_answer_as_one_that_nobody_has(
    viewer: Viewer, name: str
) -> None:
    task = (
        Episode.objects.filter(environment__in=viewer.hidden_environments)
        .values_list("task", flat=True)
        .first()
    )
    own = {"who": f"@{CANARY}", "revision": f"{CANARY}0", "task": str(task)}.get(name, CANARY)
    other = {"who": "@nobody", "task": "987654"}.get(name, "nowhere1")
    assert NamedRows.of(asked(UNRESTRICTED, **{name: own})).unknown == ""
    unknown = NamedRows.of(asked(viewer, **{name: own})).unknown
    assert unknown.replace(own, "?") == NamedRows.of(
        asked(viewer, **{name: other})
    ).unknown.replace(other, "?")
    assert not NamedRows.of(asked(viewer, **{name: own})).episodes().exists()


def test_rollouts_that_belong_to_it_or_name_it_are_left_out(viewer: Viewer) -> None:
    episode = Episode.objects.filter(environment__in=viewer.hidden_environments).first()
    reported("joined", environment_name="", episode=episode)
    reported("elsewhere", environment_name="nowhere")
    reported("unknown", environment_name="")
    found = RolloutFilter.parse({}, viewer=viewer).rollouts()
    assert {one.event_id for one in found} == {"plain", "elsewhere"}
    assert RolloutFilter.parse({}, UNRESTRICTED).rollouts().count() == 5


def test_a_run_is_hidden_as_soon_as_one_episode_or_rollout_is(viewer: Viewer) -> None:
    public = Environment.objects.get(name="public")
    both = make_run("both")
    make_episode(environment=public, run=both)
    assert visible(viewer) == {"plain", "both"}
    Rollout.objects.filter(event_id=CANARY).update(run=both)
    assert visible(viewer) == {"plain"}


def visible(viewer: Viewer) -> set[str]:
    return set(Run.objects.seen_by(viewer).values_list("name", flat=True))


def test_nothing_hidden_changes_no_query() -> None:
    assert str(NamedRows.of(asked(UNRESTRICTED)).episodes().query) == str(
        Episode.objects.order_by().query
    )
    assert str(Run.objects.seen_by(UNRESTRICTED).query) == str(Run.objects.all().query)
