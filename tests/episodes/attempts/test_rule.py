"""Tests of what an attempt is: continuations of other episodes are not counted as attempts
anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import Q
from django.test import Client

from environments.models import UNRESTRICTED, Environment, TaskStatistics
from environments.scoring.definition import Definition
from episodes.attempts.endings import endings_of
from episodes.attempts.rule import FAILURES, kind_of, return_of
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.figures.activity import activity, together
from episodes.figures.players import at_task, in_environment
from episodes.filtering.conditions import NamedRows
from episodes.models import Episode, Play
from episodes.people.people_figures import people_of
from episodes.recording.recorder import Recorder
from episodes.rollups.activity import ActivityPart
from episodes.rollups.recount import rebuild
from episodes.transcript.peers import peers_of, standings
from tests.episodes.ended import end_episode
from tests.episodes.recorded import commit, run
from tests.factories import episode_ended, episode_started
from tests.filters import episode_filter
from tests.stored import make_task

pytestmark = pytest.mark.django_db


def continued(parent: Episode, **values: Any) -> Episode:
    """Return a person's episode that continues `parent` after step 1."""
    facts = {"task": parent.task, "player": "human", "key_label": "@ada", "duration_seconds": 30.0}
    episode = end_episode(1.0, **facts, **values)
    Play.objects.create(episode=episode, parent=parent, parent_step=1)
    return episode


@pytest.fixture
def parent() -> Episode:
    """An agent's attempt, with a person's attempt at its task and a continuation of it."""
    parent = end_episode(0.0, task=make_task())
    own = end_episode(
        0.5, task=parent.task, player="human", key_label="@ada", duration_seconds=30.0
    )
    Play.objects.create(episode=own)
    continued(parent)
    return parent


def test_it_is_an_ending_but_no_attempt(parent: Episode) -> None:
    endings = endings_of(Episode.objects.all())
    assert [(one.kind, one.is_attempt) for one in endings] == [("finished", True)] * 2 + [
        ("continued", False)
    ]


def test_it_is_in_no_figure_of_people(parent: Episode) -> None:
    by = Definition()
    assert [(one.player, one.n, one.mean) for one in at_task(parent.task, by, UNRESTRICTED)] == [
        ("human", 1, 0.5),
        ("agent", 1, 0.0),
    ]
    assert in_environment(parent.environment, by, None, UNRESTRICTED)[0].n == 1


def test_a_person_has_it_among_their_episodes_and_not_among_their_attempts(parent: Episode) -> None:
    [ada] = people_of(UNRESTRICTED).persons
    assert (ada.episodes, ada.seconds, [(one.n, one.mean) for one in ada.played]) == (
        2,
        60.0,
        [(1, 0.5)],
    )


def test_the_time_of_a_person_leaves_out_pauses(parent: Episode) -> None:
    Play.objects.filter(parent=None).update(paused_seconds=20.0)
    assert people_of(UNRESTRICTED).persons[0].seconds == 40.0


def test_it_is_no_peer_of_the_attempts_at_its_task(parent: Episode) -> None:
    assert peers_of(parent, Definition(), UNRESTRICTED).attempts == 2
    assert peers_of(Episode.objects.latest("pk"), Definition(), UNRESTRICTED).rank is None
    assert [
        (one.player, one.n) for one in standings(parent.task_id, parent.environment, UNRESTRICTED)
    ] == [
        ("agent", 1),
        ("human", 1),
    ]


def test_a_filter_for_attempts_leaves_it_out(parent: Episode) -> None:
    listed = [
        row.episode.pk for row in EpisodeListQuery(episode_filter(ending="attempt")).result().rows
    ]
    of_people = [
        row.episode.pk
        for row in EpisodeListQuery(episode_filter(ending="attempt", player="human")).result().rows
    ]
    last = Episode.objects.latest("pk").pk
    assert last not in listed and len(listed) == 2
    assert last not in of_people and len(of_people) == 1
    assert Episode.objects.attempts().count() == 2


def test_a_filter_for_continuations_finds_it(parent: Episode) -> None:
    last = Episode.objects.latest("pk").pk
    for asked in (
        episode_filter(ending="continued"),
        episode_filter(ending="continued", environment="math"),
    ):
        assert [row.episode.pk for row in EpisodeListQuery(asked).result().rows] == [last]


def test_an_infrastructure_failure_stays_one(parent: Episode) -> None:
    assert (
        endings_of(Episode.objects.filter(pk=continued(parent, cause="env_error").pk))[0].kind
        == "env_error"
    )


