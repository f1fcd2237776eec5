"""What each group may see and do: every page, every view of the admin, and the API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import Settings

from environments.access.permissions import read_permissions
from episodes.models import Episode, Note, SavedView
from tests.people import client_of, member
from tests.rows import each
from tests.stored import make_episode, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("keys")]

GROUPS = ("", "viewer", "player", "curator", "operator")
"""Lowest first; each may do what those before it may. The first is no group."""

LEAST = [
    ("/accounts/", ""),
    ("/play/invite/", ""),
    ("/play/leave/", ""),
    ("/play/invites/", "operator"),
    ("/play/people/", "viewer"),
    ("/play/studies/new/", "curator"),
    ("/play/studies/echo/links/", "curator"),
    ("/play/studies/echo/close/", "curator"),
    ("/play/studies/echo/people/", "curator"),
    ("/play/studies/", "viewer"),
    ("/play/notes/", "viewer"),
    ("/play/", "player"),
    ("/episodes/views/", "player"),
    ("/admin/environments/apikey/", "operator"),
    ("/admin/environments/securityevent/", "operator"),
    ("/admin/environments/", "curator"),
    ("/admin/episodes/episode/remove/", "operator"),
    ("/admin/episodes/episode/1/delete/", "operator"),
    ("/admin/episodes/episode/", "curator"),
    ("/admin/episodes/run/", "curator"),
    ("/admin/episodes/suite/echo/delete/", "operator"),
    ("/admin/episodes/suite/", "curator"),
    ("/admin/episodes/", "operator"),
    ("/admin/auth/", "superuser"),
    ("/admin/", "curator"),
    ("/api/schema", ""),
    ("/operations/", "operator"),
    ("/suites/new/", "curator"),
    ("/suites/echo/edit/", "curator"),
    ("/", "viewer"),
]
"""The lowest group that may open the pages below each address; the first that fits counts."""


@pytest.fixture
def keys(settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"lab": "0123456789"}


def addresses(patterns: list[URLPattern | URLResolver], prefix: str = "/") -> Iterator[str]:
    """Yield an address for every URL of the server, with 1 or a word for what it names."""
    for one in patterns:
        route = re.sub(
            r"<(id|int):\w+>", "1", re.sub(r"<(str|path):\w+>", "echo", str(one.pattern))
        )
        path = f"{prefix}{route.removeprefix('^').removesuffix('$')}"
        if isinstance(one, URLResolver):
            yield from addresses(one.url_patterns, path)
        elif "?P" not in path and "(" not in path and "events" not in path:
            yield path


def least_group(path: str) -> str:
    return next(group for prefix, group in LEAST if path.startswith(prefix))


LED_ELSEWHERE = ("/echo/", "/echo/history/")
"""Ends of addresses that the admin leads to the list, because it has no such row."""


def is_closed_to_everybody(path: str) -> bool:
    """Return whether superusers are refused too, as at the address to add an episode."""
    client = Client()
    client.force_login(
        User.objects.create_superuser(f"root{User.objects.count()}", password="correct horse")
    )
    return client.get(path).status_code == 403


def test_each_group_may_do_what_those_before_it_may() -> None:
    may = [member(group, name=group or "nobody").get_all_permissions() for group in GROUPS]
    assert all(less < more for less, more in pairwise(may))


@each("group", GROUPS)
def test_a_page_asks_once_which_permissions_a_person_has(group: str) -> None:
    person = member(group, name=group or "nobody")
    person.user_permissions.set(
        Permission.objects.filter(codename__in=["view_redaction", "add_play"])
    )
    client = Client()
    client.force_login(person)
    with CaptureQueriesContext(connection) as queries:
        client.get("/accounts/password/")
    assert len([query for query in queries if "auth_permission" in query["sql"]]) == 1
    read_permissions(person)
    assert person.get_all_permissions() == User.objects.get(pk=person.pk).get_all_permissions()
    assert person.has_perm("episodes.view_redaction")


def test_an_account_that_is_closed_has_no_permissions() -> None:
    person = member("operator", is_active=False)
    read_permissions(person)
    assert not person.get_all_permissions() and not person.has_perm("episodes.view_episode")


def test_the_menu_of_the_admin_leads_to_what_the_person_may_open_and_marks_where_they_are() -> None:
    menus = []
    for group in ("curator", "operator"):
        client = client_of(group, name=group)
        page = client.get("/admin/environments/split/").content.decode()
        menu = page.partition('aria-label="Admin pages"')[2].partition("</nav>")[0]
        links = re.findall(r'href="(/[^"]+)"( aria-current="true")?', menu)
        assert [link for link, is_active in links if is_active] == ["/admin/environments/split/"]
        assert all(client.get(link).status_code == 200 for link, _ in links)
        menus.append({link for link, _ in links})
    assert "/admin/environments/curationaction/" in menus[0]
    assert menus[0] < menus[1] and "/admin/environments/apikey/" in menus[1] - menus[0]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_opens_its_pages_and_not_those_of_the_next(group: str) -> None:
    client, wrong = client_of(group), []
    place = GROUPS.index(group)
    for path in addresses(get_resolver().url_patterns):
        least = least_group(path)
        if path.endswith(LED_ELSEWHERE) or least not in (*GROUPS, "superuser")[place : place + 2]:
            continue
        may = least == group
        answer = client.get(path)
        is_wrong = answer.status_code == 403 if may else answer.status_code not in (403, 404, 405)
        says_who = answer.status_code != 403 or re.search(
            "is needed|No group has", answer.content.decode()
        )
        if answer.status_code >= 500 or (
            (is_wrong or not says_who) and not is_closed_to_everybody(path)
        ):
            wrong.append((path, answer.status_code, least))
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("path", "group", "sentence"),
    [
        ("/", "", "may not see the pages of this server. One of the groups viewer, player, curator "
                  "or operator"),
        ("/play/", "viewer", "may not play in the browser. One of the groups player, curator or "
                             "operator is needed"),
        ("/admin/", "player", "may not open the admin. One of the groups curator or operator is "
                              "needed"),
        ("/admin/episodes/redaction/", "curator", "“Can view redaction”. The group operator is "
                                                  "needed"),
        ("/admin/auth/user/", "operator", "No group has the permission for it, “Can view user”"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_groups_that_may(path: str, group: str, sentence: str) -> None:
    answer = client_of(group).get(path)
    assert answer.status_code == 403 and sentence in answer.content.decode()


def test_a_refusal_names_groups_as_they_are_called_now() -> None:
    Group.objects.filter(name="operator").update(name="admins")
    assert (
        "The group admins is needed" in client_of("curator").get("/play/invites/").content.decode()
    )


def test_the_api_refuses_people_without_a_group_as_json() -> None:
    make_episode()
    answer = client_of("").get("/api/episodes")
    assert answer.status_code == 403 and "viewer" in answer.json()["detail"]
    assert client_of("viewer", name="bob").get("/api/episodes").status_code == 200


CHANGES = [
    "/episodes/views/",
    "/play/notes/{episode}/",
    "/play/flag/{task}/",
    "/play/",
    "/play/invites/",
]


@pytest.mark.parametrize("path", CHANGES)
def test_viewers_change_nothing(path: str) -> None:
    episode = make_episode()
    address = path.format(episode=episode.pk, task=episode.task_id)
    answer = client_of("viewer").post(address, {"name": "x", "text": "x", "note": "x"})
    assert answer.status_code == 403
    assert not SavedView.objects.exists() and not Note.objects.exists()


def test_viewers_are_offered_nothing_that_they_may_not_do() -> None:
    episode = make_episode()
    client = client_of("viewer")
    pages = [
        "/",
        "/episodes/",
        f"/episodes/{episode.pk}/",
        f"/tasks/{episode.task_id}/",
        "/environments/",
    ]
    for path in (*pages, f"/environments/{episode.environment.name}/"):
        page = client.get(path).content.decode()
        assert not re.findall(
            r'(?:href|action)="(?:/admin/|/play/(?!notes|people|studies\/")|/episodes/views/)[^"]*"',
            page,
        ), path


def test_players_play_and_note() -> None:
    episode = make_episode()
    client = client_of("player")
    page = client.get(f"/episodes/{episode.pk}/").content.decode()
    assert "Add a note" in page and 'href="/play/"' in page and 'href="/admin/"' not in page
    assert client.post(f"/play/notes/{episode.pk}/", {"text": "odd"}).status_code == 302
    assert Note.objects.get().author == "ada"


SECRET_FIELD = {"question": "6 * 7?", "answer": "forty-two"}


@pytest.fixture
def hidden_answer(monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of an episode at a task whose field `answer` is hidden."""
    for module in ("episodes.visibility", "environments.service"):
        monkeypatch.setattr(f"{module}.hidden_fields", lambda name: frozenset({"answer"}))
    return make_episode(task=make_task(SECRET_FIELD)).pk


