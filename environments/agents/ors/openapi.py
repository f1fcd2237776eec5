"""The protocol as an OpenAPI 3.1 document and as JSON Schema, built from `operations.py` and the
types of `wire.py`.

Both documents describe the protocol, not one server: they contain no names of environments, and of
the settings only the path below which the server is (ORSWEB_PATH_PREFIX). They are built at the
first request (20 ms) and kept as text.

OpenAPI 3.1 has no words for event streams. Here the schema of `text/event-stream` is a string;
`x-itemSchema` beside it describes one event (as `itemSchema` of OpenAPI 3.2 does), and
`x-resultSchema` the JSON that the events contain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from environments import conf
from environments.agents.ors.message_schemas import (
    COMPONENTS,
    EVENT,
    Schema,
    defined_types,
    message_schemas,
)
from environments.agents.ors.operations import (
    ENVIRONMENT_OPERATIONS,
    ROOT_OPERATIONS,
    ErrorBody,
    ProtocolOperation,
)
from environments.wire import value_json

VERSION = "1"
"""Version of the documents; it rises when a client made from an earlier one stops working."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"

INTRODUCTION = """\
The [Open Reward Standard](https://openrewardstandard.io): agents discover environments, open a session for a task, and
call its tools until a result is `finished`.

Every response whose status is not 2xx is an `ErrorBody`. Paths with an environment's name are also served without it:
for the session's own environment, or for the one that X-Deployment names, or for the default. Names ignore case.
A path with a slash at its end is redirected (307) to the one without."""

TAGS = {
    "Discovery": "What a server hosts: environments, tools, splits and tasks.",
    "Sessions": "Sessions, each of which plays one task. A session whose client is silent for too "
    "long expires.",
    "Calls": "Calls of tools, answered with an event stream.",
}

