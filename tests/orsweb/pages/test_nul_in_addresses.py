"""NUL, which no database stores: an address with it names nothing, in each part of its path and
each parameter.

The addresses are those of the URL patterns, and the parameters those that views ask for, so that
new ones are tried.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from urllib.parse import quote

import httpx
import pytest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.test import Client
from pytest_django import Settings

from orsweb.agent_urls import urlpatterns as agent_urls
from orsweb.urls import urlpatterns
from tests.environments.agents.ors.serving import serving
from tests.orsweb.pages.test_private import ASKED, VALUES, routes
from tests.stored import make_episode, make_run, make_split, make_step

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}
PARAMETER = re.compile(r"<(?:\w+:)?\w+>|\(\?P<\w+>[^()]*\)")
LEAVING = ("accounts/logout/", "admin/logout/", "play/leave/")
ENDLESS = ("events/", "api/episodes/<id:pk>/events")
ROUTES = [route for route in routes(urlpatterns) if not route.startswith(LEAVING)]


def with_nul(route: str) -> Iterator[str]:
    """Yield the addresses of a route with NUL in one of its parameters."""
    for parameter in PARAMETER.finditer(route):
        for value in ("%00", "a%00b"):
            hostile = f"{route[: parameter.start()]}{value}{route[parameter.end() :]}"
            yield f"/{PARAMETER.sub('1', hostile)}".replace("^", "").replace("$", "")


class Names:
    """Middleware that notes for which parameters of the address the views ask."""

    noted: ClassVar[set[str]] = set()

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.GET = NotedQuery(request.META["QUERY_STRING"])  # type: ignore[assignment]
        return self.get_response(request)


class NotedQuery(QueryDict):
    def __contains__(self, name: object) -> bool:
        Names.noted.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        Names.noted.add(name)
        return super().get(name, default)

    def getlist(self, name: str, default: Any = None) -> Any:
        Names.noted.add(name)
        return super().getlist(name, default)

    def __getitem__(self, name: str) -> Any:
        Names.noted.add(name)
        return super().__getitem__(name)


@pytest.fixture
def episode(db: None) -> Any:
    episode = make_episode(run=make_run(), model="model-x", run_step=1, end_number=1, steps_count=1)
    make_split(episode.task)
    make_step(episode, reward=1.0)
    return episode


def test_a_path_with_it_names_nothing(client: Client, db: None) -> None:
    statuses = {path: client.get(path).status_code for route in ROUTES for path in with_nul(route)}
    assert len(statuses) > 150
    assert not {path: status for path, status in statuses.items() if status != 404}


def test_a_parameter_with_it_finds_nothing(
    client: Client, episode: Any, settings: Settings
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.Names"]
    values = VALUES | {"name": "math"} | dict.fromkeys(("pk", "object_id"), str(episode.pk))
    patterns = [route for route in ROUTES if "^" not in route and "events" not in route]
    visited = [
        re.sub(r"<(?:\w+:)?(\w+)>", lambda part: values[part[1]], route) for route in patterns
    ]
    asked = defaultdict[str, set[str]](set)
    for address in (*visited, *ASKED):
        path, _, query = address.partition("?")
        Names.noted = set(QueryDict(query))
        client.get(f"/{address}")
        asked[path] |= Names.noted
    assert sum(map(len, asked.values())) > 300
    tried = [
        f"/{path}?{'&'.join(f'{quote(name)}=1%00' for name in names)}"
        for path, names in asked.items()
        if names
    ]
    statuses = {address: client.get(address).status_code for address in tried}
    assert not {address: status for address, status in statuses.items() if status != 404}


@pytest.mark.django_db(transaction=True)
async def test_an_address_of_agents_with_it_names_nothing() -> None:
    hostile = [path for pattern in agent_urls for path in with_nul(str(pattern.pattern))]
    paths = [PARAMETER.sub("echo", str(pattern.pattern)).strip("^$") for pattern in agent_urls]
    hostile += [f"/{path}?name=%00" for path in paths]
    async with serving("tests.envs:Echo") as client:
        for path in hostile:
            for method in ("GET", "POST"):
                answer: httpx.Response = await client.request(
                    method, path, json={} if method == "POST" else None
                )
                assert answer.status_code == 404, (method, path)
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        for name in ("split", "index", "run", "step", "model", "rewards", "toolset"):
            answer = await client.post(f"/mcp/echo?{name}=%00", json=message, headers=MCP_HEADERS)
            assert (answer.status_code, "NUL" in answer.json()["error"]["message"]) == (
                404,
                True,
            ), name