def text_of(answer: Any) -> str:
    """Return the text of an answer, which may be streamed."""

    async def collected() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return str((async_to_sync(collected)() if answer.streaming else answer.content).decode())


def texts_about(client: Client, episode: int) -> str:
    """Return everything that a client reads about an episode and its task."""
    task = client.get(f"/api/episodes/{episode}").json()["task"]["id"]
    paths = [
        f"/episodes/{episode}/",
        f"/episodes/{episode}/task.json",
        f"/tasks/{task}/",
        f"/api/episodes/{episode}",
        f"/api/tasks/{task}",
        f"/api/episodes/export?format=jsonl&ids={episode}",
    ]
    answers = [
        client.get(path) for path in (*paths, f"/episodes/export?format=jsonl&ids={episode}")
    ]
    return "".join(text_of(one) for one in answers)


def test_hidden_fields_are_for_curators(hidden_answer: int) -> None:
    seen = texts_about(client_of("player"), hidden_answer)
    assert "6 * 7?" in seen and "forty-two" not in seen and "1 field hidden from you" in seen
    assert "forty-two" in texts_about(client_of("curator", name="bob"), hidden_answer)


def test_the_hash_of_a_whole_task_is_for_curators(hidden_answer: int) -> None:
    """Somebody who knows the rest could try answers until the hash fits."""
    start = Episode.objects.get(pk=hidden_answer).task.content_hash[:8]
    assert start not in texts_about(client_of("player"), hidden_answer)
    assert start in texts_about(client_of("curator", name="bob"), hidden_answer)


def test_groups_are_chosen_with_a_new_account(settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {}
    group = Group.objects.get(name="viewer")
    form = {
        "username": "eve",
        "password1": "correct horse",
        "password2": "correct horse",
        "usable_password": "true",
    }
    answer = Client().post("/admin/auth/user/add/", form | {"groups": [group.pk]})
    assert answer.status_code == 302 and list(
        group.user_set.values_list("username", flat=True)
    ) == ["eve"]
