"""Runs that clients play through two servers on one PostgreSQL database: which of them an episode
belongs to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.conformance.agent import Agent
from tests.server import LiveServer, free_port

Servers = tuple[LiveServer, LiveServer]
TIMEOUT = 60


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    first = LiveServer("tests.envs:Echo", env={"ORSWEB_CLUSTER": f"127.0.0.1:{free_port()}"})
    second = LiveServer("tests.envs:Echo", beside=first)
    second.env["ORSWEB_CLUSTER"] = str(second.data_dir / "second.sock")
    with first, second:
        yield first, second


def report(server: LiveServer, name: str, **members: Any) -> dict[str, Any]:
    """Describe the run to a server, and return what it answers."""
    answer = httpx.put(f"{server.url}/api/runs/by-name/{name}", json=members, timeout=TIMEOUT)
    assert answer.is_success, answer.text
    return dict(answer.json())


def play(server: LiveServer, name: str, **headers: str) -> tuple[str, int | None]:
    """Play an episode through a server, and return the name of its run and its training step."""
    named = {
        "X-Run": name,
        **{f"X-{header.replace('_', '-')}": text for header, text in headers.items()},
    }
    mark = uuid.uuid4().hex
    with Agent(server, **named) as agent:
        agent.open({"id": name}, "echo", secrets={"orsweb_mark": mark})
        agent.call("echo", {"text": "hi"})
    query = {"label": f"mark={mark}"}
    [episode] = httpx.get(f"{server.url}/api/episodes", params=query, timeout=TIMEOUT).json()[
        "results"
    ]
    return episode["run"], episode["step"]


def names(server: LiveServer, title: str) -> list[str]:
    runs = httpx.get(f"{server.url}/api/runs", params={"name": title}, timeout=TIMEOUT).json()[
        "results"
    ]
    return sorted(run["name"] for run in runs)


def test_a_run_that_is_announced_to_one_server_goes_on_at_the_other(servers: Servers) -> None:
    first, second = servers
    begun = report(first, "shared", state="running", step=5, model="m")
    assert play(second, "shared") == ("shared", 5)
    assert report(second, "shared", step=6)["id"] == begun["id"]
    assert [play(server, "shared") for server in servers] == [("shared", 6)] * 2
    assert names(first, "shared") == ["shared"]


def test_the_end_that_one_server_hears_is_known_to_the_other(servers: Servers) -> None:
    first, second = servers
    report(first, "over", state="running")
    assert [play(server, "over")[0] for server in servers] == ["over"] * 2
    report(second, "over", state="ended")
    assert [play(server, "over")[0] for server in servers] == ["over (2)"] * 2
    assert play(second, "over", Resume="1")[0] == play(first, "over")[0] == "over (2)"
    report(first, "over", state="ended")
    report(second, "over", resume=True)
    assert [play(server, "over")[0] for server in servers] == ["over (2)"] * 2


def test_two_trainings_at_once_stay_apart_by_their_steps(servers: Servers) -> None:
    first, second = servers
    assert play(first, "twice", Step="40")[0] == play(second, "twice", Step="41")[0] == "twice"
    assert play(second, "twice", Step="1")[0] == "twice (2)"
    turns = [
        (first, "42", "twice"),
        (first, "2", "twice (2)"),
        (second, "43", "twice"),
        (second, "3", "twice (2)"),
    ]
    assert [play(server, "twice", Step=step)[0] for server, step, _ in turns] == [
        run for *_, run in turns
    ]


def test_two_trainings_at_once_stay_apart_by_their_ids(servers: Servers) -> None:
    first, second = servers
    begun = [
        report(server, "ids", state="running", run_id=own)
        for server, own in zip(servers, "ab", strict=True)
    ]
    assert [run["name"] for run in begun] == ["ids", "ids (2)"]
    for server in (second, first):
        assert [play(server, "ids", Run_Id=own)[0] for own in "ab"] == ["ids", "ids (2)"]


def test_a_name_that_both_servers_hear_first_at_the_same_moment_is_one_run(
    servers: Servers,
) -> None:
    with ThreadPoolExecutor(8) as threads:
        played = list(
            threads.map(lambda place: play(servers[place % 2], "at-once", Model="m")[0], range(8))
        )
    assert played == ["at-once"] * 8 and names(servers[0], "at-once") == ["at-once"]
