"""Structured logs: structlog for this project's events, the same rendering for what libraries log.

Called by Django with settings.LOGGING. Events carry `session` and `episode`, never a header, a body or a secret.
"""

from __future__ import annotations

import logging
import logging.config
import re
from typing import Any

from orsweb.apps import absent

with absent("rich", "twisted"):  # for tracebacks and loggers that are not used here: 0.1 s
    import structlog

_SECRET = re.compile(r"(/play/invite/)[^/\s'\"?]+")
"""The part of an address that is kept secret: the link of an invite is a key to the server."""


class WithoutInvites(logging.Filter):
    """Nobody who reads the log may enter by it: what libraries say of a request names its path."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str) and "/play/invite/" in (said := record.getMessage()):
            record.msg, record.args = _SECRET.sub(r"\1…", said), ()
        return True


class OneLineRefusals(logging.Filter):
    """Drops the traceback of a request that was refused (4xx): the sentence says it, and our code is not at fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        if 400 <= getattr(record, "status_code", 0) < 500:
            record.exc_info = record.exc_text = None
        return True


def configure(options: dict[str, Any]) -> None:
    """`options`: {"level": name, "format": "console" | "json"}."""
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
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "structured": {
                    "()": structlog.stdlib.ProcessorFormatter,
                    "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
                    "foreign_pre_chain": shared,
                }
            },
            "filters": {"without_invites": {"()": WithoutInvites}, "refusals": {"()": OneLineRefusals}},
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "formatter": "structured",
                    "filters": ["without_invites", "refusals"],
                }
            },
            "root": {"handlers": ["stderr"], "level": options["level"]},
            "loggers": {
                "uvicorn.access": {"level": "WARNING"},
                "django_eventstream": {"level": "WARNING"},  # a line for every page that is opened
                "django.server": {"handlers": ["stderr"], "propagate": False},
            },
        }
    )
