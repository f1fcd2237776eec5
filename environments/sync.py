"""Sync: brings the hosted classes into rows, so that their tasks are served, recorded and curated from the database.

Run when the server starts and by `manage.py sync_environments`. A split whose list is as at the last sync costs no
query per task. SQLite's write lock is held for one batch at a time: readers keep the order they have until the split's
version rises at the end. A sync that was interrupted is done again, for it leaves the split without a source hash.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import connection, transaction
from django.db.models import F

from environments import task_schema
from environments.card import card_of
from environments.errors import EnvironmentFault, Unhostable
from environments.hosting import Hosted
from environments.listed import task_ids
from environments.models import Environment, Split
from environments.registry import Registry
from environments.source import CallUser, Source
from environments.workers import Workers

BATCH_TASKS = 1000
BATCH_BYTES = 2 * 1024 * 1024
"""At most so much is written in one transaction: some 50 ms."""

# one JSON array a statement: several times as fast as rows made by the ORM, and the same on both databases; the scalar
# subquery, because PostgreSQL would answer a join by reading every task of the environment for each batch
_ROWS = {"sqlite": "json_each(%s)", "postgresql": "json_array_elements(%s::json)"}
_ADD_TASKS = """
    INSERT INTO environments_task (environment_id, content_hash, spec, created)
    SELECT %s, value->>0, value->>1, CURRENT_TIMESTAMP FROM {rows} WHERE true
    ON CONFLICT DO NOTHING
"""
_PLACE_TASKS = """
    INSERT INTO environments_splitentry (split_id, position, task_id)
    SELECT %s, CAST(value->>0 AS integer),
        (SELECT id FROM environments_task WHERE environment_id = %s AND content_hash = value->>1)
    FROM {rows} WHERE true
    ON CONFLICT (split_id, position, since) DO UPDATE SET task_id = excluded.task_id
    WHERE environments_splitentry.task_id <> excluded.task_id
"""


IN_FORCE = (
    {"default_return": "declared_return"},
    {"reward_low": "declared_low", "reward_high": "declared_high"},
    {"success_threshold": "declared_threshold"},
)
"""Columns that people may change -> the columns that hold what the class declares; together or not at all."""

WORTH_TELLING = 50_000
"""So many tasks take some seconds, which an operator wants to know of."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SplitSync:
    """What became of one split; each field but the names counts entries."""

    environment: str
    split: str
    added: int = 0
    unchanged: int = 0
    """Entries of tasks that were in the split before, wherever they stand now."""
    removed: int = 0


@dataclass(frozen=True, slots=True)
class SyncReport:
    splits: tuple[SplitSync, ...]
    """Splits of classes that list their tasks, in the order of hosting."""
    procedural: tuple[str, ...]
    """Names of environments that are asked for each task."""
    seconds: float


async def sync(registry: Registry, call_user: CallUser) -> SyncReport:
    """Make the rows agree with `registry`. Raises: Unhostable with one sentence that says what to change."""
    started = time.monotonic()
    writer = Workers(1, "sync")
    synced: list[SplitSync] = []
    procedural: list[str] = []
    try:
        await writer.run(_write_environments, registry)
        for hosted in registry:
            try:
                synced += [await _sync_split(hosted, split.name, call_user, writer) for split in hosted.splits]
            except NotImplementedError:
                procedural.append(hosted.name)
            await writer.run(_mark_procedural, hosted.name, hosted.name in procedural)
    finally:
        writer.close()
    return SyncReport(tuple(synced), tuple(procedural), time.monotonic() - started)


async def _sync_split(hosted: Hosted, split: str, call_user: CallUser, writer: Workers) -> SplitSync:
    try:
        texts = await Source(hosted, call_user).listing(split)
    except EnvironmentFault as fault:
        raise Unhostable(f"{hosted.name}: list_tasks({split!r}) cannot be served: {fault}.") from fault
    return await writer.run(_write_split, hosted.name, split, texts)


# --- environments ----------------------------------------------------------------------------------------------------


def _write_environments(registry: Registry) -> None:
    """Rows of every hosted class and its splits; a new split is served once its tasks are there."""
    columns = {hosted.name: {"position": n, **_columns(hosted)} for n, hosted in enumerate(registry)}
    with transaction.atomic():
        Environment.objects.exclude(name__in=registry.names).update(is_hosted=False)
        for hosted in registry:
            _write_splits(_write_environment(hosted.name, columns[hosted.name]), hosted)


def _write_environment(name: str, columns: dict[str, Any]) -> Environment:
    """The row with `columns`. What is in force follows what the class declares, but where people chose otherwise."""
    known = Environment.objects.filter(name=name).first()
    for in_force in IN_FORCE:
        if known is None or all(getattr(known, one) == getattr(known, other) for one, other in in_force.items()):
            columns = {**columns, **{one: columns[other] for one, other in in_force.items()}}
    return Environment.objects.update_or_create(name=name, defaults=columns)[0]


