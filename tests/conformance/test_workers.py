"""Code of an environment kills or holds its worker process: its own sessions end, and nothing else
does."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator

import psutil
import pytest
from pytest_django import DjangoDbBlocker

from episodes.models import Incident
from tests.conformance.agent import Agent, eventually
from tests.conformance.record import ALIAS, Recorded, recorded
from tests.server import LiveServer
from tests.warm_workers import COLD_WORKERS, workers_of

TOOL_TIMEOUT = 1.0
HOSTED = ("together", "alone", "here", "counting")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    once = tmp_path_factory.mktemp("workers") / "once"
    settings = {
        "ONCE": str(once),
        "ORSWEB_TOOL_TIMEOUT": str(TOOL_TIMEOUT),
        "ORSWEB_WORKER_MEMORY_MB": "2000",
    }
    classes = [f"tests.envs_fatal:{name.capitalize()}" for name in HOSTED]
    with LiveServer(*classes, env=settings) as server:
        yield server


@pytest.fixture
def record(live: LiveServer, django_db_blocker: DjangoDbBlocker) -> Iterator[Recorded]:
    with recorded(live, django_db_blocker) as record:
        yield record


def opened(live: LiveServer, environment: str) -> tuple[Agent, int]:
    """Return an agent with a session of `environment`, and the number of the process that plays
    it."""
    agent = Agent(live).open({"id": 1}, environment)
    return agent, int(agent.call("pid").text)


def in_session_of(pid: int) -> list[int]:
    """Return the processes that a worker has started, and itself."""
    found = []
    for one in psutil.pids():
        with contextlib.suppress(ProcessLookupError):
            found += [one] if os.getsid(one) == pid else []
    return found


def test_agents_notice_no_difference(live: LiveServer, record: Recorded) -> None:
    played = []
    for name in ("together", "here"):
        with Agent(live).open({"id": 1}, name, secrets={"token": "a-secret"}) as agent:
            read = [
                agent.get(f"/{name}/{what}").text for what in ("prompt", "messages", "task_tools")
            ]
            assert int(agent.call("pid").text) > 0
            answers = [agent.call("unknown").result, agent.call("wait").error]
        steps = [
            (step.tool, step.status, step.reason, step.error) for step in record.steps(agent.sid)
        ]
        played.append((read, answers, steps, record.episode(agent.sid).cause))
    assert played[0] == played[1]


@pytest.mark.parametrize(
    ("tool", "how"),
    [
        ("crash", "was ended by signal 11 (SIGSEGV)"),
        ("leave", "exited with status 0"),
        ("leave_a_child", "exited with status 3"),
        ("hold", "was ended, because it did not respond for"),
    ],
)
def test_a_call_that_ends_its_process_ends_its_sessions_alone(
    live: LiveServer, record: Recorded, tool: str, how: str
) -> None:
    other, (agent, pid), (idle, its) = (
        Agent(live).open({"id": 1}, "here"),
        *(opened(live, "together"),) * 2,
    )
    assert pid == its
    answer = agent.call(tool)
    assert answer.error.startswith(f"The worker process of 'together' (pid {pid}) {how}")
    assert answer.error.endswith(f" while it ran '{tool}'.")
    for sid in (agent.sid, idle.sid):
        eventually(lambda sid=sid: record.episode(sid).cause == "interrupted")  # type: ignore[misc]
        assert record.episode(sid).detail == answer.error
    assert answer.error in idle.post("/ping").text
    assert [step.status for step in record.steps(agent.sid)] == ["ok", "failed"]
    assert other.post("/ping").status_code == 200
    assert opened(live, "together")[1] != pid
    eventually(lambda: not in_session_of(pid))
    assert "is started again" not in live.log


def test_the_end_of_a_process_is_an_incident(live: LiveServer, record: Recorded) -> None:
    agent, _ = opened(live, "together")
    agent.call("crash_in_thread")
    incidents = Incident.objects.using(ALIAS).filter(kind="lost", call="crash_in_thread")
    eventually(incidents.exists)
    incident = incidents.get()
    assert (incident.environment.name, incident.episode) == (
        "together",
        record.episode(agent.sid).pk,
    )
    assert str(incident) == "worker process was ended by signal 11 (SIGSEGV)"
    assert incident.environment.is_enabled


def test_others_are_answered_while_code_holds_the_interpreter(live: LiveServer) -> None:
    other, (agent, pid) = opened(live, "alone")[0], opened(live, "together")
    pending = agent.begin("hold")
    started = time.monotonic()
    for _ in range(5):
        other.call("pid")
    assert time.monotonic() - started < TOOL_TIMEOUT
    psutil.Process(pid).kill()
    assert b"by signal 9" in pending.hear(b"event: error")


def test_a_call_that_runs_on_after_its_time_is_ended_with_its_process(
    live: LiveServer, record: Recorded
) -> None:
    agent, pid = opened(live, "alone")
    assert agent.call("sleep").error == "'sleep' ran longer than 1 s (ORSWEB_TOOL_TIMEOUT)"
    eventually(lambda: not psutil.pid_exists(pid))
    eventually(lambda: record.episode(agent.sid).cause == "interrupted")
    assert "because a call in it ran on after its time was over" in record.episode(agent.sid).detail


def test_no_new_session_gets_a_process_in_which_a_call_hangs(live: LiveServer) -> None:
    (agent, pid), (other, its) = opened(live, "together"), opened(live, "together")
    assert pid == its
    agent.call("sleep")
    assert opened(live, "together")[1] != pid
    assert int(other.call("pid").text) == pid  # the others have their chance to end
    agent.close()
    other.close()
    eventually(lambda: not psutil.pid_exists(pid))


def test_each_session_has_a_process_of_its_own_where_the_class_says_so(live: LiveServer) -> None:
    (first, pid), (second, its) = opened(live, "alone"), opened(live, "alone")
    assert pid != its
    first.close()
    eventually(lambda: not psutil.pid_exists(pid))
    assert int(second.call("pid").text) == its


def test_a_process_gets_no_more_memory_than_it_may_have(live: LiveServer) -> None:
    agent, pid = opened(live, "together")
    assert agent.call("allocate").error == "MemoryError"
    assert int(agent.call("pid").text) == pid


def test_sessions_of_a_replayable_class_go_on_in_another_process(
    live: LiveServer, record: Recorded
) -> None:
    (idle, killer) = (Agent(live).open({"id": 1}, "counting") for _ in range(2))
    assert [idle.call("step").text for _ in range(2)] == ["1", "2"]
    killer.call("step")
    assert killer.call("crash_once").text == "lives"  # the call was made again
    assert killer.call("step").text == "2"
    # twice is enough
    assert killer.call("leave").error.endswith("exited with status 0 while it ran 'leave'.")
    eventually(lambda: record.episode(killer.sid).cause == "interrupted")
    assert idle.call("step").text == "3"
    idle.close()
    assert [step.status for step in record.steps(idle.sid)] == ["ok"] * 3
    assert (record.episode(idle.sid).cause, record.episode(idle.sid).return_sum) == (
        "abandoned",
        3.0,
    )


def test_a_session_ends_whose_calls_had_other_outcomes(live: LiveServer, record: Recorded) -> None:
    agent, killer = (Agent(live).open({"id": 1}, "counting") for _ in range(2))
    agent.call("step")
    pid = agent.call("pid").text
    killer.call("leave")
    error = agent.call("step").error
    assert f"(pid {pid}) exited with status 0" in error
    assert error.endswith(
        "The session did not come back, because step 1 ('pid') had another outcome."
    )
    eventually(lambda: record.episode(agent.sid).cause == "interrupted")
    assert record.episode(agent.sid).detail == error


def test_only_the_call_that_ends_its_process_fails_of_those_that_run_in_it(
    live: LiveServer, record: Recorded
) -> None:
    *agents, killer = (Agent(live).open({"id": 1}, "counting") for _ in range(4))
    calls = [agent.begin("step_slowly") for agent in agents]
    assert killer.call("leave").error.endswith("exited with status 0 while it ran 'leave'.")
    for agent, call in zip(agents, calls, strict=True):
        call.hear(b"event: end")
        assert agent.call("step").text == "2"
        assert [step.status for step in record.steps(agent.sid)] == ["ok", "ok"]


def test_processes_end_with_the_server(live: LiveServer) -> None:
    with LiveServer("tests.envs_fatal:Together", env={COLD_WORKERS: "1"}) as server:
        _, pid = opened(server, "together")
        server.kill()
        eventually(lambda: not psutil.pid_exists(pid))
        server.start()
        _, pid = opened(server, "together")
        server.stop()
        assert not psutil.pid_exists(pid)


def test_the_operator_sees_processes_and_deaths(live: LiveServer) -> None:
    with Agent(live) as agent:
        metrics = agent.http.get("/metrics").text
        page = agent.http.get("/operations/").text
    assert 'orsweb_worker_processes{environment="together"} ' in metrics
    assert re.search(r'orsweb_worker_deaths_total{environment="together"} [1-9]', metrics)
    assert 'orsweb_worker_lag_seconds{environment="together"} ' in metrics and ">Lag</th>" in page
    # without calls there is no lag
    assert "0.0 ms" not in page.partition(">Lag</th>")[2].partition("</table>")[0]
    assert 'data-workers-of="together"' in page and 'data-workers-of="here"' not in page


MOVES = {
    "guess": [("guess", {"number": 1}), ("guess", {"number": 2})],
    "maze": [("move", {"direction": "up"}), ("move", {"direction": "left"})],
    "web": [("search", {"text": "a"})] * 2,
    "math": [("answer", {"value": "-1"})] * 2,
}
"""Two calls of bundled environments, the second after the end of the process that has played the
first."""


def test_sessions_of_bundled_environments_survive_the_end_of_their_process() -> None:
    classes = [f"environments.builtin.{name}:{name.capitalize()}" for name in MOVES]
    with LiveServer(*classes, env={"ORSWEB_WORKERS": "1"}) as server:
        agents = {name: Agent(server).open(env_name=name, split="train", index=0) for name in MOVES}
        for name, agent in agents.items():
            agent.call(*MOVES[name][0])
        read = {name: agent.get(f"/{name}/prompt").text for name, agent in agents.items()}
        workers = workers_of(server.pid)
        assert len(workers) == len(MOVES)
        for worker in workers:
            worker.kill()
        for name, agent in agents.items():
            assert agent.get(f"/{name}/prompt").text == read[name]
            assert not agent.call(*MOVES[name][1]).error
        assert server.log.count("a session came back in another worker process") == len(MOVES)
