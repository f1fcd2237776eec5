"""Compares HTTP exchanges with the OpenAPI document of the protocol.

    check_exchange(Exchange("POST", "/math/call", {...}, b"...", 200, {...}, b"..."))

Names of headers are in lower case. An AssertionError or a jsonschema.ValidationError says what the
document lacks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from jsonschema import Draft202012Validator

from environments.agents.ors import openapi
from environments.agents.ors.message_schemas import COMPONENTS, EVENT

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Exchange:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    status: int
    answer_headers: Mapping[str, str]
    answer: bytes

    @property
    def word(self) -> str:
        """The last segment of the path."""
        return self.path.rpartition("/")[2]

    def answer_type(self) -> str:
        return self.answer_headers.get("content-type", "").partition(";")[0]


@cache
def document() -> dict[str, Any]:
    return openapi.openapi()


@cache
def _templates() -> list[tuple[re.Pattern[str], str]]:
    """Return the paths of the document as patterns, those without parameters first."""
    paths = sorted(document()["paths"], key=lambda path: "{" in path)
    return [(re.compile(re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(path))), path) for path in paths]


def template_of(path: str) -> str | None:
    """Return the path of the document that describes `path`, or None."""
    return next((template for pattern, template in _templates() if pattern.fullmatch(path)), None)


def is_described(method: str, path: str) -> bool:
    template = template_of(path)
    return template is not None and method.lower() in document()["paths"][template]


def check_exchange(exchange: Exchange) -> None:
    """Check the request, and then its response."""
    check_request(exchange)
    check_answer(exchange)


def check_request(exchange: Exchange) -> None:
    operation = _operation(exchange)
    unknown = {name for name in exchange.headers if name.startswith("x-")} - _headers()
    assert not unknown, f"{exchange.method} {exchange.path} has the headers {unknown}"
    for parameter in operation.get("parameters", ()):
        name = parameter["name"].lower()
        if parameter["in"] == "header" and (parameter.get("required") or name in exchange.headers):
            _check(exchange.headers[name], parameter["schema"])
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        _check(json.loads(exchange.body), schema)


@cache
def _headers() -> frozenset[str]:
    """Return the names of all headers that the document knows; a path ignores those that it has no
    use for."""
    operations = [operation for path in document()["paths"].values() for operation in path.values()]
    parameters = chain.from_iterable(operation.get("parameters", ()) for operation in operations)
    keys = document()["components"]["securitySchemes"].values()
    return frozenset(
        header["name"].lower() for header in (*parameters, *keys) if header["in"] == "header"
    )


def check_answer(exchange: Exchange) -> None:
    responses = _operation(exchange)["responses"]
    assert str(exchange.status) in responses, (
        f"{exchange.method} {exchange.path} answered {exchange.status}"
    )
    response = responses[str(exchange.status)]
    if "$ref" in response:
        response = document()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    for name, header in response.get("headers", {}).items():
        value = exchange.answer_headers.get(name.lower())
        if value is not None:
            _check(
                int(value) if header["schema"].get("type") == "integer" else value, header["schema"]
            )
    described = response["content"][exchange.answer_type()]
    if exchange.answer_type() == "text/event-stream":
        _check_stream(exchange.answer.decode(), described)
    else:
        _check(json.loads(exchange.answer), described["schema"])


def _check_stream(text: str, described: Schema) -> None:
    events = list(events_of(text))
    for event in events:
        _check(event, {"$ref": f"{COMPONENTS}{EVENT}"})
    assert {event["event"] for event in events[1:-1]} <= {"chunk"} and events[-1]["event"] in (
        "end",
        "error",
    ), events
    if events[-1]["event"] == "end":
        whole = "".join(event["data"] for event in events if event["event"] in ("chunk", "end"))
        _check(json.loads(whole), described["x-resultSchema"])


def events_of(text: str) -> Iterator[dict[str, str]]:
    """Yield the events of a stream, without comments."""
    for block in text.split("\n\n"):
        fields = [
            line.partition(": ") for line in block.split("\n") if line and not line.startswith(":")
        ]
        if fields:
            kind = next(value for name, _, value in fields if name == "event")
            yield {
                "event": kind,
                "data": "\n".join(value for name, _, value in fields if name == "data"),
            }


def _operation(exchange: Exchange) -> dict[str, Any]:
    template = template_of(exchange.path)
    assert template is not None, f"the document has no path for {exchange.path}"
    operation: dict[str, Any] = document()["paths"][template][exchange.method.lower()]
    return operation


def _check(value: Any, schema: Schema) -> None:
    _validator(json.dumps(schema)).validate(value)


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({**json.loads(schema), "components": document()["components"]})
