"""Traces for OpenTelemetry: imported only if a collector is configured (`ORSWEB_TRACES`), so other
servers pay nothing.

`watch_requests` makes a span of each agent's request, which continues the trace that its header
`traceparent` names, and puts the trace's id into the log and into the header `X-Trace-Id` of the
response. `TracedRecorder` adds spans for tool calls and commits, which it sees as rows; it runs in
the context of the request. OpenTelemetry's own variables say what is sent where. Spans hold no
inputs, outputs or prompts.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from environments import conf
from environments.agents.http.handler import Answer
from environments.agents.http.request import HttpRequest
from environments.agents.http.response import Response
from environments.authoring.reserved_names import OTHER_PROTOCOLS, PROTOCOL_WORDS
from environments.runtime.records import EpisodeEnded, EpisodeStarted, Row, StepTaken
from episodes.recording.recorder import Recorder

TRACE_LABEL = "trace_id"
"""Label of an episode with the id of the trace in which its session was opened."""
TRACE_HEADER = b"x-trace-id"
MAX_FLUSH_MS = 1000
"""A stop waits this long for spans to be sent."""

_propagator = TraceContextTextMapPropagator()


@cache
def provider() -> TracerProvider:
    """Return the provider of this process; its thread sends spans in batches, and drops them if it
    can't keep up."""
    os.environ.setdefault("OTEL_SERVICE_NAME", "orsweb")
    tracer_provider = TracerProvider(resource=Resource.create({SERVICE_VERSION: conf.version()}))
    tracer_provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return tracer_provider


@cache
def _tracer() -> trace.Tracer:
    return provider().get_tracer("orsweb", conf.version())


# --- requests -------------------------------------------------------------------------------------


def watch_requests(answer: Answer) -> Answer:
    """Return `answer` with a span around it."""

    async def traced(request: HttpRequest) -> Response:
        parent = _propagator.extract({"traceparent": request.META.get("HTTP_TRACEPARENT", "")})
        name = _span_name(request)
        with _tracer().start_as_current_span(name, parent, kind=SpanKind.SERVER) as span:
            trace_id = trace.format_trace_id(span.get_span_context().trace_id)
            with structlog.contextvars.bound_contextvars(trace_id=trace_id):
                response = await answer(request)
            span.set_attribute("http.request.method", request.method)
            span.set_attribute("http.response.status_code", response.status_code)
            if response.status_code >= 500:
                span.set_status(Status(StatusCode.ERROR))
        response.headers = (*response.headers, (TRACE_HEADER, trace_id.encode("ascii")))
        return response

    return traced


def _span_name(request: HttpRequest) -> str:
    """Return one of few names: paths that clients make up are not part of it."""
    segments = request.path.strip("/").split("/")
    if segments[-1] == "create":
        return "session start"
    for word in (segments[0], segments[-1]):
        if word in PROTOCOL_WORDS | OTHER_PROTOCOLS:
            return f"{request.method} /{word}"
    return request.method


# --- the record -----------------------------------------------------------------------------------


class TracedRecorder(Recorder):
    """A recorder that makes spans of the tool calls that it gets, and of their commits.

    Its `record` is called by the task that runs a call, whose context is that of the request.
    """

    def __init__(self) -> None:
        super().__init__()
        self._environments: dict[int, str] = {}  # of live episodes

    def record(self, *rows: Row, on_commit: Callable[[], None] | None = None) -> None:
        labelled_rows = tuple(
            _with_trace_label(row) if isinstance(row, EpisodeStarted) else row for row in rows
        )
        for row in labelled_rows:
            if isinstance(row, EpisodeStarted):
                self._environments[row.episode] = row.environment
                trace.get_current_span().set_attributes(self._attributes(row.episode))
            elif isinstance(row, StepTaken):
                self._end_call(row)
            elif isinstance(row, EpisodeEnded):
                self._environments.pop(row.episode, None)
        super().record(*labelled_rows, on_commit=self._with_span(rows[0].episode, on_commit))

    def _with_span(
        self, episode: int, on_commit: Callable[[], None] | None
    ) -> Callable[[], None] | None:
        """Return `on_commit` with the end of a span that starts now, if somebody waits for the
        commit."""
        if on_commit is None:
            return None
        span = _tracer().start_span("commit", attributes={"orsweb.episode": episode})

        def end() -> None:
            span.end()
            on_commit()

        return end

    def _end_call(self, row: StepTaken) -> None:
        about = {"orsweb.step": row.index, "orsweb.tool": row.tool, "orsweb.outcome": row.status}
        attributes = {**self._attributes(row.episode), **about}
        span = _tracer().start_span(
            "tool call", start_time=int(row.started * 1e9), attributes=attributes
        )
        if row.status == "failed":
            span.set_status(Status(StatusCode.ERROR, row.reason))
        span.end()

    def _attributes(self, episode: int) -> dict[str, Any]:
        return {
            "orsweb.episode": episode,
            "orsweb.environment": self._environments.get(episode, ""),
        }

    async def stop(self, timeout_seconds: float) -> int:
        lost_count = await super().stop(timeout_seconds)
        await asyncio.to_thread(provider().force_flush, MAX_FLUSH_MS)
        return lost_count


def _with_trace_label(row: EpisodeStarted) -> EpisodeStarted:
    """Return the row with the id of the current trace as a label, unless the client has set that
    label."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return row
    labels = {TRACE_LABEL: trace.format_trace_id(context.trace_id)}
    labels |= json.loads(row.run.labels_json or "{}")
    return replace(row, run=replace(row.run, labels_json=json.dumps(labels)))
