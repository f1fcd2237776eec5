"""The tables of what can be played, and of who may."""

from environments.models.access import (
    ApiKey,
    ClusterServer,
    EnvironmentSecret,
    RecordedBytes,
    SecurityEvent,
    SessionLease,
)
from environments.models.history import CurationAction, SyncConflict, TaskRevision
from environments.models.tasks import (
    DEFAULT_CONVENTION,
    Environment,
    Split,
    SplitEntry,
    SplitRemoval,
    SplitStretches,
    Task,
    TaskFlag,
    TaskStatistics,
    TaskTag,
    seen_at,
)
from environments.models.viewer import UNRESTRICTED, Viewer

__all__ = [
    "DEFAULT_CONVENTION",
    "UNRESTRICTED",
    "ApiKey",
    "ClusterServer",
    "CurationAction",
    "Environment",
    "EnvironmentSecret",
    "RecordedBytes",
    "SecurityEvent",
    "SessionLease",
    "Split",
    "SplitEntry",
    "SplitRemoval",
    "SplitStretches",
    "SyncConflict",
    "Task",
    "TaskFlag",
    "TaskRevision",
    "TaskStatistics",
    "TaskTag",
    "Viewer",
    "seen_at",
]
