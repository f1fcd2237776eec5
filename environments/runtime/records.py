"""What live play reports, as frozen rows, and the two doors it needs: Record and TaskSource.

The runtime imports no database; whoever keeps the record implements `Record`, whoever knows the tasks `TaskSource`.
Every text in a row is final: secrets are masked and values have a JSON form before a row is made. JSON fields are exact
ASCII text. Times are seconds since the epoch, durations milliseconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from environments.wire import Split

Cause = Literal["finished", "abandoned", "expired", "setup_failed", "env_error", "interrupted"]
StepStatus = Literal["ok", "refused", "failed"]
Player = Literal["agent", "human", "script"]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What the client says of the training or evaluation run an episode belongs to; empty name: none."""

    name: str = ""
    step: int | None = None
    """Training step of the run, not a step of the episode."""
    model: str = ""
    labels_json: str = ""
    """Further `orsweb_…` values as a JSON object; empty: none."""


@dataclass(frozen=True, slots=True)
class EpisodeStarted:
    """Construction begins."""

    episode: int
    environment: str
    split: str | None
    """Only when the client named it; a task's content alone does not tell."""
    index: int | None
    spec_json: str
    tools_json: str
    """The class's tools; replaced when the client asks for the session's."""
    session_id: str
    user_agent: str
    key_label: str
    player: Player
    run: RunInfo
    created: float


@dataclass(frozen=True, slots=True)
class EpisodeNoted:
    """What was learnt since: setup done, prompt or tools handed out. None leaves a field as it is."""

    episode: int
    ready: float | None = None
    prompt_json: str | None = None
    tools_json: str | None = None


@dataclass(frozen=True, slots=True)
class StepTaken:
    """One tool call that reached a live session."""

    episode: int
    index: int
    """0-based, dense, in order of completion."""
    tool: str
    input_json: str
    output_json: str | None
    """The whole ToolOutput; None unless status is "ok"."""
    reward: float | None
    """Finite or None."""
    finished: bool
    status: StepStatus
    error: str
    """Text of the refusal or failure as the agent was told; empty when ok."""
    reason: str
    """not_found, name_collision, input_validation, episode_finished, tool_error; for failures raised, timeout, … ."""
    task_id: str
    started: float
    duration_ms: float
    waited_ms: float
    """Before `started` until the session was set up, after it queued behind other calls; no part of `duration_ms`."""


@dataclass(frozen=True, slots=True)
class EpisodeEnded:
    """The end, with everything that is counted over the steps."""

    episode: int
    cause: Cause
    detail: str
    """Why, in words; empty when the cause says all."""
    ended: float
    steps: int
    """Steps that ran (ok or failed)."""
    failed: int
    """Of those, how many failed."""
    refused: int
    return_sum: float
    return_last: float | None
    return_max: float | None
    return_mean: float | None
    ready: float | None
    first_acted: float | None
    last_acted: float | None


Row = EpisodeStarted | EpisodeNoted | StepTaken | EpisodeEnded


@dataclass(frozen=True, slots=True)
class RecalledCall:
    """A recorded call as it can be told again."""

    status: StepStatus
    output_json: str | None
    error: str
    reason: str


class Record(Protocol):
    """Where rows go. `record` never blocks and never raises for what a row holds."""

    def next_episode(self) -> int:
        """A fresh episode number, never given before by this database."""

    def record(self, *rows: Row, committed: Callable[[], None] | None = None) -> None:
        """Queue rows in order; `committed` is called on the event loop once all of them are durable."""

    async def recall(self, session_id: str, owner: str, task_id: str) -> RecalledCall | None:
        """The owner's latest recorded call of that id, or None; another key may have used the same ids since."""


class TaskSource(Protocol):
    """The tasks of hosted environments, by name and position. Errors are those of `environments.errors`."""

    async def check_enabled(self, environment: str) -> None:
        """Raises: Unavailable when somebody has switched the environment off."""

    async def splits(self, environment: str) -> Sequence[Split]:
        """The splits served now, in order."""

    async def count(self, environment: str, split: str) -> int:
        """Number of tasks. Raises: InvalidSplit."""

    async def get(self, environment: str, split: str, index: int) -> str:
        """The task's JSON text; negative indexes count from the end. Raises: InvalidSplit, InvalidIndex."""

    def range(self, environment: str, split: str, start: int | None, stop: int | None) -> AsyncIterator[Sequence[str]]:
        """JSON texts of a slice, both ends clamped, in chunks; some may be empty. Raises: InvalidSplit."""

    def tasks(self, environment: str, split: str) -> AsyncIterator[Sequence[str]]:
        """JSON texts of the whole split, in chunks. Raises: InvalidSplit, ListingUnsupported."""
