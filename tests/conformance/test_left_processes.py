"""Processes that hosted code has started: the next server starts as usual, and they end with the
one before it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import psutil
import pytest
from pytest_django import DjangoDbBlocker

from episodes.models import Incident
from tests.conformance.agent import Agent, eventually
from tests.conformance.record import ALIAS, recorded
from tests.server import LiveServer


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs_forking:Forking") as running:
        yield running


def left_in(server: LiveServer) -> list[psutil.Process]:
    """Return the processes that a session has left, with their children."""
    with Agent(server).open({"id": 1}) as agent:  # a session that is open would delay a reload
        left = [psutil.Process(int(pid)) for pid in agent.call("leave").text.split()]
    return left + [child for process in left for child in process.children()]


def stop(server: LiveServer) -> None:
    assert server.stop() == 0
    server.start()


def reload(server: LiveServer) -> None:
    before = server.pid
    os.kill(server.process.pid, signal.SIGUSR1)
    eventually(lambda: server.pid != before and server.is_healthy())


def kill(server: LiveServer) -> None:
    before = server.pid
    os.kill(before, signal.SIGKILL)
    eventually(lambda: server.pid != before and server.is_healthy())


@pytest.mark.parametrize("end", [stop, reload, kill])
def test_they_end_with_the_server_and_incidents_name_them(
    server: LiveServer, django_db_blocker: DjangoDbBlocker, end: Callable[[LiveServer], None]
) -> None:
    left = left_in(server)
    assert len(left) == 5
    end(server)
    assert not [
        process
        for process in left
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]
    with recorded(server, django_db_blocker):
        eventually(
            lambda: (
                Incident.objects.using(ALIAS)
                .filter(kind="left", how__contains=f"{left[2].pid})")
                .exists()
            )
        )
        incident = (
            Incident.objects.using(ALIAS)
            .select_related("environment")
            .filter(kind="left")
            .latest("happened")
        )
    how, environment = incident.how, incident.environment
    assert environment is not None and environment.name == "forking"
    # the process of the pool may have ended with its server by itself
    assert f"of forking (pid {left[1].pid})" in how and f"sleep 600 (pid {left[2].pid})" in how


def test_signals_to_them_do_not_reach_the_server(server: LiveServer) -> None:
    before = server.pid
    agent = Agent(server).open({"id": 1})
    for _ in range(3):
        assert agent.call("terminate").text == "ended"
    assert (server.pid, server.is_healthy()) == (before, True)


def test_the_next_server_starts_while_they_outlive_a_killed_supervisor(server: LiveServer) -> None:
    left = left_in(server)
    server.kill()
    try:
        server.start()
    finally:
        for process in left:
            if process.is_running():
                process.kill()
