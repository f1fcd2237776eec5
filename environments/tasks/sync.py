"""Writes the hosted classes and their tasks as rows, from which they are served, recorded and
curated.

Runs when the server starts and in `manage.py sync_environments`. A split whose list has not changed
since the last sync costs no query per task. Changes that people made to a split are kept
(`sync_merge.py`). SQLite's write lock is held for one batch at a time, which is large only while
the server starts, and a split changes visibly only when all of it is written; an interrupted sync
is simply repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import structlog
from django.db import DatabaseError, transaction

from environments import conf
from environments.authoring.hosted_environment import HostedEnvironment
from environments.authoring.registry import Registry
from environments.database.json_rows import adding_tasks, execute
from environments.database.planner_statistics import refresh_statistics
from environments.database.storable import storable
from environments.database.worker_threads import Workers
from environments.database.write_pauses import rows_at_once, write_alone
from environments.errors import EnvironmentFault, InvalidIndex, Unhostable, shorten
from environments.models import Environment, Split, SyncConflict
from environments.models.folding import fold_json
from environments.models.task_hash import content_hash
from environments.runtime.host import Host
from environments.scoring.convention import convention_declared
from environments.scoring.returns import RETURNS
from environments.tasks import task_schema
from environments.tasks.fixed_tasks import (
    forget_code,
    known_lists,
    note_code,
    split_names,
    splits_of_class,
)
from environments.tasks.split_change import CLAIM_SECONDS, SplitChange, commit
from environments.tasks.split_errors import SplitBusy
from environments.tasks.split_indexes import renew_missing
from environments.tasks.sync_conflicts import note_conflicts, quarantine_tasks
from environments.tasks.sync_merge import (
    hashes_in_split,
    mark_dropped,
    merge_places,
    unmark_dropped,
)
from environments.tasks.sync_report import SplitSync, SyncReport, UnlistableTasks

BATCH_TASKS = 1000
BYTES_OF_TASK = 2048
"""Mean size of the texts up to which a transaction has that many. It then takes about 50 ms."""

MAX_IN_ORDER = 5000
"""Up to so many, the tasks of a split are added in the class's order, in which lists by id then are."""

_ADD_TASKS = """
    INSERT INTO environments_task (environment_id, content_hash, spec, folded, source, created)
    SELECT %s, value->>0, value->>1, value->>2, 'code', CURRENT_TIMESTAMP FROM {rows} WHERE true
    ON CONFLICT DO NOTHING
"""

IN_FORCE = (
    {"default_return": "declared_return"},
    {"reward_low": "declared_low", "reward_high": "declared_high"},
    {"success_threshold": "declared_threshold"},
)
"""Columns that people may change -> columns with what the class declares. Each group changes as a
whole."""

SLOW_SECONDS = 3.0
"""How long a class may list its tasks before the log says what the start waits for."""
MIN_LOGGED_TASKS = 50_000
"""Writing this many tasks takes seconds, so it is logged for the operator."""

_Answer = TypeVar("_Answer")
Begin = Callable[[str], object]
"""Called with each step of a check before it begins."""

log = structlog.get_logger(__name__)


async def sync(
    registry: Registry,
    host: Host,
    *,
    is_whole: bool = True,
    is_alone: bool = False,
    serves: bool = True,
) -> SyncReport:
    """Make the rows match `registry`, whose environments `host` runs.

    `is_whole`: the registry has everything that is hosted, in order; other environments are not
    hosted then. `is_alone`: nobody else writes to the database meanwhile, so it is written in large
    batches. `serves`: this process plays the environments; otherwise a server may do so, and hosted
    ones stay as available as they are.

    An environment that cannot list or count its tasks becomes unavailable, and keeps its earlier
    tasks. Raises: Unhostable, with one sentence that says what to change.
    """
    began = time.monotonic()
    writer = Workers(1, "sync")
    splits: list[SplitSync] = []
    procedural: list[str] = []
    failures: list[UnlistableTasks] = []
    try:
        if is_alone:
            await writer.run(write_alone)
        playable: frozenset[str] = frozenset()
        if not serves:
            rows = Environment.objects.filter(is_hosted=True)
            playable = await writer.run(frozenset, rows.values_list("name", flat=True))
        await writer.run(_write_environments, list(registry), playable, is_whole)
        for environment in filter(lambda environment: environment.is_described, registry):
            if reports := await writer.run(known_lists, environment):
                splits += reports
                continue
            try:
                lists = await _read_lists(environment, host)
            except UnlistableTasks as failure:
                failures.append(failure)
                environment.unavailable = environment.unavailable or storable(
                    f"{failure.reason} Correct that."
                )
                if environment.name not in playable:
                    await writer.run(write_unavailable, environment.name, environment.unavailable)
                continue
            _warn_of_lists(environment, lists)
            if lists.is_procedural:
                procedural.append(environment.name)
            splits += await writer.run(_write_tasks, environment, lists)
        await writer.run(_refresh, splits)
    finally:
        writer.close()
    return SyncReport(tuple(splits), tuple(procedural), time.monotonic() - began, tuple(failures))


