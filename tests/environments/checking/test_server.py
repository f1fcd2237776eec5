"""Servers in any language: ours and both reference servers pass, and one that breaks the protocol
is found out."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from django.core.management import call_command

from environments.checking.check_state import CheckOptions
from environments.checking.checker import check_server
from environments.checking.checks.protocol import Unreachable
from environments.checking.report import CheckReport
from tests.other_servers import reference_server
from tests.rows import each
from tests.server import LiveServer

KEY = {"X-API-Key": "a-secret-key-of-many-letters"}
OPTIONS = CheckOptions(episodes=3, steps=10, timeout_seconds=30)
REFERENCES = {
    "ors": ("tests.envs_ors", "OrsTaskTools"),
    "openreward": ("tests.envs_openreward", "OrwTerminal"),
}


@pytest.mark.parametrize("sdk", REFERENCES)
def test_a_reference_server_passes(sdk: str) -> None:
    module, name = REFERENCES[sdk]
    with reference_server(sdk, module, name) as url:
        assert _failed(check_server(url, None, {}, OPTIONS)) == []
        call_command("check_environment", f"{url}/{name.lower()}", "--episodes", "1")


def test_this_server_passes_with_a_key() -> None:
    settings = {"ORSWEB_API_KEYS": "agent:a-secret-key-of-many-letters"}
    classes = [
        "tests.environments.checking.flawed:Procedural",
        "tests.environments.checking.flawed:Sound",
    ]
    with LiveServer(*classes, env=settings) as server:
        report = check_server(server.url, "sound", KEY, OPTIONS)
        assert _failed(report) == []
        assert report.count("warning") == 0
        oracle = next(one.sentence for one in report.findings if one.check == "oracle")
        assert oracle.endswith("Check the class itself, as module:Class, where its code is.")
        assert _failed(check_server(server.url, "Procedural", KEY, OPTIONS)) == []
        with pytest.raises(Unreachable, match="401"):
            check_server(server.url, None, {}, OPTIONS)
        with pytest.raises(
            Unreachable, match="no environment 'unknown'; it has 'procedural', 'sound'"
        ):
            check_server(server.url, "unknown", KEY, OPTIONS)


# --- a server that errs ---------------------------------------------------------------------------


class _Careless(BaseHTTPRequestHandler):
    """Knows the paths and little of the rules: NaN, an odd tool, no status but 200, a stream
    without an id."""

    answers: ClassVar[dict[str, Any]] = {
        "/health": {"status": "ok"},
        "/list_environments": ["careless"],
        "/careless/tools": {
            "tools": [{"name": "say it", "description": "", "input_schema": None, "cost": 1}]
        },
        "/careless/task_tools": {
            "tools": [{"name": "say it", "description": "", "input_schema": None}]
        },
        "/careless/splits": [{"name": "train", "type": "train"}],
        "/careless/tasks": {"tasks": [{"id": 1}, {"id": 2}]},
        "/careless/num_tasks": {"num_tasks": 2},
        "/careless/task": {"task": {"id": 1}},
        "/careless/task_range": {"tasks": [{"id": float("nan")}]},
        "/careless/prompt": [{"type": "text", "text": "Say it.", "detail": None}],
        "/create_session": {"sid": "one-for-all"},
    }

    def do_GET(self) -> None:
        is_call = self.path == "/careless/call"
        content = json.dumps(self.answers.get(self.path, {})).encode()
        if is_call:
            content = (
                b"event: end\ndata: "
                b'{"ok":true,"output":{"blocks":[{"type":"text","text":"x"}]}}\n\n'
            )
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_call else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *args: Any) -> None:
        """Suppress the log."""


@pytest.fixture(scope="module")
def careless() -> Iterator[CheckReport]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Careless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield check_server(f"http://127.0.0.1:{server.server_port}", None, {}, OPTIONS)
    server.shutdown()
    server.server_close()


@each(
    ("subject", "check", "result", "words"),
    [
        ("tools", "listing", "failed", "cost"),
        ("tasks", "count and index", "failed", "NaN is not valid JSON"),
        ("play", "unknown tool", "failed", "does not exist was not refused"),
        ("protocol", "keys of a tool", "failed", "clients accept exactly"),
        ("protocol", "keys of an output", "failed", "lacks ['finished', 'metadata', 'reward']"),
        (
            "protocol",
            "refusals",
            "failed",
            "POST /careless/call for a call without a session was answered with status 200",
        ),
        ("protocol", "create by index", "failed", "POST /create returned {}"),
        ("protocol", "one session per id", "failed", "answer 400"),
        ("protocol", "stream", "failed", "The events of a call are ['end']"),
    ],
)
def test_it_reports_what_breaks_the_protocol(
    careless: CheckReport, subject: str, check: str, result: str, words: str
) -> None:
    [found] = [one for one in careless.findings if (one.subject, one.check) == (subject, check)]
    assert found.result == result
    assert words in found.sentence


def _failed(report: CheckReport) -> list[str]:
    return [one.sentence for one in report.findings if one.result == "failed"]
