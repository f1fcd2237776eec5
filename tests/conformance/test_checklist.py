"""Behaviour that clients rely on and no other file covers: formats, paths, refusals and endings,
over plain HTTP."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.agent import Agent, eventually, lines
from tests.conformance.record import Recorded
from tests.rows import each
from tests.server import LiveServer

# --- discovery ------------------------------------------------------------------------------------


@pytest.fixture
def http(server: LiveServer) -> Any:
    """Return a client without a session, which discovery does not need."""
    return Agent(server).http


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("tasks", {"split": "train"}),
        ("task", {"split": "train", "index": 1}),
        ("task_range", {"split": "train", "start": -2, "stop": None}),
    ],
)
def test_it_says_whose_tasks_they_are_as_the_path_has_it(
    http: Any, path: str, body: dict[str, Any]
) -> None:
    assert http.post(f"/{path}", json=body).json()["env_name"] == "echo"
    assert http.post(f"/OrsEcho/{path}", json=body).json()["env_name"] == "OrsEcho"


@each(
    ("alias", "path", "body"),
    [
        ("/get_task", "/task", {"split": "train", "index": "2"}),
        ("/echo/get_task", "/echo/task", {"split": "train", "index": -1}),
        ("/get_task_range", "/task_range", {"split": "train"}),
        ("//echo///num_tasks", "/echo/num_tasks", {"split": "test"}),
        ("/ECHO/tasks", "/Echo/tasks", {"split": "test"}),
    ],
)
def test_it_answers_other_spellings_of_a_path_alike(
    http: Any, alias: str, path: str, body: dict[str, Any]
) -> None:
    answer = http.post(alias, json=body)
    assert answer.status_code == 200
    assert {**answer.json(), "env_name": ""} == {
        **http.post(path, json=body).json(),
        "env_name": "",
    }


@each(
    ("start", "stop", "ids"),
    [
        (None, None, [0, 1, 2]),
        (1, None, [1, 2]),
        (-2, None, [1, 2]),
        (0, -1, [0, 1]),
        (2, 1, []),
        (-9, 99, [0, 1, 2]),
    ],
)
def test_it_clamps_ranges(http: Any, start: int | None, stop: int | None, ids: list[int]) -> None:
    tasks = http.post("/task_range", json={"split": "train", "start": start, "stop": stop}).json()[
        "tasks"
    ]
    assert tasks == [{"id": f"train-{number}"} for number in ids]


def test_it_describes_tools_with_exactly_three_keys(http: Any) -> None:
    result = http.get("/raises/tools").json()
    assert all(set(tool) == {"name", "description", "input_schema"} for tool in result["tools"])
    assert {"terminal_tool", "supports_score_group", "message_block_types"} <= set(result)


@each("method", ["put", "patch", "delete", "options"])
def test_it_refuses_other_methods_in_json(http: Any, method: str) -> None:
    answer = http.request(method, "/echo/tools")
    assert answer.status_code == 405
    assert "GET" in answer.headers["Allow"]


# --- refusals: never a 5xx, never a value, always a name ------------------------------------------


@each(
    ("path", "body", "status", "named"),
    [
        ("/nope/tools", None, 404, "echo"),
        ("/ecoh/tools", None, 404, "echo"),
        ("/echo/nope", None, 404, "Not Found"),
        ("/num_tasks", {"split": "dev"}, 400, "Invalid split"),
        ("/task", {"split": "train", "index": 3}, 400, "Invalid index"),
        ("/task", {"split": "train", "index": 10**30}, 400, "Invalid index"),
        ("/task", {"split": "train", "index": 2.5}, 422, "index"),
        ("/task", {"split": "train", "index": None}, 422, "index"),
        ("/task", {"split": 5, "index": 0}, 422, "split"),
        ("/task", {"split": "train"}, 422, "index"),
        ("/task", {"split": "train", "index": 0, "colour": "hunter2secret"}, 422, "colour"),
        ("/tasks", [], 422, "body"),
        ("/procedural/tasks", {"split": "train"}, 400, "list_tasks is not supported"),
        ("/create", {"task_spec": {}, "env_name": "ecoh"}, 404, "echo"),
        ("/create", {}, 422, "Provide either"),
        ("/create", {"task_spec": {}, "split": "train", "index": 0}, 422, "Provide either"),
        ("/create", {"split": "train"}, 422, "split and index"),
        ("/create", {"task_spec": {}, "secrets": {"token": ["hunter2secret"]}}, 422, "secrets"),
        ("/create", {"split": "train", "index": 10**9}, 400, "Invalid index"),
        ("/create", {"task_spec": {}, "toolset_name": "zz"}, 400, "zz"),
        ("/call", {"name": "echo", "input": {}}, 404, "Active environment not found"),
        ("/ping", None, 404, "Active environment not found"),
    ],
)
def test_it_refuses_what_it_cannot_do(
    server: LiveServer, path: str, body: Any, status: int, named: str
) -> None:
    with Agent(server) as agent:
        agent.sid = uuid.uuid4().hex
        answer = agent.get(path) if path.endswith(("tools", "nope")) else agent.post(path, body)
    assert answer.status_code == status
    assert named in json.dumps(answer.json()["detail"])
    assert "hunter2" not in answer.text


@each(
    ("content", "kind", "status"),
    [
        (b'{"split": "train"', "application/json", 422),
        (b"", "application/json", 422),
        (b'{"split": "train"}', "text/plain", 422),
        (b"split=train", "application/x-www-form-urlencoded", 422),
        (b'{"split": "train"}', "application/vnd.api+json; charset=utf-8", 200),
        (b"[" * 100_000, "application/json", 422),
        (b'{"split": "\xff"}', "application/json", 422),
    ],
)
def test_it_reads_only_json(http: Any, content: bytes, kind: str, status: int) -> None:
    assert (
        http.post("/num_tasks", content=content, headers={"Content-Type": kind}).status_code
        == status
    )


@each("path", ["/ping", "/prompt", "/call", "/create", "/delete"])
@each(("sid", "named"), [(b"", "required"), (b"\xff", "UTF-8"), (b"x" * 501, "501")])
def test_it_refuses_a_session_id_that_is_none(http: Any, path: str, sid: bytes, named: str) -> None:
    body = {"name": "echo", "input": {}} if path == "/call" else {"task_spec": {}}
    method = "GET" if path == "/prompt" else "POST"
    answer = http.request(method, path, json=body, headers=[(b"X-Session-ID", sid)])
    assert answer.status_code == 400
    assert named in answer.json()["detail"]


def test_it_refuses_a_path_of_another_environment(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "echo") as agent:
        answer = agent.get("/slow/prompt")
    assert answer.status_code == 409
    assert "slow" in answer.text and "echo" in answer.text


def test_it_refuses_an_id_that_is_live(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "echo") as agent:
        assert agent.create({"id": 2}).json() == {"detail": "Session already exists"}
        assert agent.call("echo", {"text": "still here"}).text == "still here"


# --- sessions -------------------------------------------------------------------------------------


def test_it_deletes_what_it_does_not_know(server: LiveServer) -> None:
    with Agent(server) as agent:
        agent.sid = "never-opened"
        assert [agent.post(path).json() for path in ("/delete", "/delete_session")] == [
            {"sid": "never-opened"}
        ] * 2


def test_it_tears_down_once_after_the_tool(server: LiveServer, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Agent(server).open({"log": str(log)}, "slow") as agent:
        agent.begin("sleep", {"seconds": 0.5})
        eventually(lambda: "sleep starts" in lines(log))
        agent.close()
    assert lines(log) == ["sleep starts", "sleep ends", "teardown"]


@pytest.mark.parametrize(
    ("environment", "created", "prompted"),
    [("failingconstructor", 500, 404), ("failingsetup", 200, 500), ("failingprompt", 200, 500)],
)
def test_it_tells_a_failed_beginning_as_the_environments_fault(
    server: LiveServer, environment: str, created: int, prompted: int
) -> None:
    with Agent(server) as agent:
        agent.sid = uuid.uuid4().hex
        answers = [agent.create({}, environment), agent.get("/prompt"), agent.get("/prompt")]
    assert [answer.status_code for answer in answers] == [created, prompted, prompted]
    assert "gave up" in "".join(answer.text for answer in answers)


@pytest.mark.parametrize(
    ("secrets", "run"), [({}, "grpo-8"), ({"orsweb_run": "said-in-secrets"}, "said-in-secrets")]
)
def test_it_records_the_run_that_the_header_names(
    server: LiveServer, record: Recorded, secrets: dict[str, str], run: str
) -> None:
    with Agent(server, **{"X-Run": "grpo-8"}).open({"id": 1}, "echo", secrets=secrets) as agent:
        agent.call("finish")
    assert record.episode(agent.sid).run.name == run


def test_it_gives_each_session_a_task_of_its_own(server: LiveServer) -> None:
    for _ in range(2):
        with Agent(server).open(split="train", index=0, env_name="counter") as agent:
            assert agent.call("mutate").text == "1"
            assert agent.post("/counter/task", {"split": "train", "index": 0}).json()["task"] == {
                "id": "train-0"
            }


# --- calls ----------------------------------------------------------------------------------------


@each(
    ("tool", "reward", "text"),
    [
        ("nan_reward", None, "nan"),
        ("infinite_reward", None, "infinite"),
        ("no_blocks", 0.1, ""),
        ("nul", 0.1, "nul \0 here"),
    ],
)
def test_it_sends_outputs_that_every_client_can_read(
    server: LiveServer, record: Recorded, tool: str, reward: float | None, text: str
) -> None:
    with Agent(server).open({"id": 1}, "raises") as agent:
        answer = agent.call(tool)
    assert set(answer.output) == {"blocks", "metadata", "reward", "finished"}
    assert (answer.text, answer.output["reward"]) == (text, reward)
    assert (record.steps(agent.sid)[0].blocks, record.steps(agent.sid)[0].reward) == (
        answer.output["blocks"],
        reward,
    )


FAULTS = [
    *("fault", "sync_fault", "silent_fault", "long_fault", "cancelled", "sync_cancelled"),
    *("leaves", "stops", "wrong_type", "nothing", "unserialisable"),
]


@each("tool", FAULTS)
def test_it_tells_a_fault_in_words_and_goes_on(
    server: LiveServer, record: Recorded, tool: str
) -> None:
    with Agent(server).open({"id": 1}, "raises") as agent:
        answer = agent.call(tool)
        assert 0 < len(answer.error.strip()) <= 32_000
        assert agent.call("echo", {"text": "still here"}).text == "still here"
    assert [step.status for step in record.steps(agent.sid)] == ["failed", "ok"]


def test_it_runs_calls_of_one_tool_one_after_the_other(server: LiveServer, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Agent(server).open({"log": str(log)}, "slow") as agent:
        calls = [
            agent.begin("wait", {"seconds": 0.1}, task_id=f"call-{number}") for number in range(3)
        ]
        for call in calls:
            call.hear(b"event: end")
    assert lines(log)[:-1] == ["wait starts", "wait ends"] * 3


def test_it_lets_only_the_first_of_parallel_ends_pay(server: LiveServer, record: Recorded) -> None:
    with Agent(server).open({"id": 1}, "echo") as agent:
        calls = [agent.begin("finish", task_id=f"call-{number}") for number in range(5)]
        heard = [call.hear(b"event: end\n") + call.hear(b"}\n\n") for call in calls]
    assert sum(b'"reward":0.5' in one for one in heard) == 1
    episode = record.episode(agent.sid)
    assert (episode.return_sum, episode.steps_count, episode.refused_count) == (0.5, 1, 4)
