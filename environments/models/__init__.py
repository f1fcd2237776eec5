"""The tables of what can be played, and of who may."""

from environments.models.access import ApiKey, RecordedBytes, SecurityEvent
from environments.models.history import CurationAction, TaskRevision
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

__all__ = [
    "DEFAULT_CONVENTION",
    "ApiKey",
    "CurationAction",
    "Environment",
    "RecordedBytes",
    "SecurityEvent",
    "Split",
    "SplitEntry",
    "SplitRemoval",
    "SplitStretches",
    "Task",
    "TaskFlag",
    "TaskRevision",
    "TaskStatistics",
    "TaskTag",
    "seen_at",
]
