"""Tests with ORSWEB_API_KEYS: every request except /health needs a key, and only the key of a
session can use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.agent import Agent, answer_of
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.conformance.record import Recorded, recorded
from tests.rows import each
from tests.server import LiveServer

ALICE, BOB = "alice-key-0123456789", "bob-key-9876543210"
CLIENTS = pytest.mark.parametrize("make", [OrsClient, OpenRewardClient])

REQUESTS = [
    ("GET", "/version"),
    ("GET", "/list_environments"),
    ("GET", "/tools"),
    ("GET", "/echo/tools"),
    ("GET", "/echo/splits"),
    ("POST", "/echo/tasks"),
    ("POST", "/num_tasks"),
    ("POST", "/task"),
    ("POST", "/task_range"),
    ("POST", "/create_session"),
    ("POST", "/create"),
    ("GET", "/prompt"),
    ("GET", "/messages"),
    ("GET", "/echo/task_tools"),
    ("POST", "/echo/call"),
    ("POST", "/score_group"),
    ("POST", "/ping"),
    ("POST", "/delete"),
    ("POST", "/delete_session"),
]


@pytest.fixture(scope="module")
def guarded() -> Iterator[LiveServer]:
    keys = {"ORSWEB_API_KEYS": f"alice:{ALICE},bob:{BOB}", "ORSWEB_RESULT_LINGER": "0.1"}
    with LiveServer("tests.envs:Echo", "tests.envs:Secretive", env=keys) as running:
        yield running


@pytest.fixture
def record(guarded: LiveServer, django_db_blocker: DjangoDbBlocker) -> Iterator[Recorded]:
    with recorded(guarded, django_db_blocker) as reader:
        yield reader


@each(("method", "path"), REQUESTS)
def test_it_refuses_a_request_without_a_key(guarded: LiveServer, method: str, path: str) -> None:
    with Agent(guarded) as nobody:
        answer = nobody.http.request(method, path, json={})
    assert answer.status_code == 401
    assert "X-API-Key" in answer.json()["detail"]


def test_it_tells_its_health_to_everybody(guarded: LiveServer) -> None:
    with Agent(guarded) as nobody:
        assert nobody.http.get("/health").json() == {"status": "ok"}


def test_it_does_not_repeat_a_wrong_key(guarded: LiveServer) -> None:
    with Agent(guarded, **{"X-API-Key": "wrong-key-1234567"}) as nobody:
        answer = nobody.http.get("/tools")
    assert answer.status_code == 401
    assert "wrong-key" not in answer.text + guarded.log


@CLIENTS
def test_it_turns_clients_without_a_key_away(
    guarded: LiveServer, make: type[OrsClient | OpenRewardClient]
) -> None:
    with make(guarded) as client, pytest.raises(Exception, match=r"401|X-API-Key") as refusal:
        client.environment("echo").list_splits()
    assert type(refusal.value).__name__ == "AuthenticationError"


@CLIENTS
def test_it_plays_with_a_key_and_records_its_label(
    guarded: LiveServer, record: Recorded, make: type[OrsClient | OpenRewardClient]
) -> None:
    with make(guarded, api_key=ALICE) as client:
        environment = client.environment("secretive")
        with environment.session(environment.get_task("train", 0)) as session:
            session.call_tool("names", {})
            with pytest.raises(Exception, match=ALICE):
                session.call_tool(ALICE, {"key": ALICE})
    assert record.episode(session.sid).key_label == "alice"
    assert "0123456789" not in record.everything()
    assert "0123456789" not in guarded.log


@each(
    ("method", "path"),
    [
        ("POST", "/ping"),
        ("GET", "/prompt"),
        ("GET", "/messages"),
        ("GET", "/task_tools"),
        ("POST", "/call"),
    ],
)
def test_it_hides_a_session_from_other_keys(guarded: LiveServer, method: str, path: str) -> None:
    with Agent(guarded, **{"X-API-Key": ALICE}).open({"id": 1}, "echo") as alice:
        with Agent(guarded, **{"X-API-Key": BOB}) as bob:
            body = {"name": "echo", "input": {"text": "mine"}} if path == "/call" else None
            answer = bob.http.request(method, path, json=body, headers={"X-Session-ID": alice.sid})
        assert (answer.status_code, answer.json()) == (
            404,
            {"detail": "Active environment not found"},
        )
        assert alice.call("echo", {"text": "still here"}).text == "still here"


@pytest.mark.parametrize("path", ["/delete", "/delete_session"])
def test_it_lets_no_other_key_delete_a_session(guarded: LiveServer, path: str) -> None:
    with Agent(guarded, **{"X-API-Key": ALICE}).open({"id": 1}, "echo") as alice:
        with Agent(guarded, **{"X-API-Key": BOB}) as bob:
            bob.post(path, **{"X-Session-ID": alice.sid})
        assert alice.call("echo", {"text": "still here"}).text == "still here"


def test_it_tells_a_recorded_result_to_no_other_key(guarded: LiveServer) -> None:
    with Agent(guarded, **{"X-API-Key": ALICE}).open({"id": 1}, "echo") as alice:
        result = alice.call("echo", {"text": "mine"})
    with Agent(guarded, **{"X-API-Key": BOB}) as bob:
        body = {"name": "echo", "input": {}, "task_id": result.task_id}
        assert bob.post("/call", body, **{"X-Session-ID": alice.sid}).status_code == 404
    with Agent(guarded, **{"X-API-Key": ALICE}) as later:
        assert (
            answer_of(later.post("/call", body, **{"X-Session-ID": alice.sid}).content).message
            == result.message
        )


def test_ending_a_run_ends_the_sessions_that_its_key_left_open(
    guarded: LiveServer, record: Recorded
) -> None:
    about = {"secrets": {"orsweb_run": "läuft/1"}}
    with (
        Agent(guarded, **{"X-API-Key": ALICE}) as alice,
        Agent(guarded, **{"X-API-Key": BOB}) as bob,
    ):
        run = "/api/runs/by-name/l%C3%A4uft%2F1"
        assert alice.http.put(run, json={"step": 7}).status_code == 201
        assert bob.http.put(run, json={"step": 8}).status_code == 404
        alice.open({"id": 1}, "echo", **about).call("echo", {"text": "hi"})
        bob.open({"id": 1}, "echo", **about)
        assert alice.http.put(run, json={"state": "ended"}).json()["step"] == 7
        assert alice.post("/ping").status_code == 404
        assert bob.post("/ping").status_code == 200
    mine = record.episode(alice.sid)
    assert (mine.cause, mine.run_step, mine.detail) == (
        "abandoned",
        7,
        "The run ended while the session was open.",
    )


def test_a_name_that_is_not_utf_8_is_refused(guarded: LiveServer) -> None:
    with Agent(guarded, **{"X-API-Key": ALICE}) as alice:
        answer = alice.http.put("/api/runs/by-name/%FF", json={})
    assert answer.status_code == 400 and "UTF-8" in answer.json()["detail"]
