"""Limits on the time and memory that live play may take. `environments/conf.py` reads most of them
from settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

WHOLE_ANSWER_SECONDS = 0.5
"""A call that ends within this time is answered with one body, which is cheaper than a stream. It
is long enough for a server under load, where every call takes several iterations of the event
loop."""
ReturnErrors = Literal["none", "exception", "stacktrace"]
NO_SETTINGS = {"close_wait_seconds", "whole_answer_seconds", "max_linger_bytes"}
"""Limits that no operator needs to change."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Each is the setting ORSWEB_… of its name without `_seconds`, except for NO_SETTINGS."""

    keepalive_seconds: float = 10.0
    """Interval of the comments in the stream of a running call; clients give up after 30 s of
    silence."""
    whole_answer_seconds: float = WHOLE_ANSWER_SECONDS
    """A call that ends within this time is answered with one body."""
    session_timeout_seconds: float = 900.0
    """Time after which a session without activity and without a running call expires."""
    result_linger_seconds: float = 60.0
    """Time for which the result of a finished call stays in memory; after that it is read from the
    record."""
    setup_wait_seconds: float = 300.0
    """Time for which GET prompt and GET messages wait for setup before they answer 503."""
    close_wait_seconds: float = 10.0
    """Time that the end of a session waits for plain code, and then for teardown, before it gives
    them up."""
    tool_timeout_seconds: float | None = None
    """Time after which a running tool call is stopped; None: no limit."""
    remote_silence_seconds: float = 30.0
    """Longest silence of a remote environment's server while its answer is awaited."""
    quota_wait_seconds: float = 20.0
    """Longest wait of requests over the quota of their key. Clients get nothing meanwhile, and give
    up after 30 s of silence."""
    quota_call_wait_seconds: float = 300.0
    """Longest wait of tool calls over the quota of their key, while their stream is open."""
    max_sessions: int = 10_000
    max_result_bytes: int = 64 * 1024 * 1024
    max_linger_bytes: int = 256 * 1024 * 1024
    """Memory for the results of finished calls of all sessions; beyond it, the oldest results are
    removed early."""
    return_errors: ReturnErrors = "exception"


@dataclass(frozen=True, slots=True)
class LoadingSettings:
    """The operator's choices about loading environments."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys for remote environments, by the rest of their variables' names."""
    path_prefix: str = ""
    """ORSWEB_PATH_PREFIX, with which the paths of no environment may begin: it would be taken off
    them."""
    import_seconds: float = 60.0
    """CPU time that another process may take to import a class, from ORSWEB_IMPORT_SECONDS."""
    interpreters: Path | None = None
    """Directory of the interpreters that are made for repositories; None: none are made."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The operator's choices about worker processes."""

    count: int = 0
    """ORSWEB_WORKERS: processes for each environment; 0: only classes that ask for a process get
    one."""
    memory_bytes: int = 0
    """Limit of the address space of each process, from ORSWEB_WORKER_MEMORY_MB; 0: none."""
    cpu_seconds: int = 0
    """CPU time that a process may take without another request, from ORSWEB_WORKER_CPU_SECONDS; 0:
    no limit."""
    import_seconds: float = 60.0
    """CPU time that a process may take to import its class, from ORSWEB_IMPORT_SECONDS."""
    ray: str | None = None
    """Address of the Ray cluster on whose machines the processes run, from ORSWEB_SESSION_HOSTS;
    empty: as Ray itself finds one; None: on this machine."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What sandboxes of hosted code may take."""

    directory: Path
    """Directory with images and files; see `environments/local_sandboxes/images.py`."""
    max_gb: float
    """Largest memory of a sandbox."""
    most: int
    """Number of sandboxes at the same time."""
