"""Batch: imported episodes as rows, in one transaction. Made by `importing.py`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from environments.models import Environment
from episodes.models import Blob, Episode, Note, Play, Step
from episodes.rows import BLOB_COLUMNS, INLINE_CHARACTERS, STEP_COLUMNS, blob_values, new_compressor
from episodes.sql import BulkWriter, Values
from episodes.transfer.line import EpisodeLine, NotePart, PlayPart, StepPart
from episodes.transfer.places import Places
from episodes.values import digest_of

_COLUMNS = (
    *("id", "environment_id", "split_id", "task_id", "run_id", "prompt_id", "tools_id", "labels"),
    *("created", "ready", "first_acted", "last_acted", "ended", "end_number"),
)
_AS_THEY_ARE = (
    *("task_index", "session_id", "user_agent", "key_label", "player", "run_step", "model", "status", "cause"),
    *("detail", "is_probe", "steps_count", "failed_count", "refused_count"),
    *("return_sum", "return_last", "return_max", "return_mean", "duration_seconds"),
)
_PLAY_COLUMNS = ("episode_id", "is_blind", "differs_at", "parent_step")
_NOTE_COLUMNS = ("episode_id", "step", "author", "text", "created")


class NewEpisode(NamedTuple):
    id: int
    """Which is free, as the next."""
    end_number: int
    line: EpisodeLine


class Batch:
    """Writes inside the caller's transaction. Raises: django.db.Error; ValueError, OverflowError for odd times."""

    def __init__(self, places: Places, writer: BulkWriter) -> None:
        self._places, self._writer = places, writer
        self._compressor = new_compressor()
        self._blobs: dict[str, Values] = {}

    def write(self, episodes: Sequence[NewEpisode]) -> set[int]:
        """Returns the ids of their environments."""
        lines = [one.line for one in episodes]
        tasks = self._places.tasks(lines, self._writer)
        rows = [self._episode(one, task) for one, task in zip(episodes, tasks, strict=True)]
        steps = [self._step(one.id, step) for one in episodes for step in one.line.steps]
        self._writer.insert(Blob, BLOB_COLUMNS, self._blobs.values())
        self._writer.insert(Episode, (*_COLUMNS, *_AS_THEY_ARE), rows)
        self._writer.insert(Step, STEP_COLUMNS, steps)
        self._writer.insert(
            Play, _PLAY_COLUMNS, [self._play(one.id, one.line.play) for one in episodes if one.line.play]
        )
        self._writer.insert(
            Note, _NOTE_COLUMNS, [self._note(one.id, note) for one in episodes for note in one.line.notes]
        )
        environments = {self._places.environment(line.environment) for line in lines}
        Environment.objects.filter(pk__in=environments).update(counted="")  # so statistics are due, whatever happens
        return environments

    def _episode(self, new: NewEpisode, task: int) -> Values:
        line = new.line
        environment = self._places.environment(line.environment)
        return (
            *(new.id, environment, self._places.split(environment, line.split), task, self._places.run(line.run)),
            *(self._blob(line.prompt_json), self._blob(line.tools_json), line.labels_json),
            *(self._time(moment) for moment in (line.created, line.ready, line.first_acted, line.last_acted)),
            *(self._time(line.ended), new.end_number),
            *(getattr(line, name) for name in _AS_THEY_ARE),
        )

    def _step(self, episode: int, step: StepPart) -> Values:
        return (
            *(episode, step.index, step.tool, *self._large(step.input_json), *self._large(step.output_json)),
            *(step.reward, step.finished, step.status, step.error, step.reason, step.task_id),
            *(self._time(step.started), step.duration_ms, step.waited_ms),
        )

    def _play(self, episode: int, play: PlayPart) -> Values:
        """What it continues is joined when all are there (`parents.py`)."""
        return (episode, play.is_blind, play.differs_at, play.parent_step)

    def _note(self, episode: int, note: NotePart) -> Values:
        return (episode, note.step, note.author, note.text, self._time(note.created))

    def _large(self, text: str) -> tuple[str, str | None]:
        """What stands in the step, and the blob that stands for it; as the recorder does."""
        return (text, None) if len(text) <= INLINE_CHARACTERS else ("", self._blob(text))

    def _blob(self, text: str) -> str | None:
        if not text:
            return None
        content = text.encode()
        digest = digest_of(content)
        if digest not in self._blobs:
            self._blobs[digest] = blob_values(digest, content, self._compressor)
        return digest

    def _time(self, moment: datetime | None) -> str | float | None:
        return None if moment is None else self._writer.time(moment.timestamp())
