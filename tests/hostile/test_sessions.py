"""Clients that open, call, ping, repeat, reconnect and delete in any order, compared with a model
of their sessions.

Each rule is done by one client while others do the same to sessions of their own on the same
server.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    rule,
    run_state_machine_as_test,
)

from tests.conformance.agent import Agent
from tests.hostile.sizes import size
from tests.server import LiveServer

EXAMPLES, STEPS, CLIENTS = size(3, 30), size(12, 40), size(2, 4)


@dataclass(eq=False)
class Modelled:
    """What is true of a session: the numbers that `count` has said, by task_id."""

    agent: Agent
    said: dict[str, str] = field(default_factory=dict)
    is_live: bool = True


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.hostile.envs:Sturdy") as running:
        yield running


def machine(server: LiveServer, done: list[str]) -> Callable[[], RuleBasedStateMachine]:
    """Return what makes the machine of one client, which notes what it did in `done`.

    A function and not the class: hypothesis reads the source of a class with `ast.parse`, which
    Python 3.11 does not survive in several threads at once.
    """

    class Client(RuleBasedStateMachine):
        sessions = Bundle[Modelled]("sessions")

        @rule(target=sessions, number=st.integers(0, 5))
        def create(self, number: int) -> Modelled:
            done.append("create")
            return Modelled(Agent(server).open({"id": number}))

        @rule(session=sessions)
        def call(self, session: Modelled) -> None:
            done.append("call")
            task_id = uuid.uuid4().hex
            body = {"name": "count", "input": {}, "task_id": task_id}
            response = session.agent.post("/call", body)
            if not session.is_live:
                assert response.status_code == 404
                return
            session.said[task_id] = str(len(session.said) + 1)
            assert session.agent.call("count", task_id=task_id).text == session.said[task_id]

        @rule(session=sessions, data=st.data())
        def repeat(self, session: Modelled, data: st.DataObject) -> None:
            """Ask for an earlier result again, over another connection; it is told also when the
            session is over."""
            if not session.said:
                return
            done.append("repeat")
            task_id = data.draw(st.sampled_from(sorted(session.said)))
            agent = Agent(server)
            agent.sid = session.agent.sid
            assert agent.call("count", task_id=task_id).text == session.said[task_id]
            agent.http.close()

        @rule(session=sessions)
        def reconnect(self, session: Modelled) -> None:
            """Lose the connection of a call that was sent, and fetch its result by its id."""
            if not session.is_live:
                return
            done.append("reconnect")
            task_id = uuid.uuid4().hex
            pending = session.agent.begin("count", task_id=task_id)
            pending.hear(b"task_id")
            pending.drop()
            session.said[task_id] = str(len(session.said) + 1)
            assert session.agent.call("count", task_id=task_id).text == session.said[task_id]

        @rule(session=sessions)
        def ping(self, session: Modelled) -> None:
            done.append("ping")
            assert session.agent.post("/ping").status_code == (200 if session.is_live else 404)

        @rule(session=sessions)
        def create_again(self, session: Modelled) -> None:
            """Ask for another task. It is refused, and the session goes on counting, as later calls
            show."""
            if not session.is_live:
                return
            done.append("create again")
            assert session.agent.create({"id": 1000}).status_code == 400

        @rule(session=sessions)
        def delete(self, session: Modelled) -> None:
            done.append("delete")
            assert session.agent.post("/delete").status_code == 200
            session.is_live = False

        @rule(session=consumes(sessions))
        def leave(self, session: Modelled) -> None:
            session.agent.http.close()

    def make() -> RuleBasedStateMachine:
        return Client()

    return make


def test_every_session_is_as_its_model(server: LiveServer, tried: Callable[[str], None]) -> None:
    done = list[str]()
    bounds = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    with ThreadPoolExecutor(CLIENTS) as pool:
        runs = [
            pool.submit(run_state_machine_as_test, machine(server, done), settings=bounds)
            for _ in range(CLIENTS)
        ]
        for run in runs:
            run.result()
    assert server.is_healthy() and "Traceback" not in server.log
    tried(f"{CLIENTS} clients at once, {len(done)} requests: {', '.join(sorted(set(done)))}")
