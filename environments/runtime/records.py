"""The rows that live play reports, and the two interfaces that it depends on: Record and
TaskSource.

The runtime imports no database: `episodes.recording` implements `Record`,
`environments.tasks.catalog` `TaskSource`. Rows are final: secrets are masked, and all values have a
JSON form, before a row is made, and nothing changes it later. They are not frozen only because that
makes creating a step three times as slow (1.9 instead of 0.7 µs). JSON fields hold exact ASCII
text. Times are seconds since the epoch, durations are milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from environments.authoring.hosted_environment import ClassRevision
from environments.errors import nearest_names
from environments.runtime.crash_notes import NotedCall
from environments.wire import Split

Cause = Literal["finished", "abandoned", "expired", "setup_failed", "env_error", "interrupted"]
StepStatus = Literal["ok", "refused", "failed"]
Player = Literal["agent", "human", "script"]
Survival = Literal["replay", "key", "sealed", "secrets", "toolset"] | None
"""How a session goes on after a restart of the server. replay: its calls are made again, or its
snapshot is loaded; key: the same, and it gets the API key of the next request as the secrets
KEY_SECRETS; sealed: the same, and it gets its secrets, which are on record encrypted. It ends if it
has other secrets, which are not stored, or a toolset; None: its class or its client cannot go
on."""
GOES_ON = frozenset({"replay", "key", "sealed"})
RETURN_SECONDS = 3.0
"""Delay of everything that no agent waits for, if an earlier server left sessions that go on."""
KEY_SECRETS = frozenset({"api_key", "OPENREWARD_API_KEY"})
"""Secrets as which the openreward client always sends its API key."""
RUN_PREFIX = "orsweb_"
"""First part of the names of secrets that describe the run."""
RUN_FIELDS = ("run", "step", "model", "run_id", "resume")
"""What such a secret can say beside labels."""
MAX_TRAINING_STEP = 2**62
"""Last training step, so that steps can be added and rounded in 64 bits."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The training or evaluation run to which an episode belongs, as the client describes it; empty
    name: none."""

    name: str = ""
    step: int | None = None
    """Training step of the run, not a step of the episode."""
    model: str = ""
    labels_json: str = ""
    """Further `orsweb_…` values as a JSON object; empty: none."""
    own_id: str = ""
    """Id that the client gives this execution of the run; empty: the server finds out which it
    is."""
    is_resumed: bool = False
    """Whether the client goes on with the newest run of the name, also if that has ended or is at a
    later step."""


def mistaken_labels(labels: Iterable[str], missing: Collection[str]) -> dict[str, str]:
    """Return labels that probably mean a `missing` field of RUN_FIELDS, such as run_step, each with
    that field."""
    fields = {}
    for label in labels:
        words = [word for word in re.split("[_-]", label.lower()) if word in missing]
        for field in words[-1:] or nearest_names(label, missing)[:1]:
            fields[label] = field
    return fields


@dataclass(slots=True)
class EpisodeStarted:
    """The construction of an environment has started."""

    episode: int
    environment: str
    split: str | None
    """None unless the client named it; it cannot be derived from a task's content."""
    index: int | None
    spec_json: str
    tools_json: str
    """The tools of the class; replaced when the client requests those of the session."""
    session_id: str
    user_agent: str
    key_label: str
    player: Player
    run: RunInfo
    created: float
    revision: ClassRevision | None = None
    """The code of the environment; None if it is unknown."""
    is_sent: bool = False
    """Whether the task was sent by its content by somebody who may not read all of the
    environment's tasks. It is then another task than one of a split with the same content
    (`environments/models/task_hash.py`)."""
    survival: Survival = None
    sealed: bytes = b""
    """The secrets of the session, encrypted; empty unless it goes on with them."""


@dataclass(slots=True)
class EpisodeNoted:
    """What has become known since the start: the end of setup, the prompt, the tools. None leaves a
    field unchanged."""

    episode: int
    ready: float | None = None
    prompt_json: str | None = None
    tools_json: str | None = None


@dataclass(slots=True)
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
    """Reward of the call; a finite number or None."""
    finished: bool
    status: StepStatus
    error: str
    """Text of the refusal or failure as it was sent to the agent; empty when ok."""
    reason: str
    """Of a refusal: not_found, name_collision, input_validation, episode_finished, tool_error,
    quota or unstated. Of a failure: the exception's type name, timeout, deleted, interrupted, limit
    or result_size. Of a call that is ok: NO_NUMBER, or empty."""
    task_id: str
    started: float
    duration_ms: float
    waited_ms: float
    """Time spent waiting for setup (before `started`) and for other calls (after it); not part of
    `duration_ms`."""
    input_digest: bytes = b""
    """BLAKE2b-128 of `input_json`, if it was computed already."""


