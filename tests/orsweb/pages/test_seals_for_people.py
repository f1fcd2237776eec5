"""People who may not see hidden fields read no text of a split that is sealed for people, at any
address.

The addresses are those of the URL patterns, with what is sealed. Who has the permission finds all
of it at a few of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from environments.access.privacy import viewer_of
from environments.authoring.registry import Registry, load_class
from environments.models import (
    CurationAction,
    Environment,
    Split,
    SplitRemoval,
    SyncConflict,
    Task,
    TaskRevision,
)
from episodes.models import Episode, Play, Rollout, Run
from episodes.recording.news import EPISODES, News, channel_for
from episodes.rollups.follower import catch_up
from episodes.search.index import index
from episodes.transfer.formats import EXPORT_FORMATS
from episodes.visibility import sight_of
from orsweb.urls import urlpatterns
from tests.episodes.ended import count_statistics, end_episode
from tests.orsweb.pages.test_private import ADDRESSES, VALUES, answer, routes
from tests.people import client_of, member
from tests.private import NUMBER, make_private
from tests.rows import each
from tests.stored import NOW, make_episode, make_split, make_step

pytestmark = pytest.mark.django_db

SECRET = tuple(
    f"canary{what}"
    for what in (
        "spec",
        "former",
        "prompt",
        "output",
        "note",
        "flag",
        "reason",
        "message",
        "joined",
        "title",
    )
)
"""What a task says and what was said at it, with its earlier version, a flag, its history, and
uploads of clients."""
NAMES = {"environments": "canaryenv", "suites": "canarysuite", "runs": "canaryrun"}
FORMER = NUMBER + 1
"""Number of the earlier version of the task."""
OTHER = NUMBER + 2
"""Number of a second run."""
BESIDES = NUMBER + 3
"""Number of an episode of the same task and run that may be read."""
MORE = [
    *(
        f"api/episodes?{query}"
        for query in ("environment=canaryenv", "text=canaryoutput", f"task={NUMBER}")
    ),
    *(
        f"api/episodes/export?format={format}"
        for format in EXPORT_FORMATS
        if format not in ("parquet", "harbor")
    ),
    *(
        f"episodes/export?format={format}&ids={NUMBER}"
        for format in EXPORT_FORMATS
        if format not in ("parquet", "harbor")
    ),
    "api/tasks?environment=canaryenv&split=canarysplit",
    "api/rollouts?text=canarymessage",
    f"api/tasks/{FORMER}",
    f"tasks/{FORMER}/",
    f"admin/environments/task/{FORMER}/change/",
    "admin/environments/task/?state=any&search=canary",
    "runs/curves/?environment=canaryenv&by=model&format=json",
    f"runs/{NUMBER}/groups/?step=1",
    "suites/canarysuite/v1/compare/?first=canarymodel&second=canaryother",
    f"compare/?runs={NUMBER},{OTHER}",
    "admin/environments/syncconflict/",
]


def of_api(route: str) -> str:
    """Return the address of a route of the API with what is sealed."""
    values = {**VALUES, "name": NAMES.get(route.split("/")[1], "")}
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda found: values[found[1]], route)


OF_API = [
    of_api(route) for route in routes(urlpatterns) if route.startswith("api/") and "(" not in route
]
PATHS = [path for path in (*ADDRESSES, *OF_API, *MORE) if not path.startswith("events/")]

SHOWING = (
    f"tasks/{NUMBER}/",
    f"episodes/export?format=jsonl&ids={NUMBER}",
    "conversations/export",
    "admin/environments/curationaction/",
)
"""Addresses at which people with the permission find all of it."""


@pytest.fixture(autouse=True)
def sealed() -> Split:
    """A split of a public environment, with everything that pages show of it, and an earlier
    version of its task."""
    environment = make_private()
    Environment.objects.update(is_private=False)
    task = Task.objects.get(pk=NUMBER)
    former = Task.objects.create(
        pk=FORMER,
        environment=environment,
        content_hash="d" * 64,
        spec='{"q": "canaryformer"}',
        replaced_by=task,
    )
    TaskRevision.objects.create(
        task=former, successor=task, kind="edit", change="2", author="ada", before=former.spec, after=task.spec,
        created=NOW,
    )  # fmt: skip
    CurationAction.objects.create(
        token="2",
        kind="edit",
        stage="done",
        environment=environment,
        author="ada",
        title="canarytitle",
        created=NOW,
    )
    SplitRemoval.objects.create(split_id=NUMBER, source_hash=task.content_hash)
    SyncConflict.objects.create(split_id=NUMBER, decision="removal", former=former, listed=task)
    _record(former)
    split = Split.objects.get(pk=NUMBER)
    split.is_sealed = split.is_sealed_for_people = True
    split.save()
    return split


def _record(former: Task) -> None:
    """Add an episode of a second run and model, one of the earlier version in no split, and a
    client's upload."""
    other = Run.objects.create(pk=OTHER, name="canaryother", created=NOW)
    Episode.objects.filter(pk=NUMBER - 1).update(model="canaryother", run=other)
    make_step(Episode.objects.get(pk=NUMBER - 1), "canaryoutput")
    Episode.objects.filter(pk=NUMBER - 2).update(task=former, split=None)
    index([NUMBER, NUMBER - 1])
    count_statistics()
    catch_up()
    rollout = Rollout.objects.create(
        event_id="joined", is_announced=True, environment_name="canaryenv", episode_id=NUMBER, joined_by="session",
        is_summarised=True, received=NOW,
    )  # fmt: skip
    rollout.messages.create(
        index=0,
        event_id="0",
        kind="assistant_message",
        content="canaryjoined",
        received=NOW,
        response_characters=9,
    )


