"""An answered call is recorded, however often the server is killed (SIGKILL) during play, and its
follower before it.

The server's process is the one that writes, so each kill is one of the writer, in the middle of a
batch or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx
import psutil
import pytest
from django.db.models import Sum
from pytest_django import DjangoDbBlocker

from episodes.models import Activity
from tests.conformance.agent import Agent, eventually
from tests.conformance.record import Recorded, recorded
from tests.hostile.sizes import size
from tests.server import LiveServer

KILLS = size(3, 100)
PLAYERS = 8
STEPS_BEFORE_A_KILL = 130
STEPS_AFTER_THE_FOLLOWER = 20
STEPS_AN_EPISODE = 20


@dataclass
class Counted:
    """The state of the clients: the task_ids of the answered calls of each session, in order."""

    answered: dict[str, list[str]] = field(default_factory=dict)
    is_over: threading.Event = field(default_factory=threading.Event)
    is_up: threading.Event = field(default_factory=threading.Event)
    """Whether the server answers, for which clients wait without asking it, as eight that ask take a core."""
    pause_seconds: float = 0.0
    """How long a client waits between two calls."""

    @property
    def steps(self) -> int:
        return sum(map(len, list(self.answered.values())))


def play(server: LiveServer, counted: Counted) -> None:
    """Play episode after episode; when the connection fails, wait for the server and open another
    session."""
    while not counted.is_over.is_set():
        try:
            _play_episode(server, counted)
        except (
            httpx.TransportError,
            AssertionError,
        ):  # the latter: an answer was cut short, or the server is draining
            counted.is_over.wait(0.02)
            counted.is_up.wait()


def _play_episode(server: LiveServer, counted: Counted) -> None:
    agent = Agent(server).open({"id": 1})
    answered = counted.answered.setdefault(agent.sid, [])
    for number in range(1, STEPS_AN_EPISODE + 1):
        answer = agent.call("count")
        assert answer.text == str(number)
        answered.append(answer.task_id)
        counted.is_over.wait(counted.pause_seconds)
    agent.close()
    agent.http.close()


def kill_follower(server: LiveServer) -> None:
    """Kill the process of the follower; the server starts another one a second later, unless it is
    killed before."""
    for process in psutil.Process(server.pid).children():
        if "episodes.rollups.follower_process" in process.cmdline():
            process.kill()


@dataclass(frozen=True)
class Played:
    server: LiveServer
    counted: Counted
    record: Recorded


@pytest.fixture(scope="module")
def played(django_db_blocker: DjangoDbBlocker) -> Iterator[Played]:
    """A server that was killed KILLS times while PLAYERS played, and has been started again."""
    counted = Counted()
    with LiveServer("tests.envs:Counter", env={"ORSWEB_FOLLOWER": "process"}) as server:
        players = [
            threading.Thread(target=play, args=[server, counted], daemon=True)
            for _ in range(PLAYERS)
        ]
        counted.is_up.set()
        for player in players:
            player.start()
        for _ in range(KILLS):
            goal = counted.steps + STEPS_BEFORE_A_KILL
            eventually(lambda goal=goal: counted.steps >= goal, seconds=60)  # type: ignore[misc]  # bound now, called now
            kill_follower(server)
            goal = counted.steps + STEPS_AFTER_THE_FOLLOWER
            eventually(lambda goal=goal: counted.steps >= goal, seconds=60)  # type: ignore[misc]
            counted.is_up.clear()
            server.kill()
            server.start()
            counted.is_up.set()
        counted.is_over.set()
        for player in players:
            player.join(timeout=30)
        with recorded(server, django_db_blocker) as record:
            yield Played(server, counted, record)


def test_it_has_every_answered_step(played: Played, tried: Callable[[str], None]) -> None:
    tried(f"{KILLS} kills under {PLAYERS} agents, {played.counted.steps} answered steps")
    assert played.counted.steps >= KILLS * (STEPS_BEFORE_A_KILL + STEPS_AFTER_THE_FOLLOWER)
    for sid, answered in played.counted.answered.items():
        assert [step.task_id for step in played.record.steps(sid)][: len(answered)] == answered


def test_it_has_no_step_twice_and_none_left_out(played: Played) -> None:
    for sid, answered in played.counted.answered.items():
        steps = played.record.steps(sid)
        assert [(step.index, step.blocks[0]["text"]) for step in steps] == [
            (n, str(n + 1)) for n in range(len(steps))
        ]
        # the kill may have prevented the answer to a recorded call
        assert len(steps) - len(answered) in (0, 1)


def test_it_closed_what_was_open_as_interrupted(played: Played) -> None:
    causes = set(played.record.episodes.filter(status="ended").values_list("cause", flat=True))
    assert causes <= {"interrupted", "abandoned"}
    assert played.record.episodes.filter(cause="interrupted").count() >= KILLS


def test_it_says_why_to_their_clients(played: Played) -> None:
    episode = played.record.episodes.filter(cause="interrupted").latest("pk")
    assert episode.detail.startswith("The server's process was ended")
    answer = httpx.post(f"{played.server.url}/ping", headers={"X-Session-ID": episode.session_id})
    assert answer.status_code == 404 and answer.json()["detail"].endswith(episode.detail)


def test_it_counted_the_steps_of_interrupted_episodes(played: Played) -> None:
    for episode in played.record.episodes.filter(cause="interrupted"):
        steps = episode.steps.count()
        assert (episode.steps_count, episode.return_sum) == (steps, float(steps))


def test_it_tells_the_last_answers_before_a_kill_again(played: Played) -> None:
    interrupted = played.record.episodes.filter(cause="interrupted").values_list(
        "session_id", flat=True
    )
    asked = [sid for sid in interrupted if played.counted.answered.get(sid)]
    assert asked
    for sid in asked:
        with Agent(played.server) as agent:
            agent.sid = sid
            answered = played.counted.answered[sid]
            assert agent.call("count", task_id=answered[-1]).text == str(len(answered))


def test_what_is_derived_counts_each_ended_episode_once(played: Played) -> None:
    def counted() -> int:
        days = Activity.objects.using(played.record.episodes.db).filter(period=86400)
        return days.aggregate(all=Sum("episodes"))["all"] or 0

    ended = played.record.episodes.filter(status="ended").count()
    eventually(lambda: counted() >= ended, seconds=30)
    assert counted() == ended
