"""How busy the recorder is: what waits, and what was committed since the process started."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from environments.runtime.bucket_counts import BucketCounts, CountedValues

BATCH_CALLS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
COMMIT_SECONDS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)


@dataclass(frozen=True, slots=True)
class Commits:
    """The batches that were committed since the process started."""

    calls: CountedValues
    """Calls of the recorder in a batch: a step, the start or the end of an episode, a part of an
    upload."""
    seconds: CountedValues
    """Time that writing a batch took."""
    lag_seconds: CountedValues
    """Time from the oldest call of a batch to its commit: what an agent waits beyond its tool, at
    most."""


class CommitCounts:
    """Counts batches, on the writer's thread."""

    def __init__(self) -> None:
        self._calls = BucketCounts(BATCH_CALLS)
        self._seconds, self._lag = BucketCounts(COMMIT_SECONDS), BucketCounts(COMMIT_SECONDS)

    def count(self, calls: int, began: float, oldest: float) -> None:
        """Count a batch that was just committed. `began` and `oldest` are times of
        `time.monotonic`."""
        now = time.monotonic()
        self._calls.observe(calls)
        self._seconds.observe(now - began)
        self._lag.observe(now - oldest)

    def snapshot(self) -> Commits:
        return Commits(self._calls.snapshot(), self._seconds.snapshot(), self._lag.snapshot())


@dataclass(frozen=True, slots=True)
class RecorderLoad:
    """How busy the recorder is at one moment."""

    queued: int
    """Calls of the recorder that are not committed yet."""
    oldest_seconds: float
    """How long the oldest of those has waited that are being written."""
    rejected: int
    """Rows that the database refused because of their content."""
    commits: Commits
    behind: Mapping[str, int]
    """Endings that each part of the follower has not followed yet."""
    follower_seconds: float
    """How long ago every part of the follower had last followed something, or found nothing to
    follow."""