async def check_tasks(
    registry: Registry, host: Host, begin: Begin, unavailable: Collection[str]
) -> list[UnlistableTasks]:
    """Read tasks as a sync of `registry` does, but write nothing; return the failures of the
    `unavailable`.

    `unavailable`: names of environments that cannot be played before. Environments whose class says
    that it cannot be played here are left out. Raises: UnlistableTasks, for any other environment.
    """
    reader = Workers(1, "sync")
    failures: list[UnlistableTasks] = []
    try:
        for environment in registry:
            if not environment.is_described or environment.unavailable:
                continue
            try:
                is_known = bool(await reader.run(known_lists, environment))
            except DatabaseError:  # it may not exist yet, or not be migrated
                is_known = False
            try:
                if not is_known and (await _read_lists(environment, host, begin)).is_procedural:
                    await _check_first_tasks(environment, host, begin)
            except UnlistableTasks as failure:
                if environment.name not in unavailable:
                    raise
                failures.append(failure)
    finally:
        reader.close()
    return failures


async def _check_first_tasks(environment: HostedEnvironment, host: Host, begin: Begin) -> None:
    """Ask a procedural class for the first task of each split. Raises: UnlistableTasks."""
    tasks = host.tasks(environment.name)
    for split in split_names(environment):
        if await tasks.count(split):
            call = f"get_task({split!r}, 0)"
            try:
                await _answer(environment, call, split, tasks.get(split, 0), begin)
            except InvalidIndex as error:
                fault = EnvironmentFault(
                    "IndexError", f"num_tasks({split!r}) counts more tasks than there are"
                )
                raise UnlistableTasks(
                    environment.name, environment.origin, call, split, fault
                ) from error


async def sync_environment(environment: HostedEnvironment, host: Host) -> list[SplitSync]:
    """Make the rows of one environment match it, while the others are served; return what was done,
    by split.

    Raises: Unhostable.
    """
    writer = Workers(1, "sync")
    try:
        lists = await _read_lists(environment, host)
        await writer.run(_write_environments, [environment])
        splits = await writer.run(_write_tasks, environment, lists)
        await writer.run(_refresh, splits)
    finally:
        writer.close()
    return splits


class ClassLists:
    """The tasks that a class lists now: the texts of each split, and their hashes, computed on
    first use."""

    def __init__(self, texts: Mapping[str, list[str]], *, is_procedural: bool = False) -> None:
        """`is_procedural`: the class makes each task on demand, and lists none."""
        self.texts, self.is_procedural = texts, is_procedural
        self._hashes: dict[str, list[str]] = {}

    def hashes(self, split: str) -> list[str]:
        """Return the content hashes of a split's tasks, in order."""
        if split not in self._hashes:
            self._hashes[split] = [content_hash(text) for text in self.texts[split]]
        return self._hashes[split]

    def without(self, hashes: set[str]) -> set[str]:
        """Return those of `hashes` that the class lists in no split."""
        # splits whose hashes are not computed yet come last
        for split in sorted(self.texts, key=lambda split: split not in self._hashes):
            hashes = hashes.difference(self.hashes(split)) if hashes else hashes
        return hashes


async def _read_lists(
    environment: HostedEnvironment, host: Host, begin: Begin = lambda step: None
) -> ClassLists:
    """Return the tasks that an environment lists; a procedural one only counts them.

    Raises: UnlistableTasks.
    """
    tasks, texts = host.tasks(environment.name), dict[str, list[str]]()
    try:
        for split in split_names(environment):
            call = f"list_tasks({split!r})"
            texts[split] = await _answer(environment, call, split, tasks.listing(split), begin)
    except NotImplementedError:
        for split in split_names(environment):
            await _answer(environment, f"num_tasks({split!r})", split, tasks.count(split), begin)
        return ClassLists({}, is_procedural=True)
    return ClassLists(texts)


async def _answer(
    environment: HostedEnvironment, call: str, split: str, answer: Awaitable[_Answer], begin: Begin
) -> _Answer:
    """Return the answer to a call of a class method. Raises: UnlistableTasks."""

    def log_wait() -> None:
        log.info("waiting for the tasks of an environment", environment=environment.name, call=call)

    begin(f"{environment.name}: {call} of {environment.origin}")
    timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, log_wait)
    try:
        return await answer
    except EnvironmentFault as fault:
        raise UnlistableTasks(environment.name, environment.origin, call, split, fault) from fault
    finally:
        timer.cancel()


