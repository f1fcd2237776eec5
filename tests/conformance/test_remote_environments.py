"""Environments of other ORS servers, in Go and of both SDKs, played through this one by both real
clients."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client as McpClient

from tests import programs
from tests.conformance.clients import Client, OpenRewardClient, OrsClient
from tests.conformance.record import Recorded
from tests.other_servers import build_go_server, go_server, reference_server
from tests.server import LiveServer, free_port

KEY = "a-key-of-the-go-server"
LONG = "words and more words " * 900
"""Longer than one event, with blanks at the cuts."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_go_server(tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def server(program: Path) -> Iterator[LiveServer]:
    """Serve environments of three servers. The one in Go needs a key."""
    with (
        go_server(program, key=KEY) as go,
        reference_server("ors", "tests.envs_ors", "OrsEcho") as ors,
        reference_server(
            "openreward", "tests.envs_openreward", "OrwEcho", "OrwScored", "OrwConversation"
        ) as openreward,
        LiveServer(
            f"go={go}/sums",
            f"{ors}/orsecho",
            f"{openreward}/orwecho",
            f"scored={openreward}/orwscored",
            f"{openreward}/orwconversation",
            env={"ORSWEB_REMOTE_KEY_GO": KEY},
        ) as serving,
    ):
        yield serving


@pytest.fixture(scope="module")
def ors(server: LiveServer) -> Iterator[OrsClient]:
    with OrsClient(server) as one:
        yield one


@pytest.fixture(scope="module")
def openreward(server: LiveServer) -> Iterator[OpenRewardClient]:
    with OpenRewardClient(server) as one:
        yield one


def _plain(output: Any) -> dict[str, Any]:
    """Return what a client shows of an output, as the record has it."""
    blocks = [{name: value for name, value in vars(block).items()} for block in output.blocks]
    return {
        "blocks": blocks,
        "metadata": output.metadata,
        "reward": output.reward,
        "finished": output.finished,
    }


def test_it_lists_what_the_go_server_has(client: Client) -> None:
    environment = client.environment("go")
    assert [
        split if isinstance(split, str) else split.name for split in environment.list_splits()
    ] == ["train", "test"]
    assert [tool.name for tool in environment.list_tools()] == ["answer", "echo", "fail", "picture"]
    assert [task.task_spec["a"] for task in environment.list_tasks("train")] == [1, 3, 20]
    assert environment.num_tasks("test") == 1


def test_the_record_of_a_go_episode_is_what_the_client_saw(
    client: Client, record: Recorded
) -> None:
    environment = client.environment("go")
    with environment.session(task=environment.list_tasks("train")[1]) as session:
        prompt = session.get_prompt()
        tools = [tool.name for tool in session.list_tools()]
        outputs = [
            session.call_tool("echo", {"text": LONG}),
            session.call_tool("picture", {}),
            session.call_tool("hint", {}),
            session.call_tool("answer", {"sum": 7}),
        ]
    assert (prompt[0].text, tools[-1]) == ("What is 3 + 4?", "hint")
    assert outputs[0].blocks[0].text == LONG
    episode, steps = record.episode(session.sid), record.steps(session.sid)
    assert [json.loads(step.output_json) for step in steps] == [
        _plain(output) for output in outputs
    ]
    assert [step.reward for step in steps] == [0.1, None, None, 1.0]
    assert (episode.cause, episode.return_sum, episode.environment.name) == ("finished", 1.1, "go")
    assert json.loads(episode.prompt.text)[0]["text"] == "What is 3 + 4?"
    assert [tool["name"] for tool in json.loads(episode.tools.text)["tools"]] == tools


def test_refusals_of_the_go_server_reach_the_agent(client: Client, record: Recorded) -> None:
    with client.environment("go").session(
        task=client.environment("go").list_tasks("train")[0]
    ) as session:
        for tool, arguments in (("hint", {}), ("echo", {"text": 1})):
            with pytest.raises(Exception, match=r"valid tool|validation error"):
                session.call_tool(tool, arguments)
        session.call_tool("answer", {"sum": 4})
        with pytest.raises(Exception, match="the episode has finished"):
            session.call_tool("answer", {"sum": 3})
    steps = record.steps(session.sid)
    assert [step.reason for step in steps] == [
        "not_found",
        "input_validation",
        "",
        "episode_finished",
    ]
    assert record.episode(session.sid).return_sum == 0.0


def test_a_failure_of_the_go_server_is_a_failure_of_the_environment(
    ors: OrsClient, server: LiveServer, record: Recorded
) -> None:
    environment = ors.environment("go")
    task = environment.list_tasks("train")[0]
    with (
        environment.session(task=task) as session,
        pytest.raises(RuntimeError, match="the abacus is broken"),
    ):
        session.call_tool("fail", {})
    episode = record.episode(session.sid)
    assert episode.cause == "env_error"
    assert episode.detail.startswith("http://127.0.0.1:") and episode.detail.endswith(
        "the abacus is broken"
    )


