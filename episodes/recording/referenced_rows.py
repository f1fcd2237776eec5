"""Ids of the rows that episodes refer to, which the recorder's thread looks up inside its
transactions.

Each row is found or created once and then remembered. Which split holds a task, and which row has a
split's name, is remembered until some split has changed. After a failed transaction everything is
forgotten: rows that it created are gone, and remembered rows may have been deleted.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from django.db import connection

from environments.database.bulk_writer import BulkWriter
from environments.database.json_rows import rows_among
from environments.database.storable import storable
from environments.models import Environment, Split, Task
from environments.models.folding import fold_json
from environments.models.task_hash import hash_of_spec
from environments.runtime.records import EpisodeStarted
from episodes.models import EnvironmentRevision
from episodes.rollups.progress import last_end
from episodes.runs.change_counter import changes
from episodes.runs.known_runs import KnownRuns

MAX_REMEMBERED = 50_000
"""Ids remembered of each kind; when there are more, all of the kind are forgotten."""

_SPLITS = (
    "SELECT MAX(id), COUNT(*), SUM(version), SUM(CASE WHEN is_served THEN 1 ELSE 0 END) FROM "
    "environments_split"
)
"""A query whose result changes whenever a split is created or changed, or starts or stops being
served."""
CHECK_SECONDS = 0.25
"""_SPLITS is run at most this often: for every batch it would cost a quarter of PostgreSQL's
episodes per second."""

# The index starts with the environment. Without it, all tasks would be read.
_TASK_IDS = (
    "SELECT content_hash, id FROM environments_task WHERE environment_id = %s AND content_hash "
    "{among}"
)
_HOLDING = """
    SELECT e.task_id, e.split_id FROM environments_splitentry AS e JOIN environments_split AS s ON s.id = e.split_id
    WHERE s.is_served AND NOT e.is_hidden AND e.since <= s.version AND (e.until IS NULL OR e.until > s.version)
        AND e.task_id {among}
    ORDER BY s.is_curated DESC, s.position DESC, s.id DESC
