"""Configuration of structured logs: structlog renders the events of this project and those that
libraries log.

Django calls `configure` with settings.LOGGING. Events have the fields `session` and `episode`, but
never contain a header, a body or a secret.
"""

from __future__ import annotations

import logging
import logging.config
import logging.handlers
import math
import os
import re
import sys
import time
import traceback
from collections import Counter
from functools import partial
from http import HTTPStatus
from typing import Any

from environments.display.visible import visible
from orsweb.apps import absent

with absent("rich", "twisted"):  # for tracebacks and loggers that are not used here: 0.1 s
    import structlog

_SECRET = re.compile(r"(/play/invite/(?:back/)?)[^/\s'\"?]+")
"""The link of an invite, or of the way back to one, whose last part must stay secret because it
gives access."""

FAILURE_SECONDS = 60.0
"""Time in which a failure at the same line of code is logged once."""


class WithoutInvites(logging.Filter):
    """Removes the secret part of invites from the request paths that libraries log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str) and "/play/invite/" in (text := record.getMessage()):
            record.msg, record.args = _SECRET.sub(r"\1…", text), ()
        return True


class WithoutSecrets(structlog.stdlib.ProcessorFormatter):
    """Masks the secrets of sessions in every line, and marks control characters, also in those of
    hosted code."""

    def format(self, record: logging.LogRecord) -> str:
        line = visible(super().format(record))
        # no session is open before something has imported it
        service = sys.modules.get("environments.service")
        playing = service and service.service_or_none()
        return playing.recent_secrets.log_line(line) if playing else line


class RefusalFilter(logging.Filter):
    """Notes the requests that Django refuses (4xx) in the security log, which counts those of an
    address.

    Django logs a line for each, with the whole path or header, so anybody could fill the disk.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        if request is None or not 400 <= getattr(record, "status_code", 0) < 500:
            return True
        # noted by the middleware that refuses it
        if record.name != "django.security.DisallowedHost":
            from environments import security_log  # when the applications are loaded

            status = HTTPStatus(record.status_code)  # type: ignore[attr-defined]  # Django's own field
            detail = f"{status.value} {status.phrase}"
            reasons = record.args if record.name == "django.security.csrf" else ()
            if isinstance(reasons, tuple) and reasons:
                detail += f": {reasons[0]}"
            path = _SECRET.sub(r"\1…", request.path)
            address = str(request.META.get("REMOTE_ADDR", ""))
            what = f"{request.method} {path}"
            security_log.note("request_refused", what, who="", address=address, detail=detail)
        return False


class FirstFailures(logging.Filter):
    """Passes one traceback a minute for each line of code: while the database is away, every
    request makes one."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[tuple[object, int], float] = {}
        """When the failure at a line of code was last passed, on the monotonic clock."""
        self._repeats: Counter[tuple[object, int]] = Counter()
        """How many were not passed since then."""

    def filter(self, record: logging.LogRecord) -> bool:
        trace = record.exc_info[2] if record.exc_info and hasattr(record, "request") else None
        if trace is None:
            return True
        *_, (frame, line) = traceback.walk_tb(trace)
        place, now = (frame.f_code, line), time.monotonic()
        if now - self._passed.get(place, -math.inf) < FAILURE_SECONDS:
            self._repeats[place] += 1
            return False
        self._passed[place] = now
        if repeats := self._repeats.pop(place, 0):
            record.msg = f"{record.getMessage()} (and {repeats} failures like it before)"
            record.args = ()
        return True


class PrivateFile(logging.handlers.WatchedFileHandler):
    """A file that its owner alone may read, and that programs such as logrotate may move away."""

    def _open(self) -> Any:
        return open(self.baseFilename, "a", encoding="utf-8", opener=partial(os.open, mode=0o600))


def configure(options: dict[str, Any]) -> None:
    """Configure structlog and logging.

    `options`: {"level": name, "format": "console" | "json", "security_file": path of a file, or
    empty}.
    """
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    console = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    json_renderers = [structlog.processors.JSONRenderer()]
    renderers = json_renderers if options["format"] == "json" else [_with_trace, console]
    structlog.configure(
        processors=[*processors, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    security: dict[str, Any] = {"level": "INFO"}  # whatever the level of the others
    handlers: dict[str, Any] = {}
    if options.get("security_file"):
        handlers["security"] = {
            "()": PrivateFile,
            "filename": options["security_file"],
            "formatter": "json",
            "delay": True,
        }
        security |= {"handlers": ["security"], "propagate": False}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "structured": _formatter(renderers, processors),
                "json": _formatter(json_renderers, processors),
            },
            "filters": {
                "without_invites": {"()": WithoutInvites},
                "refusals": {"()": RefusalFilter},
                "failures": {"()": FirstFailures},
            },
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "formatter": "structured",
                    # the last replaces message and arguments
                    "filters": ["refusals", "failures", "without_invites"],
                },
                **handlers,
            },
            "root": {"handlers": ["stderr"], "level": options["level"]},
            "loggers": {
                "uvicorn.access": {"level": "WARNING"},
                "django_eventstream": {"level": "WARNING"},  # it logs every opened page
                # it logs every wrong password, which the security log counts
                "axes": {"level": "ERROR"},
                # it logs what clients send wrongly, and quotes results in tracebacks
                "mcp": {"level": "CRITICAL"},
                "orsweb.security": security,
                "django.server": {"handlers": ["stderr"], "propagate": False},
            },
        }
    )


def _with_trace(logger: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Let the renderer write the traceback of an author's code below the line, as that of any
    exception."""
    if trace := event.pop("trace", None):
        event.setdefault("exception", trace)
    return event


def _formatter(renderers: list[Any], processors: list[Any]) -> dict[str, Any]:
    """Return the description of a formatter for dictConfig that ends with `renderers` and masks
    secrets."""
    return {
        "()": WithoutSecrets,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        "foreign_pre_chain": [*processors, structlog.stdlib.add_logger_name],
    }
