"""Models of the record: what was played, what people and clients add to it, and rollups derived from it."""

from episodes.models.people import Guest, Invite, Note, Play
from episodes.models.record import UNCHECKED, Blob, Episode, Run, SavedView, Step
from episodes.models.rollouts import Rollout, RolloutMessage
from episodes.models.rollups import Activity, CurveBlock, Progress, RunTask, StepSpan, ToolUse, TranscriptText

__all__ = [
    "UNCHECKED",
    "Activity",
    "Blob",
    "CurveBlock",
    "Episode",
    "Guest",
    "Invite",
    "Note",
    "Play",
    "Progress",
    "Rollout",
    "RolloutMessage",
    "Run",
    "RunTask",
    "SavedView",
    "Step",
    "StepSpan",
    "ToolUse",
    "TranscriptText",
]
