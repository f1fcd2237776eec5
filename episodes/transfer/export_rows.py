"""What is exported of an episode, as plain rows: its columns, its steps, and what was added to it.

Rows are tuples, because Django's model instances cost several times as much. Accounts and guests
belong to their own database and are not exported; the episode's `key_label` says who played.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, cast

from environments.scoring.convention import Convention
from environments.scoring.definition import Definition, DefinitionOverrides
from environments.scoring.returns import Return
from environments.wire import NO_NUMBER
from episodes.attempts.success import success_of_ending
from episodes.models import Blob, Note, Play, Rollout

BATCH_STEPS = 1000
"""Steps that one query reads. A step holds at most twice 8,192 characters itself; longer texts are
blobs."""
MAX_PREFETCHED_BYTES = 64 * 1024
MAX_CACHED_BYTES = 8 * 1024 * 1024
BATCH_BLOBS = MAX_CACHED_BYTES // MAX_PREFETCHED_BYTES
PLAY_COLUMNS = (
    "is_blind",
    "is_repeat",
    "counts_left",
    "is_excluded",
    "paused_seconds",
    "differs_at",
)


class Additions:
    """What people and clients added to `episodes`: plays, notes and uploaded rollouts, by the id of
    the episode. Each takes a query on first use."""

    def __init__(self, episodes: Sequence[int]) -> None:
        self._episodes = episodes

    @cached_property
    def plays(self) -> dict[int, dict[str, Any]]:
        """How people played. The session and start of a parent identify it in another database."""
        rows = Play.objects.filter(episode__in=self._episodes).values(
            "episode",
            *PLAY_COLUMNS,
            "parent_step",
            "parent",
            "parent__session_id",
            "parent__created",
        )
        return {row["episode"]: row for row in rows}

    @cached_property
    def notes(self) -> dict[int, list[dict[str, Any]]]:
        """The notes in the order in which they were written."""
        rows = Note.objects.filter(episode__in=self._episodes).order_by("pk")
        columns = ("step", "author", "text", "created")
        notes = defaultdict[int, list[dict[str, Any]]](list)
        for episode, *values in rows.values_list("episode", *columns):
            notes[episode].append(dict(zip(columns, values, strict=True)))
        return notes

    @cached_property
    def rollouts(self) -> dict[int, list[Rollout]]:
        """The uploaded rollouts. A guess is among them: after an import rollouts look for their
        episodes again."""
        rows = Rollout.objects.filter(episode__in=self._episodes).order_by("pk")
        rollouts = defaultdict[int, list[Rollout]](list)
        for row in rows.select_related("run", "event_blob"):
            rollouts[row.episode_id or 0].append(row)
        return rollouts


class BlobTexts:
    """The texts of blobs during one export, in bounded memory.

    Small ones are fetched many at a time and cached, because the episodes of an environment share
    their tools. Large ones are fetched when needed and not cached.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._size_bytes = 0

    def prepare(self, digests: Iterable[str | None]) -> None:
        """Fetch the small blobs among `digests`."""
        missing = list({digest for digest in digests if digest and digest not in self._texts})
        for start in range(0, len(missing), BATCH_BLOBS):
            if self._size_bytes > MAX_CACHED_BYTES:
                self._texts.clear()
                self._size_bytes = 0
            blobs = Blob.objects.filter(pk__in=missing[start : start + BATCH_BLOBS])
            for blob in blobs.filter(size_bytes__lte=MAX_PREFETCHED_BYTES):
                self._texts[blob.digest] = blob.text
                self._size_bytes += blob.size_bytes

    def text(self, digest: str | None) -> str:
        """Return the text of a blob; empty for None."""
        if digest is None:
            return ""
        return self._texts[digest] if digest in self._texts else Blob.objects.get(pk=digest).text


DEFINING = ("default_return", "reward_low", "reward_high", "success_threshold", "convention")
"""Columns of an environment that define its figures."""


