"""Writes a batch of imported episodes as rows, inside a transaction of `importing.py`.

The number of an ending: the follower goes through the endings of a database in the order of
`end_number` and never looks back. The numbers of a file are therefore kept only if the follower has
not passed any ending yet, as in an empty database that is restored; otherwise the imported endings
get numbers after all existing ones, in the order of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
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
    MessagePart,
    RevisionPart,
    RolloutPart,
    RunPart,
    SplitPart,
    StepPart,
)
from episodes.transfer.export_rows import PLAY_COLUMNS
from episodes.transfer.formats.atif.imported import ImportedEpisode
from episodes.transfer.formats.jsonl import LINE_COLUMNS, ROLLOUT_COLUMNS
from episodes.uploads.batch import MESSAGE_COLUMNS, RolloutKey, rollout_ids

MAX_CACHED_IDS = 50_000
_TIMES = ("created", "ready", "first_acted", "last_acted", "ended")
_REFERENCES = (
    "id",
    "end_number",
    "environment_id",
    "task_id",
    "revision_id",
    "split_id",
    "run_id",
    "prompt_id",
    "tools_id",
)
_PLAY_COLUMNS = (*PLAY_COLUMNS, "parent_step")
_ROLLOUT_REFERENCES = (
    "key_label",
    "event",
    "event_blob_id",
    "run_id",
    "received",
    "hosted_environment_id",
)
Key = tuple[str, datetime]
"""Session id and start of an episode."""


def can_keep_end_numbers() -> bool:
    """Return whether the follower has not passed any ending of this database yet. One query."""
    return not Progress.objects.filter(end_number__gt=0).exists()


def end_numbers(lines: Sequence[EpisodeLine], *, are_kept: bool) -> list[int]:
    """Return a unique ending number for each line: its own if it is free and numbers are kept, else
    the next one."""
    own = [line.end_number for line in lines if are_kept]
    rows = Episode.objects.ended().filter(end_number__in=set(own))
    numbers_here = set[int | None](rows.values_list("end_number", flat=True))
    numbers = list[int | None]()
    for line in lines:
        number = line.end_number if are_kept else None
        is_free = number is not None and 1 <= number <= MAX_ID and number not in numbers_here
        numbers.append(number if is_free else None)
        numbers_here.add(number)
    last = max([last_end(), *(number for number in numbers if number is not None)])
    unique = list[int]()
    for number in numbers:
        last += number is None
        unique.append(last if number is None else number)
    return unique


class Parents:
    """Joins imported plays with the episodes that they continue.

    A parent is identified by session and start, because its id may have changed. It may come later
    in the files.
    """

    def __init__(self) -> None:
        self._parents: dict[Key, Key] = {}  # of each play

    def expect(self, lines: Iterable[EpisodeLine]) -> None:
        """Record the parents of plays, also for episodes that already existed, because an import
        may be repeated."""
        for line in lines:
            if line.play and line.play.parent:
                parent = line.play.parent
                self._parents[line.session_id, line.created] = parent.session_id, parent.created

    def join(self) -> None:
        """Store the parents that exist here. Other plays stay without a parent. Raises:
        django.db.Error."""
        for play, parent in self._parents.items():
            episode, origin = _episode_of(play), _episode_of(parent)
            if episode is not None and origin is not None:
                Play.objects.filter(episode=episode, parent=None).update(parent=origin)
        self._parents.clear()


def _episode_of(key: Key) -> int | None:
    session, moment = key
    rows = Episode.objects.filter(session_id=session, created=moment)
    return rows.values_list("pk", flat=True).first()


class References:
    """Ids of the rows that imported episodes refer to, found or created.

    An environment created here is not hosted, and a split not served, until a class with that name
    is.
    """

    def __init__(self) -> None:
        self._ids: dict[Hashable, int] = {}

    def forget(self) -> None:
        """Forget all ids after a failed transaction, which removed the rows that it created."""
        self._ids.clear()

    def _id(self, key: Hashable, find: Callable[[], int]) -> int:
        if key not in self._ids:
            self._ids[key] = find()
        return self._ids[key]

    def environment(self, part: EnvironmentPart) -> int:
        """Return the id of an environment. A new one takes its definition of return and success
        from the file."""
        defaults = {
            "is_hosted": False,
            "default_return": part.default_return,
            "declared_return": part.default_return,
            "reward_low": part.reward_low,
            "declared_low": part.reward_low,
            "reward_high": part.reward_high,
            "declared_high": part.reward_high,
            "success_threshold": part.success_threshold,
            "declared_threshold": part.success_threshold,
        }

        def find() -> int:
            convention = convention_declared(part.convention).code
            row, _ = Environment.objects.get_or_create(
                name=part.name, defaults=defaults | {"convention": convention}
            )
            return row.pk

        return self._id(("environment", part.name), find)

    def hosted(self, name: str) -> int | None:
        """Return the id of the environment of a rollout; None if there is none of that name."""
        key = "environment", name
        if key not in self._ids and name:
            for environment in Environment.objects.filter(name=name).only("pk"):
                self._ids[key] = environment.pk
        return self._ids.get(key)

    def split(self, environment: int, part: SplitPart | None) -> int | None:
        if part is None:
            return None
        row = {"environment_id": environment, "name": part.name}
        defaults = {"type": part.type, "is_served": False}
        return self._id(
            ("split", environment, part.name),
            lambda: Split.objects.get_or_create(**row, defaults=defaults)[0].pk,
        )

    def run(self, part: RunPart | None, moment: datetime) -> int | None:
        """Return the id of the run, which is created if it is not here. `moment`: of what the file
        has of it."""
        if part is None:
            return None
        run = self._id(("run", part.name, part.created), lambda: _run(part, moment))
        self._ids["run", part.name, None] = run
        if part.description is not None:
            values = part.description.model_dump(exclude={"config", "tags"})
            config = "" if part.description.config is None else json.dumps(part.description.config)
            # unless a trainer has described it here
            if Run.objects.filter(pk=run, updated=None).update(**values, config=config):
                tags = dict.fromkeys(part.description.tags)
                RunTag.objects.bulk_create(RunTag(run_id=run, name=tag) for tag in tags)
        return run

    def revision(self, environment: int, part: RevisionPart | None, episode: int) -> int | None:
        """Return the id of the revision that played the episode with this id, which may be the
        first one of it."""
        if part is None:
            return None

        def find() -> int:
            row, _ = EnvironmentRevision.objects.get_or_create(
                environment_id=environment,
                digest=part.digest,
                created=part.created,
                defaults={
                    "code": part.code,
                    "source_hash": part.source_hash,
                    "git_commit": part.git_commit,
                    "is_dirty": part.is_dirty,
                    "versions": json.dumps(part.versions),
                    "first_episode": episode,
                },
            )
            if episode < row.first_episode:
                EnvironmentRevision.objects.filter(pk=row.pk).update(first_episode=episode)
            return row.pk

        return self._id(("revision", environment, part.digest, part.created), find)

    def tasks(self, episodes: Sequence[EpisodeLine], writer: BulkWriter) -> list[int]:
        """Return the id of each episode's task. An existing task keeps its own text of the spec."""
        if len(self._ids) > MAX_CACHED_IDS:
            self._ids.clear()
        keys = [(self.environment(line.environment), line.task.hash or "") for line in episodes]
        missing = {
            key: line for key, line in zip(keys, episodes, strict=True) if key not in self._ids
        }
        if missing:
            rows = [
                (
                    *key,
                    line.task.spec,
                    fold_json(line.task.spec),
                    writer.time(line.created.timestamp()),
                )
                for key, line in missing.items()
            ]
            writer.insert(Task, TASK_COLUMNS, rows)
            self._ids.update(task_ids(missing).items())
        return [self._ids[key] for key in keys]