@dataclass(slots=True)
class EpisodeEnded:
    """The end of an episode, with everything that is counted over its steps."""

    episode: int
    cause: Cause
    detail: str
    """Explanation of the cause; empty when the cause needs none."""
    player: Player
    is_named: bool
    """Whether the client named a run or a model."""
    has_prompt: bool
    """Whether the client received the prompt."""
    ended: float
    steps: int
    """Steps that ran (ok or failed)."""
    failed: int
    """Number of those steps that failed."""
    refused: int
    return_sum: float
    return_last: float | None
    return_max: float | None
    return_mean: float | None
    ready: float | None
    first_acted: float | None
    last_acted: float | None
    has_snapshot: bool = False
    """Whether a snapshot is on record, which is deleted now."""
    has_sealed: bool = False
    """Whether secrets are on record, which are deleted now."""


@dataclass(slots=True)
class SnapshotTaken:
    """The newest snapshot of a session's environment, which replaces the one before it."""

    episode: int
    index: int
    """Of the last step that it contains."""
    state: bytes
    """What `save` returned; empty if there is a `problem`."""
    problem: str = ""
    """Why there is no state, without the full stop."""


Row = EpisodeStarted | EpisodeNoted | StepTaken | SnapshotTaken | EpisodeEnded


@dataclass(frozen=True, slots=True)
class RecalledCall:
    """A recorded call, as far as it is needed to send its result again."""

    status: StepStatus
    output_json: str | None
    error: str
    reason: str


@dataclass(frozen=True, slots=True)
class OpenEpisode:
    """An episode that an earlier server left running, whose session can go on."""

    number: int
    environment: str
    session_id: str
    key_label: str
    survival: Survival
    run: str
    """Name of its run; empty: none."""
    is_named: bool
    has_prompt: bool
    created: float
    ready: float | None
    unsent: frozenset[int] = frozenset()
    """Indexes of steps whose results were perhaps not sent; they may not be recorded."""
    running: tuple[NotedCall, ...] = ()
    """Calls that ran when the server died."""
    sealed: bytes = b""
    """The secrets of its session, encrypted."""


@dataclass(frozen=True, slots=True)
class RecordedPast:
    """What is recorded of an episode that goes on: what is needed to play it again."""

    spec_json: str
    prompt_json: str | None
    """As the agent got it: blocks or messages; None if it got none."""
    steps: Sequence[StepTaken]
    snapshot: SnapshotTaken | None = None


Hidden = frozenset[int]
"""Ids of the private environments that do not exist for a key."""


class Record(Protocol):
    """Stores rows. `record` never blocks, and never raises because of a row's content."""

    def next_episode(self) -> int:
        """Return a new episode number, unique in this database."""

    def record(self, *rows: Row, on_commit: Callable[[], None] | None = None) -> None:
        """Queue the rows in order; `on_commit` is called on the event loop once all of them are
        durable."""

    async def recall(
        self, session_id: str, owner: str, task_id: str, hidden_environments: Hidden = frozenset()
    ) -> RecalledCall | None:
        """Return the owner's latest recorded call with these ids, or None; other owners may have
        used the same ids.

        `hidden_environments`: ids of the environments whose calls do not exist for the owner.
        """

    async def past(self, episode: int) -> RecordedPast:
        """Return what is recorded of a running episode. Waits while the database is away."""

    async def interruption(self, session_id: str, owner: str) -> str:
        """Return why a server interrupted the latest episode of the owner's session; empty if none
        did."""


class SessionPlaces(Protocol):
    """Says which of the servers that share a database has a session, so that no other opens it too;
    and keeps what opens one again that is not on record."""

    async def claim(self, sid: str, opening: str) -> None:
        """Take the session for this server. Raises: errors.SessionExists if another server has it.

        `opening`: what opens it at the next server if this one dies before an episode is on record;
        empty: nothing.
        """

    def release(self, sid: str) -> None:
        """Give up a session that has ended, or was not opened."""


class TaskSource(Protocol):
    """The tasks of hosted environments by environment, split and index. Raises exceptions of
    `environments.errors`."""

    async def check_enabled(self, environment: str) -> None:
        """Raise Unavailable if the environment was disabled in the admin."""

    async def splits(self, environment: str) -> Sequence[Split]:
        """Return the splits that are currently served, in order."""

    async def is_sealed(self, environment: str, split: str) -> bool:
        """Return whether only keys that curate may read the tasks of the split. Unknown splits are
        not sealed."""

    async def has_sealed_split(self, environment: str) -> bool:
        """Return whether any split of the environment is sealed."""

    async def count(self, environment: str, split: str) -> int:
        """Return the number of tasks in the split. Raises: InvalidSplit."""

    async def get(self, environment: str, split: str, index: int) -> str:
        """Return the task's JSON text; negative indexes count from the end. Raises: InvalidSplit,
        InvalidIndex."""

    def range(
        self, environment: str, split: str, start: int | None, stop: int | None
    ) -> AsyncIterator[Sequence[str]]:
        """Yield the JSON texts of a slice, clamped at both ends, in chunks, some maybe empty.
        Raises: InvalidSplit."""

    def tasks(self, environment: str, split: str) -> AsyncIterator[Sequence[str]]:
        """Yield the JSON texts of the whole split, in chunks. Raises: InvalidSplit,
        ListingUnsupported."""
