"""Models of the record: what was played, what people and clients add to it, and rollups derived
from it."""

from episodes.models.blobs import Blob
from episodes.models.people import (
    Guest,
    Invite,
    Note,
    Play,
    RedactedEpisode,
    Redaction,
    SeenTask,
    SignOnAccount,
)
from episodes.models.record import (
    UNCHECKED,
    EnvironmentRevision,
    Episode,
    Incident,
    SavedView,
    Step,
)
from episodes.models.removal import LooseBlob, Removal, Retention
from episodes.models.rollouts import Rollout, RolloutMessage, RolloutScan, RolloutText
from episodes.models.rollups import (
    Activity,
    CurveBlock,
    EpisodeComponent,
    LatestTotal,
    Progress,
    RewardComponent,
    RunTotal,
    StepGroup,
    StepSpan,
    ToolUse,
    TranscriptText,
)
from episodes.models.runs import Run, RunTag
from episodes.models.scalars import ScalarChunk, ScalarSeries
from episodes.models.sessions import SessionSecrets, SessionSnapshot
from episodes.models.studies import DealtTask, Study
from episodes.models.suites import Suite, SuiteMember, SuiteTask, SuiteVersion

__all__ = [
    "UNCHECKED",
    "Activity",
    "Blob",
    "CurveBlock",
    "DealtTask",
    "EnvironmentRevision",
    "Episode",
    "EpisodeComponent",
    "Guest",
    "Incident",
    "Invite",
    "LatestTotal",
    "LooseBlob",
    "Note",
    "Play",
    "Progress",
    "RedactedEpisode",
    "Redaction",
    "Removal",
    "Retention",
    "RewardComponent",
    "Rollout",
    "RolloutMessage",
    "RolloutScan",
    "RolloutText",
    "Run",
    "RunTag",
    "RunTotal",
    "SavedView",
    "ScalarChunk",
    "ScalarSeries",
    "SeenTask",
    "SessionSecrets",
    "SessionSnapshot",
    "SignOnAccount",
    "Step",
    "StepGroup",
    "StepSpan",
    "Study",
    "Suite",
    "SuiteMember",
    "SuiteTask",
    "SuiteVersion",
    "ToolUse",
    "TranscriptText",
]
