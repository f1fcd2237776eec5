"""One real server for all tests of MCP. It sends comments every 0.2 s and forgets results after 5
s."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.record import Recorded, recorded
from tests.server import LiveServer

CLASSES = [
    *(
        "Conversation",
        "Echo",
        "FailingConstructor",
        "FailingPrompt",
        "FailingSetup",
        "Procedural",
        "Raises",
    ),
    *("Secretive", "Slow", "TaskTools", "Terminal"),
]


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    settings = {
        "ORSWEB_KEEPALIVE": "0.2",
        "ORSWEB_RESULT_LINGER": "5",
        "ORSWEB_MAX_BODY_BYTES": "100000",
    }
    classes = [f"tests.envs:{name}" for name in CLASSES]
    classes += [
        "tests.conformance.envs:Pictures",
        "tests.environments.agents.mcp.odd_tools:OddTools",
    ]
    with LiveServer(*classes, env=settings) as running:
        yield running


@pytest.fixture
def record(server: LiveServer, django_db_blocker: DjangoDbBlocker) -> Iterator[Recorded]:
    with recorded(server, django_db_blocker) as reader:
        yield reader
