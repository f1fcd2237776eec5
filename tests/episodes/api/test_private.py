"""Every address of the API, for readers from whom a private environment is hidden and for those who
may see it.

Each address that names something is asked twice: for what belongs to the private environment, and
for what nobody has. A reader who may not see it gets the same answer, and finds nothing of it at
any other address.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import httpx
import pytest
import pytest_asyncio
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern

from environments.keys.keyring import ring
from environments.keys.stored_keys import make_key
from environments.models import Environment
from episodes.rollups.follower import catch_up
from episodes.transfer.formats import EXPORT_FORMATS
from episodes.urls.api import urlpatterns
from tests.environments.agents.ors.conftest import db
from tests.environments.agents.ors.serving import in_database, serving
from tests.episodes.api.private_rows import CANARY, PUBLIC, Ids, make_private_rows
from tests.people import member
from tests.rows import each

__all__ = ["db"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

NOWHERE = "nowhere"
BINARY = (b"PAR1", b"PK")
"""Starts of files of exports in which a search finds no word."""
OF_PEOPLE = {f"/api/{one}" for one in ("keys/me?", f"{CANARY}", "curves?")}
LACKING = {
    "insider": {
        *(f"/api/episodes?{query}" for query in (f"who=@{CANARY}", "player=human")),
        *(f"/api/episodes/export?format=pairs{more}" for more in ("", f"&environment={CANARY}")),
        *(
            f"/api/{one}"
            for one in (
                f"environments/{CANARY}/leaderboard",
                f"environments/{CANARY}/doctor",
                f"suites/{CANARY}-suite",
                *(CANARY, "curves?", "suites?"),
            )
        ),
    },
    "member": OF_PEOPLE,
    "operator": OF_PEOPLE,
}
"""Addresses that each may not read, or at which there are no words."""
NOBODY = Ids(987_654, 987_654, 987_654, 987_654)
WITHOUT_ROWS = {"", "schema"}
"""Addresses that describe the API itself, which takes long."""
OF_EPISODES = (
    "environment={}",
    "environment={}&split={}-split",
    "run={}-run",
    "model={}-model",
    "text={}",
)
QUERIES: dict[str, tuple[str, ...]] = {
    "episodes": (
        "",
        *OF_EPISODES,
        "who=@{}",
        "revision={}0",
        "suite={}-suite/v1",
        "player=human",
        "sort=return",
    ),
    "episodes/export": tuple(
        f"format={one}{more}" for one in EXPORT_FORMATS for more in ("", "&environment={}")
    ),
    "environments": ("",),
    "tasks": ("", "environment={}", "environment={}&split={}-split"),
    "runs": ("", "name={}-run", "tag={}-tag"),
    "rollouts": ("", "environment={}", "run={}-run", "model={}-model", "text={}"),
    "curves": ("", "environment={}", "run={}-run", "component=*", "component={}-part"),
    "scalars": ("run={}-run", "run={}-run&name={}-loss"),
    "compare": (f"runs={{}}-run,{PUBLIC}-run",),
    "keys/me": ("",),
    "suites": ("",),
}
"""Queries of every address that names nothing."""


class Reader(NamedTuple):
    headers: dict[str, str]
    ids: Ids
    """Ids of what would be its own of the private environment."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(f"{PUBLIC}=tests.envs:Echo", ORSWEB_REQUIRE_KEYS=True) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def readers(client: httpx.AsyncClient) -> dict[str, Reader]:
    """The readers by name: three keys, a person who is no member, a member and an operator."""
    return await in_database(make_readers)


def make_readers() -> dict[str, Reader]:
    ids = make_private_rows()
    # or the first answers to searches say how much of the record the server's follower has indexed
    # so far
    catch_up()
    environments: dict[str, list[str]] = {"narrow": [PUBLIC], "insider": [CANARY, PUBLIC]}
    readers = {}
    for label in ids:
        _, text = make_key(
            label, scopes=["play", "record", "read"], environments=environments.get(label, [])
        )
        readers[label] = Reader({"X-API-Key": text}, ids[label])
    Environment.objects.get(name=CANARY).members.add(member("viewer", name="member"))
    for name, group in (("stranger", "viewer"), ("operator", "operator")):
        member(group, name=name)
    for name in ("stranger", "member", "operator"):
        readers[name] = Reader({"Cookie": f"sessionid={session_of(name)}"}, ids["insider"])
    ring.read()
    return readers


