"""The fixtures of the conformance tests: one real server for all of them, its record, and the two
real clients.

The server hosts several classes of each SDK, sends comments every 0.2 s and forgets results after 1
s. Tests that stop theirs, or need other settings, start their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.clients import Client, OpenRewardClient, OrsClient
from tests.conformance.record import Recorded, recorded
from tests.server import LiveServer

NEED_POSTGRESQL = [
    *("test_balancers.py", "test_cluster.py", "test_cluster_pages.py", "test_cluster_runs.py"),
    "test_processes.py",
]
collect_ignore = [] if os.environ.get("ORSWEB_TEST_DATABASE") == "postgresql" else NEED_POSTGRESQL

NATIVE = [
    *(
        "Echo",
        "Conversation",
        "Counter",
        "FailingConstructor",
        "FailingPrompt",
        "FailingSetup",
        "Procedural",
        "Raises",
    ),
    *("Scored", "Secretive", "Slow", "SlowSetup", "TaskTools", "Terminal", "Toolsetted"),
]
ORS = ["OrsEcho", "OrsToolset", "OrsTaskTools", "OrsHidden"]
OPENREWARD = ["OrwEcho", "OrwTerminal", "OrwConversation", "OrwScored", "OrwToolset"]
CLASSES = [
    *(f"tests.envs:{name}" for name in NATIVE),
    *(f"tests.envs_ors:{name}" for name in ORS),
    *(f"tests.envs_openreward:{name}" for name in OPENREWARD),
    "tests.conformance.envs:Blocking",
    "tests.conformance.envs:OrsBlocking",
    "tests.conformance.envs:Pictures",
]


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    settings = {"ORSWEB_KEEPALIVE": "0.2", "ORSWEB_RESULT_LINGER": "1"}
    with LiveServer(*CLASSES, env=settings) as running:
        yield running


@pytest.fixture
def record(server: LiveServer, django_db_blocker: DjangoDbBlocker) -> Iterator[Recorded]:
    with recorded(server, django_db_blocker) as reader:
        yield reader


@pytest.fixture(scope="session")
def ors(server: LiveServer) -> Iterator[OrsClient]:
    with OrsClient(server) as one:
        yield one


@pytest.fixture(scope="session")
def openreward(server: LiveServer) -> Iterator[OpenRewardClient]:
    with OpenRewardClient(server) as one:
        yield one


@pytest.fixture(params=["ors", "openreward"])
def client(request: pytest.FixtureRequest) -> Client:
    """Return each of the two clients, for tests of what both can do."""
    one: Client = request.getfixturevalue(request.param)
    return one
