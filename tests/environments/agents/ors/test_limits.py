"""Limits and modes that settings define, each on a server of its own."""

from __future__ import annotations

import httpx
import pytest

from tests.environments.agents.ors.connection import Connection
from tests.environments.agents.ors.serving import error, fresh_id, opened, raw, result, serving
from tests.rows import each

pytestmark = pytest.mark.usefixtures("db")


def padded(size: int) -> bytes:
    """Return a JSON body of exactly this many bytes."""
    return b'{"split": "train"}'.ljust(size)


@pytest.mark.parametrize(("size", "status"), [(2000, 200), (2001, 413)])
async def test_a_body_has_a_longest_length(size: int, status: int) -> None:
    async with serving("tests.envs:Echo", ORSWEB_MAX_BODY_BYTES=2000) as client:
        answer = await client.post("/num_tasks", **raw(padded(size)))
        assert answer.status_code == status
        assert status == 200 or answer.json() == {
            "detail": "The body has 2001 bytes; ORSWEB_MAX_BODY_BYTES allows 2000"
        }


@pytest.mark.parametrize("pieces", [[2001], [1000, 1001], [1500, 400, 101, 5000]])
async def test_a_body_of_unknown_length_is_refused_once_it_is_too_long(pieces: list[int]) -> None:
    async with serving("tests.envs:Echo", ORSWEB_MAX_BODY_BYTES=2000):
        connection = Connection("/num_tasks", b"x" * pieces[0], more_body=len(pieces) > 1)
        for left, size in reversed(list(enumerate(reversed(pieces[1:])))):
            connection.feed(b"x" * size, more_body=left > 0)
        assert (await connection.next())["status"] == 413


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "2001"}])
async def test_a_foreign_host_is_refused_before_its_body_comes(headers: dict[str, str]) -> None:
    async with serving("tests.envs:Echo", ORSWEB_MAX_BODY_BYTES=2000):
        connection = Connection(
            "/num_tasks", b"x", {"Host": "evil.example", **headers}, more_body=True
        )
        assert (await connection.next())["status"] == 400


@each("length", ["²", "-1", "1e9", "9" * 30, ""])
async def test_an_odd_content_length_is_no_fault(length: str) -> None:
    async with serving("tests.envs:Echo"):
        connection = Connection("/num_tasks", {"split": "train"}, {"Content-Length": length})
        assert (await connection.next())["status"] == (
            413 if length.isdecimal() and len(length) > 9 else 200
        )


async def test_more_sessions_than_allowed_are_refused_for_now() -> None:
    async with serving("tests.envs:Echo", ORSWEB_MAX_SESSIONS=1) as client:
        header = await opened(client)
        refused = await client.post(
            "/create", json={"task_spec": {}}, headers={"X-Session-ID": fresh_id()}
        )
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
        assert refused.json()["detail"].startswith(
            "1 sessions are live, the most that ORSWEB_MAX_SESSIONS allows"
        )
        await client.post("/delete", headers=header)
        await opened(client)


async def test_setup_that_takes_too_long_is_reported_as_starting() -> None:
    async with serving("tests.envs:SlowSetup", ORSWEB_SETUP_WAIT=0.02) as client:
        header = await opened(client, task_spec={"seconds": 30})
        answer = await client.get("/prompt", headers=header)
        assert (answer.status_code, answer.json()) == (
            503,
            {"detail": "Environment still starting."},
        )
        assert (answer.headers["x-backend-state"], answer.headers["retry-after"]) == (
            "starting",
            "2",
        )
        assert (await client.get("/task_tools", headers=header)).status_code == 200


async def test_a_tool_has_a_longest_time() -> None:
    async with serving("tests.envs:Slow", ORSWEB_TOOL_TIMEOUT=0.5) as client:
        header = await opened(client)
        call = {"name": "wait", "input": {"seconds": 30}}
        message = error(await client.post("/call", json=call, headers=header))
        assert message == "'wait' ran longer than 0.5 s (ORSWEB_TOOL_TIMEOUT)"
        echo = {"name": "echo", "input": {"text": "on"}}
        assert result(await client.post("/call", json=echo, headers=header))["ok"]


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("none", "Internal Server Error"),
        ("exception", "RuntimeError: the prompt gave up"),
        ("stacktrace", "Traceback ("),
    ],
)
async def test_a_fault_is_reported_as_the_mode_says(mode: str, message: str) -> None:
    async with serving("tests.envs:FailingPrompt", ORSWEB_RETURN_ERRORS=mode) as client:
        answer = await client.get("/prompt", headers=await opened(client))
        assert answer.status_code == 500 and answer.json()["detail"].startswith(message)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("none", "Internal Server Error"),
        ("exception", "the valve is stuck"),
        ("stacktrace", "Traceback ("),
    ],
)
async def test_a_tools_fault_is_reported_as_the_mode_says(mode: str, message: str) -> None:
    async with serving("tests.envs:Raises", ORSWEB_RETURN_ERRORS=mode) as client:
        header = await opened(client)
        for name in ("fault", "sync_fault"):
            answer = await client.post("/call", json={"name": name, "input": {}}, headers=header)
            assert error(answer).startswith(message)


async def test_a_traceback_shows_the_authors_frames_and_not_the_servers() -> None:
    async with serving("tests.envs:FailingPrompt", ORSWEB_RETURN_ERRORS="stacktrace") as client:
        message = (await client.get("/prompt", headers=await opened(client))).json()["detail"]
    assert "envs_faulty.py" in message and "environments/runtime" not in message


async def test_a_result_over_the_limit_is_refused() -> None:
    async with serving("tests.envs:Raises", ORSWEB_MAX_RESULT_BYTES=2000) as client:
        call = {"name": "huge", "input": {"size_bytes": 3000}}
        message = error(await client.post("/call", json=call, headers=await opened(client)))
        assert "ORSWEB_MAX_RESULT_BYTES allows 2000" in message


async def test_another_host_can_be_allowed() -> None:
    async with serving("tests.envs:Echo", ALLOWED_HOSTS=["lab.example.org"]) as client:
        assert (
            await client.get("/health", headers={"Host": "lab.example.org:8080"})
        ).status_code == 200
        assert (await client.get("/health")).status_code == 400


async def test_a_large_body_of_unknown_fields_is_refused_quickly() -> None:
    async with serving("tests.envs:Echo") as client:
        body = "{" + ",".join(f'"k{n}":{n}' for n in range(500_000)) + "}"
        answer: httpx.Response = await client.post("/num_tasks", **raw(body))
        assert (
            answer.status_code == 422
            and answer.elapsed.total_seconds() < 10
            and len(answer.text) < 20_000
        )


@pytest.mark.parametrize(("given", "message"), [("", None), ("8d4f505", "8d4f505")])
async def test_the_version_names_the_build_that_the_operator_names(
    given: str, message: str | None
) -> None:
    async with serving("tests.envs:Echo", ORSWEB_BUILD_SHA=given) as client:
        assert (await client.get("/version")).json()["build_sha"] == message
