"""While the database cannot be reached, calls wait with comments; afterwards they are answered, in
order and once."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from episodes.models import RolloutMessage
from tests.conformance.agent import Agent, Pending, eventually, lines
from tests.conformance.away import away
from tests.conformance.clients import Client
from tests.conformance.record import ALIAS, Recorded
from tests.episodes.platform_api.uploading import message
from tests.server import LiveServer

TEXTS = ["one", "two", "three"]


def begin_each(agent: Agent, log: Path) -> list[Pending]:
    """Start a call for each of TEXTS, one after another, and wait until the tool has run for all of
    them."""
    calls = []
    for text in TEXTS:
        calls.append(agent.begin("echo", {"text": text}))
        eventually(lambda text=text: f"echo {text}" in lines(log))  # type: ignore[misc]  # bound now, called now
    return calls


def test_it_answers_calls_once_and_in_order_when_it_is_back(
    server: LiveServer, record: Recorded, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with Agent(server).open({"log": str(log)}, "echo") as agent:
        with away(server):
            calls = begin_each(agent, log)
            heard = [call.hear(b": ping", times=2) for call in calls]
            assert not any(b"event: end" in one for one in heard)
        assert all(
            text.encode() in call.hear(b"event: end")
            for text, call in zip(TEXTS, calls, strict=True)
        )
    assert lines(log) == ["echo one", "echo two", "echo three", "teardown"]
    steps = record.steps(agent.sid)
    assert [(step.index, json.loads(step.input_json)["text"]) for step in steps] == list(
        enumerate(TEXTS)
    )


def test_it_plays_a_clients_whole_episode_across_the_gap(
    client: Client, server: LiveServer, record: Recorded, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    environment = client.environment("echo")
    task = environment.get_task("train", 0)
    task.task_spec["log"] = str(log)
    with environment.session(task) as session, ThreadPoolExecutor(1) as player:
        with away(server):
            waiting = player.submit(session.call_tool, "echo", {"text": "hi"})
            eventually(lambda: "echo hi" in lines(log))
        assert waiting.result(timeout=30).reward == 0.1
        session.call_tool("finish", {})
    assert (record.episode(session.sid).cause, record.episode(session.sid).steps_count) == (
        "finished",
        2,
    )


def test_it_opens_a_session_when_it_is_back(server: LiveServer, record: Recorded) -> None:
    with Agent(server) as agent, ThreadPoolExecutor(1) as player:
        with away(server):
            opening = player.submit(agent.open, {"id": 1}, "echo")
            assert agent.http.get("/health").json() == {"status": "ok"}
            assert agent.http.get("/echo/tools").status_code == 200
        assert opening.result(timeout=30).call("echo", {"text": "back"}).text == "back"
    assert record.episode(agent.sid).steps_count == 1


def test_it_fetches_a_recorded_result_when_it_is_back(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "echo") as agent:
        outcome = agent.call("echo", {"text": "kept"})
    with Agent(server) as later, ThreadPoolExecutor(1) as player:
        later.sid = agent.sid
        with away(server):
            fetching = player.submit(later.call, "echo", {}, outcome.task_id)
            assert later.http.get("/health").status_code == 200
        assert fetching.result(timeout=30).message == outcome.message


def test_it_stores_uploads_once_when_it_is_back(server: LiveServer, record: Recorded) -> None:
    rollout = str(uuid.uuid4())
    batches = [[message(rollout, first + n) for n in range(40)] for first in (0, 40, 80)]

    def post(batch: list[dict[str, object]]) -> int:
        return httpx.post(
            f"{server.url}/v1/rollouts", json={"events": batch}, timeout=40
        ).status_code

    with ThreadPoolExecutor(8) as clients:
        with away(server):
            # each is sent twice
            waiting = [clients.submit(post, batch) for batch in (*batches, *batches)]
            assert httpx.get(f"{server.url}/health").json() == {"status": "ok"}
        assert [one.result(timeout=40) for one in waiting] == [200] * 6
    stored = RolloutMessage.objects.using(ALIAS).filter(rollout__event_id=rollout).order_by("index")
    assert list(stored.values_list("index", flat=True)) == list(range(120))
    assert set(stored.values_list("event_id", flat=True)) == {
        one["eventId"] for batch in batches for one in batch
    }


def test_a_stop_while_calls_wait_says_so_in_its_exit_status(tmp_path: Path) -> None:
    with LiveServer("tests.envs:Echo", env={"ORSWEB_SHUTDOWN_TIMEOUT": "3"}) as server:
        log = tmp_path / "log"
        agent = Agent(server).open({"log": str(log)}, "echo")
        with away(server):
            agent.begin("echo", {"text": "one"})
            eventually(lambda: "echo one" in lines(log))
            assert server.stop() == 1
        assert "rows were not written" in server.log
