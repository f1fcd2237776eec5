"""Batch: imported episodes as rows, in one transaction. Made by `importing.py`.

Ends: the `end_number` of each imported episode. Used inside the importer's transactions.

Curves and other roll-ups go through the endings of a database by these numbers and never look back. So the numbers of
a file are kept only where nothing has gone by yet, which is where an empty database is restored; elsewhere the endings
come after all that are there, in the order of the file.

Parents: joins imported plays with the episodes that they continue. Used by the importer.

A parent is known by its session and beginning, for here it may have another id; it may also stand later in the files.

Places: ids of the rows that imported episodes refer to, found or made. Used inside the importer's transactions.

An environment that is made here is not hosted, a split not served, until a class of that name is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from environments.database.bulk_writer import BulkWriter, Values
from environments.database.storable import digest_of
from environments.models import Environment, Split, Task
from episodes.models import Blob, Episode, Note, Play, Progress, Run, Step
from episodes.recording.batch import BLOB_COLUMNS, MAX_INLINE_CHARACTERS, STEP_COLUMNS, blob_values, new_compressor
from episodes.recording.row_ids import TASK_COLUMNS
from episodes.rollups.progress import last_end
from episodes.transfer.episode_line import (
    HIGHEST_ID,
    EnvironmentPart,
    EpisodeLine,
    NotePart,
    PlayPart,
    RunPart,
    SplitPart,
    StepPart,
)


def can_be_kept() -> bool:
    """Whether nothing has followed an ending of this database. One query."""
    return not Progress.objects.filter(end_number__gt=0).exists()


def end_numbers(lines: Sequence[EpisodeLine], *, are_kept: bool) -> list[int]:
    """Of each line, one that no other ending has: its own if that is free and numbers are kept, else the next."""
    found = _own(lines) if are_kept else [None] * len(lines)
    last = max([last_end(), *(number for number in found if number is not None)])
    numbers = list[int]()
    for number in found:
        last += number is None
        numbers.append(last if number is None else number)
    return numbers


def _own(lines: Sequence[EpisodeLine]) -> list[int | None]:
    """None where the line has no number, one that no database gives, or one that another ending has."""
    wanted = {line.end_number for line in lines if _is_possible(line.end_number)}
    taken = set(Episode.objects.filter(status="ended", end_number__in=wanted).values_list("end_number", flat=True))
    found = list[int | None]()
    for line in lines:
        is_free = _is_possible(line.end_number) and line.end_number not in taken
        found.append(line.end_number if is_free else None)
        taken.add(line.end_number)
    return found


def _is_possible(number: int | None) -> bool:
    return number is not None and 1 <= number <= HIGHEST_ID


Key = tuple[str, datetime]
"""Session and beginning."""


class Parents:
    def __init__(self) -> None:
        self._waiting: dict[Key, Key] = {}  # play -> what it continues

    def expect(self, lines: Iterable[EpisodeLine]) -> None:
        """Also of episodes that were there: an import may have been cut short before its end."""
        for line in lines:
            if line.play and line.play.parent:
                parent = line.play.parent
                self._waiting[line.session_id, line.created] = parent.session_id, parent.created

    def join(self) -> None:
        """What is not here leaves its play without a parent. Raises: django.db.Error."""
        for play, parent in self._waiting.items():
            if (found := _find(parent)) is not None and (own := _find(play)) is not None:
                Play.objects.filter(episode=own, parent=None).update(parent=found)
        self._waiting.clear()


def _find(key: Key) -> int | None:
    session, created = key
    return Episode.objects.filter(session_id=session, created=created).values_list("pk", flat=True).first()


MAX_REMEMBERED = 50_000


class Places:
    def __init__(self) -> None:
        self._environments: dict[str, int] = {}
        self._splits: dict[tuple[int, str], int] = {}
        self._runs: dict[str, int] = {}
        self._tasks: dict[tuple[int, str], int] = {}

    def forget(self) -> None:
        """After a transaction that failed: what it made is gone."""
        for kind in (self._environments, self._splits, self._runs, self._tasks):
            kind.clear()

    def environment(self, part: EnvironmentPart) -> int:
        if part.name not in self._environments:
            self._environments[part.name] = _environment(part)
        return self._environments[part.name]

    def split(self, environment: int, part: SplitPart | None) -> int | None:
        if part is None:
            return None
        key = (environment, part.name)
        if key not in self._splits:
            defaults = {"type": part.type, "is_served": False}
            made, _ = Split.objects.get_or_create(environment_id=environment, name=part.name, defaults=defaults)
            self._splits[key] = made.pk
        return self._splits[key]

    def run(self, part: RunPart | None) -> int | None:
        if part is None:
            return None
        if part.name not in self._runs:
            defaults = {"created": part.created, "model": part.model}
            run, _ = Run.objects.get_or_create(name=part.name, defaults=defaults)
            if part.model and not run.model:
                Run.objects.filter(pk=run.pk).update(model=part.model)
            self._runs[part.name] = run.pk
        return self._runs[part.name]

    def tasks(self, episodes: Sequence[EpisodeLine], writer: BulkWriter) -> list[int]:
        """Id of each episode's task. One that is there already keeps its own text of the spec."""
        if len(self._tasks) > MAX_REMEMBERED:
            self._tasks.clear()
        keys = [(self.environment(one.environment), one.task.hash or "") for one in episodes]
        missing = {key: one for key, one in zip(keys, episodes, strict=True) if key not in self._tasks}
        if missing:
            rows = [(*key, one.task.text, writer.time(_seconds(one.created))) for key, one in missing.items()]
            writer.insert(Task, TASK_COLUMNS, rows)
            found = Task.objects.filter(content_hash__in=[digest for _, digest in missing])
            for environment, digest, pk in found.values_list("environment_id", "content_hash", "pk"):
                self._tasks[environment, digest] = pk
        return [self._tasks[key] for key in keys]


def _environment(part: EnvironmentPart) -> int:
    """A new one counts what its class declares as the definition that the file tells."""
    definition = {
        **{"default_return": part.default_return, "declared_return": part.default_return},
        **{"reward_low": part.reward_low, "declared_low": part.reward_low},
        **{"reward_high": part.reward_high, "declared_high": part.reward_high},
        **{"success_threshold": part.success_threshold, "declared_threshold": part.success_threshold},
    }
    defaults = {"is_hosted": False, **definition}
    return Environment.objects.get_or_create(name=part.name, defaults=defaults)[0].pk


def _seconds(moment: datetime) -> float:
    return moment.timestamp()


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


class ImportBatch:
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
        return (text, None) if len(text) <= MAX_INLINE_CHARACTERS else ("", self._blob(text))

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