def _write_splits(environment: Environment, hosted: Hosted) -> None:
    declared = [split.name for split in hosted.splits]
    environment.splits.exclude(name__in=declared).update(is_served=False)
    for position, split in enumerate(hosted.splits):
        fields = {"position": position, "type": split.type}
        environment.splits.update_or_create(
            name=split.name, defaults=fields, create_defaults={**fields, "is_served": False}
        )


def _mark_procedural(environment: str, is_procedural: bool) -> None:
    Environment.objects.filter(name=environment).update(is_procedural=is_procedural)
    if is_procedural:
        Split.objects.filter(environment__name=environment, version=0).update(is_served=True)


def _columns(hosted: Hosted) -> dict[str, Any]:
    """What the class says of itself. Raises: Unhostable."""
    low, high = _floats(hosted, "reward_range", (0.0, 1.0), count=2)
    [threshold] = _floats(hosted, "success_threshold", (0.9,), count=1)
    default_return = getattr(hosted.cls, "default_return", "sum")
    if default_return not in ("sum", "last", "max", "mean"):
        raise Unhostable(f"{hosted.name}: default_return is {default_return!r}; use 'sum', 'last', 'max' or 'mean'.")
    return {
        "class_path": f"{hosted.cls.__module__}:{hosted.cls.__qualname__}",
        "description": inspect.cleandoc(hosted.cls.__doc__ or ""),
        "card": card_of(hosted.cls),
        "task_schema": task_schema.declared(hosted),
        "is_hosted": True,
        "declared_return": default_return,
        "declared_low": low,
        "declared_high": high,
        "declared_threshold": threshold,
    }


def _floats(hosted: Hosted, name: str, default: Sequence[float], *, count: int) -> list[float]:
    declared = getattr(hosted.cls, name, default)
    try:
        numbers = [float(number) for number in (declared if isinstance(declared, Sequence) else [declared])]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        what = "a finite number" if count == 1 else f"{count} finite numbers"
        raise Unhostable(f"{hosted.name}: {name} is {declared!r}; it has to be {what}.")
    return numbers


# --- tasks -----------------------------------------------------------------------------------------------------------


def _write_split(environment: str, name: str, texts: list[str]) -> SplitSync:
    split = Split.objects.get(environment__name=environment, name=name)
    row = Split.objects.filter(pk=split.pk)
    source_hash = _list_hash(texts)
    if split.source_hash == source_hash:
        row.filter(is_served=False).update(is_served=True)
        return SplitSync(environment, name, unchanged=len(texts))
    if len(texts) >= WORTH_TELLING:
        log.info("bringing tasks into the database", environment=environment, split=name, tasks=len(texts))
    before = Counter(task_ids(split.pk))
    row.update(source_hash="")
    _write_tasks(split, texts)
    row.update(source_hash=source_hash, is_served=True, size=len(texts), version=F("version") + 1)
    unchanged = (before & Counter(task_ids(split.pk))).total() if before else 0
    return SplitSync(environment, name, len(texts) - unchanged, unchanged, before.total() - unchanged)


def _write_tasks(split: Split, texts: list[str]) -> None:
    """Put tasks in the split, in batches of one transaction each; rows that are there already stay as they are."""
    hashes = [content_hash(text) for text in texts]
    # sorted, because a batch of random hashes touches as many pages of their index as it has rows: four times the CPU
    for batch in _batches(sorted(zip(hashes, texts, strict=True))):
        _execute(_ADD_TASKS, [split.environment_id, json.dumps(batch)])
    for start in range(0, len(hashes), BATCH_TASKS):
        entries = list(enumerate(hashes[start : start + BATCH_TASKS], start))
        _execute(_PLACE_TASKS, [split.pk, split.environment_id, json.dumps(entries)])
    _cut(split, len(texts))


def _batches(tasks: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch, size_bytes = [], 0
    for digest, text in tasks:
        batch.append((digest, text))
        size_bytes += len(text)
        if len(batch) == BATCH_TASKS or size_bytes > BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _execute(statement: str, parameters: list[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement.format(rows=_ROWS[connection.vendor]), parameters)


def _cut(split: Split, count: int) -> None:
    """Remove what stands at `count` and after, the end first, so that what is left has no gap."""
    tail = split.entries.filter(position__gte=count)
    while (last := tail.order_by("-position").values_list("position", flat=True).first()) is not None:
        tail.filter(position__gt=last - BATCH_TASKS).delete()


def content_hash(text: str) -> str:
    """A task's identity: sha256 of its content with sorted keys, whatever the order in `text`."""
    return hashlib.sha256(json.dumps(json.loads(text), sort_keys=True).encode()).hexdigest()


def _list_hash(texts: list[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()
