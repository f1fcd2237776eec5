"""What counts in a study counts the same on the page of people, on the leaderboard, in lists and in
the API."""

from __future__ import annotations

import json
from importlib import import_module
from secrets import token_hex
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from environments.models import UNRESTRICTED, Environment
from episodes.attempts.endings import endings_of
from episodes.figures.leaderboard.leaderboard import LeaderboardQuery
from episodes.filtering.conditions import NamedRows
from episodes.models import Activity, Episode, Guest, Invite, Play, Study
from episodes.people.invites.rule import personal_guest
from episodes.people.people_figures import people_of
from episodes.people.studies.dealing import deal
from episodes.people.studies.results import exclude, include, plays_of
from episodes.rollups.follower import catch_up, start_over
from episodes.transfer.episode_line import episode_of
from tests.environments.agents.ors.serving import in_database
from tests.episodes.ended import end_episode
from tests.episodes.people.playing import open_tab
from tests.episodes.people.studies.taking_part import finish, link_of, start, study_of
from tests.episodes.people.studies.test_participant import taking_part
from tests.episodes.rollups.test_part_runner import rows
from tests.episodes.suites.published import split_of
from tests.episodes.transfer.record import lines_of
from tests.filters import episode_filter
from tests.people import client_of

pytestmark = pytest.mark.django_db(transaction=True)


def counts_by_place() -> dict[str, int]:
    """Return how many attempts each place counts."""
    environment = Environment.objects.get()
    listed = (
        client_of("curator", name=token_hex(4)).get("/api/episodes", {"ending": "attempt"}).json()
    )
    return {
        "study": sum(one.counts for one in plays_of(Study.objects.get())),
        "people": sum(one.n for person in people_of(UNRESTRICTED).persons for one in person.played),
        "leaderboard": sum(
            row.n for row in LeaderboardQuery(environment, UNRESTRICTED, by="player").result().rows
        ),
        "filter": NamedRows.of(episode_filter(ending="attempt")).episodes().count(),
        "rule": sum(one.is_attempt for one in endings_of(Episode.objects.all())),
        "api": len(next(value for value in listed.values() if isinstance(value, list))),
    }


@pytest.mark.parametrize("calls", [0, 1])
@pytest.mark.parametrize(
    ("ends", "counts_left"), [("left", False), ("left", True), ("expired", False)]
)
async def test_every_place_counts_what_the_study_counts(
    ends: str, counts_left: bool, calls: int
) -> None:
    limit = 1 if ends == "expired" else None
    async with taking_part(counts_left=counts_left, limit_seconds=limit) as browser:
        async with open_tab(browser, await start(browser, "/play/study/begin/")) as tab:
            for _ in range(calls):
                await tab.call("echo", text="hello")
                await tab.receive("step")
            if ends == "left":
                await tab.send("leave")
            await tab.receive("ended")
        found = await in_database(counts_by_place)
        before = await in_database(lambda: Episode.objects.values_list("cause", "is_probe").get())
        assert set(found.values()) == {int(counts_left or ends == "expired")}, found
        assert await in_database(lambda: _migrated(before)) == before


def _migrated(ending: tuple[str, bool]) -> tuple[str, bool]:
    """Return the ending as the migration leaves it, which finds it as it was recorded before."""
    Play.objects.update(counts_left=None)
    Episode.objects.filter(steps_count=0).update(is_probe=True)
    migration: Any = import_module("episodes.migrations.0046_what_counts_in_studies")
    migration.mark_plays(apps, SimpleNamespace(connection=connection))
    assert Play.objects.get().counts_left is Study.objects.get().counts_left
    return Episode.objects.values_list("cause", "is_probe").get()


