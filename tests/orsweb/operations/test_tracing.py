"""Traces: OpenTelemetry's own exporter sends them to a collector in this test, or nothing of it is
even imported."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.conformance.agent import Agent, eventually
from tests.server import ROOT, LiveServer

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONTINUED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Collector(ThreadingHTTPServer):
    """Takes traces over OTLP/HTTP and keeps their spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Inbox)
        self.spans: list[Any] = []
        self.services = set[str]()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def named(self, name: str, trace: str) -> list[Any]:
        return [span for span in self.spans if (span.name, span.trace_id.hex()) == (name, trace)]

    def wait_for(self, name: str, trace: str = TRACE) -> Any:
        eventually(lambda: bool(self.named(name, trace)))
        return self.named(name, trace)[0]


class _Inbox(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        message = ExportTraceServiceRequest.FromString(
            self.rfile.read(int(self.headers["Content-Length"]))
        )
        for resource in message.resource_spans:
            self.server.services |= {one.value.string_value for one in resource.resource.attributes}
            self.server.spans += [span for scope in resource.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running
        running.shutdown()


@pytest.fixture(scope="module")
def server(collector: Collector) -> Iterator[LiveServer]:
    sent = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with LiveServer(
        "tests.envs_faulty:Raises", env={**sent, "ORSWEB_LOG_FORMAT": "json"}
    ) as running:
        yield running


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_a_trace_goes_through_session_call_and_commit(
    server: LiveServer, collector: Collector
) -> None:
    with Agent(server, **CONTINUED).open({"id": 1}, "raises") as agent:
        agent.call("echo", {"text": "hi"})
        start, call = collector.wait_for("session start"), collector.wait_for("tool call")
    request = collector.wait_for("POST /call")
    parents = [start.parent_span_id.hex(), request.parent_span_id.hex(), call.parent_span_id]
    assert parents == [PARENT, PARENT, request.span_id]
    commits = {span.parent_span_id for span in collector.named("commit", TRACE)}
    assert {start.span_id, request.span_id} <= commits
    found = attributes(call)
    assert (found["orsweb.environment"], found["orsweb.tool"], found["orsweb.outcome"]) == (
        "raises",
        "echo",
        "ok",
    )
    assert "orsweb" in collector.services


def test_the_answer_names_the_trace(server: LiveServer) -> None:
    with Agent(server, **CONTINUED) as agent:
        assert agent.http.post("/create_session").headers["x-trace-id"] == TRACE
    alone = httpx.get(f"{server.url}/list_environments").headers["x-trace-id"]
    assert len(alone) == 32 and alone != TRACE


@pytest.mark.parametrize(
    "header", ["nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\u00e9" * 50]
)
def test_a_broken_header_starts_a_trace(server: LiveServer, header: str) -> None:
    answer = httpx.get(
        f"{server.url}/list_environments", headers={"traceparent": header.encode("latin-1")}
    )  # type: ignore[arg-type]
    assert (answer.status_code, len(answer.headers["x-trace-id"])) == (200, 32)


def test_the_episode_is_recorded_with_its_trace(server: LiveServer, collector: Collector) -> None:
    trace = "a" * 32
    with Agent(server, traceparent=f"00-{trace}-{PARENT}-01").open({"id": 2}, "raises"):
        number = attributes(collector.wait_for("session start", trace))["orsweb.episode"]
    episode = httpx.get(f"{server.url}/api/episodes/{number}", follow_redirects=True).json()
    assert episode["labels"] == {"trace_id": trace}


def test_the_log_and_the_span_name_a_failure(server: LiveServer, collector: Collector) -> None:
    trace = "b" * 32
    with Agent(server, traceparent=f"00-{trace}-{PARENT}-01").open({"id": 3}, "raises") as agent:
        agent.call("fault")
    failed = [line for line in server.log.splitlines() if "tool call failed" in line]
    assert any(f'"trace_id": "{trace}"' in line for line in failed)
    assert collector.wait_for("tool call", trace).status.message == "RuntimeError"


def test_no_library_is_imported_without_a_use_for_it(server: LiveServer) -> None:
    unused = {"opentelemetry", "psycopg"}  # on SQLite, without a collector
    code = (
        f"import sys, orsweb.asgi; print(sorted({unused} & {{name.partition('.')[0] for name in "
        "sys.modules}))"
    )
    environment = {
        name: text
        for name, text in server.env.items()
        if not name.startswith(("OTEL_", "DATABASE_URL"))
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("off", [{"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}])
def test_the_standard_variables_switch_it_off(server: LiveServer, off: dict[str, str]) -> None:
    code = "from django.conf import settings; print(settings.ORSWEB_TRACES)"
    environment = {**server.env, **off, "DJANGO_SETTINGS_MODULE": "orsweb.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr
