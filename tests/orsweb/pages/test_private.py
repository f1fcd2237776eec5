"""To people who are no members a private environment does not exist: on no page, in no file, nor in
the admin.

The addresses are those of the URL patterns, so that a new one is visited too. Each is visited with
what is private, and with what does not exist: both answers have to be the same but for the name or
number that the address gave.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.http.response import HttpResponseBase
from django.test import Client

from environments.database import background_jobs
from environments.models import Environment, Split, Task, TaskFlag, TaskTag
from environments.scoring.definition import definition_of
from episodes.models import Episode, Invite, Note, Run, SavedView, Suite
from episodes.rollups.follower import catch_up
from episodes.suites.versions import NewMember, publish
from orsweb.urls import urlpatterns
from tests.episodes.ended import count_statistics
from tests.people import client_of
from tests.private import NUMBER, WORDS, make_private
from tests.stored import make_episode, make_run, make_split, make_step

pytestmark = pytest.mark.django_db

NOWHERE = {"canary": "absent", str(NUMBER): "5555555"}
"""What an address names -> what is as long and does not exist."""
NAMES = {
    "environments/<str:name>": "canaryenv",
    "suites/<str:name>": "canarysuite",
    "play/studies/<str:name>": "canarystudy",
    "episodes/<id:pk>/<str:name>.json": "task",
    "admin/episodes/episode/<id:pk>/<str:name>.json": "task",
    "admin/environments/task/act/<str:name>": "quarantine",
}
"""Values of the parameter `name`, by the start of the route."""
VALUES = {
    **dict.fromkeys(("pk", "object_id", "revision"), str(NUMBER)),
    **dict.fromkeys(("index", "number"), "0"),
    "version_number": "1",
    **{
        "event_id": "canaryrollout",
        "token": "canarytoken",
        "job_id": "canaryjob",
        "id": str(NUMBER),
    },
    **{"app_label": "environments", "content_type_id": "1", "url": "canary", "rest": "canary"},
}
ASKED = [
    "episodes/?environment=canaryenv",
    "episodes/?environment=canaryenv&split=canarysplit",
    "episodes/?environment=canaryen",
    "episodes/?run=canaryrun",
    "episodes/?run=canaryru",
    "episodes/?model=canarymodel",
    "episodes/?who=@canaryperson",
    "episodes/?study=canarystudy",
    "episodes/?player=human",
    "episodes/?text=canary",
    "episodes/?revision=canarycode",
    "episodes/?success=no",
    "episodes/?environment=canaryenv&success=yes&threshold=0.5",
    f"episodes/?task={NUMBER}",
    f"episodes/export?format=jsonl&ids={NUMBER}",
    "episodes/export?format=jsonl&environment=canaryenv",
    "episodes/export?format=csv",
    "episodes/export?format=messages",
    f"compare/?episodes={NUMBER},{NUMBER - 1}",
    f"compare/?runs={NUMBER},1",
    "compare/?runs=canaryrun,1",
    "conversations/?environment=canaryenv",
    "conversations/export?rollout=canaryrollout",
    "runs/?tag=canaryruntag",
    "runs/?text=canary&sort=-return",
    "runs/?group=canary",
    f"runs/{NUMBER}/?part=tables",
    "runs/?config=canary=1&columns=canary",
    "runs/choices/?search=canary",
    f"runs/choices/?runs={NUMBER}",
    "runs/curves/?by=run",
    "runs/curves/?by=model&format=csv",
    f"runs/curves/?runs={NUMBER}&format=json",
    "runs/curves/?runs=canaryrun&format=json",
    "runs/choices/?runs=canaryrun",
    "runs/curves/?run=canaryrun&y=components",
    f"tasks/1/group/?run={NUMBER}",
    "environments/math/leaderboard/?by=run",
    "environments/canaryenv/leaderboard/compare/?first=canarymodel&second=other",
    "environments/math/doctor/?run=canaryrun",
    "environments/canaryenv/doctor/?split=canarysplit&run=canaryrun",
    f"events/?channel=episode-{NUMBER}",
    "suites/canarysuite/?by=run&format=csv",
    "suites/canarysuite/v1/compare/?first=canarymodel&second=canarymodel",
    "suites/public/?by=run",
    "episodes/?suite=canarysuite/v1",
    "runs/curves/?suite=canarysuite/v1/1",
    "play/?environment=canaryenv&split=canarysplit",
    f"play/?environment=math&task={NUMBER}",
    f"play/invites/?place={NUMBER}",
    f"admin/environments/task/?environment={NUMBER}",
    f"admin/environments/task/?split={NUMBER}",
    f"admin/environments/task/?ids={NUMBER}",
    "admin/environments/task/?tag=canarytag",
    "admin/environments/task/?search=canaryspec",
    f"admin/environments/task/export/?ids={NUMBER}",
    f"admin/environments/task/export/?split={NUMBER}&format=jsonl",
    f"admin/environments/task/export/?environment={NUMBER}&format=csv",
    f"admin/environments/task/act/save/?split={NUMBER}&scope=all",
    f"admin/environments/task/act/copy/?environment={NUMBER}&scope=all",
    f"admin/environments/task/act/tag/?ids={NUMBER}",
    f"admin/environments/task/import/?split={NUMBER}",
    f"admin/environments/split/?environment={NUMBER}",
    f"admin/episodes/episode/?run={NUMBER}",
    "admin/episodes/episode/?q=canaryrun",
    "admin/episodes/run/?q=canaryrun",
    "admin/autocomplete/?app_label=episodes&model_name=retention&field_name=run&term=canary",
    "episodes/palette.json?text=canary",
    "episodes/palette.json?text=canaryspec+canary",
    "episodes/palette.json?text=canarysplit+0",
    f"episodes/palette.json?text=task+{NUMBER}",
    f"admin/episodes/episode/remove/?episode={NUMBER}",
    "admin/episodes/episode/remove/?query=environment%3Dcanaryenv",
]
"""Further addresses, whose parameters name what is private."""


def routes(patterns: list[Any], before: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from routes(pattern.url_patterns, route)
        else:
            yield route


def address(route: str) -> str:
    """Return the address of a route with what is private. Raises: KeyError for a parameter that is
    not known here."""
    name = next((value for start, value in NAMES.items() if route.startswith(start)), "")
    values = {**VALUES, **({"name": name} if name else {})}
    plain = re.sub(r"\(\?P<(\w+)>[^()]*\)", r"<\1>", route).replace("^", "").replace("$", "")
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda found: values[found[1]], plain)


CHANGING = re.compile(
    r'name="(?:csrfmiddlewaretoken|once)" value="\w+"|X-CSRFToken[^}]*|\d\.\d\d '
    r"seconds|\d+\s\w+ ago"
)
"""What differs in two answers to the same request."""
ENDING = ("accounts/logout/", "admin/logout/", "play/leave/")
"""Addresses that end the session of the visitor."""
OF_PROGRAMS = "api/"
"""Start of the addresses of the API, whose tests are in tests/episodes/api."""
ADDRESSES = [
    *(
        address(route)
        for route in routes(urlpatterns)
        if not route.startswith((*ENDING, OF_PROGRAMS))
    ),
    "api/",
    *ASKED,
]

SHOWING = (
    "environments/canaryenv/",
    "episodes/",
    f"episodes/{NUMBER}/",
    f"tasks/{NUMBER}/",
    f"runs/{NUMBER}/",
    "conversations/export",
    "suites/",
    "play/invites/",
)
"""Addresses at which members and operators find all of it."""


@pytest.fixture(autouse=True)
def public() -> Episode:
    """An episode that everybody sees, with one of everything, so that pages have something to
    show."""
    episode = make_episode(
        run=make_run(), model="public-model", run_step=1, end_number=1, steps_count=1
    )
    split = make_split(episode.task)
    publish(
        Suite(name="public"),
        "success",
        [NewMember(split, definition_of(split.environment))],
        "ada",
    )
    make_step(episode, reward=1.0)
    count_statistics()
    return episode


@pytest.fixture
def job_of_somebody_else() -> Iterator[None]:
    is_over = threading.Event()
    job = background_jobs.start("canaryjob", lambda progress: is_over.wait(), owner="somebody")
    yield
    is_over.set()
    job.wait(60)


def absent(text: str) -> str:
    for private, other in NOWHERE.items():
        text = text.replace(private, other)
    return text


def answer(client: Client, path: str, method: str = "get") -> tuple[int, str, str]:
    """Return the status, the target of a redirect and the text of an answer, without what differs
    each time."""
    response: HttpResponseBase = getattr(client, method)(f"/{path}")
    # of pages that say there is no such row, for the next page
    client.cookies.pop("messages", None)
    body = b"".join(response) if response.streaming else response.content  # type: ignore[arg-type, attr-defined]
    text = CHANGING.sub("", body.decode("utf-8", "replace"))
    return response.status_code, response.headers.get("Location", ""), text


@pytest.mark.usefixtures("job_of_somebody_else")
def test_for_others_it_does_not_exist() -> None:
    make_private()
    client = client_of("curator", name="eve")  # who opens everything that viewers and players do
    assert set(SHOWING) <= set(ADDRESSES)
    for path in ADDRESSES:
        is_named = absent(path) != path
        for method in ("get", "post") if is_named and path not in ASKED else ("get",):
            found = answer(client, path, method)
            assert found[0] < 500, (method, path)
            nothing = answer(client, absent(path), method) if is_named else found
            assert "canary" not in str(nothing), (method, path)
            assert absent(str(found)) == absent(str(nothing)), (method, path)
    assert SavedView.objects.count() == Note.objects.count() == TaskFlag.objects.count() == 1
    assert Invite.objects.get().revoked is None


@pytest.mark.usefixtures("job_of_somebody_else")
@pytest.mark.parametrize("groups", [("curator", "team"), ("operator",)])
def test_members_and_operators_see_all_of_it(groups: tuple[str, ...]) -> None:
    team = Group.objects.create(name="team")
    client = client_of(*groups)
    make_private().member_groups.add(team)
    shown = "".join(answer(client, path)[2] for path in SHOWING)
    missing = {word for word in WORDS if word not in shown}
    assert missing == (set() if groups == ("operator",) else {"canaryinvite"})
    assert "canaryjob" in answer(client, "admin/environments/task/")[2]


def figures_of(client: Client) -> list[str]:
    paths = (
        "",
        "environments/",
        "episodes/",
        "runs/",
        "runs/?sort=-attempts",
        "play/people/",
        "conversations/",
        "admin/",
        "admin/environments/task/",
    )
    return [re.sub(r'data-[\w-]+="[^"]*"', "", answer(client, path)[2]) for path in paths]


def test_no_sum_or_count_of_lists_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # soon after the episodes
    monkeypatch.setattr("episodes.figures.environments.overview.time.time", lambda: 1_767_323_100.0)
    client = client_of("curator", name="eve")
    catch_up()
    before = figures_of(client)
    environment = make_private()
    assert figures_of(client) == before
    environment.members.add(User.objects.get(username="eve"))
    assert not any(one == other for one, other in zip(figures_of(client), before, strict=True))


SENT = [
    (
        "play/",
        {"environment": "canaryenv", "split": "canarysplit", "pick": "number", "number": "0"},
    ),
    (f"play/notes/{NUMBER}/", {"text": "mine"}),
    (f"play/flag/{NUMBER}/", {"note": "mine"}),
    (
        "admin/environments/task/act/quarantine/",
        {"ids": str(NUMBER), "reason": "x", "ask": "", "confirm": "", "inputs": "||||"},
    ),
    (
        "admin/environments/task/act/tag/",
        {
            "split": str(NUMBER),
            "scope": "all",
            "tags": "x",
            "ask": "",
            "confirm": "",
            "inputs": "x||||",
        },
    ),
    (f"admin/environments/task/{NUMBER}/do/", {"action": "quarantine", "reason": "x"}),
    (f"admin/environments/split/{NUMBER}/freeze/", {"confirm": ""}),
    (f"admin/environments/environment/{NUMBER}/do/", {"action": "disable"}),
]
"""Forms about what is private, whose values say so."""


@pytest.mark.parametrize(("path", "values"), SENT)
def test_forms_about_it_do_nothing(path: str, values: dict[str, str]) -> None:
    before = make_private()
    client = client_of("curator", name="eve")
    nothing = client.post(
        f"/{absent(path)}", {name: absent(value) for name, value in values.items()}
    )
    found = client.post(f"/{path}", values)
    assert found.status_code == nothing.status_code
    assert "canary" not in CHANGING.sub("", nothing.content.decode())
    assert absent(CHANGING.sub("", found.content.decode())) == CHANGING.sub(
        "", nothing.content.decode()
    )
    assert Task.objects.get(pk=NUMBER).state == "active" and TaskTag.objects.count() == 1
    assert (
        Environment.objects.get(pk=before.pk).is_enabled and not Split.objects.get(pk=NUMBER).frozen
    )
    assert Note.objects.count() == TaskFlag.objects.count() == 1


def test_a_run_is_hidden_as_a_whole_if_it_played_there(public: Episode) -> None:
    environment = make_private()
    Episode.objects.filter(environment=environment).update(run=public.run_id)
    Run.objects.filter(pk=public.run_id).update(name="mixed-run")
    count_statistics()
    client = client_of("viewer")
    assert client.get(f"/runs/{public.run_id}/").status_code == 404
    assert "mixed-run" not in client.get("/runs/").content.decode()
    assert "mixed-run" not in client.get("/environments/math/leaderboard/?by=run").content.decode()
    assert "No run is named" in client.get("/episodes/?run=mixed-run").content.decode()
    environment.members.add(User.objects.get(username="ada"))
    assert client.get(f"/runs/{public.run_id}/").status_code == 200
    assert "mixed-run" in client.get("/environments/math/leaderboard/?by=run").content.decode()


def test_what_a_person_played_is_gone_for_them_too_once_they_are_no_member() -> None:
    client = client_of("player")
    environment = make_private()
    environment.members.add(User.objects.get(username="ada"))
    assert client.get(f"/play/{NUMBER}/").status_code == 200
    environment.members.clear()
    assert client.get(f"/play/{NUMBER}/").status_code == 404
    assert "canary" not in client.get("/play/").content.decode()


def test_a_public_environment_is_seen_by_everybody() -> None:
    make_private()
    Environment.objects.update(is_private=False)
    assert "canaryenv" in client_of("viewer").get("/environments/").content.decode()
