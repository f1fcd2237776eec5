"""The code of docs/runs.md, run as it is against a server."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.conformance.agent import Agent
from tests.server import LiveServer

PAGE = Path(__file__).resolve().parents[2] / "docs/runs.md"


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo") as running:
        yield running


def blocks_of(server: LiveServer) -> list[str]:
    page = PAGE.read_text(encoding="utf-8").replace("http://127.0.0.1:8080", server.url)
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def run_of(server: LiveServer, name: str) -> Any:
    return httpx.get(f"{server.url}/api/runs/by-name/{name}").json()


def test_the_short_example_reports_a_step(server: LiveServer) -> None:
    exec(blocks_of(server)[0], {})
    assert (run_of(server, "grpo-3")["step"], run_of(server, "grpo-3")["tags"]) == (120, ["sweep"])


def test_the_log_of_scalars_takes_what_wandb_does(server: LiveServer) -> None:
    exec(blocks_of(server)[1], {})
    scalars = httpx.get(f"{server.url}/api/scalars?run=grpo-3").json()["scalars"]
    assert [(row["name"], row["last"], row["last_step"]) for row in scalars] == [
        ("loss", 0.31, 12),
        ("lr", 1e-6, 12),
    ]


def test_the_callback_reports_steps_and_the_end(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub: Any = ModuleType("transformers")
    stub.TrainerCallback = object
    monkeypatch.setitem(sys.modules, "transformers", stub)
    names: dict[str, Any] = {}
    _, scalar_log, callback_code = blocks_of(server)
    exec(scalar_log, names)
    exec(callback_code, names)
    callback = names["OrswebRun"](server.url, "sweep/1", tags=["sweep"])
    config = {"learning_rate": 1e-5, "top_entropy_quantile": float("nan")}
    args, state = SimpleNamespace(to_sanitized_dict=lambda: config), SimpleNamespace(global_step=9)
    callback.on_train_begin(args, state, None)
    state.global_step = 4  # resumed from a checkpoint
    callback.on_train_begin(args, state, None)
    state.global_step = 5
    server.kill()
    starting = Thread(target=server.start)
    starting.start()
    callback.on_step_begin(args, state, None)  # waits until the server is back
    starting.join()
    callback.on_log(args, state, None, logs={"loss": float("nan"), "epoch": 1, "text": "a"})
    with Agent(server, **{"X-Run": "sweep/1"}).open({"id": 1}, "echo") as agent:
        callback.on_train_end(args, state, None)
        assert agent.post("/ping").status_code == 404
    found = run_of(server, "sweep%2F1")
    scalars = httpx.get(f"{server.url}/api/scalars?run=sweep/1").json()["scalars"]
    assert [(row["name"], row["last"], row["gaps"]) for row in scalars] == [
        ("epoch", 1.0, 0),
        ("loss", None, 1),
    ]
    assert (found["step"], found["state"], found["config"]) == (6, "ended", {"learning_rate": 1e-5})
    assert httpx.get(f"{server.url}/api/episodes?run=sweep/1").json()["results"][0]["step"] == 6


def test_ending_a_run_leaves_the_sessions_of_another_run_of_the_name(server: LiveServer) -> None:
    url = f"{server.url}/api/runs/by-name/twice"
    with Agent(server, **{"X-Run": "twice", "X-Step": "40"}).open({"id": 1}, "echo") as first:
        with Agent(server, **{"X-Run": "twice", "X-Step": "1"}).open({"id": 1}, "echo") as second:
            for agent in (first, second):
                agent.call("echo", {"text": "hi"})
            assert httpx.put(url, json={"state": "ended"}).json()["name"] == "twice (2)"
            assert (first.post("/ping").status_code, second.post("/ping").status_code) == (200, 404)
        names = ("twice", "twice (2)")
        steps = [
            httpx.get(f"{server.url}/api/episodes", params={"run": name}).json()["results"]
            for name in names
        ]
        assert [[episode["step"] for episode in page] for page in steps] == [[40], [1]]


@pytest.mark.parametrize("headers", [{"X-Run-Id": "mine"}, {"X-Resume": "yes"}])
def test_a_client_says_which_run_it_means(server: LiveServer, headers: dict[str, str]) -> None:
    name = f"said {next(iter(headers))}"
    for step in ("40", "1"):
        with Agent(server, **{"X-Run": name, "X-Step": step, **headers}).open(
            {"id": 1}, "echo"
        ) as agent:
            agent.call("echo", {"text": "hi"})
    assert [
        one["name"]
        for one in httpx.get(f"{server.url}/api/runs", params={"name": name}).json()["results"]
    ] == [name]