def session_of(name: str) -> str:
    pages = Client()
    pages.force_login(User.objects.get(username=name))
    return pages.cookies["sessionid"].value


class Address(NamedTuple):
    private: str
    unknown: str
    """The same for something that nobody has; equal to `private` if the address names nothing."""


def addresses(ids: Ids) -> Iterator[Address]:
    """Yield every address of the API, from its URL patterns. Raises: KeyError for one whose
    parameters are unknown."""
    for one in urlpatterns:
        assert isinstance(one, URLPattern)
        route = re.sub(
            r"\(\?P<(\w+)>[^)]*\)|<(?:\w+:)?(\w+)>",
            r"{\1\2}",
            re.sub(r"^\^|\$$", "", str(one.pattern)),
        )
        word = route.partition("/")[0]
        if "{" in route:
            yield Address(*(f"/api/{route.format(**one)}" for one in values(word, ids)))
        elif route not in WITHOUT_ROWS:
            for query in QUERIES[route]:
                yield Address(
                    *(f"/api/{route}?{query.replace('{}', name)}" for name in (CANARY, NOWHERE))
                )


def values(word: str, ids: Ids) -> Iterator[dict[str, Any]]:
    """Yield the parameters of the addresses that begin with `word`: of the private environment, and
    unknown ones."""
    for name, one in ((CANARY, ids), (NOWHERE, NOBODY)):
        parameters = {
            "environments": {"name": name},
            "suites": {"name": f"{name}-suite"},
            "runs": {"pk": one.runs, "name": f"{name}-run"},
            "{rest}": {"rest": name},
        }
        yield parameters.get(word) or {"pk": getattr(one, word), "index": 0}


async def answer(client: httpx.AsyncClient, address: str, reader: Reader) -> tuple[int, str]:
    """Return the status and the text of an answer, without what the address itself says."""
    found = await client.get(address, headers=reader.headers)
    path, _, query = address.partition("?")
    values = [value for _, value in parse_qsl(query)]
    parts = [part for value in values for part in value.split(",")]
    said = [query, *values, *parts, *path.split("/")]
    text = found.text
    for one in sorted(filter(None, said), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(one)}(?!\w)", "?", text)
    return found.status_code, text


@pytest.mark.parametrize("name", ["outsider", "narrow", "stranger"])
async def test_it_is_at_no_address_for_those_from_whom_it_is_hidden(
    client: httpx.AsyncClient, readers: dict[str, Reader], name: str
) -> None:
    reader, wrong = readers[name], []
    for private, unknown in addresses(reader.ids):
        shown = await answer(client, private, reader)
        if CANARY in shown[1] or (
            private != unknown and shown != await answer(client, unknown, reader)
        ):
            wrong.append((private, shown))
    assert not wrong


@pytest.mark.parametrize("name", ["insider", "member", "operator"])
async def test_it_is_at_every_address_for_those_who_may_see_it(
    client: httpx.AsyncClient, readers: dict[str, Reader], name: str
) -> None:
    """So the sweep would notice what leaks. A key reads nothing of people, and no figures of all
    episodes."""
    reader, missed = readers[name], []
    for private, unknown in addresses(reader.ids):
        found = await client.get(private, headers=reader.headers)
        is_shown = CANARY in found.text or found.content.startswith(BINARY)
        if found.status_code != 200 or not (
            is_shown or await answer(client, unknown, reader) != (200, found.text)
        ):
            missed.append(private)
    assert sorted(set(missed) - LACKING[name]) == []


@each(("name", "count"), [("outsider", 1), ("insider", 2), ("stranger", 3), ("member", 6)])
async def test_figures_count_what_the_reader_may_see(
    client: httpx.AsyncClient, readers: dict[str, Reader], name: str, count: int
) -> None:
    curve = (await client.get("/api/curves", headers=readers[name].headers)).json()
    assert curve["total"]["rollouts"]["rollouts"] == count
