"""Limits: how long and how much live play may take. Plain numbers; `environments/conf.py` reads most from settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ReturnErrors = Literal["none", "exception", "stacktrace"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Each is a setting, ORSWEB_… without `_seconds`; only `close_wait_seconds` and `max_linger_bytes` are none."""

    keepalive_seconds: float = 10.0
    """A running call's stream gets a comment this often; clients give up after 30 s of silence."""
    session_timeout_seconds: float = 900.0
    """A session without activity and without a running call is expired after this."""
    result_linger_seconds: float = 60.0
    """A finished call's result stays in memory this long; later the record answers."""
    setup_wait_seconds: float = 300.0
    """GET prompt and messages wait this long for setup before they answer 503."""
    close_wait_seconds: float = 10.0
    """Ending a session waits this long for plain code and for teardown; then they are abandoned."""
    tool_timeout_seconds: float | None = None
    max_sessions: int = 10_000
    max_result_bytes: int = 64 * 1024 * 1024
    max_linger_bytes: int = 256 * 1024 * 1024
    """Results kept in memory, all sessions together; beyond it the oldest go early."""
    return_errors: ReturnErrors = "exception"
