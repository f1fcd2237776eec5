"""Requests made from the OpenAPI documents of the protocol and of the API, on a server with keys.

No response is a server error, and every response is what the document says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from tests.conformance.agent import Agent
from tests.described import Exchange, check_answer
from tests.hostile.schema_attack import SchemaAttack
from tests.hostile.sizes import size
from tests.server import LiveServer

KEY = "a-key-of-0123456789abcdef"
SESSIONS = 20
PROTOCOL = {
    "env_name": ["sturdy", "Scored"],
    "X-Deployment": ["sturdy", "scored"],
    "split": ["train", "test"],
    "index": [0, 1, 2],
    "name": ["echo", "count", "add"],
    "input": [{}, {"text": "hi"}, {"a": 1, "b": 2}],
    "task_id": [f"call-{number}" for number in range(SESSIONS)],
    "task_spec": [{}, {"id": 1}],
}
API = {
    "id": range(1, SESSIONS),
    "index": [0, 1, 2],
    "name": ["sturdy", "scored"],
    "environment": ["sturdy"],
    "split": ["train"],
    "limit": [1, 50, 500],
    "sort": ["time", "-return", "steps", "-duration"],
    "since": ["24h", "2026-01-01"],
    "text": ["hello", '"hello 1"', "hel*"],
}


def cases(path: str) -> int:
    """Return how many requests an operation gets. Those of groups are nested, and take seconds to
    make."""
    return size(0, 40) if path.endswith("score_group") else size(2, 430)


@pytest.fixture
def server() -> Iterator[LiveServer]:
    classes = ["tests.hostile.envs:Sturdy", "tests.envs:Scored"]
    with LiveServer(*classes, env={"ORSWEB_API_KEYS": f"me:{KEY}"}) as running:
        yield running


def sessions(server: LiveServer, *, are_ended: bool) -> list[str]:
    """Return the ids of new sessions that have made two calls each. Some of them are ended in any
    case."""
    sids = []
    for number in range(SESSIONS):
        agent = Agent(server, **{"X-API-Key": KEY}).open({"id": number}, "sturdy")
        agent.call("echo", {"text": f"hello {number}"}, task_id=f"call-{number}")
        agent.call("count")
        if are_ended or number % 4 == 0:
            agent.close()
        agent.http.close()
        sids.append(agent.sid)
    return sids


def check_described(response: Any) -> None:
    """Check a response of the protocol as the tests of its clients do, which read streams of events
    too."""
    request = response.request
    headers = {name.lower(): ",".join(values) for name, values in response.headers.items()}
    path = request.path_url.partition("?")[0]
    check_answer(
        Exchange(request.method, path, {}, b"", response.status_code, headers, response.content)
    )


def run(attack: SchemaAttack, address: str, tried: Callable[[str], None]) -> None:
    attack.run(requests.get(f"{attack.url}{address}", timeout=60).json(), cases)
    tried(attack.summary)
    assert attack.statuses[200] > 0
    assert not attack.failures, "\n\n".join(
        f"{kind}\n{example}" for kind, example in attack.failures.items()
    )


def test_the_protocol_is_what_its_document_says(
    server: LiveServer, tried: Callable[[str], None]
) -> None:
    real = {**PROTOCOL, "X-Session-ID": sessions(server, are_ended=False)}
    attack = SchemaAttack(server.url, KEY, real, check_described, frozenset({"/health"}))
    run(attack, "/openapi.json", tried)


def test_the_api_is_what_its_document_says(
    server: LiveServer, tried: Callable[[str], None]
) -> None:
    sessions(server, are_ended=True)  # the events of others go on until they end
    run(SchemaAttack(server.url, KEY, API), "/api/schema?format=json", tried)
