"""Tests of /v1/ with the unmodified recorder of openreward, its `get_task_difficulty`, and the
command `orwd`."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openreward import OpenReward, cli
from openreward.models import RolloutInfo, RunInfo
from pytest_django import DjangoDbBlocker

from episodes.models import Rollout, RolloutMessage
from tests.conformance.record import ALIAS, recorded
from tests.episodes.platform_api.uploading import message
from tests.server import LiveServer

KEY = "alice-key-0123456789"


@pytest.fixture(scope="module")
def platform() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo", "tests.envs:Secretive") as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[LiveServer]:
    with LiveServer(
        "tests.envs:Echo", env={"ORSWEB_API_KEYS": f"alice:{KEY},bob:bob-key-9876543210"}
    ) as running:
        yield running


@pytest.fixture
def rows(platform: LiveServer, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with recorded(platform, django_db_blocker):
        yield


def client_of(server: LiveServer, monkeypatch: pytest.MonkeyPatch, key: str = "") -> OpenReward:
    for name in ("OPENREWARD_API_URL", "OPENREWARD_SESSION_URL", "OPENREWARD_URL"):
        monkeypatch.setenv(name, server.url)
    monkeypatch.setenv("OPENREWARD_DISABLE_UPDATE_CHECK", "1")
    return OpenReward(api_key=key)


def log_rollout(client: OpenReward, run: str, index: int, reward: float, texts: int = 2) -> str:
    """Upload a rollout of the task `index`; return its id."""
    rollout = client.rollout.create(
        run_name=run,
        rollout_name=f"task {index}",
        environment="acme/echo",
        split="train",
        task_spec={"id": index},
        run_info=RunInfo(model_name="model-x", model_params=7, training_stage="rl"),
    )
    rollout.log_openai_completions({"role": "system", "content": "Be brief."})
    for number in range(texts):
        rollout.log_anthropic_message(
            {"role": "assistant", "content": [{"type": "text", "text": f"thought {number}"}]}
        )
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "echo", "arguments": '{"text":"hi"}'},
    }
    rollout.log_openai_completions({"role": "assistant", "content": None, "tool_calls": [call]})
    rollout.log_openai_completions(
        {"role": "tool", "tool_call_id": "c1", "content": "hi"},
        reward=reward,
        is_finished=True,
        rollout_info=RolloutInfo(task_index=index, current_step=4),
    )
    return str(rollout.event_id)


def orwd(*args: str, fails: bool = False) -> str:
    """Run the command in this process, which takes a fraction of starting it; return what it
    printed."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            status: Any = cli.main(list(args))
    except SystemExit as error:
        status = error.code
    assert bool(status) == fails, status
    return str(status) if fails else printed.getvalue()


