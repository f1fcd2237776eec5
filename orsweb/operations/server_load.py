"""How busy this process is: sessions, the queue of the recorder, threads and memory."""

from __future__ import annotations

import os
import resource
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from environments.cluster.cluster_load import ClusterLoad, cluster_load_of
from environments.hosts.worker_host import WorkerLoad
from environments.runtime.play_counts import PlayLoad
from environments.runtime.service import SessionService
from environments.service import get_record, ownership_or_none, worker_loads
from episodes.recording.recorder_load import RecorderLoad
from orsweb.operations.readiness import READINESS

THREADS = frozenset(
    (
        "MainThread", "environment", "session", "recorder", "recall", "catalogue", "follower", "keys", "live", "sync",
        "leases", "page", "pages", "play", "episode-events", "export", "reports", "job",
    )
)  # fmt: skip
"""Names of the server's threads, as docs/architecture.md lists them. Hosted code names its own as
it likes."""
OTHER = "other"
STARTED = datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """How busy the process is at one moment."""

    play: PlayLoad
    recorder: RecorderLoad
    workers: Mapping[str, WorkerLoad]
    """The worker processes, by the environments that have them."""
    threads: Mapping[str, int]
    """Number of threads by name, without the numbers in their names."""
    memory_bytes: int
    """Memory that the process holds now; programs that environments start are not part of it."""
    peak_memory_bytes: int
    started: datetime
    """When the process had loaded its code."""
    cluster: ClusterLoad | None = None
    """This server among several; None if it has its database alone."""


async def load_of(service: SessionService) -> ServerLoad:
    """Return how busy the process is. Called on the service's loop, which it holds for less than a
    millisecond."""
    memory_bytes, newest_end = _memory_bytes(), await READINESS.newest_end()
    return ServerLoad(
        play=service.load(),
        recorder=get_record().load(newest_end),
        workers=worker_loads(),
        threads=Counter(_kind(thread.name) for thread in threading.enumerate()),
        memory_bytes=memory_bytes,
        peak_memory_bytes=max(
            memory_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        ),
        started=STARTED,
        cluster=await cluster_load_of(ownership) if (ownership := ownership_or_none()) else None,
    )


def _kind(name: str) -> str:
    if name in THREADS:
        return name
    kind = name.rpartition("-")[0]
    return kind if kind in THREADS else OTHER


def _memory_bytes() -> int:
    """Return the resident memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