def test_activity_counts_it_as_a_continuation(parent: Episode) -> None:
    part = ActivityPart(now=lambda: 0.0)
    part.write(part.gather(endings_of(Episode.objects.all())))
    point = together(activity("all", UNRESTRICTED))
    assert (point.episodes, point.n, point.causes) == (3, 2, {"finished": 2, "continued": 1})


def test_a_repeat_of_a_person_is_no_attempt_either(parent: Episode) -> None:
    repeat = end_episode(
        1.0, task=parent.task, player="human", key_label="@ada", duration_seconds=30.0
    )
    Play.objects.create(episode=repeat, is_repeat=True)
    assert (
        endings_of(Episode.objects.filter(pk=repeat.pk))[0].kind == kind_of(repeat) == "continued"
    )
    assert at_task(parent.task, Definition(), UNRESTRICTED)[0].n == 1
    assert repeat in NamedRows.of(episode_filter(ending="continued")).episodes()
    assert repeat not in NamedRows.of(episode_filter(ending="attempt")).episodes()


def test_it_stays_no_attempt_when_what_it_continues_is_deleted(parent: Episode) -> None:
    continued(end_episode(0.0, task=parent.task))
    Play.objects.exclude(parent=None).update(parent=None)
    assert sum(one.is_attempt for one in endings_of(Episode.objects.all())) == 3


def test_statistics_that_choose_tasks_for_agents_leave_people_out(parent: Episode) -> None:
    rebuild(Environment.objects.get())
    assert list(TaskStatistics.objects.values_list("attempts", "return_total")) == [(1, 0.0)]


@pytest.mark.django_db(transaction=True)
def test_the_recorder_does_not_count_what_people_play() -> None:
    async def play(recorder: Recorder) -> None:
        await commit(recorder, episode_started(1), episode_ended(1, return_sum=0.0))
        await commit(recorder, episode_started(2, player="human"))
        await commit(recorder, episode_ended(2, return_sum=1.0))

    run(play)
    assert list(TaskStatistics.objects.values_list("attempts", "return_total")) == [(1, 0.0)]


def test_condition_sql_predicate_and_kind_agree(parent: Episode) -> None:
    for cause in ("finished", "abandoned", *FAILURES):
        continued(parent, cause=cause)
        end_episode(0.0, task=parent.task, cause=cause, is_probe=True)
        end_episode(0.0, task=parent.task, cause=cause, player="human")
    end_episode(0.0, task=parent.task, status="running", cause="")
    attempts = {one.pk for one in Episode.objects.attempts()}
    assert attempts == {one.episode for one in endings_of(Episode.objects.all()) if one.is_attempt}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT e.id FROM episodes_episode AS e WHERE "
            f"{Episode.objects.attempts().condition_sql('e')}"
        )
        assert attempts == {pk for (pk,) in cursor.fetchall()}


def test_a_return_is_by_the_given_definition_or_the_environments(parent: Episode) -> None:
    Environment.objects.update(default_return="max")
    Episode.objects.update(return_sum=3.0, return_max=2.0)
    for definition, value in (("sum", 3.0), (None, 2.0)):
        found = Episode.objects.alias(own=return_of(definition)).filter(Q(own=value))
        assert found.count() == 3


LISTS: list[Callable[[Episode], str]] = [
    lambda parent: "/episodes/",
    lambda parent: f"/tasks/{parent.task_id}/",
    lambda parent: f"/episodes/{Episode.objects.latest('pk').pk}/",
]


@pytest.mark.parametrize("address", LISTS)
def test_lists_mark_it_and_its_parent(
    client: Client, parent: Episode, address: Callable[[Episode], str]
) -> None:
    page = client.get(address(parent)).content.decode()
    assert page.count("counted as an attempt in any figure") == 1
    assert f'href="/episodes/{parent.pk}/#step-1"' in page


def test_lists_mark_what_was_left_in_a_study_that_does_not_count_it(
    client: Client, parent: Episode
) -> None:
    for counts_left in (False, True):
        left = end_episode(
            0.5, task=parent.task, cause="abandoned", player="human", key_label="@bob (guest 1)"
        )
        Play.objects.create(episode=left, counts_left=counts_left)
    assert [
        row.episode.pk for row in EpisodeListQuery(episode_filter(ending="abandoned")).result().rows
    ] == [left.pk]
    assert client.get("/episodes/").content.decode().count("left, not counted") == 1
    assert client.get(f"/episodes/{left.pk - 1}/").content.decode().count("left, not counted") == 1