def test_the_recorder_uploads_whole_rollouts(
    platform: LiveServer, rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(platform, monkeypatch)
    ids = [log_rollout(client, "conformance", index, index / 4, texts=200) for index in range(4)]
    client.rollout.close()
    for index, one in enumerate(ids):
        rollout = Rollout.objects.using(ALIAS).select_related("run").get(event_id=one)
        messages = list(RolloutMessage.objects.using(ALIAS).filter(rollout=rollout))
        assert rollout.run is not None
        assert (rollout.run.name, rollout.model, rollout.task_index) == (
            "conformance",
            "model-x",
            index,
        )
        assert (rollout.environment_name, rollout.run_step, rollout.problem) == ("echo", 4, "")
        assert rollout.event_object["environment_id"] == "echo"
        assert [message.index for message in messages] == list(range(203))
        assert [message.kind for message in messages[-2:]] == ["tool_call", "tool_result"]
        assert {message.problem for message in messages} == {""}


def test_it_tells_the_difficulty_of_tasks(
    platform: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(platform, monkeypatch)
    for reward in (0.0, 1.0):
        log_rollout(client, "difficulty", 11, reward)
    client.rollout.close()
    environment = client.environments.get("acme/echo")
    [task] = [
        task for task in environment.get_task_difficulty(split="train") if task.task_index == 11
    ]
    assert (task.avg_reward, task.min_reward, task.max_reward, task.num_rollouts) == (
        0.5,
        0.0,
        1.0,
        2,
    )
    assert task.response_chars.mean == 2 * len("thought 0") + len('{"text":"hi"}')
    assert environment.get_task_difficulty(model_name="nobody") == []
    assert environment.get_task_difficulty(min_model_params=8) == []
    assert len(environment.get_task_difficulty(max_model_params=7, training_stage="rl")) >= 1
    assert environment.list_required_secrets() == []


def test_it_tells_the_difficulty_of_what_was_only_played(
    platform: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(platform, monkeypatch)
    environment = client.environments.get("acme/echo")
    for task in ({"index": 1, "split": "train"}, {"task": environment.list_tasks("train")[2]}):
        with environment.session(**task) as session:
            session.call_tool("echo", {"text": "hello"})
            session.call_tool("finish", {})
    told = [task for task in environment.get_task_difficulty(split="train") if task.variant is None]
    # the second was opened with the content of its task, as examples of both SDKs do
    for index in (1, 2):
        [task] = [task for task in told if task.task_index == index]
        assert task.num_rollouts >= 1
        assert task.response_chars.p50 > 0


def test_the_command_line_works_without_an_account(
    platform: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(platform, monkeypatch)
    log_rollout(client, "command-line", 2, 0.5)
    client.rollout.close()
    monkeypatch.setenv("OPENREWARD_API_KEY", "any")
    assert json.loads(orwd("whoami", "-o", "json")) == {
        "name": "local",
        "id": "local",
        "type": "user",
    }
    assert "local/echo" in orwd("list", "--mine")
    assert "Showing 1 of 1" in orwd("list", "--search", "secret")
    assert "ID:          echo" in orwd("get", "acme/echo")
    [run] = json.loads(orwd("runs", "--search", "command-l", "-o", "json"))
    assert (run["num_rollouts"], run["avg_rollout_reward"]) == (1, 0.5)
    assert "Avg length:     5.0" in orwd("run", run["id"])
    [rollout] = json.loads(orwd("rollouts", run["id"], "-o", "json"))
    assert (rollout["rolloutName"], rollout["environment"]) == ("task 2", "acme/echo")
    assert (rollout["max_reward"], rollout["num_messages"]) == (0.5, 5)
    assert "There is no run 'nope'" in orwd("run", "nope", fails=True)
    assert "unknown environment" in orwd("get", "acme/nope", fails=True)
    assert "This server has no /v1/billing" in orwd("usage", fails=True)


def test_keys_see_their_own(guarded: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(guarded, monkeypatch, KEY)
    log_rollout(client, "of-alice", 1, 1.0)
    client.rollout.close()
    assert len(client.environments.get("acme/echo").get_task_difficulty()) == 1
    with httpx.Client(base_url=guarded.url) as http:
        paths = [
            "/v1/runs",
            "/v1/environments",
            "/v1/namespace/current",
            "/v1/environments/a/echo/task-difficulty",
        ]
        assert [http.get(path).status_code for path in paths] == [401] * 4
        bob = {"X-API-Key": "bob-key-9876543210"}
        assert http.get("/v1/runs", headers=bob).json() == {"runs": [], "total": 0}
        assert http.get(paths[3], headers=bob).json() == {"tasks": []}
        assert http.get("/v1/runs", headers={"X-API-Key": KEY}).json()["total"] == 1
        assert http.get(paths[2], headers=bob).json()["name"] == "bob"
    assert KEY not in guarded.log


@pytest.mark.parametrize(
    "path", ["/v1/runs?limit=x", "/v1/runs?offset=-1", "/v1/environments?limit=1.5"]
)
def test_it_says_which_numbers_it_takes(platform: LiveServer, path: str) -> None:
    answer = httpx.get(platform.url + path)
    assert (answer.status_code, "whole number" in answer.json()["message"]) == (400, True)


def test_a_kill_loses_nothing_that_was_acknowledged(django_db_blocker: DjangoDbBlocker) -> None:
    acknowledged: list[str] = []
    with LiveServer("tests.envs:Echo") as server:
        for number in range(3):
            if number:
                server.start()
            killer = threading.Timer(0.3, server.kill)
            killer.start()
            with httpx.Client(base_url=server.url) as http, contextlib.suppress(httpx.HTTPError):
                while True:
                    batch = [message("killed", len(acknowledged) + n) for n in range(16)]
                    assert http.post("/v1/rollouts", json={"events": batch}).status_code == 200
                    acknowledged += [event["eventId"] for event in batch]
            killer.join()
        with recorded(server, django_db_blocker):
            stored = set(RolloutMessage.objects.using(ALIAS).values_list("event_id", flat=True))
    assert len(acknowledged) > 16
    assert set(acknowledged) <= stored
