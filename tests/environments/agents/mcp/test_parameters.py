"""Parameters in the address and in headers, and their refusals, which name what is allowed."""

from __future__ import annotations

import json

from tests.conformance.record import Recorded
from tests.environments.agents.mcp.playing import Raw, refusal, refused
from tests.rows import each
from tests.server import LiveServer

NO_ENVIRONMENT = "The address names no environment; this server has /mcp/conversation, /mcp/echo"


@each(
    ("address", "status", "message"),
    [
        ("/nope", 404, "unknown environment 'nope'; this server hosts 'conversation', 'echo'"),
        ("/echoo", 404, "did you mean 'echo'?"),
        ("", 404, NO_ENVIRONMENT),
        ("/echo?split=dev", 400, "Invalid split 'dev': 'echo' has 'train', 'test'"),
        ("/echo?index=3", 400, "Invalid index 3: split 'train' has 3 tasks, so -3 to 2 are valid"),
        ("/echo?index=first", 400, "index is 'first'; it must be a whole number or 'random'"),
        ("/echo?index=%2B1", 400, "index is '+1'; it must be a whole number or 'random'"),
        ("/echo?index=01", 400, "index is '01'; it must be a whole number or 'random'"),
        (
            "/echo?indx=1",
            400,
            "Unknown parameter 'indx' in the address; allowed are split, index, run, step, model",
        ),
        ("/echo?index=1&index=2", 400, "The address has the parameter 'index' more than once"),
        ("/echo?rewards=maybe", 400, "rewards is 'maybe'; it must be 1 or 0"),
        ("/echo?step=late", 400, "the training step is 'late'; it must be a whole number"),
        ("/echo?toolset=x", 400, "unknown toolset 'x'"),
        (
            f"/echo?run={'r' * 201}",
            400,
            "The run's name has 201 characters; at most 200 are allowed",
        ),
        ("/echo?run=%ff", 400, "The address has parameters that are not UTF-8"),
        ("/failingconstructor", 500, "RuntimeError"),
    ],
)
def test_a_session_that_cannot_be_opened_is_refused(
    server: LiveServer, address: str, status: int, message: str
) -> None:
    answer = Raw(f"{server.url}/mcp{address}").initialize()
    assert "mcp-session-id" not in answer.headers
    assert refusal(answer)[0] == status and message in refusal(answer)[1]


async def test_the_package_raises_the_sentence(server: LiveServer) -> None:
    assert (
        await refused(f"{server.url}/mcp/echo?split=dev")
        == "Invalid split 'dev': 'echo' has 'train', 'test'"
    )


@each(
    ("query", "headers", "split", "index"),
    [
        ("", {}, "train", 0),
        ("?split=test", {}, "test", 0),
        ("?index=-1", {}, "train", -1),
        ("", {"X-Split": "test", "X-Index": "1"}, "test", 1),
        ("?split=train", {"X-Split": "test"}, "train", 0),
    ],
)
def test_it_plays_the_task_that_was_named(
    server: LiveServer,
    record: Recorded,
    query: str,
    headers: dict[str, str],
    split: str,
    index: int,
) -> None:
    raw = Raw(f"{server.url}/mcp/echo{query}", headers).opened()
    episode = record.episode(raw.sid)
    assert (episode.split.name, episode.task_index) == (split, index)


def test_it_plays_a_random_task(server: LiveServer, record: Recorded) -> None:
    raw = Raw(f"{server.url}/mcp/procedural?split=train&index=random").opened()
    episode = record.episode(raw.sid)
    assert json.loads(episode.task.spec) == {"split": "train", "seed": episode.task_index}


def test_names_of_environments_ignore_case(server: LiveServer) -> None:
    assert Raw(f"{server.url}/mcp/ECHO").opened().request("tools/list").status_code == 200


def test_it_records_run_model_and_step(server: LiveServer, record: Recorded) -> None:
    raw = Raw(
        f"{server.url}/mcp/echo?run=R%C3%BCbe&step=7", {"X-Model": "tiny", "X-Run": "other"}
    ).opened()
    episode = record.episode(raw.sid)
    assert (episode.run.name, episode.run_step, episode.model) == ("Rübe", 7, "tiny")
