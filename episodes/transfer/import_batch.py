"""Writes a batch of imported episodes as rows, inside a transaction of `importing.py`.

The number of an ending: the follower goes through the endings of a database in the order of
`end_number` and never looks back. The numbers of a file are therefore kept only if the follower has
not passed any ending yet, as in an empty database that is restored; otherwise the imported endings
get numbers after all existing ones, in the order of the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from environments.database.bulk_writer import BulkWriter, Values
from environments.models import Environment, Split, Task
from environments.models.folding import fold_json
from environments.scoring.convention import convention_declared
from episodes.models import (
    Blob,
    EnvironmentRevision,
    Episode,
    Note,
    Play,
    Progress,
    Rollout,
    RolloutMessage,
    Run,
    RunTag,
    Step,
)
from episodes.recording.batch import MAX_INLINE_CHARACTERS, STEP_COLUMNS
from episodes.recording.blob_rows import BLOB_COLUMNS, BlobRows
from episodes.recording.referenced_rows import TASK_COLUMNS, task_ids
from episodes.rollups.progress import last_end
from episodes.transfer.episode_line import (
    MAX_ID,
    EnvironmentPart,
    EpisodeLine,
    NotePart,
    PlayPart,
    RevisionPart,
    RunDescriptionPart,
    RunPart,
    SplitPart,
    StepPart,
)
from episodes.transfer.formats.atif.imported import ImportedEpisode, ImportedRollout
from episodes.transfer.formats.jsonl import EPISODE_COLUMNS, ROLLOUT_COLUMNS
from episodes.transfer.rollout_line import MessagePart, RolloutPart
from episodes.uploads.batch import MESSAGE_COLUMNS, rollout_ids

MAX_CACHED_TASKS = 50_000
_COLUMNS = (
    *(
        "id",
        "environment_id",
        "revision_id",
        "split_id",
        "task_id",
        "run_id",
        "prompt_id",
        "tools_id",
        "labels",
    ),
    *("created", "ready", "first_acted", "last_acted", "ended", "end_number"),
)
_PLAY_COLUMNS = (
    *("episode_id", "is_blind", "is_repeat", "counts_left", "is_excluded"),
    *("paused_seconds", "differs_at", "parent_step"),
)
_NOTE_COLUMNS = ("episode_id", "step", "author", "text", "created")
_ROLLOUT_COLUMNS = (
    *("key_label", "event", "event_blob_id", "run_id", "received", "hosted_environment_id"),
    *ROLLOUT_COLUMNS,
    "info",
)
Key = tuple[str, datetime]
"""Session id and start of an episode."""


def can_keep_end_numbers() -> bool:
    """Return whether the follower has not passed any ending of this database yet. One query."""
    return not Progress.objects.filter(end_number__gt=0).exists()


def end_numbers(lines: Sequence[EpisodeLine], *, are_kept: bool) -> list[int]:
    """Return a unique ending number for each line: its own if it is free and numbers are kept, else
    the next one."""
    found = _own(lines) if are_kept else [None] * len(lines)
    last = max([last_end(), *(number for number in found if number is not None)])
    numbers = list[int]()
    for number in found:
        last += number is None
        numbers.append(last if number is None else number)
    return numbers


def _own(lines: Sequence[EpisodeLine]) -> list[int | None]:
    """Return each line's own number, or None if it has none, an impossible one, or one that is
    taken."""
    wanted = {line.end_number for line in lines if _is_possible(line.end_number)}
    taken = set(
        Episode.objects.ended().filter(end_number__in=wanted).values_list("end_number", flat=True)
    )
    found = list[int | None]()
    for line in lines:
        is_free = _is_possible(line.end_number) and line.end_number not in taken
        found.append(line.end_number if is_free else None)
        taken.add(line.end_number)
    return found


def _is_possible(number: int | None) -> bool:
    return number is not None and 1 <= number <= MAX_ID


class Parents:
    """Joins imported plays with the episodes that they continue.

    A parent is identified by session and start, because its id may have changed. It may come later
    in the files.
    """

    def __init__(self) -> None:
        self._waiting: dict[Key, Key] = {}  # play -> what it continues

    def expect(self, lines: Iterable[EpisodeLine]) -> None:
        """Record the parents of plays, also for episodes that already existed, because an import
        may be repeated."""
        for line in lines:
            if line.play and line.play.parent:
                parent = line.play.parent
                self._waiting[line.session_id, line.created] = parent.session_id, parent.created

    def join(self) -> None:
        """Store the parents that exist here. Other plays stay without a parent. Raises:
        django.db.Error."""
        for play, parent in self._waiting.items():
            if (found := _find(parent)) is not None and (own := _find(play)) is not None:
                Play.objects.filter(episode=own, parent=None).update(parent=found)
        self._waiting.clear()


def _find(key: Key) -> int | None:
    session, created = key
    return (
        Episode.objects.filter(session_id=session, created=created)
        .values_list("pk", flat=True)
        .first()
    )


class References:
    """Ids of the rows that imported episodes refer to, found or created.

    An environment created here is not hosted, and a split not served, until a class with that name
    is.
    """

    def __init__(self) -> None:
        self._environments: dict[str, int] = {}
        self._splits: dict[tuple[int, str], int] = {}
        self._runs: dict[tuple[str, datetime | None], int] = {}
        self._tasks: dict[tuple[int, str], int] = {}
        self._revisions: dict[tuple[int, str, datetime], int] = {}

    def forget(self) -> None:
        """Forget all ids after a failed transaction, which removed the rows that it created."""
        for kind in (self._environments, self._splits, self._runs, self._tasks, self._revisions):
            kind.clear()

    def environment(self, part: EnvironmentPart) -> int:
        if part.name not in self._environments:
            self._environments[part.name] = _environment(part)
        return self._environments[part.name]

    def hosted(self, name: str) -> int | None:
        """Return the id of the environment of a rollout; None if there is none of that name."""
        if name and name not in self._environments:
            found = Environment.objects.filter(name=name).values_list("pk", flat=True).first()
            self._environments |= {} if found is None else {name: found}
        return self._environments.get(name)

    def split(self, environment: int, part: SplitPart | None) -> int | None:
        if part is None:
            return None
        key = (environment, part.name)
        if key not in self._splits:
            defaults = {"type": part.type, "is_served": False}
            made, _ = Split.objects.get_or_create(
                environment_id=environment, name=part.name, defaults=defaults
            )
            self._splits[key] = made.pk
        return self._splits[key]

    def run(self, part: RunPart | None, moment: datetime) -> int | None:
        """Return the id of the run, which is created if it is not here. `moment`: of what the file
        has of it."""
        if part is None:
            return None
        key = (part.name, part.created)
        if key not in self._runs:
            run = _run_here(part) or _new_run(part, moment)
            if part.model and not run.model:
                Run.objects.filter(pk=run.pk).update(model=part.model)
            self._runs[key] = self._runs[part.name, None] = run.pk
        if part.description is not None:
            _describe(self._runs[key], part.description)
        return self._runs[key]

    def revision(self, environment: int, part: RevisionPart | None, episode: int) -> int | None:
        """Return the id of the revision that played the episode with this id, which may be the
        first one of it."""
        if part is None:
            return None
        key = (environment, part.digest, part.created)
        if key not in self._revisions:
            same = {"environment_id": environment, "digest": part.digest, "created": part.created}
            facts = {
                name: getattr(part, name)
                for name in ("code", "source_hash", "git_commit", "is_dirty")
            }
            facts |= {"versions": json.dumps(part.versions), "first_episode": episode}
            row, _ = EnvironmentRevision.objects.get_or_create(**same, defaults=facts)
            if episode < row.first_episode:
                EnvironmentRevision.objects.filter(pk=row.pk).update(first_episode=episode)
            self._revisions[key] = row.pk
        return self._revisions[key]

    def tasks(self, episodes: Sequence[EpisodeLine], writer: BulkWriter) -> list[int]:
        """Return the id of each episode's task. An existing task keeps its own text of the spec."""
        if len(self._tasks) > MAX_CACHED_TASKS:
            self._tasks.clear()
        keys = [(self.environment(one.environment), one.task.hash or "") for one in episodes]
        missing = {
            key: one for key, one in zip(keys, episodes, strict=True) if key not in self._tasks
        }
        if missing:
            rows = [
                (*key, one.task.text, fold_json(one.task.text), writer.time(_seconds(one.created)))
                for key, one in missing.items()
            ]
            writer.insert(Task, TASK_COLUMNS, rows)
            self._tasks.update(task_ids(missing))
        return [self._tasks[key] for key in keys]


