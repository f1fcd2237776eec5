"""Several servers on one PostgreSQL database: each answers for the sessions of all, and takes over
those of a dead one.

Two servers are started for the whole file. One client of each SDK plays over a balancer that sends
its requests to both in turn; the server that has the sessions is killed between calls and while
calls run, and is started again.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker

from tests import programs
from tests.conformance.agent import Agent, eventually, lines
from tests.conformance.balancer import Balancer
from tests.conformance.clients import Client, OpenRewardClient, OrsClient
from tests.conformance.record import ALIAS, Recorded, recorded
from tests.server import LiveServer

KEYS = "alice:secret-of-alice,bob:secret-of-bob"
ALICE = {"X-API-Key": "secret-of-alice"}
CLASSES = [f"tests.envs_returning:{name}" for name in ("Adding", "Forgetting")]
MAX_LEADERLESS_SECONDS = 5.0
"""When a leader has died, another server leads after this time."""
SDKS = {"ors": OrsClient, "openreward": OpenRewardClient}


@dataclass
class Played:
    """What became of sessions whose server was killed."""

    servers: list[LiveServer]
    record: Recorded
    log: Path
    sums: dict[str, list[str]] = field(default_factory=dict)
    sids: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def begun(self, number: int) -> int:
        """Return how often a call with this number has begun."""
        return lines(self.log).count(f"add {number} starts")

    def rewards(self, name: str) -> list[tuple[int, float | None]]:
        return [(step.index, step.reward) for step in self.record.steps(self.sids[name])]


def started(address: str, log: Path, beside: LiveServer | None = None) -> LiveServer:
    """Return a server that others reach at `address`, a file in its data directory or host:port;
    not started yet."""
    settings = {
        "ORSWEB_API_KEYS": KEYS,
        "ORSWEB_KEEPALIVE": "0.2",
        "ORSWEB_QUOTA_WAIT": "0.1",
        "ADDING_LOG": str(log),
    }
    server = LiveServer(*CLASSES, env=settings, beside=beside)
    server.env["ORSWEB_CLUSTER"] = address if ":" in address else str(server.data_dir / address)
    return server


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[Played]:
    log = tmp_path_factory.mktemp("cluster") / "log"
    first = started("one.sock", log)
    second = started("two.sock", log, beside=first)
    with (
        first,
        second,
        recorded(first, django_db_blocker) as record,
        Balancer(first, second) as balancer,
    ):
        one = Played([first, second], record, log)
        clients = {
            name: client(first, "secret-of-alice", url=balancer.url)
            for name, client in SDKS.items()
        }
        with clients["ors"], clients["openreward"]:
            _play(one, balancer, clients)
        yield one


def _play(one: Played, balancer: Balancer, clients: dict[str, Client]) -> None:
    first, second = one.servers
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

    balancer.use(first)
    for name, session in sessions.items():
        session.__enter__()
        one.sids[name] = session.sid
    forgetting = Agent(first, **ALICE).open({"id": "forgetting"}, "forgetting")
    one.sids["forgetting"] = forgetting.sid
    begun, again = Agent(first, **ALICE).open({"id": "again"}, "adding"), Agent(second, **ALICE)
    again.sid = begun.sid
    unbound = Agent(first, **ALICE).open(split="train", index=1)
    balancer.use(first, second)
    for number in (1, 10):
        _wait(begin(number))
    beside = Agent(second, **ALICE)
    beside.sid = forgetting.sid
    one.said["before"] = beside.call("add", {"number": 7}).text

    # breaks off with its server
    threads.submit(beside.call, "add", {"number": 77, "seconds": 60.0})
    eventually(lambda: one.begun(77) == 1)
    running = begin(100, 1.0)
    eventually(lambda: one.begun(100) == 2)
    first.kill()
    balancer.use(second)
    eventually(lambda: "this server leads" in second.log, MAX_LEADERLESS_SECONDS)
    _wait(running)
    one.said["after"] = beside.post("/ping").text
    bound = Agent(second, **ALICE)
    bound.sid = unbound.sid
    one.said["unbound"] = bound.post("/adding/call", {"name": "add", "input": {"number": 8}}).text
    # its client did not hear that it was opened
    again.create({"id": "again"}, "adding").raise_for_status()

    first.start()
    balancer.use(first, second)
    one.said["opened again"] = ", ".join(
        agent.call("add", {"number": 5}).text for agent in (begun, again, begun)
    )
    _wait(begin(1000))
    for session in sessions.values():
        session.__exit__(None, None, None)
    threads.shutdown()
    _ask_both(one)
    _cut_off(one)


def _ask_both(one: Played) -> None:
    """Note what the server answers that a session is not at."""
    first, second = one.servers
    agent, other = Agent(first, **ALICE).open({"id": "shared"}, "adding"), Agent(second, **ALICE)
    other.sid = agent.sid
    one.said["again"] = other.create({"id": "shared"}, "adding").text
    one.said["stream"] = other.call("add", {"number": 5, "seconds": 0.7}).raw.decode()
    headers = {**ALICE, "X-Session-ID": str(agent.sid)}
    short = {"name": "add", "input": {"number": 5, "seconds": 0.15}}
    with httpx.stream("POST", f"{first.url}/adding/call", json=short, headers=headers) as answer:
        one.said["head"], *_ = (piece.decode() for piece in answer.iter_raw())
    one.said["refused"] = other.post(
        "/forgetting/call", {"name": "add", "input": {"number": 1}}
    ).text
    one.said["token"] = other.post(
        "/ping", **{"X-Orsweb-Peer": "guessed", "X-Session-ID": "no-such"}
    ).text
    foreign = Agent(second, **{"X-API-Key": "secret-of-bob"})
    foreign.sid = agent.sid
    one.said["foreign"] = foreign.post("/ping").text
    one.said["deleted"] = other.post("/delete").text
    one.said["gone"] = agent.post("/ping").text


def _cut_off(one: Played) -> None:
    """Let the second server lose the database while it is stopped, as if its network was away, and
    wake it up."""
    first, second = one.servers
    agent, other = Agent(second, **ALICE).open({"id": "cut"}, "adding"), Agent(first, **ALICE)
    one.sids["cut"] = other.sid = agent.sid
    agent.call("add", {"number": 2})
    agent.begin("add", {"number": 30, "seconds": 0.5})
    eventually(lambda: one.begun(30) == 1)
    eventually(lambda: second.pid != second.process.pid)  # which it is without a server
    server = second.pid
    os.kill(server, signal.SIGSTOP)
    with connections[ALIAS].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE '%two.sock%'"
        )
    one.said["cut"] = other.call("add", {"number": 4}).text
    os.kill(server, signal.SIGCONT)
    eventually(lambda: second.pid != server and second.is_healthy())
    agent = Agent(second, **ALICE)
    agent.sid = other.sid
    one.said["rejoined"] = agent.call("add", {"number": 600}).text


def _wait(calls: list[Future[None]]) -> None:
    for call in calls:
        call.result(60)


@pytest.mark.parametrize("sdk", SDKS)
def test_unmodified_clients_go_on_at_whichever_server(played: Played, sdk: str) -> None:
    assert played.sums[sdk] == ["1", "11", "111", "1111"]
    assert played.rewards(sdk) == [(0, 1.0), (1, 10.0), (2, 100.0), (3, 1000.0)]
    episode = played.record.episode(played.sids[sdk])
    assert (episode.cause, episode.steps_count, episode.return_sum) == ("abandoned", 4, 1111.0)


def test_a_call_that_ran_is_made_again_by_the_server_that_goes_on(played: Played) -> None:
    assert {number: played.begun(number) for number in (10, 100, 1000)} == {10: 4, 100: 4, 1000: 2}


def test_a_session_that_cannot_go_on_ends_with_the_reason(played: Played) -> None:
    assert played.said["before"] == "7"
    assert "the episode was interrupted. The server's process was ended" in played.said["after"]
    assert played.record.episode(played.sids["forgetting"]).cause == "interrupted"


def test_a_session_is_opened_once(played: Played) -> None:
    assert played.said["again"] == '{"detail":"Session already exists"}'


def test_a_session_that_was_opened_again_after_a_death_has_one_server(played: Played) -> None:
    assert played.said["opened again"] == "5, 10, 15"


def test_a_session_without_an_environment_goes_on_before_its_first_call(played: Played) -> None:
    assert '"text": "8"' in played.said["unbound"].replace('"text":"', '"text": "')


def test_a_stream_passes_as_it_is(played: Played) -> None:
    assert played.said["stream"].startswith("event: task_id\n")
    assert ": ping - " in played.said["stream"]
    assert "event: end\n" in played.said["stream"]


def test_a_client_soon_has_the_id_with_which_it_asks_another_server_again(played: Played) -> None:
    """A server that dies after it has recorded a step may not have answered it, and nobody else
    knows that."""
    assert (
        played.said["head"].startswith("event: task_id\n")
        and "event: end\n" not in played.said["head"]
    )


def test_refusals_are_those_of_the_server_that_has_the_session(played: Played) -> None:
    assert "This session plays 'adding', but the path names 'forgetting'" in played.said["refused"]
    assert played.said["foreign"] == '{"detail":"Active environment not found"}'
    assert "Only servers of this cluster" in played.said["token"]


def test_a_session_ends_at_whichever_server(played: Played) -> None:
    assert '"sid"' in played.said["deleted"]
    assert played.said["gone"] == '{"detail":"Active environment not found"}'


def test_a_server_that_was_found_dead_records_nothing_more_and_says_so(played: Played) -> None:
    assert (played.said["cut"], played.said["rejoined"]) == ("6", "606")
    assert played.rewards("cut") == [(0, 2.0), (1, 4.0), (2, 600.0)]
    log = played.servers[1].log
    assert "other servers found this one dead" in log, log


def test_quotas_count_what_other_servers_have(played: Played) -> None:
    first, second = played.servers
    made = programs.run(
        "create_key",
        "few",
        "--quota",
        "sessions=1",
        "--quota",
        "bytes=1000000",
        env=first.env,
        check=True,
    )
    key = {"X-API-Key": made.stdout.splitlines()[0]}

    def status(server: LiveServer) -> int:
        try:
            with Agent(server, **key) as agent:
                agent.sid = str(uuid.uuid4())
                return agent.create({"id": "one more"}, "forgetting").status_code
        except (
            httpx.TransportError
        ):  # a server that was cut off may still be ending; asked again, it answers
            return 0

    eventually(lambda: status(first) == 200)  # the servers have read the key
    with Agent(first, **key).open({"id": "the only one"}, "forgetting"):
        eventually(lambda: status(second) == 429)
    eventually(lambda: status(second) == 200)
    # it has heard that the session at the second one has ended, too
    eventually(lambda: status(first) == 200)

    def recorded_bytes() -> int:
        quotas = Agent(second, **key).http.get("/api/keys/me").json()["quotas"]
        return next(int(one["used"]) for one in quotas if one["name"] == "bytes")

    with Agent(first, **key).open({"id": "x" * 10_000}, "forgetting"):
        eventually(lambda: recorded_bytes() >= 10_000)


def test_a_response_that_breaks_off_is_no_error_of_the_server_that_passes_it_on(
    played: Played,
) -> None:
    log = played.servers[1].log
    assert "a response broke off" in log
    assert "a response was not sent" not in log


def test_another_server_leads_when_the_leader_dies(played: Played) -> None:
    first, second = (server.log for server in played.servers)
    assert (first.count("this server leads"), "this server leads" in second) == (2, True)


def test_numbers_of_episodes_and_endings_are_used_once(played: Played) -> None:
    ends = [episode.end_number for episode in played.record.episodes.exclude(end_number=None)]
    assert len(set(ends)) == len(ends) >= 3