@pytest.fixture
def reader() -> Client:
    """Somebody who opens the admin, but may not see hidden fields."""
    Group.objects.get(name="curator").permissions.remove(
        Permission.objects.get(codename="view_hidden_fields")
    )
    return client_of("curator", name="eve")


def words_on(client: Client, paths: Iterable[str]) -> set[str]:
    """Return the secret words on the pages, with where, apart from what their addresses say."""
    found = set[str]()
    for path in paths:
        status, _, text = answer(client, path)
        assert status < 500, path
        found |= {f"{word} on {path}" for word in SECRET if word in text and word not in path}
    return found


def test_no_address_shows_what_it_asks_or_what_was_said(reader: Client) -> None:
    assert words_on(reader, PATHS) == set()


def test_who_may_see_hidden_fields_finds_all_of_it_at_some_of_them() -> None:
    found = {word.partition(" ")[0] for word in words_on(client_of("curator"), SHOWING)}
    assert set(SHOWING) <= set(PATHS) and found == set(SECRET)


OWN = [
    *(
        f"tasks/{NUMBER}/",
        f"tasks/{FORMER}/",
        f"api/tasks/{NUMBER}",
        f"admin/environments/split/{NUMBER}/freeze/",
    ),
    *(
        f"episodes/{NUMBER}/",
        f"episodes/{NUMBER - 2}/",
        f"episodes/{NUMBER}/steps/",
        f"api/episodes/{NUMBER}/steps/0",
    ),
    *(f"play/notes/{NUMBER}/", f"play/continue/{NUMBER}/", f"events/?channel=episode-{NUMBER}"),
    *(
        f"api/rollouts/{NUMBER}/messages",
        f"admin/episodes/episode/{NUMBER}/steps/0.json",
        "play/studies/canarystudy/",
    ),
]


@each("path", OWN)
def test_it_is_answered_as_what_does_not_exist(reader: Client, path: str) -> None:
    status, _, text = answer(reader, path)
    other = answer(reader, path.replace("444", "555").replace("canary", "absent"))
    assert (status, text.replace("444", "555").replace("canary", "absent")) == (404, other[2])


@each(
    "path, word",
    [
        ("environments/canaryenv/", "canarysplit"),
        ("environments/canaryenv/leaderboard/?split=canarysplit", "canaryother"),
        (f"runs/{NUMBER}/", "canaryrun"),
        ("suites/canarysuite/", "canaryother"),
        (
            "runs/curves/?environment=canaryenv&split=canarysplit&by=model&format=json",
            "canaryother",
        ),
    ],
)
def test_its_figures_stay(reader: Client, path: str, word: str) -> None:
    assert word in answer(reader, path)[2]


BESIDE = [
    (f"tasks/{NUMBER}/", f"/episodes/{NUMBER}/"),
    (f"tasks/{NUMBER}/", "canaryprompt"),
    (f"admin/environments/task/{NUMBER}/change/", "canaryformer"),
    (f"episodes/{BESIDES}/", f"/episodes/{NUMBER}/"),
]
"""Addresses of what is open, and what they show of the sealed beside it to who may read that."""