def test_secrets_go_to_the_other_server_and_nowhere_else(
    client: Client, server: LiveServer, record: Recorded
) -> None:
    secret = f"secret-{uuid.uuid4().hex}"
    environment = client.environment("go")
    task = environment.list_tasks("train")[0]
    with environment.session(task=task, secrets=client.secrets({"token": secret})) as session:
        assert session.call_tool("echo", {"text": "hi"}).metadata["token"] == len(secret)
        assert session.call_tool("echo", {"text": secret}).blocks[0].text == secret
    assert secret not in record.everything()
    assert secret not in server.log
    assert KEY not in record.everything() + server.log


@pytest.mark.parametrize(("environment", "tool"), [("orsecho", "echo"), ("orwecho", "echo")])
def test_the_record_of_a_reference_episode_is_what_the_client_saw(
    client: Client, record: Recorded, environment: str, tool: str
) -> None:
    remote = client.environment(environment)
    with remote.session(task=remote.list_tasks("train")[0]) as session:
        prompt = session.get_prompt()
        outputs = [session.call_tool(tool, {"text": LONG}), session.call_tool("finish", {})]
    steps = record.steps(session.sid)
    assert [json.loads(step.output_json) for step in steps] == [
        _plain(output) for output in outputs
    ]
    assert json.loads(record.episode(session.sid).prompt.text)[0]["text"] == prompt[0].text
    assert record.episode(session.sid).cause == "finished"


def test_messages_pass(openreward: OpenRewardClient) -> None:
    remote = openreward.environment("orwconversation")
    with remote.session(task=remote.list_tasks("train")[0]) as session:
        assert len(session.get_messages()) > 1


async def test_a_client_of_mcp_plays_it(server: LiveServer, record: Recorded) -> None:
    async with McpClient(f"{server.url}/mcp/go?split=train&index=1&rewards=1") as client:
        assert [tool.name for tool in (await client.list_tools()).tools][-1] == "hint"
        result = await client.call_tool("answer", {"sum": 7})
    assert [block.text for block in result.content][:2] == ["Correct.", "Reward: 1"]
    episode = await asyncio.to_thread(record.episodes.filter(user_agent__startswith="mcp").last)
    assert (episode.cause, episode.environment.name, episode.task_index) == ("finished", "go", 1)


def test_recorded_calls_are_played_again(program: Path) -> None:
    with go_server(program) as go, LiveServer(f"go={go}/sums") as server, OrsClient(server) as ors:
        remote = ors.environment("go")
        run = {"orsweb_run": "again"}
        with remote.session(task=remote.list_tasks("train")[0], secrets=run) as session:
            session.get_prompt()
            session.call_tool("echo", {"text": "hi"})
            session.call_tool("answer", {"sum": 3})
        environment = {**server.env, "ORSWEB_ENVIRONMENTS": f"go={go}/sums"}
        for command, words in (
            (["reexecute", "--run", "again"], "1 episode with 2 calls played; 0 differ."),
            (["sync_environments"], "go/train"),
        ):
            done = programs.run(*command, env=environment)
            assert words in done.stdout, done.stderr


def test_an_environment_that_is_down_comes_back(program: Path) -> None:
    port = free_port()
    with (
        LiveServer("tests.envs:Echo", f"go=http://user:pass-word@127.0.0.1:{port}/sums") as server,
        OrsClient(server) as ors,
    ):
        refusal = _asked(f"{server.url}/go/tools")
        assert f"http://127.0.0.1:{port} can't be reached: connection refused" in refusal
        assert "connection refused" in _asked(f"{server.url}/environments/go/")
        with ors.environment("echo").session(split="train", index=0) as session:
            session.call_tool("echo", {"text": "the others are served"})
        with go_server(program, port=port):
            _until(lambda: '"answer"' in _asked(f"{server.url}/go/tools"))
            remote = ors.environment("go")
            with remote.session(task=remote.list_tasks("train")[0]) as session:
                assert session.call_tool("answer", {"sum": 3}).reward == 1.0
        _fail_to_open(server, "go")
        _until(
            lambda: "connection refused" in _asked(f"{server.url}/environments/go/"), seconds=15
        )  # not at the next check
        assert server.log.count("remote environment is unavailable") == 2
        assert "pass-word" not in server.log


def test_an_environment_that_the_server_does_not_have_is_unavailable(program: Path) -> None:
    with go_server(program) as go, LiveServer(f"{go}/summs", "tests.envs:Echo") as server:
        assert "has no environment 'summs'; it has 'sums'; did you mean 'sums'?" in _asked(
            f"{server.url}/summs/tools"
        )


def _fail_to_open(server: LiveServer, environment: str) -> None:
    body = {"env_name": environment, "split": "train", "index": 0}
    answer = httpx.post(
        f"{server.url}/create", json=body, headers={"X-Session-ID": uuid.uuid4().hex}, timeout=30
    )
    assert answer.status_code == 500


def _asked(url: str) -> str:
    """Return the body of a response, whatever its status."""
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def _until(is_true: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.2)
