"""Three servers on machines of their own under play, while processes, machines, a link and the
database fail.

Three of five classes are played by two nodes of a Ray cluster, which are machines of their own,
too. Some sessions come back by their calls, some from snapshots, some with secrets that the
database keeps encrypted. Unmodified clients play through HAProxy, which stands outside of what
fails. Whatever happens, each answered call is on record once and in order, and no call of a session
that can come back fails.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from pytest_django import DjangoDbBlocker

from environments.runtime.secrets_mask import STARS
from environments.runtime.sessions_after_restart import REOPENED
from tests.cluster.machines import Machines, machines, needs_namespaces
from tests.conformance.agent import eventually
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.conformance.record import Recorded, recorded

AGENTS = int(os.environ.get("TESTS_CLUSTER_AGENTS", "64"))
CALLS_AN_EPISODE = 12
CALL_SECONDS = 0.3
CALLS_BETWEEN = 400
"""Answered calls between two failures."""
RELOADS = 10
LINK_DOWN_SECONDS = 10.0
KEY = "secret-of-alice"
CLASSES = (
    *(
        f"tests.cluster.envs:{name}"
        for name in ("AddingHere", "SavingInWorkers", "TellingHere", "TellingInWorkers")
    ),
    "tests.envs_returning:AddingInWorkers",
)
ENVIRONMENTS = [name.rpartition(":")[2].lower() for name in CLASSES]


@dataclass
class Counted:
    """What clients saw: the sums that each session was answered, in order, and what failed."""

    answered: dict[str, list[str]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    environments: set[str] = field(default_factory=set)
    """Those that have answered a call."""
    slowest: float = 0.0
    """Seconds of the slowest call."""
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def calls(self) -> int:
        return sum(map(len, list(self.answered.values())))

    def wait(self) -> None:
        """Wait until all agents have played on for a while."""
        goal = self.calls + CALLS_BETWEEN
        eventually(lambda: self.calls >= goal or self.failed, seconds=240)


def play(number: int, place: Machines, counted: Counted) -> None:
    """Play episode after episode with one client."""
    kind = OpenRewardClient if number % 4 == 3 else OrsClient
    environment = ENVIRONMENTS[number % len(ENVIRONMENTS)]
    secrets = {"token": f"secret-of-{number}"} if environment.startswith("telling") else {}
    with kind(place.servers[0], KEY, url=place.url) as client:  # type: ignore[arg-type]  # only its address is read
        while not counted.is_over.is_set():
            try:
                _play_episode(client, environment, secrets, counted)
            except Exception as error:
                counted.failed.append(f"{environment}, {kind.__name__}: {error!r}")


def _play_episode(
    client: OrsClient | OpenRewardClient,
    environment: str,
    secrets: dict[str, str],
    counted: Counted,
) -> None:
    more = {"secrets": client.secrets(secrets)} if secrets else {}
    with client.environment(environment).session(split="train", index=1, **more) as session:
        answered = counted.answered.setdefault(session.sid, [])
        for _ in range(CALLS_AN_EPISODE):
            began = time.monotonic()
            output = session.call_tool("add", {"number": 1, "seconds": CALL_SECONDS})
            counted.slowest = max(counted.slowest, time.monotonic() - began)
            answered.append(output.blocks[0].text)
            counted.environments.add(environment)
        if secrets and (told := session.call_tool("tell", {}).blocks[0].text) not in (
            secrets["token"],
            STARS,
        ):
            # masked: sent again from the record
            raise AssertionError(f"{told!r} instead of {secrets['token']!r}")


@dataclass
class Played:
    counted: Counted
    record: Recorded
    slowest: dict[str, float]


@pytest.fixture(scope="module")
def played(
    django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    needs_namespaces()
    keys = tmp_path_factory.mktemp("machines") / "keys"
    keys.write_text(base64.urlsafe_b64encode(b"k" * 32).decode())
    settings = {
        "ORSWEB_API_KEYS": f"alice:{KEY}",
        "ORSWEB_WORKERS": "2",
        "ORSWEB_SECRETS_KEY_FILE": str(keys),
    }
    with machines(CLASSES, settings) as place:
        counted, slowest = Counted(), dict[str, float]()
        players = [
            threading.Thread(target=play, args=[number, place, counted], daemon=True)
            for number in range(AGENTS)
        ]
        for player in players:
            player.start()
        counted.wait()
        eventually(lambda: counted.environments == {*ENVIRONMENTS} or counted.failed, seconds=240)
        for name, failure in FAILURES.items():
            counted.slowest = 0.0
            failure(place)
            counted.wait()
            slowest[name] = counted.slowest
            assert not counted.failed, (
                name,
                counted.failed,
                [one.log[-3000:] for one in place.servers],
            )
        counted.is_over.set()
        for player in players:
            player.join(timeout=60)
        with recorded(place.database, django_db_blocker) as record:  # type: ignore[arg-type]  # only its URL is read
            yield Played(counted, record, slowest)


def _kill_workers(place: Machines) -> None:
    found = [worker for node in place.nodes for worker in node.workers]
    assert found
    for worker in found:
        worker.kill()


def _kill_a_server(place: Machines) -> None:
    """Its supervisor starts another one."""
    place.servers[1].server.kill()


def _crash_a_machine(place: Machines) -> None:
    machine = place.servers[2]
    machine.switch_off()
    machine.switch_on()
    machine.start()
    machine.wait()


def _crash_a_node(place: Machines) -> None:
    """The processes on it come back on the other one."""
    place.nodes[0].switch_off()
    place.nodes[0].switch_on()


def _pull_a_cable(place: Machines) -> None:
    machine = place.servers[1]
    machine.cut()
    time.sleep(LINK_DOWN_SECONDS)
    machine.mend()
    machine.wait()


def _restart_the_database(place: Machines) -> None:
    place.database.control("restart", "-m", "fast")


def _reload(place: Machines) -> None:
    for number in range(RELOADS):
        place.servers[number % len(place.servers)].reload()


FAILURES: dict[str, Callable[[Machines], None]] = {
    "worker processes killed": _kill_workers,
    "a server killed": _kill_a_server,
    "a machine switched off and on": _crash_a_machine,
    "a Ray node switched off and on": _crash_a_node,
    f"a link down for {LINK_DOWN_SECONDS:g} s": _pull_a_cable,
    "PostgreSQL restarted": _restart_the_database,
    f"{RELOADS} reloads": _reload,
}


def test_no_call_fails(played: Played, tried: Callable[[str], None]) -> None:
    slowest = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in played.slowest.items())
    tried(f"{AGENTS} agents, {played.counted.calls} answered calls; slowest calls: {slowest}")
    assert played.counted.failed == []


def test_every_answered_call_is_on_record_once_and_in_order(played: Played) -> None:
    for sid, answered in played.counted.answered.items():
        [episode] = played.record.episodes.filter(session_id=sid).exclude(detail=REOPENED)
        steps = episode.steps.filter(tool="add").select_related("output_blob").order_by("index")
        sums = [str(number + 1) for number in range(len(steps))]
        assert [(step.index, step.blocks[0]["text"]) for step in steps] == list(enumerate(sums)), (
            sid
        )
        assert answered == sums[: len(answered)] and len(steps) - len(answered) in (0, 1), sid


def test_every_episode_ended_by_its_agent(played: Played) -> None:
    """All but those whose agents never heard that they had begun, and asked again."""
    ends = played.record.episodes.exclude(cause="abandoned").exclude(detail=REOPENED, steps=None)
    assert list(ends.values_list("session_id", "cause", "detail")) == []