@pytest.fixture
def beside(sealed: Split) -> None:
    """The task stands in an open split, too, and was played there in the same run."""
    task = Task.objects.get(pk=NUMBER)
    split = make_split(task, name="open", environment=task.environment)
    end_episode(
        pk=BESIDES,
        task=task,
        split=split,
        run=Run.objects.get(pk=NUMBER),
        environment=task.environment,
    )


@pytest.fixture
def operator() -> Client:
    return client_of("operator", name="olga")


@pytest.mark.usefixtures("beside")
@each("path, word", BESIDE)
def test_what_is_open_shows_nothing_of_what_is_sealed_beside_it(
    reader: Client, operator: Client, path: str, word: str
) -> None:
    status, _, text = answer(reader, path)
    assert status == 200 and word not in text
    assert word in answer(operator, path)[2]


def test_an_example_call_has_no_numbers_of_a_sealed_task(
    reader: Client, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = load_class("canaryenv=environments.builtin.guess:Guess")
    service = SimpleNamespace(registry=Registry([hosted]))
    monkeypatch.setattr("environments.service._parts", SimpleNamespace(service=service))
    Task.objects.filter(pk=NUMBER).update(spec='{"low": 7001, "high": 7002}')
    seen, by_operator = (answer(one, "environments/canaryenv/")[2] for one in (reader, operator))
    assert "&#x27;guess&#x27;" in seen and not re.search("700[12]", seen)
    assert re.search("700[12]", by_operator)


def test_a_curve_counts_it_but_a_search_for_words_does_not(reader: Client) -> None:
    place = "/api/curves?environment=canaryenv&split=canarysplit&model=canaryother"
    assert reader.get(place).json()["total"]["n"] == 1
    assert reader.get(f"{place}&text=canaryoutput").json()["total"] is None
    assert client_of("operator").get(f"{place}&text=canaryoutput").json()["total"]["n"] == 1


def test_the_doctor_examines_what_its_reader_may_open(reader: Client) -> None:
    path = "/api/environments/canaryenv/doctor"
    assert (
        reader.get(path).json()["attempts"],
        client_of("operator").get(path).json()["attempts"],
    ) == (0, 1)
    assert f"/tasks/{NUMBER}/" not in reader.get("/environments/canaryenv/doctor/").content.decode()


def test_lists_say_what_is_left_out(reader: Client) -> None:
    of_split = answer(reader, "episodes/?environment=canaryenv&split=canarysplit")[2]
    assert "The split canarysplit is sealed. You can see its figures" in of_split
    of_environment = "episodes/?environment=canaryenv"
    assert "Episodes of sealed splits are left out." in answer(reader, of_environment)[2]
    assert "sealed" not in answer(client_of("operator"), of_environment)[2]


def test_forms_offer_it_to_nobody_who_may_not_read_it(reader: Client) -> None:
    pages = (
        "play/?environment=canaryenv",
        "suites/new/",
        "play/studies/new/",
        "admin/environments/task/import/",
    )
    for path in pages:
        assert "canarysplit" not in answer(reader, path)[2]
        assert answer(reader, path)[0] == 200
    choice = {"environment": "canaryenv", "split": "canarysplit", "pick": "number", "number": "0"}
    Environment.objects.update(is_hosted=True)
    assert "canaryenv has no split" in reader.post("/play/", choice).content.decode()


def test_what_a_person_played_is_gone_for_them_too(sealed: Split) -> None:
    client = client_of("player", name="eve")
    Play.objects.filter(pk=NUMBER).update(user=User.objects.get(username="eve"))
    assert client.get(f"/play/{NUMBER}/").status_code == 404
    assert "canary" not in client.get("/play/").content.decode().replace("canaryenv", "")
    Split.objects.update(is_sealed_for_people=False)
    assert client.get(f"/play/{NUMBER}/").status_code == 200


def test_news_and_shared_parts_are_divided_by_it(sealed: Split) -> None:
    viewer, curator = member("viewer", name="eve"), member("curator")
    channel = channel_for(viewer_of(viewer))
    assert channel_for(viewer_of(curator)) == EPISODES != channel
    other = make_episode().pk
    news = News()
    news.add_items([("started", NUMBER, None, 0), ("started", other, None, 0)])
    assert [event["ids"] for _, _, event in news.events([EPISODES, channel])] == [
        [NUMBER, other],
        [other],
    ]
    assert sight_of(viewer) != sight_of(curator)