def _run_here(part: RunPart) -> Run | None:
    """Return the run of a file if the database has it; a run of the same title may be another
    execution."""
    rows = Run.objects.named(part.title or part.name)
    if part.run_id:
        return rows.filter(own_id=part.run_id).first()
    return rows.first() if part.created is None else rows.filter(created=part.created).first()


def _new_run(part: RunPart, moment: datetime) -> Run:
    title = part.title or part.name
    is_free = not Run.objects.filter(title=title, number=part.number).exists()
    values = {"created": part.created or moment, "model": part.model, "own_id": part.run_id}
    return Run.objects.begin(title, part.number if is_free else None, **values)[0]


def _describe(run: int, part: RunDescriptionPart) -> None:
    """Store what the file says about a run, unless a trainer has described it here."""
    values = {
        name: getattr(part, name) for name in ("step", "state", "git_commit", "notes", "updated")
    }
    config = "" if part.config is None else json.dumps(part.config)
    if Run.objects.filter(pk=run, updated=None).update(**values, config=config):
        RunTag.objects.bulk_create(RunTag(run_id=run, name=tag) for tag in dict.fromkeys(part.tags))


def _environment(part: EnvironmentPart) -> int:
    """Return the id of an environment. A new one takes its definition of return and success from
    the file."""
    definition = {
        **{"default_return": part.default_return, "declared_return": part.default_return},
        **{"reward_low": part.reward_low, "declared_low": part.reward_low},
        **{"reward_high": part.reward_high, "declared_high": part.reward_high},
        **{
            "success_threshold": part.success_threshold,
            "declared_threshold": part.success_threshold,
        },
        "convention": convention_declared(part.convention).code,
    }
    defaults = {"is_hosted": False, **definition}
    return Environment.objects.get_or_create(name=part.name, defaults=defaults)[0].pk