def _warn_of_lists(environment: HostedEnvironment, lists: ClassLists) -> None:
    """Log that there is no task, or a hidden field that no task has: perhaps another one should be
    hidden."""
    texts = [text for texts in lists.texts.values() for text in texts]
    if not texts:
        if not lists.is_procedural:
            log.warning(
                "an environment has no task",
                environment=environment.name,
                origin=environment.origin,
            )
        return
    for name in sorted(environment.hidden_fields or ()):
        if not any(json.dumps(name) in text for text in texts):
            log.warning("no task has a hidden field", environment=environment.name, field=name)


# --- environments ---------------------------------------------------------------------------------


def _write_environments(
    environments: Sequence[HostedEnvironment],
    playable: Collection[str] = (),
    is_whole: bool = False,
) -> None:
    """Write the rows of hosted classes and their splits. A new split is served once its tasks are
    written.

    `playable`: names of environments that another process may play. `is_whole`: these are all
    environments, in order. Raises: Unhostable.
    """
    columns = [declared_columns(environment, playable) for environment in environments]
    with transaction.atomic():
        if is_whole:
            names = [environment.name for environment in environments]
            Environment.objects.exclude(name__in=names).update(is_hosted=False)
        for position, environment in enumerate(environments):
            if is_whole:
                columns[position]["position"] = position
            row = _write_environment(environment.name, columns[position])
            _write_splits(row, environment)


def write_unavailable(environment: str, reason: str) -> None:
    """Write why the environment cannot be played now; an empty reason means that it can."""
    Environment.objects.filter(name=environment).update(unavailable=reason)


def _write_environment(name: str, columns: dict[str, Any]) -> Environment:
    """Write `columns` and return the row. The definition in force follows the class unless people
    changed it."""
    old_row = Environment.objects.filter(name=name).first()
    for group in IN_FORCE:
        if old_row is None or all(
            getattr(old_row, a) == getattr(old_row, b) for a, b in group.items()
        ):
            columns |= {column: columns[source] for column, source in group.items()}
    # uploads and imports make rows of what was never hosted here
    is_new = old_row is None or not old_row.class_path
    if is_new and conf.new_environments_are_private():
        columns["is_private"] = True
        if old_row is not None:
            old_row.is_private = True
            # for the security log, which hears of what is saved
            old_row.save(update_fields=["is_private"])
    row = Environment(name=name, **columns)
    Environment.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["name"], update_fields=list(columns)
    )
    return row


def _write_splits(row: Environment, environment: HostedEnvironment) -> None:
    names_of_people = row.splits.filter(is_curated=True, is_served=True)
    taken_names = set(names_of_people.values_list("name", flat=True))
    rows = [
        Split(environment=row, name=split.name, position=position, type=split.type, is_served=False)
        for position, split in enumerate(environment.splits)
        if split.name not in taken_names
    ]
    fields = ["position", "type", "is_curated"]  # people may have made it once
    Split.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["environment", "name"], update_fields=fields
    )


def declared_columns(
    environment: HostedEnvironment, playable: Collection[str] = ()
) -> dict[str, Any]:
    """Return the columns of an environment as its class declares them, without its availability if
    it is in `playable`. Raises: Unhostable."""
    low, high = _floats(environment, "reward_range", (0.0, 1.0), count=2)
    if low >= high:
        value = environment.declared("reward_range", ())
        raise Unhostable(
            f"{environment.name}: reward_range is {value!r}; it must be two finite numbers, the "
            "lower first."
        )
    [threshold] = _floats(environment, "success_threshold", (0.9,), count=1)
    default_return = environment.declared("default_return", "sum")
    if default_return not in RETURNS:
        raise Unhostable(
            f"{environment.name}: default_return is {default_return!r}; use 'sum', 'last', "
            "'max' or 'mean'."
        )
    try:
        convention = convention_declared(environment.declared("convention", {}))
    except ValueError as error:
        raise Unhostable(f"{environment.name}: {error}") from error
    columns = {
        "class_path": shorten(environment.origin, 400),
        "description": environment.description,
        "card": environment.card,
        "task_schema": task_schema.schema_json(environment),
        "is_hosted": True,
        "declared_return": default_return,
        "declared_low": low,
        "declared_high": high,
        "declared_threshold": threshold,
        "convention": convention.code,
    }
    if environment.name not in playable:
        columns["unavailable"] = environment.unavailable
    return columns


def _floats(
    environment: HostedEnvironment, name: str, default: Sequence[float], *, count: int
) -> list[float]:
    value = environment.declared(name, default)
    try:
        numbers = [float(number) for number in (value if isinstance(value, Sequence) else [value])]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        what = "a finite number" if count == 1 else f"{count} finite numbers"
        raise Unhostable(f"{environment.name}: {name} is {value!r}; it must be {what}.")
    return numbers