HEADERS: dict[str, Schema] = {
    "X-Session-ID": {
        "description": "Id of the session.",
        "required": True,
        "schema": {"type": "string", "minLength": 1, "maxLength": 500},
    },
    "X-Deployment": {
        "description": "Name of the environment, after the last slash, for paths without one; "
        "ignored if unknown.",
        "schema": {"type": "string"},
    },
    "X-Secrets": {
        "description": 'Secrets as base64 of `{name: {"value": string}}`. Those in the body win.',
        "schema": {
            "type": "string",
            "contentEncoding": "base64",
            "contentMediaType": "application/json",
        },
    },
    "X-Run": {
        "description": "Name of the run that the episode belongs to.",
        "schema": {"type": "string"},
    },
    "X-Step": {
        "description": "Training step of the run.",
        "schema": {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"},
    },
    "X-Model": {"description": "Name of the model that plays.", "schema": {"type": "string"}},
}

REFUSALS: dict[int, tuple[str, str, tuple[str, ...]]] = {
    400: ("BadRequest", "A header, a split, an index or a combination of them is invalid.", ()),
    401: (
        "Unauthorized",
        "The API key is missing, or is not one of this server's keys.",
        ("WWW-Authenticate",),
    ),
    403: (
        "Forbidden",
        "The API key may not do this: its scopes, environments, splits or run don't allow it.",
        (),
    ),
    404: (
        "NotFound",
        "The environment, the session or the feature does not exist, or the address has NUL (%00).",
        (),
    ),
    405: ("MethodNotAllowed", "The path has another method.", ("Allow",)),
    409: (
        "Conflict",
        "The path names another environment than the one that the session plays.",
        (),
    ),
    410: ("Gone", "The session was deleted while the request waited.", ()),
    413: ("TooLarge", "The body has more bytes than ORSWEB_MAX_BODY_BYTES allows.", ()),
    415: (
        "CompressedBody",
        "The body is compressed, which is not supported.",
        ("Accept-Encoding",),
    ),
    422: ("Unprocessable", "The body is not JSON, or its fields are not those of its type.", ()),
    429: (
        "OverQuota",
        "The API key has used its quota, ORSWEB_MAX_SESSIONS are live, or this address sent too "
        "many wrong keys.",
        ("Retry-After",),
    ),
    431: (
        "HeadersTooLarge",
        "The URL and the headers have more bytes than ORSWEB_MAX_HEADER_BYTES allows.",
        (),
    ),
    500: ("EnvironmentFailed", "The environment raised an exception, or the server failed.", ()),
    503: (
        "Unavailable",
        "Setup has not ended, or the server is stopping. Try again.",
        ("Retry-After", "X-Backend-State"),
    ),
}
"""Name, description and headers of each refusal."""
EVERYWHERE = (400, 404, 405, 431, 500)

RESPONSE_HEADERS: dict[str, Schema] = {
    "Accept-Encoding": {"description": "How a body may be encoded.", "schema": {"type": "string"}},
    "Allow": {"description": "Methods of the path.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
    "WWW-Authenticate": {
        "description": "Name of the header that the key belongs in.",
        "schema": {"type": "string"},
    },
    "X-Backend-State": {
        "description": "What the server does meanwhile.",
        "schema": {"const": "starting"},
    },
}


@cache
def openapi_json() -> str:
    """Return the OpenAPI document as JSON."""
    return value_json(openapi())


@cache
def json_schema_json() -> str:
    """Return the JSON Schema document as JSON."""
    return value_json(json_schema())


def openapi() -> Schema:
    """Return the OpenAPI document."""
    answers, types = message_schemas()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Open Reward Standard", "version": VERSION, "description": INTRODUCTION},
        "jsonSchemaDialect": DIALECT,
        "servers": [{"url": conf.path_prefix() or "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "security": [{"key": []}, {}],
        "paths": {
            path: {operation.method: _describe(path, operation, answers)}
            for path, operation in paths().items()
        },
        "components": {
            "schemas": types,
            "responses": {
                name: _error_response(text, headers) for name, text, headers in REFUSALS.values()
            },
            "securitySchemes": {
                "key": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-API-Key",
                    "description": "Needed if the server has keys. `Authorization: Bearer` with "
                    "the key will do, too.",
                }
            },
        },
    }


def json_schema() -> Schema:
    """Return a JSON Schema with the type of every message in its `$defs`."""
    return {
        "$schema": DIALECT,
        "title": "Open Reward Standard",
        "description": "The messages of the protocol; `/openapi.json` says where each is sent.",
        "$defs": defined_types(),
    }


def paths() -> dict[str, ProtocolOperation]:
    """Return the operation of each path; first those with an environment's name, then the same
    without it."""
    root = {f"/{word}": operation for word, operation in ROOT_OPERATIONS.items()}
    bare = {f"/{word}": operation for word, operation in ENVIRONMENT_OPERATIONS.items()}
    return {**root, **{f"/{{env_name}}{path}": bare[path] for path in bare}, **bare}


# --- operations -----------------------------------------------------------------------------------


def _describe(path: str, operation: ProtocolOperation, answers: dict[str, Schema]) -> Schema:
    word = path.rpartition("/")[2]
    is_bare = word in ENVIRONMENT_OPERATIONS and path == f"/{word}"
    description: Schema = {
        "operationId": f"bare_{word}" if is_bare else word,
        "tags": [operation.tag],
        "summary": operation.summary,
    }
    if text := _text(operation, is_bare):
        description["description"] = text
    if parameters := list(_parameters(path, operation)):
        description["parameters"] = parameters
    if operation.request is not None:
        schema = {"$ref": f"{COMPONENTS}{operation.request.__name__}"}
        description["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    description["responses"] = _responses(path, operation, answers[word])
    if path == "/health":
        description["security"] = []
    return description


def _text(operation: ProtocolOperation, is_bare: bool) -> str:
    parts = [operation.description]
    if operation.alias_of:
        parts.append(f"Another name of `{operation.alias_of}`.")
    if is_bare and "X-Session-ID" in operation.headers:
        parts.append("Without an environment's name: for the environment of the session.")
    elif is_bare:
        parts.append(
            "Without an environment's name: for the environment that X-Deployment names, "
            "or the default."
        )
    return " ".join(filter(None, parts))


def _parameters(path: str, operation: ProtocolOperation) -> Iterator[Schema]:
    if path.startswith("/{env_name}"):
        text = "Name of the environment; upper and lower case are equal."
        yield {
            "name": "env_name",
            "in": "path",
            "required": True,
            "description": text,
            "schema": {"type": "string"},
        }
    names = list(operation.headers)
    if path == "/create" or (path[1:] in ENVIRONMENT_OPERATIONS and not names):
        names.append("X-Deployment")
    for name in names:
        yield {"name": name, "in": "header", **HEADERS[name]}


def _responses(path: str, operation: ProtocolOperation, answer: Schema) -> Schema:
    statuses = {*EVERYWHERE, *operation.statuses}
    if path != "/health":
        statuses |= {401, 403, 429, 503}
    if operation.method == "post":
        statuses |= {413, 415}
    refusals = {
        str(status): {"$ref": f"#/components/responses/{REFUSALS[status][0]}"}
        for status in sorted(statuses)
    }
    content: Schema = {}
    if operation.stream != "always":
        content["application/json"] = {"schema": answer}
    if operation.stream:
        content["text/event-stream"] = {
            "schema": {"type": "string", "description": f"Server-sent events, each a `{EVENT}`."},
            "x-itemSchema": {"$ref": f"{COMPONENTS}{EVENT}"},
            "x-resultSchema": answer,
        }
    return {"200": {"description": "Success.", "content": content}, **refusals}


def _error_response(text: str, headers: tuple[str, ...]) -> Schema:
    response: Schema = {"description": text}
    if headers:
        response["headers"] = {name: RESPONSE_HEADERS[name] for name in headers}
    body = {"$ref": f"{COMPONENTS}{ErrorBody.__name__}"}
    response["content"] = {"application/json": {"schema": body}}
    return response
