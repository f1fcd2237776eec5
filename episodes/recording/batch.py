"""Batches: what live play reported, as tuples for the database. The recorder's writer commits one
per transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS

from environments.database.bulk_writer import BulkWriter, Values
from environments.database.storable import bigint, finite, storable, storable_id
from environments.runtime.records import (
    EpisodeEnded,
    EpisodeNoted,
    EpisodeStarted,
    Row,
    SnapshotTaken,
    StepTaken,
)
from environments.wire import NO_NUMBER
from episodes.attempts.components import may_report
from episodes.attempts.rule import LEFT, NO_CALL, RAN_OUT, ending_of, is_rollout
from episodes.models import Blob, Episode, Play, SessionSecrets, SessionSnapshot, Step
from episodes.recording.blob_rows import BLOB_COLUMNS, BlobRows
from episodes.recording.referenced_rows import Ids, KnownRows
from episodes.rollups.task_statistics import count
from episodes.runs.run_of_conversation import run_of_conversation
from episodes.uploads.batch import KnownRollouts, UploadBatch
from episodes.uploads.events import UploadChunk

MAX_INLINE_CHARACTERS = 8192
"""Inputs and outputs up to this length are stored in the step itself, longer ones in blobs."""

SESSION_ID_LENGTH = 512
KEY_LABEL_LENGTH = 200
TASK_ID_LENGTH = 300

RECORDER_COLUMNS = (
    "id",
    "environment_id",
    "split_id",
    "task_index",
    "task_id",
    "session_id",
    "user_agent",
    "key_label",
    "player",
    "revision_id",
    "run_id",
    "run_step",
    "model",
    "labels",
    "tools_id",
    "created",
    "survival",
    "status",
    "cause",
    "detail",
    "is_probe",
    "steps_count",
    "failed_count",
    "refused_count",
    "return_sum",
)
RUNNING = ("running", "", "", False, 0, 0, 0, 0.0)
NOTE_COLUMNS = ("ready", "prompt_id", "tools_id")
STEP_COLUMNS = (
    "episode_id",
    "index",
    "tool",
    "input",
    "input_blob_id",
    "output",
    "output_blob_id",
    "reward",
    "finished",
    "status",
    "error",
    "reason",
    "task_id",
    "started",
    "duration_ms",
    "waited_ms",
)
SEALED_COLUMNS = ("id", "sealed")
SNAPSHOT_COLUMNS = ("id", "step", "state", "problem")
END_COLUMNS = (
    "status",
    "cause",
    "detail",
    "is_probe",
    "steps_count",
    "failed_count",
    "refused_count",
    "return_sum",
    "return_last",
    "return_max",
    "return_mean",
    "first_acted",
    "last_acted",
    "ended",
    "duration_seconds",
    "end_number",
    "has_components",
)
_NO_CALL_RETURNS = (0.0, 0.0, 0.0, 0.0)


def step_values(
    row: StepTaken,
    time: Callable[[float], Any],
    text_or_blob: Callable[..., tuple[str, str | None]],
) -> Values:
    """Return the values of STEP_COLUMNS.

    `text_or_blob` returns for a text, and its digest if that is known, what to store in the step,
    and the key of the blob that holds it instead.
    """
    return (
        row.episode,
        row.index,
        storable(row.tool, 200),
        *text_or_blob(row.input_json, row.input_digest),
        *text_or_blob(row.output_json or ""),
        finite(row.reward),
        row.finished,
        row.status,
        storable(row.error),
        storable(row.reason, 40),
        storable_id(row.task_id, TASK_ID_LENGTH),
        time(row.started),
        row.duration_ms,
        row.waited_ms,
    )


class RecordBatch:
    """The rows of one transaction, collected by kind and written together."""

    def __init__(
        self, known_rows: KnownRows, known_rollouts: KnownRollouts, writer: BulkWriter
    ) -> None:
        self._known, self._writer, self._time = known_rows, writer, writer.time
        self._known_rollouts = known_rollouts
        # it refers to this object, and cycles cost the collector's time
        self._uploads: UploadBatch | None = None
        self._blobs = BlobRows(known_rows.blobs)
        self._episodes: list[Values] = []
        # by episode: PostgreSQL's UPDATE … FROM uses one row per episode
        self._notes: dict[int, Values] = {}
        self._steps: list[Values] = []
        self._snapshots: dict[int, Values] = {}  # by episode: the newest
        self._sealed: list[Values] = []
        self._without_sealed: list[int] = []  # ended episodes
        self._without_snapshot: list[int] = []  # ended episodes
        self._ends: dict[int, Values] = {}
        self._rollouts: dict[int, Values] = {}

    def add(self, rows: Iterable[Row | UploadChunk]) -> None:
        """Add rows to the batch.

        Raises: ValueError, OverflowError for times that no calendar has; django.db.Error while ids
        are looked up.
        """
        starts: list[EpisodeStarted] = []
        uploads: list[UploadChunk] = []
        for row in rows:
            if isinstance(row, StepTaken):
                self._steps.append(step_values(row, self._time, self._text_or_blob))
                if (
                    row.output_json
                    and may_report(row.output_json)
                    and row.episode in self._known.components
                ):
                    self._known.components[row.episode] = True
            elif isinstance(row, EpisodeNoted):
                self._notes[row.episode] = self._values_of_note(row)
            elif isinstance(row, EpisodeEnded):
                self._ends[row.episode] = self._values_of_end(row)
                if row.has_snapshot:
                    self._without_snapshot.append(row.episode)
                if row.has_sealed:
                    self._without_sealed.append(row.episode)
            elif isinstance(row, SnapshotTaken):
                self._snapshots[row.episode] = (
                    row.episode,
                    row.index,
                    row.state,
                    storable(row.problem),
                )
            elif isinstance(row, UploadChunk):
                uploads.append(row)
            else:
                starts.append(row)
                self._known.components[row.episode] = False
                if row.sealed:
                    self._sealed.append((row.episode, row.sealed))
        if starts:
            ids = self._known.learn(starts, self._writer)
            self._episodes += [
                self._values_of_start(row, row_ids)
                for row, row_ids in zip(starts, ids, strict=True)
            ]
        if uploads:
            self._uploads = UploadBatch(
                self._known_rollouts, self._writer, self._text_or_blob, run_of_conversation
            )
            self._uploads.prepare(uploads)

    def write(self) -> None:
        """Write all rows, first those that others refer to. Raises: django.db.Error."""
        writer = self._writer
        with writer.together():
            writer.insert(Blob, BLOB_COLUMNS, self._blobs.in_order())
            writer.insert(Episode, RECORDER_COLUMNS, self._episodes)
            writer.fill(Episode, NOTE_COLUMNS, self._notes.values())
            writer.insert(Step, STEP_COLUMNS, self._steps)
            writer.replace(SessionSnapshot, SNAPSHOT_COLUMNS, self._snapshots.values())
            writer.replace(SessionSecrets, SEALED_COLUMNS, self._sealed)
            writer.delete(SessionSecrets, self._without_sealed)
            writer.delete(SessionSnapshot, self._without_snapshot)
            # before the ends: it counts episodes that are still running
            count(writer, self._rollouts.values())
            writer.update(
                Episode, END_COLUMNS, self._ends.values(), once=("end_number", "has_components")
            )
            if self._uploads is not None:
                self._uploads.write()

    def remember(self) -> None:
        """Remember, after the commit, which blobs the database has."""
        self._known.blobs.update(self._blobs.by_key)

    def _text_or_blob(self, text: str, digest: bytes = b"") -> tuple[str, str | None]:
        """Return the text to store in the step, and the key of the blob that holds it instead."""
        if len(text) <= MAX_INLINE_CHARACTERS:
            return text, None
        return "", self._blobs.add(text, digest)

    def _values_of_start(self, row: EpisodeStarted, ids: Ids) -> Values:
        return (
            row.episode,
            ids.environment,
            ids.split,
            bigint(row.index),
            ids.task,
            storable_id(row.session_id, SESSION_ID_LENGTH),
            storable(row.user_agent, 300),
            storable(row.key_label, KEY_LABEL_LENGTH),
            row.player,
            ids.revision,
            ids.run,
            bigint(ids.run_step),
            ids.model,
            row.run.labels_json,
            self._blobs.add(row.tools_json),
            self._time(row.created),
            row.survival,
            *RUNNING,
        )

    def _values_of_note(self, row: EpisodeNoted) -> Values:
        values: Values = (
            self._time(row.ready),
            None if row.prompt_json is None else self._blobs.add(row.prompt_json),
            None if row.tools_json is None else self._blobs.add(row.tools_json),
            row.episode,
        )
        earlier = self._notes.get(row.episode, values)
        return tuple(old if new is None else new for new, old in zip(values, earlier, strict=True))

    def _values_of_end(self, row: EpisodeEnded) -> Values:
        can_be_attempt = is_rollout(row.player, is_named=row.is_named, has_prompt=row.has_prompt)
        ending = ending_of(
            row.cause,
            row.detail,
            calls=row.steps + row.refused,
            is_rollout=can_be_attempt,
            counts_left=_counts_left(row),
        )
        returns = (
            finite(row.return_sum) or 0.0,
            finite(row.return_last),
            finite(row.return_max),
            finite(row.return_mean),
        )
        if ending.cause == NO_CALL:
            returns = _NO_CALL_RETURNS
        start = row.first_acted if row.ready is None else row.ready
        duration_seconds = None  # without calls
        if start is not None and row.last_acted is not None:
            duration_seconds = max(0.0, row.last_acted - start)
        if not ending.is_probe:
            is_numberless = NO_NUMBER in ending.detail
            self._rollouts[row.episode] = (row.episode, ending.cause, *returns, is_numberless)
        return (
            "ended",
            ending.cause,
            storable(ending.detail),
            ending.is_probe,
            row.steps,
            row.failed,
            row.refused,
            *returns,
            self._time(row.first_acted),
            self._time(row.last_acted),
            self._time(row.ended),
            duration_seconds,
            self._known.next_end(),
            self._known.components.pop(row.episode, None),
            row.episode,
        )


def _counts_left(row: EpisodeEnded) -> bool | None:
    """Return `counts_left` of the play that a person ended without a call. One query for these
    alone."""
    if row.player != "human" or row.steps or row.refused or row.cause not in (LEFT, RAN_OUT):
        return None
    return Play.objects.filter(pk=row.episode).values_list("counts_left", flat=True).first()


def step_of(row: StepTaken) -> Step:
    """Return the step as a query will return it once it is recorded, if its texts are stored in the
    row itself."""
    values = step_values(
        row,
        time=lambda seconds: datetime.fromtimestamp(seconds, UTC),
        text_or_blob=lambda text, _digest=b"": (text, None),
    )
    return Step.from_db(DEFAULT_DB_ALIAS, STEP_COLUMNS, values)