# --- tasks ----------------------------------------------------------------------------------------


def _write_tasks(environment: HostedEnvironment, lists: ClassLists) -> list[SplitSync]:
    """Write the tasks of one environment, and return what was done, by split. Raises: Unhostable."""
    name, names = environment.name, split_names(environment)
    forget_code(name)
    reports = list[SplitSync]()
    if lists.is_procedural:
        rows = Split.objects.filter(environment__name=name, name__in=names, is_curated=True)
        reports += [SplitSync(name, row.name, unchanged=row.size, is_taken=True) for row in rows]
    try:
        reports += [_write_split(name, split, lists) for split in lists.texts]
    except SplitBusy as busy:
        raise Unhostable(str(busy)) from busy
    Environment.objects.filter(name=name).update(is_procedural=lists.is_procedural)
    if lists.is_procedural:
        splits_of_class(name).filter(name__in=names).update(is_served=True)
    old_splits = splits_of_class(name).filter(is_served=True).exclude(name__in=names)
    for split in old_splits:
        dropped_count = mark_dropped(split.environment_id, lists.without(hashes_in_split(split)))
        Split.objects.filter(pk=split.pk).update(is_served=False)
        reports.append(
            SplitSync(
                name,
                split.name,
                removed=split.size,
                dropped=dropped_count,
                is_undeclared=True,
            )
        )
    note_code(environment, reports)
    return reports


def _refresh(reports: Iterable[SplitSync]) -> None:
    """Refresh what depends on many rows, after all are written."""
    renew_missing()
    if any(report.added for report in reports):
        refresh_statistics()


def _write_split(environment: str, name: str, lists: ClassLists) -> SplitSync:
    split = Split.objects.get(environment__name=environment, name=name)
    if split.is_curated:
        return SplitSync(environment, name, unchanged=split.size, is_taken=True)
    texts, digest = lists.texts[name], hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\n")
    source_hash = digest.hexdigest()
    is_current = split.source_hash == source_hash
    if is_current or split.frozen:
        if not split.is_served:
            unmark_dropped(split.environment_id, lists.hashes(name))
            Split.objects.filter(pk=split.pk).update(is_served=True)
        size = len(texts) if is_current else split.size
        return SplitSync(environment, name, unchanged=size, is_frozen=not is_current)
    count = len(texts)
    if count >= MIN_LOGGED_TASKS:
        log.info(
            "bringing tasks into the database", environment=environment, split=name, tasks=count
        )
    hashes = lists.hashes(name)
    _add_tasks(split.environment_id, hashes, texts)
    unmark_dropped(split.environment_id, hashes)
    # Before the commit: if this is interrupted, the next sync must still find what was listed
    # before.
    dropped_count = mark_dropped(split.environment_id, lists.without(hashes_in_split(split)))
    with SplitChange(split, wait_seconds=CLAIM_SECONDS + 5) as change:
        try:
            merge = merge_places(split, hashes, lists.texts, was_empty=change.was_empty)
        except KeyError:  # a failing import has deleted tasks that it added before this sync did
            _add_tasks(split.environment_id, hashes, texts)
            merge = merge_places(split, hashes, lists.texts, was_empty=change.was_empty)
        quarantine_tasks(merge.reasons)
        change.place(merge.order)
        conflicts = list[SyncConflict]()

        def note() -> None:
            Split.objects.filter(pk=split.pk).update(source_hash=source_hash)
            conflicts.extend(note_conflicts(split, merge, hashes))

        commit(change, also=note)
    counts: dict[str, Any] = {**merge.counts, "dropped": dropped_count, "conflicts": len(conflicts)}
    return SplitSync(environment, name, **counts)


def _add_tasks(environment: int, hashes: list[str], texts: list[str]) -> None:
    """Add tasks in batches of one transaction each. Existing rows are left alone."""
    tasks: Iterable[tuple[str, str]] = zip(hashes, texts, strict=True)
    if len(hashes) > MAX_IN_ORDER:
        # a batch of random hashes touches as many pages of the index as it has rows, which takes
        # four times the CPU
        tasks = sorted(tasks)
    for batch in _batches(tasks):
        rows = [(digest, text, fold_json(text)) for digest, text in batch]
        with adding_tasks(environment):
            execute(_ADD_TASKS, [environment], rows)


def _batches(tasks: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch, size_bytes, max_count = [], 0, rows_at_once(BATCH_TASKS)
    for digest, text in tasks:
        batch.append((digest, text))
        size_bytes += len(text)
        if len(batch) == max_count or size_bytes > max_count * BYTES_OF_TASK:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch
