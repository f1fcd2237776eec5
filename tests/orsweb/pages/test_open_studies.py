"""Until a study closes, only people who may make studies see it, its people, and what they play."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.utils import timezone

from environments.access.privacy import viewer_of
from environments.models import Environment
from episodes.figures.leaderboard.leaderboard import LeaderboardQuery
from episodes.models import Episode, Guest, Invite, Play, Study, Suite
from episodes.recording.news import EPISODES, News, channel_for
from tests.orsweb.pages.test_private import ADDRESSES, answer
from tests.people import client_of, member
from tests.private import NUMBER, make_private
from tests.rows import each

pytestmark = pytest.mark.django_db

SECRET = ("canarystudy", "canaryguest", "canaryoutput", "canarynote")
"""What is of the study alone: its name, the name of its guest, what they did, and a note on it."""
ELSEWHERE = (
    "events/",
    "accounts/",
    "conversations/",
    "runs/",
    "admin/environments/",
    "admin/auth/",
    "admin/job",
)
"""Starts of addresses of streams, which do not end, and of pages about what no person plays."""
PATHS = [
    *(path for path in ADDRESSES if not path.startswith(ELSEWHERE)),
    "api/episodes",
    "api/episodes?player=human",
    "api/episodes?study=canarystudy",
    "api/episodes?who=@canaryguest",
    f"api/episodes/{NUMBER}",
    f"api/episodes/{NUMBER}/steps",
    f"api/episodes/{NUMBER}/steps/0",
    f"api/export/jsonl?ids={NUMBER}",
    "api/suites",
    "api/suites/canarystudy",
]


@pytest.fixture(autouse=True)
def study() -> Study:
    """A study in a public environment, in which a guest has played an episode with a step and a
    note."""
    environment = make_private()
    Environment.objects.update(is_private=False)
    study = Study.objects.get()
    Suite.objects.update(name=study.name)
    Study.objects.update(suite=Suite.objects.get())
    invite = Invite.objects.create(
        name="all",
        environment=environment,
        study=study,
        token_hash="s",
        expires=timezone.now() + timedelta(1),
    )
    guest = Guest.objects.create(invite=invite, name="canaryguest")
    Episode.objects.filter(pk=NUMBER).update(key_label=guest.label, run=None, run_step=None)
    Play.objects.update_or_create(
        episode_id=NUMBER, defaults={"guest": guest, "user": None, "is_blind": True}
    )
    return study


def everything_but_studies() -> None:
    """Let curators do what they do without making studies, so that they open the admin, too."""
    Group.objects.get(name="curator").permissions.remove(
        Permission.objects.get(codename="add_study")
    )


SHOWING = (
    "play/studies/",
    "play/people/",
    f"episodes/{NUMBER}/",
    f"episodes/{NUMBER}/notes/",
    "suites/",
)
"""Pages on which makers find all of it."""


def words_on(client: Client, paths: Iterable[str]) -> set[str]:
    """Return what of the study is on the pages, apart from what their addresses say."""
    found = set[str]()
    for path in paths:
        text = answer(client, path)[2]
        found |= {f"{word} on {path}" for word in SECRET if word in text and word not in path}
    return found


def shows_all(client: Client) -> bool:
    return {found.partition(" ")[0] for found in words_on(client, SHOWING)} == set(SECRET)


def test_for_others_no_page_shows_it_until_it_is_closed(study: Study) -> None:
    everything_but_studies()
    client = client_of("curator", name="eve")
    assert words_on(client, PATHS) == set()
    own = (
        "episodes/{0}/",
        "play/notes/{0}/",
        "admin/episodes/episode/{0}/steps/0.json",
        "api/episodes/{0}",
    )
    for path in (
        *own,
        "play/studies/canarystudy/",
        "play/studies/canarystudy/results.csv",
        "suites/canarystudy/",
    ):
        assert answer(client, path.format(NUMBER))[0] == 404, path
    assert "No study is named" in answer(client, "episodes/?study=canarystud")[2]
    study.closed = timezone.now()
    study.save()
    assert shows_all(client)


def test_who_makes_studies_sees_it() -> None:
    assert shows_all(client_of("curator", name="eve"))


def test_its_suite_is_hidden_by_no_text_that_people_can_edit(study: Study) -> None:
    everything_but_studies()
    client, address = client_of("curator", name="eve"), "suites/canarystudy/"
    Suite.objects.update(description="A new description.")
    assert answer(client, address)[0] == answer(client, "api/suites/canarystudy")[0] == 404
    assert "canarystudy" not in answer(client, "suites/")[2]
    Study.objects.update(suite=None)  # it has the tasks of a suite that is not its own
    assert answer(client, address)[0] == 200


@each(
    ("name", "description", "is_own"),
    [
        ("canarystudy", "A new description.", True),
        ("canarystudy", "The tasks of the study canarystudy.", True),
        ("another", "The tasks of the study another.", False),
    ],
)
def test_upgrades_know_the_suite_of_a_study(
    study: Study, name: str, description: str, *, is_own: bool
) -> None:
    Suite.objects.update(name=name, description=description)
    Study.objects.update(suite=None)
    import_module("episodes.migrations.0059_suites_of_studies").find_suites(apps, None)
    assert (Study.objects.get().suite == Suite.objects.get()) == is_own


def test_figures_of_people_hold_it_for_makers_alone() -> None:
    environment = Environment.objects.get(pk=NUMBER)
    viewer, maker = (viewer_of(member(group, name=group)) for group in ("viewer", "curator"))
    attempts = [
        sum(
            row.n for row in LeaderboardQuery(environment, viewer=one).result().rows if row.is_human
        )
        for one in (viewer, maker)
    ]
    assert attempts == [0, 1]


def test_news_of_it_reaches_makers_alone() -> None:
    news = News()
    news.add_items([("started", NUMBER, None, 0), ("started", NUMBER - 1, None, 0)])
    viewer, maker = (
        channel_for(viewer_of(member(group, name=group))) for group in ("viewer", "curator")
    )
    assert maker == EPISODES != viewer
    [(_, _, seen), (_, _, everything)] = news.events([viewer, maker])
    assert (seen["ids"], everything["ids"]) == ([NUMBER - 1], [NUMBER, NUMBER - 1])