class EpisodeFacts(NamedTuple):
    """The columns of an episode, with names in place of the ids of other rows."""

    id: int
    environment: str
    default_return: str
    reward_low: float
    reward_high: float
    success_threshold: float
    convention: str
    """Code of the convention of the environment."""
    revision: int | None
    """Id of the revision of the environment; None if it is unknown."""
    split: str | None
    split_type: str | None
    task_index: int | None
    task_id: int
    spec: str
    content_hash: str
    session_id: str
    user_agent: str
    key_label: str
    player: str
    run: str | None
    run_model: str | None
    run_created: datetime | None
    run_title: str | None
    run_number: int | None
    run_own_id: str | None
    run_step: int | None
    model: str
    labels: str
    prompt: str | None
    """Digest of the blob, like `tools`."""
    tools: str | None
    status: str
    cause: str
    ending_kind: str
    """See `episodes.attempts.rule.KIND`; empty while it runs."""
    detail: str
    is_probe: bool
    steps_count: int
    failed_count: int
    refused_count: int
    return_sum: float
    return_last: float | None
    return_max: float | None
    return_mean: float | None
    created: datetime
    ready: datetime | None
    first_acted: datetime | None
    last_acted: datetime | None
    ended: datetime | None
    duration_seconds: float | None
    end_number: int | None

    def definition_by(self, overrides: DefinitionOverrides) -> Definition:
        """Return the definition in force. What `overrides` leaves open is as the environment
        defines it."""
        threshold = overrides.threshold
        return Definition(
            overrides.return_ or cast(Return, self.default_return),
            self.success_threshold if threshold is None else threshold,
            overrides.convention(Convention.from_code(self.convention)),
        )

    def return_by(self, overrides: DefinitionOverrides) -> float | None:
        """Return the episode's return that counts: 0 if the convention counts it as 0; None if a
        reward of it was not a number, because its sum lacks that reward."""
        definition = self.definition_by(overrides)
        if definition.convention.treatments[self.ending_kind] == "zero":
            return 0.0
        value: float | None = getattr(self, definition.column)
        return None if NO_NUMBER in self.detail else value

    def success_by(self, overrides: DefinitionOverrides) -> bool | None:
        """Return whether the episode is a success; None: no figure counts it."""
        definition = self.definition_by(overrides)
        if self.status == "running":
            return None
        return success_of_ending(self.ending_kind, getattr(self, definition.column), definition)

    @property
    def agent(self) -> tuple[str, str]:
        """Name and version of the program that played, from its User-Agent."""
        name, _, version = self.user_agent.partition("/")
        return name.strip() or self.player, version.partition(" ")[0] or "unknown"

    @property
    def is_long(self) -> bool:
        """Whether it may have too many steps for one query. Running ones are not counted yet."""
        return self.status == "running" or self.steps_count + self.refused_count > BATCH_STEPS


_PATHS = {
    "environment": "environment__name",
    **{name: f"environment__{name}" for name in DEFINING},
    "split": "split__name",
    "split_type": "split__type",
    "spec": "task__spec",
    "content_hash": "task__content_hash",
    "run": "run__name",
    "run_model": "run__model",
    "run_created": "run__created",
    "run_title": "run__title",
    "run_number": "run__number",
    "run_own_id": "run__own_id",
    "prompt": "prompt_id",
    "tools": "tools_id",
    "revision": "revision_id",
}
FACTS_COLUMNS = [_PATHS.get(name, name) for name in EpisodeFacts._fields]


class ExportedStep(NamedTuple):
    """A step with its complete texts."""

    number: int
    """`Step.index`: 0-based, in order of completion."""
    tool: str
    input: str
    """Input of the call, as exact JSON text."""
    output: str
    """Exact JSON text; empty unless status is ok."""
    reward: float | None
    finished: bool
    status: str
    error: str
    reason: str
    task_id: str
    started: datetime
    duration_ms: float
    waited_ms: float

    @classmethod
    def of(cls, row: Row, blobs: BlobTexts) -> ExportedStep:
        """Return the step of a row with STEP_COLUMNS."""
        _, *values, input_blob, output_blob = row
        step = cls(*values)
        if input_blob:
            step = step._replace(input=blobs.text(input_blob))
        if output_blob:
            step = step._replace(output=blobs.text(output_blob))
        return step


Row = tuple[Any, ...]
STEP_COLUMNS = (
    "episode_id",
    "index",
    *ExportedStep._fields[1:],
    "input_blob_id",
    "output_blob_id",
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An episode with the rows that are exported with it."""

    facts: EpisodeFacts
    prompt: str
    """Exact JSON text, like `tools`; empty if the agent did not ask for it."""
    tools: str
    steps: Iterator[ExportedStep]
    """The steps in order. They must be consumed before the next episode is read."""
    additions: Additions
    """Plays, notes and uploaded rollouts of this episode and of those read together with it."""
