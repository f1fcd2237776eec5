"""The responses to errors: `{"detail": …}` with a status. Only this module maps exceptions to them.

Divergence from the references: the details of a 422 name fields and rules, but never the values
that were sent, because clients put details into exceptions and logs, and a body may hold secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError
from pydantic import BaseModel, ValidationError
from rest_framework import exceptions

from environments import errors
from environments.agents.http.response import Response, refusal
from environments.command_line import command
from environments.service import get_service

log = structlog.get_logger(__name__)

STATUS: Mapping[type[errors.OrsError], int] = {
    errors.UnknownEnvironment: 404,
    errors.Unavailable: 400,  # both SDKs' clients try a 5xx again
    errors.InvalidSplit: 400,
    errors.InvalidIndex: 400,
    errors.InvalidIndexRange: 400,
    errors.ListingUnsupported: 400,
    errors.InvalidRequest: 400,
    errors.SessionNotFound: 404,
    errors.SessionExists: 400,
    errors.SessionDeleted: 410,
    errors.SessionStarting: 503,
    errors.TooManySessions: 429,
    errors.OtherEnvironment: 409,
    errors.Unsupported: 404,
    errors.Forbidden: 403,
    errors.NumbersAway: 503,
    errors.Draining: 503,
    errors.EnvironmentFault: 500,
    errors.Unhostable: 500,  # `runserver` opens the service at the first request
}

RETRY_HEADERS = {"X-Backend-State": "starting", "Retry-After": "2"}
"""Headers that make the SDKs' clients wait and try again."""

HEADERS: Mapping[type[errors.OrsError], Mapping[str, str]] = {
    errors.SessionStarting: RETRY_HEADERS,
    errors.NumbersAway: RETRY_HEADERS,
    errors.Draining: RETRY_HEADERS,
    errors.TooManySessions: {"Retry-After": "2"},
}


NUL_IS_NOWHERE = "The address has the character NUL (%00), which no name and no text here has."
"""Answer to addresses that PostgreSQL would refuse, and in which SQLite would find nothing."""
MAX_PROBLEMS = 100
"""Most problems that are listed for one body. Formatting a million unknown fields would block the
loop for a minute."""


class Unprocessable(errors.OrsError):
    """A body that is not JSON or does not have the fields of the message.

    `problems` is a list as FastAPI sends it, without values. `is_malformed`: the body is not JSON.
    """

    def __init__(self, problems: list[dict[str, Any]], *, is_malformed: bool = False) -> None:
        super().__init__("Unprocessable body")
        self.problems, self.is_malformed = problems, is_malformed


def malformed(text: str) -> Unprocessable:
    """Return the error for a body that is not JSON."""
    return Unprocessable([_problem("json_invalid", [], text)], is_malformed=True)


def mistyped(error: ValidationError, model: type[BaseModel]) -> Unprocessable:
    """Return the error for a body that does not have the fields of `model`."""
    count = error.error_count()
    if count > MAX_PROBLEMS:
        text = f"{count} problems; at most {MAX_PROBLEMS} are listed"
        return Unprocessable([_problem("too_many_problems", [], text)])
    problems = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        text = problem["msg"]
        if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
            text += f"; allowed: {', '.join(model.model_fields)}"
        problems.append(_problem(problem["type"], list(problem["loc"]), text))
    return Unprocessable(problems)


def is_malformed_json(error: ValidationError) -> bool:
    """Return whether pydantic's parser refused the text, as opposed to its values."""
    if error.error_count() > 1:
        return False
    [problem] = error.errors(include_url=False, include_context=False, include_input=False)
    return problem["type"] == "json_invalid"


def refusal_of_coding(content_encoding: str) -> str:
    """Return the sentence that refuses a body with this header, such as a compressed one; empty if
    it is plain."""
    coding = content_encoding.strip()
    if coding.lower() in ("", "identity"):
        return ""
    return (
        f"Content-Encoding {coding[:100]!r} is not supported; send the body as it is, without this "
        "header"
    )


def _problem(kind: str, location: list[Any], text: str) -> dict[str, Any]:
    return {"type": kind, "loc": ["body", *location], "msg": text, "input": None}


class ErrorReply(NamedTuple):
    """What a response to an error says, in a form that does not depend on the protocol."""

    status: int
    detail: Any
    """A sentence, or a list of problems."""
    headers: Mapping[str, str] | None = None


def respond(error: Exception, methods: list[str]) -> Response:
    """Return the response to `error`; `methods` are the methods that the path accepts."""
    return refusal(*reply_to(error, methods))


def reply_to(error: Exception, methods: list[str]) -> ErrorReply:
    """Return the status, text and headers of the response to `error`, as `respond` sends them."""
    if isinstance(error, Unprocessable):
        return ErrorReply(422, error.problems)
    if isinstance(error, errors.EnvironmentFault):
        mode = get_service().limits.return_errors
        text = error.trace if mode == "stacktrace" and error.trace else str(error)
        return ErrorReply(500, "Internal Server Error" if mode == "none" else text)
    if isinstance(error, errors.OverQuota):
        return ErrorReply(429, str(error), {"Retry-After": str(error.retry_seconds)})
    if isinstance(error, errors.KeyRefused):
        if error.wait_seconds:
            return ErrorReply(429, str(error), {"Retry-After": str(error.wait_seconds)})
        return ErrorReply(401, str(error), {"WWW-Authenticate": "X-API-Key"})
    if isinstance(error, errors.OrsError):
        return ErrorReply(STATUS[type(error)], str(error), HEADERS.get(type(error)))
    if isinstance(error, exceptions.MethodNotAllowed):
        return ErrorReply(405, "Method Not Allowed", {"Allow": ", ".join(methods)})
    if isinstance(error, exceptions.UnsupportedMediaType):
        return ErrorReply(415, str(error.detail), {"Accept-Encoding": "identity"})
    if isinstance(error, exceptions.APIException):
        wait = getattr(error, "wait", None)
        headers = {"Retry-After": str(wait)} if wait else None
        return ErrorReply(error.status_code, str(error.detail), headers)
    text = str(error).partition("\n")[0]
    # PostgreSQL's states of a missing table and a missing column, and SQLite's texts
    if isinstance(error, DatabaseError) and (
        getattr(error.__cause__, "sqlstate", None) in ("42P01", "42703")
        or text.startswith(("no such table", "no such column"))
    ):
        log.error("database_not_migrated", reason=text)
        return ErrorReply(500, f"The database is not migrated; run {command('migrate')}.")
    if isinstance(error, OperationalError | InterfaceError):
        log.error("database_away", error=type(error).__name__, reason=text)
        return ErrorReply(503, "The database cannot be reached; try again.", RETRY_HEADERS)
    log.error("a protocol view failed", exc_info=error)
    return ErrorReply(500, "Internal Server Error")