def _run(part: RunPart, moment: datetime) -> int:
    """Return the id of the run of a file. A run of the same title may be another execution."""
    title = part.title or part.name
    runs = Run.objects.named(title)
    if part.run_id:
        run = runs.filter(own_id=part.run_id).first()
    else:
        run = (runs if part.created is None else runs.filter(created=part.created)).first()
    if run is None:
        is_free = not Run.objects.filter(title=title, number=part.number).exists()
        values = {"created": part.created or moment, "model": part.model, "own_id": part.run_id}
        run, _ = Run.objects.begin(title, part.number if is_free else None, **values)
    if part.model and not run.model:
        Run.objects.filter(pk=run.pk).update(model=part.model)
    return run.pk


class NewEpisode(NamedTuple):
    """An episode to write. Its id and its ending number are free."""

    id: int
    end_number: int
    episode: ImportedEpisode

    @property
    def line(self) -> EpisodeLine:
        return self.episode.line


class ImportBatch:
    """Writes inside the caller's transaction. Raises: django.db.Error; ValueError, OverflowError
    for odd times."""

    def __init__(self, references: References, writer: BulkWriter) -> None:
        self._references, self._writer = references, writer
        self._blobs = BlobRows()

    def write(self, episodes: Sequence[NewEpisode]) -> set[int]:
        """Write the episodes and return the ids of their environments."""
        lines = [(new.id, new.line) for new in episodes]
        tasks = self._references.tasks([line for _, line in lines], self._writer)
        rows = [self._episode(new, task) for new, task in zip(episodes, tasks, strict=True)]
        steps = [self._step(number, step) for number, line in lines for step in line.steps]
        messages = self._rollouts(episodes)
        plays = [
            (number, *(getattr(line.play, name) for name in _PLAY_COLUMNS))
            for number, line in lines
            if line.play  # `Parents` adds its parent at the end of the import
        ]
        notes = [
            (number, note.step, note.author, note.text, self._time(note.created))
            for number, line in lines
            for note in line.notes
        ]
        insert = self._writer.insert
        insert(Blob, BLOB_COLUMNS, self._blobs.in_order())
        insert(Episode, (*_REFERENCES, *_TIMES, "labels", *LINE_COLUMNS), rows)
        insert(Step, STEP_COLUMNS, steps)
        insert(RolloutMessage, MESSAGE_COLUMNS, messages)
        insert(Play, ("episode_id", *_PLAY_COLUMNS), plays)
        insert(Note, ("episode_id", "step", "author", "text", "created"), notes)
        environments = {self._references.environment(line.environment) for _, line in lines}
        # marks the statistics as outdated, even if the import stops here
        Environment.objects.filter(pk__in=environments).update(counted="")
        return environments

    def _episode(self, new: NewEpisode, task: int) -> Values:
        line, references = new.line, self._references
        environment = references.environment(line.environment)
        return (
            new.id,
            new.end_number,
            environment,
            task,
            references.revision(environment, line.revision, new.id),
            references.split(environment, line.split),
            references.run(line.run, line.created),
            self._blob(line.prompt),
            self._blob(line.tools),
            *(self._time(getattr(line, name)) for name in _TIMES),
            line.labels,
            *(getattr(line, name) for name in LINE_COLUMNS),
        )

    def _step(self, episode: int, step: StepPart) -> Values:
        return (
            episode,
            step.index,
            step.tool,
            *self._large(step.input),
            *self._large(step.output),
            step.reward,
            step.finished,
            step.status,
            step.error,
            step.reason,
            step.task_id,
            self._time(step.started),
            step.duration_ms,
            step.waited_ms,
        )

    def _rollouts(self, episodes: Sequence[NewEpisode]) -> list[Values]:
        """Write the rollouts, and return the rows of their messages."""
        rollouts = [
            ((new.line.key_label, rollout.facts.event_id), rollout)
            for new in episodes
            for rollout in new.episode.rollouts
        ]
        rows = [self._rollout(key, rollout.facts) for key, rollout in rollouts]
        self._writer.insert(Rollout, (*_ROLLOUT_REFERENCES, *ROLLOUT_COLUMNS, "info"), rows)
        ids = rollout_ids([key for key, _ in rollouts])
        return [
            self._message(ids[key], message)
            for key, rollout in rollouts
            for message in rollout.messages
        ]

    def _rollout(self, key: RolloutKey, part: RolloutPart) -> Values:
        run = RunPart(name=part.run, model=part.model) if part.run else None
        return (
            key[0],
            *self._large(part.event),
            self._references.run(run, part.received),
            self._time(part.received),
            self._references.hosted(part.environment_name),
            *(getattr(part, name) for name in ROLLOUT_COLUMNS),
            part.info,
        )

    def _message(self, rollout: int, part: MessagePart) -> Values:
        return (
            rollout,
            part.index,
            part.event_id,
            part.kind,
            part.name,
            part.call_id,
            *self._large(part.text),
            *self._large(part.summary),
            *self._large(part.extra),
            part.reward,
            part.is_finished,
            part.response_characters,
            part.sent_ms,
            part.problem,
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
