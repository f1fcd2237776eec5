"""Configuration of structured logs: structlog renders the events of this project and those that libraries log.

Django calls `configure` with settings.LOGGING. Events have the fields `session` and `episode`, but never contain a
header, a body or a secret.
"""

from __future__ import annotations

import logging
import logging.config
import logging.handlers
import os
import re
import sys
from functools import partial
from typing import Any

from orsweb.apps import absent

with absent("rich", "twisted"):  # for tracebacks and loggers that are not used here: 0.1 s
    import structlog

_SECRET = re.compile(r"(/play/invite/)[^/\s'\"?]+")
"""The link of an invite, whose last part must stay secret because it gives access to the server."""


class WithoutInvites(logging.Filter):
    """Removes the secret part of invites from the request paths that libraries log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str) and "/play/invite/" in (text := record.getMessage()):
            record.msg, record.args = _SECRET.sub(r"\1…", text), ()
        return True


class WithoutSecrets(structlog.stdlib.ProcessorFormatter):
    """Masks the secrets of sessions in every line, also in those that libraries and hosted code log."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        service = sys.modules.get("environments.service")  # no session is open before something has imported it
        playing = service and service.service_or_none()
        return playing.recent_secrets.log_line(line) if playing else line


class OneLineRefusals(logging.Filter):
    """Removes the traceback of refused requests (4xx), because their message is enough and no code has failed."""

    def filter(self, record: logging.LogRecord) -> bool:
        if 400 <= getattr(record, "status_code", 0) < 500:
            record.exc_info = record.exc_text = None
        return True


class PrivateFile(logging.handlers.WatchedFileHandler):
    """A file that its owner alone may read, and that programs such as logrotate may move away."""

    def _open(self) -> Any:
        return open(self.baseFilename, "a", encoding="utf-8", opener=partial(os.open, mode=0o600))


def configure(options: dict[str, Any]) -> None:
    """Configure structlog and logging.

    `options`: {"level": name, "format": "console" | "json", "security_file": path of a file, or empty}.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if options["format"] == "json"
        else structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    security: dict[str, Any] = {"level": "INFO"}  # whatever the level of the others
    handlers: dict[str, Any] = {}
    if options.get("security_file"):
        own = {"()": PrivateFile, "filename": options["security_file"], "formatter": "json", "delay": True}
        handlers, security = {"security": own}, {**security, "handlers": ["security"], "propagate": False}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "structured": _formatter(renderer, shared),
                "json": _formatter(structlog.processors.JSONRenderer(), shared),
            },
            "filters": {"without_invites": {"()": WithoutInvites}, "refusals": {"()": OneLineRefusals}},
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "formatter": "structured",
                    "filters": ["without_invites", "refusals"],
                },
                **handlers,
            },
            "root": {"handlers": ["stderr"], "level": options["level"]},
            "loggers": {
                "uvicorn.access": {"level": "WARNING"},
                "django_eventstream": {"level": "WARNING"},  # it logs every opened page
                "mcp": {"level": "CRITICAL"},  # it logs what clients send wrongly, and quotes results in tracebacks
                "orsweb.security": security,
                "django.server": {"handlers": ["stderr"], "propagate": False},
            },
        }
    )


def _formatter(renderer: Any, shared: list[Any]) -> dict[str, Any]:
    """Return the description of a formatter for dictConfig that ends with `renderer` and masks secrets."""
    return {
        "()": WithoutSecrets,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        "foreign_pre_chain": shared,
    }
