"""Sessions of replayable classes go on after a restart of the server, for unmodified clients of
both SDKs.

One server is stopped and killed while sessions wait and while their calls run; the tests look at
what became of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.agent import Agent, eventually, lines
from tests.conformance.clients import Client, OpenRewardClient, OrsClient
from tests.conformance.record import Recorded, recorded
from tests.server import LiveServer

KEYS = "alice:secret-of-alice,bob:secret-of-bob"
ALICE, BOB = {"X-API-Key": "secret-of-alice"}, {"X-API-Key": "secret-of-bob"}
CLASSES = [f"tests.envs_returning:{name}" for name in ("Adding", "AddingInWorkers", "Forgetting")]
SDKS = {"ors": OrsClient, "openreward": OpenRewardClient}


@dataclass
class Returned:
    """A server that was stopped, killed, and started again each time, and what became of its sessions."""

    server: LiveServer
    log: Path
    """A line for each time that a call began."""
    record: Recorded
    sums: dict[str, list[str]] = field(default_factory=dict)
    """What the tools returned to the client of each SDK."""
    sids: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    """What the server said to other agents, by what is special about them."""

    def open(self, name: str, environment: str = "adding", **more: Any) -> Agent:
        """Open a session of alice and make a call in it."""
        agent = Agent(self.server, **ALICE).open({"id": name}, environment, **more)
        self.sids[name] = agent.sid
        agent.call("add", {"number": 2})
        return agent

    def open_unbound(self, name: str, **more: Any) -> None:
        """Open a session of alice whose environment only its first call will name."""
        body = {"split": "train", "index": 1, **more}
        self.sids[name] = f"unbound-{name}"
        self._post("/create", name, body).raise_for_status()

    def play_unbound(self, name: str) -> None:
        self.said[name] = self._post(
            "/adding/call", name, {"name": "add", "input": {"number": 3}}
        ).text

    def _post(self, path: str, name: str, body: Any) -> httpx.Response:
        headers = {**ALICE, "X-Session-ID": self.sids[name]}
        return httpx.post(self.server.url + path, json=body, headers=headers, timeout=60)

    def ask(self, name: str, path: str = "/call", **headers: str) -> None:
        """Note what the server answers to a further request about a session, on a new connection."""
        agent = Agent(self.server, **(headers or ALICE))
        agent.sid = self.sids[name]
        body = {"name": "add", "input": {"number": 3, "seconds": 0.3}}
        self.said[name] = agent.post(path, body if path == "/call" else None).text

    def begun(self, number: int) -> int:
        """Return how often a call with this number has begun."""
        return lines(self.log).count(f"add {number} starts")

    def steps(self, name: str) -> list[tuple[int, float | None]]:
        return [(step.index, step.reward) for step in self.record.steps(self.sids[name])]


@pytest.fixture(scope="module")
def returned(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[Returned]:
    log = tmp_path_factory.mktemp("returned") / "log"
    settings = {"ORSWEB_API_KEYS": KEYS, "ORSWEB_KEEPALIVE": "0.2", "ADDING_LOG": str(log)}
    with (
        LiveServer(*CLASSES, env=settings) as server,
        recorded(server, django_db_blocker) as record,
    ):
        one = Returned(server, log, record)
        with (
            SDKS["ors"](server, "secret-of-alice") as ors,
            SDKS["openreward"](server, "secret-of-alice") as openreward,
        ):
            _play(one, {"ors": ors, "openreward": openreward})
        yield one


def _play(one: Returned, clients: dict[str, Client]) -> None:
    sessions = {
        name: client.environment("adding").session(split="train", index=1)
        for name, client in clients.items()
    }
    threads = ThreadPoolExecutor(len(sessions))

    def call(name: str, number: int, seconds: float) -> None:
        output = sessions[name].call_tool("add", {"number": number, "seconds": seconds})
        one.sums.setdefault(name, []).append(output.blocks[0].text)

    def begin(number: int, seconds: float = 0.0) -> list[Future[None]]:
        return [threads.submit(call, name, number, seconds) for name in sessions]

    for name, session in sessions.items():
        session.__enter__()
        one.sids[name] = session.sid
        assert session.get_prompt()[0].text == "Task train-1."
    _wait(begin(1))
    for name, environment in (
        ("worker", "addinginworkers"),
        ("forgetting", "forgetting"),
        ("owned", "adding"),
    ):
        one.open(name, environment)
    one.open("secret", secrets={"token": "t-0123456789"})
    one.open("other").call("process")
    one.open("deleted")

    one.open_unbound("stopped")
    assert one.server.stop() == 0
    one.server.start()
    one.play_unbound("stopped")
    _wait(begin(10))
    for name in ("worker", "forgetting", "secret", "other"):
        one.ask(name)
    one.ask("owned", **BOB)
    one.ask("deleted", "/delete")

    one.open("unsent").begin("add", {"number": 3, "seconds": 0.3}).drop()
    eventually(lambda: len(one.steps("unsent")) == 2)
    running = begin(100, 1.0)
    eventually(lambda: one.begun(100) == 2)
    one.open_unbound("killed")
    one.open_unbound("killed with secrets", secrets={"token": "t-0123456789"})
    one.open_unbound("ended")
    one.ask("ended", "/delete")
    one.server.kill()
    one.server.start()
    for name in ("killed", "killed with secrets", "ended"):
        one.play_unbound(name)
    _wait(running)
    for name in ("unsent", "worker", "owned"):
        one.ask(name)
    for session in sessions.values():
        session.__exit__(None, None, None)
    threads.shutdown()


def _wait(calls: list[Future[None]]) -> None:
    for call in calls:
        call.result(60)


@pytest.mark.parametrize("sdk", SDKS)
def test_unmodified_clients_go_on(returned: Returned, sdk: str) -> None:
    assert returned.sums[sdk] == ["1", "11", "111"]
    assert returned.steps(sdk) == [(0, 1.0), (1, 10.0), (2, 100.0)]
    episode = returned.record.episode(returned.sids[sdk])
    assert (episode.status, episode.cause, episode.steps_count, episode.return_sum) == (
        "ended",
        "abandoned",
        3,
        111.0,
    )
    assert (episode.split.name, episode.key_label, episode.detail) == ("train", "alice", "")


@pytest.mark.parametrize("name", ["stopped", "killed"])
def test_a_session_goes_on_that_no_request_had_bound_to_an_environment(
    returned: Returned, name: str
) -> None:
    assert '"text":"3"' in returned.said[name]
    assert returned.steps(name) == [(0, 3.0)]
    assert returned.record.episode(returned.sids[name]).key_label == "alice"


@pytest.mark.parametrize("name", ["killed with secrets", "ended"])
def test_one_with_secrets_or_that_has_ended_does_not(returned: Returned, name: str) -> None:
    assert "not found" in returned.said[name].lower()


def test_it_makes_recorded_calls_again_and_the_one_that_ran(returned: Returned) -> None:
    # each of two sessions: at first, after the stop, and after the kill
    assert (returned.begun(1), returned.begun(10), returned.begun(100)) == (6, 4, 4)


def test_a_session_comes_back_in_a_worker_process(returned: Returned) -> None:
    assert '"text":"8"' in returned.said["worker"]
    assert returned.steps("worker") == [(0, 2.0), (1, 3.0), (2, 3.0)]


def test_it_sends_a_recorded_result_that_did_not_reach_its_client(returned: Returned) -> None:
    assert '"text":"5"' in returned.said["unsent"]
    assert returned.steps("unsent") == [(0, 2.0), (1, 3.0)]


def test_a_session_belongs_to_its_key(returned: Returned) -> None:
    assert '"text":"5"' in returned.said["owned"]  # alice's request, after bob's
    assert returned.steps("owned") == [(0, 2.0), (1, 3.0)]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("forgetting", "The server was stopped before the episode had ended."),
        (
            "secret",
            "The server was stopped before the episode had ended. The session could not go on, "
            "because it had secrets, "
            "which are not stored.",
        ),
        (
            "other",
            "The server was started again, and the session did not come back, because step 1 "
            "('process') had another "
            "outcome.",
        ),
    ],
)
def test_other_sessions_end_and_say_why(returned: Returned, name: str, why: str) -> None:
    assert why in returned.said[name]
    episode = returned.record.episode(returned.sids[name])
    assert (episode.status, episode.cause, episode.detail) == ("ended", "interrupted", why)


def test_a_session_that_was_not_used_again_ends_with_its_steps(returned: Returned) -> None:
    episode = returned.record.episode(returned.sids["deleted"])
    assert (episode.cause, episode.steps_count, episode.return_sum) == ("abandoned", 1, 2.0)


def test_it_says_how_many_sessions_go_on(returned: Returned) -> None:
    assert "an earlier server left sessions open" in returned.server.log
    assert "a session came back" in returned.server.log