"""
"""The last row of a task wins: a split that the class declares before a curated one, then in
order."""

TASK_COLUMNS = ("environment_id", "content_hash", "spec", "folded", "created")

TaskKey = tuple[int, bytes]
"""Environment id and a digest of the spec's exact text, with `SENT` at its end for a task that is
marked as sent."""
SENT = b"sent"


class Ids(NamedTuple):
    environment: int
    split: int | None
    task: int
    revision: int | None
    run: int | None
    run_step: int | None
    """Training step of the episode: the one that its client named, else the current one of its
    run."""
    model: str
    """Model of the episode: the one that its client named, else that of its run if a trainer has
    described the run."""


class KnownRows:
    """Remembered ids, by what episodes call the rows."""

    def __init__(self) -> None:
        self.blobs: set[str] = set()
        self.components: dict[int, bool] = {}
        """Whether an output of a running episode may report components, if all rows of the episode
        were seen."""
        self._environments: dict[str, int] = {}
        self._splits: dict[tuple[int, str], int] = {}
        self._tasks: dict[TaskKey, int] = {}
        self._holding: dict[int, int | None] = {}
        """Split that holds a task, by the task's id; used if the client names none."""
        self._revisions: dict[tuple[int, str], int] = {}
        self._runs = KnownRuns()
        self._counted_changes = 0
        self._splits_state: tuple[object, ...] = ()
        self._splits_checked = -CHECK_SECONDS
        self._run_changes = 0
        self._last_end: int | None = None

    def next_end(self) -> int:
        """Return the next number of an ending. A failed transaction may leave a gap; no number is
        used twice."""
        if self._last_end is None:
            self._last_end = last_end()
        self._last_end += 1
        return self._last_end

    def share(self, last_end: int | None, run_changes: int) -> None:
        """Begin a transaction beside other servers: the last number of an ending is now `last_end`.

        `run_changes`: what is remembered of runs is forgotten if it has changed, because trainers
        may describe them to other servers.
        """
        self._last_end = last_end
        if run_changes != self._run_changes:
            self._run_changes = run_changes
            self._runs.clear()

    @property
    def last_end(self) -> int:
        """The last number that `next_end` returned; 0 if there was none since ids were
        forgotten."""
        return self._last_end or 0

    def forget(self) -> None:
        self._last_end = None
        for kind in (
            self.blobs,
            self.components,
            self._environments,
            self._splits,
            self._tasks,
            self._holding,
        ):
            kind.clear()
        self._revisions.clear()
        self._runs.clear()

    def learn(self, episodes: Sequence[EpisodeStarted], writer: BulkWriter) -> list[Ids]:
        """Return the ids for each episode. Missing rows are created, but a missing split stays
        None."""
        for kind in (
            self.blobs,
            self.components,
            self._splits,
            self._tasks,
            self._holding,
            self._runs,
        ):
            if len(kind) > MAX_REMEMBERED:
                kind.clear()
        self._check_splits()
        if self._counted_changes != (latest := changes()):  # a trainer has described a run
            self._counted_changes = latest
            self._runs.clear()
        keys = [_task_key(self._environment(row.environment), row) for row in episodes]
        missing = {
            key: row for key, row in zip(keys, episodes, strict=True) if key not in self._tasks
        }
        if missing:
            self._make_tasks(missing, writer)
        without_split = {
            self._tasks[key] for key, row in zip(keys, episodes, strict=True) if row.split is None
        }
        if unseen := without_split - self._holding.keys():
            holding = dict(rows_among(_HOLDING, [], unseen))
            self._holding.update({task: holding.get(task) for task in unseen})
        return [self._ids(key, row) for key, row in zip(keys, episodes, strict=True)]

    def _ids(self, key: TaskKey, row: EpisodeStarted) -> Ids:
        run = self._runs.run_of(row.run, row.created)
        step, model = row.run.step, storable(row.run.model, 200)
        if run is not None:
            step = run.step if step is None else step
            model = model or (run.model if run.is_described else "")
        revision = self._revision(key[0], row)
        run_id = run.id if run else None
        return Ids(
            key[0], self._split(row.split, key), self._tasks[key], revision, run_id, step, model
        )

    def _check_splits(self) -> None:
        if time.monotonic() < self._splits_checked + CHECK_SECONDS:
            return
        self._splits_checked = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute(_SPLITS)
            state = cursor.fetchone()
        if state != self._splits_state:
            self._splits_state = state
            self._splits.clear()
            self._tasks.clear()
            self._holding.clear()

    def _environment(self, name: str) -> int:
        if (environment_id := self._environments.get(name)) is None:
            environment_id = Environment.objects.get_or_create(
                name=storable(name, 200), defaults={"is_hosted": False}
            )[0].pk
            self._environments[name] = environment_id
        return environment_id

    def _split(self, name: str | None, task: TaskKey) -> int | None:
        if name is None:
            return self._holding[self._tasks[task]]
        environment = task[0]
        if (split := self._splits.get((environment, name))) is None:
            split = (
                Split.objects.filter(environment=environment, name=storable(name))
                .values_list("pk", flat=True)
                .first()
            )
            if split is not None:
                self._splits[environment, name] = split
        return split

    def _revision(self, environment: int, row: EpisodeStarted) -> int | None:
        """Return the row of the episode's revision, which is created unless it is the environment's
        latest one; None if the episode has none."""
        if (revision := row.revision) is None:
            return None
        revision_id = self._revisions.get((environment, revision.digest))
        if revision_id is None:
            latest = (
                EnvironmentRevision.objects.filter(environment=environment).order_by("-pk").first()
            )
            if latest is None or latest.digest != revision.digest:
                latest = EnvironmentRevision.objects.create(
                    environment_id=environment,
                    code=revision.code,
                    digest=revision.digest,
                    source_hash=revision.source_hash,
                    git_commit=revision.git_commit[:64],
                    is_dirty=revision.is_dirty,
                    versions=json.dumps(dict(revision.versions)),
                    first_episode=row.episode,
                    created=datetime.fromtimestamp(row.created, UTC),
                )
            revision_id = self._revisions[environment, revision.digest] = latest.pk
        return revision_id

    def _make_tasks(self, missing: dict[TaskKey, EpisodeStarted], writer: BulkWriter) -> None:
        hashes = {
            key: hash_of_spec(row.spec_json, is_sent=row.is_sent) for key, row in missing.items()
        }
        keys = {(key[0], digest) for key, digest in hashes.items()}
        ids = task_ids(keys)  # most are there: a sync has written what the class lists
        new = [
            (key[0], hashes[key], row.spec_json, fold_json(row.spec_json), writer.time(row.created))
            for key, row in missing.items()
            if (key[0], hashes[key]) not in ids
        ]
        if new:
            writer.insert(Task, TASK_COLUMNS, new)
            ids = task_ids(keys)
        self._tasks.update({key: ids[key[0], digest] for key, digest in hashes.items()})


def _task_key(environment: int, row: EpisodeStarted) -> TaskKey:
    digest = hashlib.blake2b(row.spec_json.encode(), digest_size=16).digest()
    return environment, digest + SENT if row.is_sent else digest


def task_ids(keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Return the ids of those tasks that exist, by environment id and content hash."""
    by_environment: dict[int, list[str]] = defaultdict(list)
    for environment, digest in keys:
        by_environment[environment].append(digest)
    ids: dict[tuple[int, str], int] = {}
    for environment, digests in by_environment.items():
        rows = rows_among(_TASK_IDS, [environment], digests)
        ids.update({(environment, digest): pk for digest, pk in rows})
    return ids