@pytest.mark.usefixtures("no_follower")
@pytest.mark.parametrize("counts_left", [True, False])
async def test_rollups_of_what_people_left_are_the_same_when_they_are_derived_again(
    counts_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("episodes.rollups.blocks.BLOCK_ENDINGS", 2)
    async with taking_part(counts_left=counts_left, numbers="0-2") as browser:
        for calls in range(3):
            address = "/play/study/next/" if calls else "/play/study/begin/"
            async with open_tab(browser, await start(browser, address)) as tab:
                for _ in range(calls):
                    await tab.call("echo", text="hello")
                    await tab.receive("step")
                await tab.send("leave")
                await tab.receive("ended")
            await in_database(catch_up)  # after each ending, as the follower does
        followed = await in_database(rows)
        await in_database(start_over)
        await in_database(catch_up)
        assert await in_database(rows) == followed
    day = await in_database(lambda: Activity.objects.get(period=86400))
    assert (day.episodes, day.abandoned, day.probes) == ((3, 3, 0) if counts_left else (3, 0, 1))


@pytest.mark.usefixtures("no_follower")
async def test_an_excluded_person_counts_nowhere_until_they_are_counted_again() -> None:
    async with taking_part(numbers="0-1") as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        await in_database(catch_up)
        counted, followed = await in_database(counts_by_place), await in_database(rows)
        guest = await in_database(lambda: Guest.objects.select_related("invite__study").get())
        await in_database(lambda: exclude(guest, "bot", "ada"))
        await finish(browser, await start(browser))
        assert set((await in_database(counts_by_place)).values()) == {0}
        assert (await in_database(lambda: Activity.objects.get(period=86400))).finished == 0
        await in_database(catch_up)
        without = await in_database(rows)
        await in_database(derived_again)
        assert await in_database(rows) == without
        await in_database(lambda: include(guest))
        assert {
            place: count - 1 for place, count in (await in_database(counts_by_place)).items()
        } == counted
        await in_database(derived_again)
        assert await in_database(rows) != followed and set(counted.values()) == {1}


def derived_again() -> None:
    start_over()
    catch_up()


def test_the_place_of_an_excluded_person_goes_to_somebody_else() -> None:
    study = study_of(split_of("math", 1), people_per_task=1)
    first, second = (guest_of(study, name) for name in ("P01", "P02"))
    row = deal(first)
    assert row is not None and deal(second) is None
    exclude(first, "bot", "ada")
    assert (taken := deal(second)) is not None and taken.task_id == row.task_id


def guest_of(study: Study, name: str) -> Guest:
    link_of(study, name, is_personal=True)
    return personal_guest(Invite.objects.select_related("study").get(name=name))


async def test_a_further_attempt_after_one_without_a_call_counts_nowhere() -> None:
    async with taking_part(attempts=2) as browser:
        async with open_tab(browser, await start(browser, "/play/study/begin/")) as tab:
            await tab.send("leave")
            await tab.receive("ended")
        await finish(browser, await start(browser, again="on"))
        found = await in_database(counts_by_place)
    assert set(found.values()) == {0}, found


def test_a_file_carries_the_mark_of_an_excluded_person() -> None:
    end_episode(1.0, player="human", key_label="@ada")
    Play.objects.create(episode=Episode.objects.get(), is_excluded=True)
    read = episode_of(json.dumps(lines_of()[0]))
    assert read.play is not None and read.play.is_excluded


@pytest.mark.parametrize(
    ("cause", "counts_left", "is_probe"),
    [
        ("expired", False, False),
        ("abandoned", True, False),
        ("abandoned", False, True),
        ("expired", None, True),
    ],
)
def test_a_file_carries_the_mark(cause: str, counts_left: bool | None, is_probe: bool) -> None:
    end_episode(
        None, cause=cause, is_probe=is_probe, player="human", steps_count=0, key_label="@ada"
    )
    Play.objects.create(episode=Episode.objects.get(), counts_left=counts_left)
    [line] = lines_of()
    assert (line["play"]["counts_left"], line["is_probe"]) == (counts_left, is_probe)
    read = episode_of(json.dumps(line))
    assert read.play is not None and (read.play.counts_left, read.is_probe) == (
        counts_left,
        is_probe,
    )
