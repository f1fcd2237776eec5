"""Sessions on the nodes of a Ray cluster: played, recorded, ended with their node, and revived on
another one."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from pytest_django import DjangoDbBlocker
from ray.cluster_utils import Cluster

from environments.authoring.registry import load_class
from environments.errors import EnvironmentFault, Unhostable
from environments.hosts import ray_launcher, worker_host
from environments.hosts.ray_launcher import RayLauncher
from environments.hosts.worker_host import WorkerHost
from environments.limits import Limits, WorkerSettings
from tests.conformance.agent import Agent, eventually
from tests.conformance.record import Recorded, recorded
from tests.server import LiveServer

HOSTED = ("counting", "together", "here")
RETURNING = ("tests.envs_returning:SavingInWorkers", "tests.cluster.envs:TellingInWorkers")
SECRET = "t0p-secret-of-a-session"
WORKER = "environments.hosts.worker_program"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yield a cluster whose first node has no CPU, so that every session is played on another
    one."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=2)
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def live(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    keys = tmp_path_factory.mktemp("ray") / "keys"
    keys.write_text(base64.urlsafe_b64encode(b"k" * 32).decode())
    settings = {"ORSWEB_SESSION_HOSTS": f"ray={cluster.address}", "ORSWEB_TOOL_TIMEOUT": "10"}
    settings["ORSWEB_SECRETS_KEY_FILE"] = str(keys)
    fatal = [f"tests.envs_fatal:{name.capitalize()}" for name in HOSTED]
    with LiveServer(*fatal, *RETURNING, env=settings) as server:
        yield server


@pytest.fixture
def record(live: LiveServer, django_db_blocker: DjangoDbBlocker) -> Iterator[Recorded]:
    with recorded(live, django_db_blocker) as record:
        yield record


def opened(live: LiveServer, environment: str, **more: Any) -> tuple[Agent, psutil.Process]:
    """Return an agent with a session of `environment`, and the process that plays it."""
    before = worker_processes()
    agent = Agent(live).open({"id": 1}, environment, **more)
    [started] = worker_processes() - before
    return agent, started


def worker_processes() -> set[psutil.Process]:
    return {process for process in psutil.process_iter() if WORKER in " ".join(command_of(process))}


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


def node_of(process: psutil.Process) -> int:
    """Return the number of the process of Ray's node that has started the actor of a worker
    process."""
    return next(parent.pid for parent in process.parents() if parent.name().startswith("raylet"))


def test_agents_notice_no_difference(live: LiveServer, record: Recorded) -> None:
    played = []
    for name in ("together", "here"):
        with Agent(live).open({"id": 1}, name, secrets={"token": "a-secret"}) as agent:
            played.append(
                [agent.get(f"/{name}/{what}").text for what in ("prompt", "messages", "task_tools")]
            )
            assert (int(agent.call("pid").text) == live.pid) == (name == "here")
        assert record.episode(agent.sid).cause == "abandoned" and len(record.steps(agent.sid)) == 1
    assert played[0] == [text.replace('"here"', '"together"') for text in played[1]]


def test_a_crash_ends_its_sessions_with_the_signal_as_the_reason(
    live: LiveServer, record: Recorded
) -> None:
    agent = Agent(live).open({"id": 1}, "together")
    assert re.search(
        r"ended by signal 11 \(SIGSEGV\) while it ran 'crash'", agent.call("crash").error
    )
    eventually(lambda: record.episode(agent.sid).cause == "interrupted")


def test_a_lost_node_ends_sessions_and_revives_those_that_can_be_replayed(
    live: LiveServer, cluster: Cluster, record: Recorded
) -> None:
    mortal, its = opened(live, "together")
    replayable, process = opened(live, "counting")
    assert [replayable.call("step").text for _ in range(3)] == ["1", "2", "3"]
    lose_nodes_of(cluster, its, process)
    assert replayable.call("step").text == "4"
    eventually(lambda: record.episode(mortal.sid).status == "ended")
    assert record.episode(mortal.sid).cause == "interrupted"
    assert "The worker process of 'together'" in record.episode(mortal.sid).detail


def test_snapshots_and_secrets_outlive_the_node_and_the_server(
    live: LiveServer, cluster: Cluster, record: Recorded
) -> None:
    saving, its = opened(live, "savinginworkers")
    telling, other = opened(live, "tellinginworkers", secrets={"token": SECRET})
    agents = [saving, telling]
    assert [agent.call("add", {"number": 1}).text for agent in agents] == ["1", "1"]
    lose_nodes_of(cluster, its, other)
    # or a call may be on its way to it, of which nobody knows whether it was made
    for process in (its, other):
        eventually(lambda process=process: f"(pid {process.pid} on" in live.log)  # type: ignore[misc]  # bound now
    assert [agent.call("add", {"number": 10}).text for agent in agents] == ["11", "11"]
    live.kill()
    live.start()
    for agent in agents:
        again = Agent(live)
        again.sid = agent.sid
        assert again.call("add", {"number": 100}).text == "111"
        if agent is telling:
            assert again.call("tell").text == SECRET
        again.close()
        assert record.episode(agent.sid).cause == "abandoned"


def lose_nodes_of(cluster: Cluster, *processes: psutil.Process) -> None:
    """Remove the nodes that play these processes, and wait until they have ended."""
    nodes = {node_of(process) for process in processes}
    for node in [node for node in cluster.worker_nodes if raylet_of(node) in nodes]:
        cluster.add_node(num_cpus=2)
        cluster.remove_node(node, allow_graceful=False)
    for process in processes:
        eventually(lambda process=process: not process.is_running())  # type: ignore[misc]  # bound now, called now


def raylet_of(node: object) -> int:
    [info] = node.all_processes["raylet"]  # type: ignore[attr-defined]
    return int(info.process.pid)


async def test_processes_follow_the_load_between_the_least_and_the_most(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_host, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(worker_host, "CHECK_SECONDS", 0.05)
    launcher = RayLauncher(cluster.address)
    await launcher.open()
    workers = WorkerHost(
        load_class("tests.envs_fatal:Together"), Limits(), WorkerSettings(count=3), launcher
    )
    checking = asyncio.create_task(workers.keep_alive())
    try:
        instances = [workers.instance() for _ in range(6)]
        for instance in instances:
            await instance.construct({"id": 1}, {}, None)
        assert len(workers.workers) == 3
        for instance in instances:
            await instance.close()
        await asyncio.to_thread(eventually, lambda: len(workers.workers) == 1)
    finally:
        checking.cancel()
        await workers.close()
        await launcher.close()


async def test_what_no_machine_has_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_launcher, "PLACE_SECONDS", 1.0)
    launcher = RayLauncher(cluster.address)
    await launcher.open()
    hosted = load_class("tests.cluster.envs:Demanding")
    workers = WorkerHost(hosted, Limits(), WorkerSettings(), launcher)
    try:
        with pytest.raises(
            EnvironmentFault,
            match=r"no machine .* had CPU 0.5, telescope 1 free "
            r"within 1 s",
        ):
            await workers.instance().construct({"id": 1}, {}, None)
    finally:
        await workers.close()
        await launcher.close()


async def test_a_cluster_that_is_not_there_is_named() -> None:
    with pytest.raises(
        Unhostable,
        match=r"The Ray cluster at 127\.0\.0\.1:9 cannot be reached: "
        r".*refused",
    ):
        await RayLauncher("127.0.0.1:9").open()


def test_processes_end_with_the_server(cluster: Cluster) -> None:
    for end in ("stop", "kill"):
        with LiveServer(
            "tests.envs_fatal:Together", env={"ORSWEB_SESSION_HOSTS": f"ray={cluster.address}"}
        ) as server:
            _, process = opened(server, "together")
            getattr(server, end)()
            eventually(lambda process=process: not process.is_running())  # type: ignore[misc]  # bound now, called now
