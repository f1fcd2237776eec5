"""Tasks that a person has seen or played: playing them is no first attempt, and no figure counts
it."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.urls import reverse

from episodes.models import Episode, Play, Progress, SeenTask
from tests.environments.agents.ors.serving import in_database
from tests.episodes.people.playing import hosting, open_tab, play_of, start_play
from tests.people import client_of, member
from tests.stored import make_episode, make_task


@pytest.mark.django_db
@pytest.mark.parametrize(
    "page",
    [
        "/tasks/{task}/",
        "/episodes/{episode}/",
        "/episodes/{episode}/task.json",
        "/compare/?episodes={episode},{other}",
    ],
)
def test_pages_of_a_task_and_of_its_episodes_are_noted_once(page: str) -> None:
    task, reader = make_task(), client_of("curator")
    episode, other = make_episode(task=task), make_episode(task=task)
    for _ in range(2):
        address = page.format(task=task.pk, episode=episode.pk, other=other.pk)
        assert reader.get(address).status_code == 200
    assert list(SeenTask.objects.values_list("user__username", "task")) == [("ada", task.pk)]


@pytest.mark.django_db
def test_pages_of_the_admin_are_noted(admin_client: Client) -> None:
    first, second = make_task(), make_episode().task_id
    admin_client.get(reverse("admin:environments_task_change", args=[first.pk]))
    admin_client.get(reverse("admin:episodes_episode_change", args=[Episode.objects.get().pk]))
    assert set(SeenTask.objects.values_list("task", flat=True)) == {first.pk, second}


@pytest.mark.django_db
def test_lists_and_what_is_refused_are_not_noted() -> None:
    task, reader = make_task(), client_of("viewer")
    for page in ("/episodes/", "/tasks/999999/", "/environments/math/", f"/api/tasks/{task.pk}"):
        reader.get(page)
    assert not SeenTask.objects.exists()


@pytest.mark.django_db(transaction=True)
async def test_a_task_that_was_seen_is_no_first_attempt() -> None:
    async with hosting("tests.envs:Echo") as browser:
        first = await start_play(browser, "echo", number="0")
        await browser.get(f"/tasks/{(await play_of(first)).episode.task_id}/")  # while it is played
        other = await in_database(
            lambda: Play.objects.get().episode.environment.tasks.exclude(episodes=None).count()
        )
        assert other == 1
        task = await in_database(
            lambda: Play.objects.get().episode.environment.tasks.filter(episodes=None)[0].pk
        )
        await browser.get(f"/tasks/{task}/")
        second = await start_play(browser, "echo", pick="task", task=str(task), split="", number="")
        assert (await play_of(first)).is_repeat and (await play_of(second)).is_repeat
        async with open_tab(browser, second) as tab:
            await tab.call("finish")
            assert "You had played or seen this task before" in (await tab.receive("ended"))["html"]
    assert not await in_database(Episode.objects.attempts().exists)


@pytest.mark.django_db
def test_plays_from_before_repeats_were_marked_are_marked() -> None:
    task, ada = make_task(), member()
    facts = [
        (ada, task),
        (ada, make_task(spec={"number": 2})),
        (member(name="zoe"), task),
        (ada, task),
    ]
    plays = [
        Play.objects.create(episode=make_episode(task=of, player="human"), user=user)
        for user, of in facts
    ]
    Progress.objects.create(name="blocks", end_number=7)
    migration = import_module("episodes.migrations.0039_repeats_of_earlier_plays")
    migration.mark_repeats(apps, SimpleNamespace(connection=connection))
    assert list(Play.objects.filter(is_repeat=True)) == [plays[3]]
    assert Progress.objects.get(name="blocks").end_number == -1
