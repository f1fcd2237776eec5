"""Single requests: what is no correct use of MCP is refused with a sentence, and nothing becomes a
500."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.environments.agents.mcp.playing import Raw, refusal
from tests.rows import each
from tests.server import LiveServer

UNSUPPORTED_VERSION = -32022


@pytest.fixture
def raw(server: LiveServer) -> Raw:
    return Raw(f"{server.url}/mcp/echo")


@each(
    ("body", "message"),
    [
        (b"{", "JSON decode error"),
        (b"\xff", "JSON decode error"),
        (b"[" * 100_000, "JSON decode error"),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"a": [1e400]}}',
            "params.a.0 is NaN, an infinity",
        ),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', "params.a is NaN"),
        (
            b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b"}",
            "a number in it has more than 4,300 digits",
        ),
        (b"[]", "not one message of JSON-RPC 2.0"),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', "not one message of JSON-RPC 2.0"),
        (b'{"id": 1, "method": "ping"}', "not one message of JSON-RPC 2.0"),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}',
            "Invalid parameters of initialize",
        ),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', "Mcp-Session-Id header is required"),
    ],
)
def test_a_body_that_is_no_message_is_refused(raw: Raw, body: bytes, message: str) -> None:
    status, text = refusal(raw.post(body))
    assert status == 400 and message in text


def test_a_refusal_carries_the_id_of_its_request(raw: Raw) -> None:
    assert raw.post({"jsonrpc": "2.0", "id": "seven", "method": "ping"}).json()["id"] == "seven"


@pytest.mark.parametrize(
    ("headers", "status"), [({"Content-Type": "text/plain"}, 415), ({"Accept": "text/html"}, 406)]
)
def test_other_types_are_refused(raw: Raw, headers: dict[str, str], status: int) -> None:
    assert raw.post(raw.message("ping"), **headers).status_code == status


@each("method", ["PUT", "PATCH", "OPTIONS", "HEAD"])
def test_other_methods_are_refused(raw: Raw, method: str) -> None:
    answer = httpx.request(method, raw.url)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST, DELETE")


def test_a_body_over_the_limit_is_refused(raw: Raw) -> None:
    assert raw.post(b" " * 100_001).status_code == 413


def test_versions_without_sessions_are_refused_so_that_clients_use_an_older_one(raw: Raw) -> None:
    answer = raw.post(raw.message("server/discover"), **{"MCP-Protocol-Version": "2026-07-28"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, UNSUPPORTED_VERSION)
    assert error["data"]["requested"] == "2026-07-28" and "2025-11-25" in error["data"]["supported"]


@each("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_each_version_with_sessions_plays(raw: Raw, version: str) -> None:
    answer = raw.initialize(version)
    assert answer.json()["result"]["protocolVersion"] == version
    result = raw.post(raw.call("echo", text="hi")).json()["result"]
    assert result["content"] == [{"type": "text", "text": "hi"}]


def test_an_unknown_session_is_not_found(raw: Raw) -> None:
    assert refusal(raw.post(raw.message("ping"), **{"Mcp-Session-Id": "nobody"})) == (
        404,
        "Active environment not found",
    )


def test_a_session_belongs_to_one_environment(raw: Raw, server: LiveServer) -> None:
    raw.opened()
    raw.url = f"{server.url}/mcp/slow"
    text = "This session plays 'echo', but the address names 'slow'; use /mcp/echo"
    assert refusal(raw.request("ping")) == (409, text)


@each(
    ("method", "params", "code", "text"),
    [
        ("nope", {}, -32601, "Method not found"),
        ("tools/call", {}, -32602, ""),
        ("tools/call", {"name": "echo", "arguments": [1]}, -32602, ""),
        (
            "prompts/get",
            {"name": "other"},
            -32602,
            "Unknown prompt 'other'; this server has 'task'",
        ),
        (
            "resources/read",
            {"uri": "file:///etc"},
            -32602,
            "Unknown resource 'file:///etc'; this server has 'task://prompt'",
        ),
    ],
)
def test_a_request_that_no_handler_takes_is_an_error(
    raw: Raw, method: str, params: Any, code: int, text: str
) -> None:
    answer = raw.opened().request(method, **params)
    assert answer.status_code == 200
    error = answer.json()["error"]
    assert error["code"] == code and text in error["message"]


@each("method", ["initialized", "cancelled", "roots/list_changed", "nope"])
def test_notifications_are_accepted(raw: Raw, method: str) -> None:
    raw.opened()
    answer = raw.post({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {}})
    assert (answer.status_code, answer.content) == (202, b"")


def test_arguments_may_be_left_out(raw: Raw) -> None:
    answer = raw.opened().post(raw.message("tools/call", name="finish"))
    assert answer.json()["result"]["content"][0]["text"] == "bye"


def test_lone_surrogates_come_back_as_valid_text(raw: Raw) -> None:
    answer = raw.opened().post(json.dumps(raw.call("echo", text="a\ud800b")).encode())
    assert answer.json()["result"]["content"][0]["text"] == "a\ufffdb"


def test_a_client_that_reads_only_json_gets_json(raw: Raw) -> None:
    raw.opened()
    raw.headers["Accept"] = "application/json"
    assert raw.request("ping").json()["result"] == {}


def test_a_client_that_reads_only_streams_gets_a_stream(raw: Raw) -> None:
    raw.opened()
    raw.headers["Accept"] = "text/event-stream"
    answer = raw.request("ping")
    assert answer.headers["content-type"] == "text/event-stream"
    first, last = answer.text.strip().split("\n\n")
    assert (
        first.startswith("id: 1-0\ndata:")
        and json.loads(last.partition("data: ")[2])["result"] == {}
    )
