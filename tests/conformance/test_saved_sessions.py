"""Sessions of classes that save go on after kills of the worker and of the server, for unmodified
clients of both SDKs.

None of their calls is made again; tests/conformance/test_returning.py has those whose calls are.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from episodes.models import SessionSnapshot
from tests.conformance.agent import Agent, eventually, lines
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.conformance.record import ALIAS, Recorded, recorded
from tests.server import LiveServer

CLASSES = [
    f"tests.envs_returning:{name}"
    for name in ("Saving", "SavingInWorkers", "SavingSeldom", "SavingAndAdding")
]
SDKS = {"ors": OrsClient, "openreward": OpenRewardClient}
KEY = "secret-of-alice"


@dataclass
class Saved:
    server: LiveServer
    record: Recorded
    log: Path
    """A line for each time that a call began, or a session was loaded."""

    def open(self, environment: str, **more: Any) -> Agent:
        return Agent(self.server, **{"X-API-Key": KEY}).open({"id": 1}, environment, **more)

    def again(self, agent: Agent) -> Agent:
        """Return an agent on a new connection with the same session."""
        other = Agent(self.server, **{"X-API-Key": KEY})
        other.sid = agent.sid
        return other

    def kill(self) -> None:
        self.server.kill()
        self.server.start()

    @staticmethod
    def snapshots(episode: int) -> int:
        return SessionSnapshot.objects.using(ALIAS).filter(pk=episode).count()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, Path]]:
    log = tmp_path_factory.mktemp("saved") / "log"
    settings = {
        "ORSWEB_API_KEYS": f"alice:{KEY}",
        "ORSWEB_KEEPALIVE": "0.2",
        "ADDING_LOG": str(log),
    }
    with LiveServer(*CLASSES, env=settings) as server:
        yield server, log


@pytest.fixture
def saved(live: tuple[LiveServer, Path], django_db_blocker: DjangoDbBlocker) -> Iterator[Saved]:
    server, log = live
    log.write_text("")
    with recorded(server, django_db_blocker) as record:
        yield Saved(server, record, log)


@pytest.mark.parametrize("environment", ["saving", "savinginworkers"])
@pytest.mark.parametrize("sdk", SDKS)
def test_unmodified_clients_go_on_from_the_snapshot(
    saved: Saved, sdk: str, environment: str
) -> None:
    with SDKS[sdk](saved.server, KEY) as client:
        with client.environment(environment).session(split="train", index=1) as session:
            sid = session.sid
            assert session.get_prompt()[0].text == "Task train-1."
            # another one afterwards, which nobody compares
            process = session.call_tool("process", {}).blocks[0].text
            sums = [session.call_tool("add", {"number": 1}).blocks[0].text]
            if environment == "savinginworkers":
                os.kill(int(process), signal.SIGKILL)
                eventually(lambda: f"(pid {process})" in saved.server.log)
                sums.append(session.call_tool("add", {"number": 10}).blocks[0].text)
            saved.kill()
            sums.append(session.call_tool("add", {"number": 100}).blocks[0].text)
            number = saved.record.episode(sid).pk
            assert saved.snapshots(number) == 1
        eventually(lambda: saved.record.episode(sid).status == "ended")
        assert saved.snapshots(number) == 0
    assert sums in (["1", "101"], ["1", "11", "111"])
    assert [lines(saved.log).count(f"add {number} starts") for number in (1, 100)] == [1, 1]
    episode = saved.record.episode(sid)
    assert (episode.cause, episode.return_sum, episode.detail) == ("abandoned", float(sums[-1]), "")


def test_a_call_that_ran_at_the_kill_of_the_server_is_told_as_failed(saved: Saved) -> None:
    agent = saved.open("saving")
    agent.call("add", {"number": 1})
    agent.begin("add", {"number": 5, "seconds": 60})
    eventually(lambda: "add 5 starts" in lines(saved.log))
    saved.kill()
    agent = saved.again(agent)
    assert (
        "The server ended while the call ran"
        in agent.call("add", {"number": 5, "seconds": 60}).error
    )
    assert agent.call("add", {"number": 6}).text == "7"
    assert lines(saved.log).count("add 5 starts") == 1
    agent.close()
    steps = [(step.status, step.reason) for step in saved.record.steps(agent.sid)]
    assert steps == [("ok", ""), ("failed", "interrupted"), ("ok", "")]


def test_a_call_that_runs_when_the_server_stops_is_told_as_failed(saved: Saved) -> None:
    agent = saved.open("saving")
    agent.call("add", {"number": 1})
    running = agent.begin("add", {"number": 5, "seconds": 60})
    eventually(lambda: "add 5 starts" in lines(saved.log))
    assert saved.server.stop() == 0
    assert b"The server was stopped" in running.hear(b"stopped")
    saved.server.start()
    agent = saved.again(agent)
    assert agent.call("add", {"number": 6}).text == "7"
    agent.close()


def test_a_call_that_ends_its_worker_is_told_and_the_session_goes_on(saved: Saved) -> None:
    agent = saved.open("savinginworkers")
    agent.call("add", {"number": 1})
    assert agent.call("crash").error.endswith("exited with status 3 while it ran 'crash'.")
    assert agent.call("add", {"number": 2}).text == "3"
    saved.kill()
    agent = saved.again(agent)
    assert agent.call("add", {"number": 3}).text == "6"
    agent.close()
    assert [step.status for step in saved.record.steps(agent.sid)] == ["ok", "failed", "ok", "ok"]


def test_calls_in_no_snapshot_are_made_again_or_end_the_session(saved: Saved) -> None:
    seldom, both = saved.open("savingseldom"), saved.open("savingandadding")
    for agent in (seldom, both):
        for number in (1, 2, 3):
            agent.call("add", {"number": number})
    saved.kill()
    why = "because its class is not replayable, and step 2 ('add') is in no snapshot."
    assert why in saved.again(seldom).post("/call", {"name": "add", "input": {"number": 4}}).text
    assert saved.again(both).call("add", {"number": 4}).text == "10"
    assert [lines(saved.log).count(f"add {number} starts") for number in (1, 3)] == [2, 3]
    eventually(lambda: saved.record.episode(seldom.sid).cause == "interrupted")
    assert why in saved.record.episode(seldom.sid).detail


def test_snapshots_of_sessions_that_do_not_go_on_are_deleted(saved: Saved) -> None:
    agent = saved.open("saving")
    agent.call("add", {"number": 1})
    number = saved.record.episode(agent.sid).pk
    assert saved.snapshots(number) == 1
    agent.close()
    eventually(lambda: saved.snapshots(number) == 0)