def _seconds(moment: datetime) -> float:
    return moment.timestamp()


class NewEpisode(NamedTuple):
    """An episode to write. Its id and its ending number are free."""

    id: int
    end_number: int
    episode: ImportedEpisode

    @property
    def line(self) -> EpisodeLine:
        return self.episode.line

    @property
    def is_foreign(self) -> bool:
        return self.episode.is_foreign


class ImportBatch:
    """Writes inside the caller's transaction. Raises: django.db.Error; ValueError, OverflowError
    for odd times."""

    def __init__(self, references: References, writer: BulkWriter) -> None:
        self._references, self._writer = references, writer
        self._blobs = BlobRows()

    def write(self, episodes: Sequence[NewEpisode]) -> set[int]:
        """Write the episodes and return the ids of their environments."""
        lines = [one.line for one in episodes]
        tasks = self._references.tasks(lines, self._writer)
        rows = [self._episode(one, task) for one, task in zip(episodes, tasks, strict=True)]
        steps = [self._step(one.id, step) for one in episodes for step in one.line.steps]
        rollouts = [
            (one.line.key_label, rollout) for one in episodes for rollout in one.episode.rollouts
        ]
        messages = self._rollouts(rollouts) if rollouts else []
        self._writer.insert(Blob, BLOB_COLUMNS, self._blobs.in_order())
        self._writer.insert(Episode, (*_COLUMNS, *EPISODE_COLUMNS), rows)
        self._writer.insert(Step, STEP_COLUMNS, steps)
        self._writer.insert(RolloutMessage, MESSAGE_COLUMNS, messages)
        self._writer.insert(
            Play,
            _PLAY_COLUMNS,
            [self._play(one.id, one.line.play) for one in episodes if one.line.play],
        )
        self._writer.insert(
            Note,
            _NOTE_COLUMNS,
            [self._note(one.id, note) for one in episodes for note in one.line.notes],
        )
        environments = {self._references.environment(line.environment) for line in lines}
        Environment.objects.filter(pk__in=environments).update(
            counted=""
        )  # marks the statistics as outdated, even if the import stops here
        return environments

    def _episode(self, new: NewEpisode, task: int) -> Values:
        line = new.line
        environment = self._references.environment(line.environment)
        return (
            *(
                new.id,
                environment,
                self._references.revision(environment, line.revision, new.id),
                self._references.split(environment, line.split),
                task,
                self._references.run(line.run, line.created),
            ),
            *(self._blob(line.prompt_json), self._blob(line.tools_json), line.labels_json),
            *(
                self._time(moment)
                for moment in (line.created, line.ready, line.first_acted, line.last_acted)
            ),
            *(self._time(line.ended), new.end_number),
            *(getattr(line, name) for name in EPISODE_COLUMNS),
        )

    def _step(self, episode: int, step: StepPart) -> Values:
        return (
            *(
                episode,
                step.index,
                step.tool,
                *self._large(step.input_json),
                *self._large(step.output_json),
            ),
            *(step.reward, step.finished, step.status, step.error, step.reason, step.task_id),
            *(self._time(step.started), step.duration_ms, step.waited_ms),
        )

    def _play(self, episode: int, play: PlayPart) -> Values:
        """Return the values of a play. `Parents` adds its parent at the end of the import."""
        marks = (play.is_blind, play.is_repeat, play.counts_left, play.is_excluded)
        return (episode, *marks, play.paused_seconds, play.differs_at, play.parent_step)

    def _note(self, episode: int, note: NotePart) -> Values:
        return (episode, note.step, note.author, note.text, self._time(note.created))

    def _rollouts(self, rollouts: Sequence[tuple[str, ImportedRollout]]) -> list[Values]:
        """Write the rollouts, each with the label of its key, and return the rows of their
        messages."""
        self._writer.insert(
            Rollout,
            _ROLLOUT_COLUMNS,
            [self._rollout(label, rollout.facts) for label, rollout in rollouts],
        )
        ids = rollout_ids([(label, rollout.facts.event_id) for label, rollout in rollouts])
        return [
            self._message(ids[label, rollout.facts.event_id], message)
            for label, rollout in rollouts
            for message in rollout.messages
        ]

    def _rollout(self, key_label: str, part: RolloutPart) -> Values:
        run = RunPart(name=part.run, model=part.model) if part.run else None
        texts = (
            *self._large(part.event),
            self._references.run(run, part.received),
            self._time(part.received),
        )
        hosted = self._references.hosted(part.environment_name)
        return (
            key_label,
            *texts,
            hosted,
            *(getattr(part, name) for name in (*ROLLOUT_COLUMNS, "info")),
        )

    def _message(self, rollout: int, part: MessagePart) -> Values:
        return (
            *(rollout, part.index, part.event_id, part.kind, part.name, part.call_id),
            *(*self._large(part.text), *self._large(part.summary), *self._large(part.extra)),
            *(part.reward, part.is_finished, part.response_characters, part.sent_ms, part.problem),
            self._time(part.received),
        )

    def _large(self, text: str) -> tuple[str, str | None]:
        """Return the text stored in the step itself and the key of its blob, as the recorder stores
        them."""
        return (text, None) if len(text) <= MAX_INLINE_CHARACTERS else ("", self._blob(text))

    def _blob(self, text: str) -> str | None:
        return self._blobs.add(text) if text else None

    def _time(self, moment: datetime | None) -> str | float | None:
        return None if moment is None else self._writer.time(moment.timestamp())
