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
from environments.authoring import task_schema
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
from environments.runtime.host import Host
from environments.scoring.convention import convention_declared
from environments.scoring.returns import RETURNS
from environments.tasks.fixed_tasks import (
    declared,
    forget_code,
    known_lists,
    note_code,
    splits_of_class,
)
from environments.tasks.split_change import CLAIM_SECONDS, SplitChange, commit
from environments.tasks.split_errors import SplitBusy
from environments.tasks.split_indexes import renew_missing
from environments.tasks.sync_conflicts import keep_quarantined, note_conflicts
from environments.tasks.sync_merge import (
    Merge,
    listed_before,
    mark_dropped,
    merge_places,
    unmark_dropped,
)
from environments.tasks.sync_report import SplitSync, SyncReport, UnlistableTasks

BATCH_TASKS = 1000
BYTES_OF_TASK = 2048
"""Mean size of the texts up to which a transaction has that many. It then takes about 50 ms."""

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

_SORTED = json.JSONEncoder(sort_keys=True)

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
    batches.
    `serves`: this process plays the environments. Otherwise a server may do so, and those that are
    hosted stay as available as they are.
    An environment that cannot list or count its tasks becomes unavailable, and keeps those that it
    listed before.

    Raises: Unhostable, with one sentence that says what to change.
    """
    started = time.monotonic()
    writer = Workers(1, "sync")
    synced: list[SplitSync] = []
    procedural: list[str] = []
    failures: list[UnlistableTasks] = []
    try:
        if is_alone:
            await writer.run(write_alone)
        served = frozenset() if serves else await writer.run(_hosted_names)
        await writer.run(_write_environments if is_whole else _write_some, registry, served)
        for hosted in (one for one in registry if one.is_described):
            if known := await writer.run(known_lists, hosted):
                synced += known
                continue
            try:
                lists, is_procedural = await _lists(hosted, host)
            except UnlistableTasks as failure:
                failures.append(failure)
                hosted.unavailable = hosted.unavailable or storable(
                    f"{failure.reason} Correct that."
                )
                if hosted.name not in served:
                    await writer.run(write_unavailable, hosted.name, hosted.unavailable)
                continue
            if not is_procedural and not any(lists.texts.values()):
                log.warning(
                    "an environment has no task", environment=hosted.name, origin=hosted.origin
                )
            _warn_of_hidden_fields(hosted, lists)
            procedural += [hosted.name] * is_procedural
            written = await _write_tasks(hosted, lists, writer, is_procedural=is_procedural)
            await writer.run(note_code, hosted, written)
            synced += written
        await writer.run(renew_missing)
        if any(split.added for split in synced):
            await writer.run(refresh_statistics)
    finally:
        writer.close()
    return SyncReport(tuple(synced), tuple(procedural), time.monotonic() - started, tuple(failures))


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
        for hosted in (one for one in registry if one.is_described and not one.unavailable):
            try:
                is_known = bool(await reader.run(known_lists, hosted))
            except DatabaseError:  # it may not exist yet, or not be migrated
                is_known = False
            try:
                if not is_known and (await _lists(hosted, host, begin))[1]:
                    await _check_first_tasks(hosted, host, begin)
            except UnlistableTasks as failure:
                if hosted.name not in unavailable:
                    raise
                failures.append(failure)
    finally:
        reader.close()
    return failures


async def _check_first_tasks(hosted: HostedEnvironment, host: Host, begin: Begin) -> None:
    """Ask a procedural class for the first task of each split. Raises: UnlistableTasks."""
    tasks = host.tasks(hosted.name)
    for split in hosted.splits:
        if await tasks.count(split.name):
            call = f"get_task({split.name!r}, 0)"
            try:
                await _answer(hosted, call, split.name, tasks.get(split.name, 0), begin)
            except InvalidIndex as error:
                missing = EnvironmentFault(
                    "IndexError", f"num_tasks({split.name!r}) counts more tasks than there are"
                )
                raise UnlistableTasks(
                    hosted.name, hosted.origin, call, split.name, missing
                ) from error


async def sync_environment(hosted: HostedEnvironment, host: Host) -> list[SplitSync]:
    """Make the rows of one environment match it, while the others are served; return what was done,
    by split.

    Raises: Unhostable.
    """
    writer = Workers(1, "sync")
    try:
        lists, is_procedural = await _lists(hosted, host)
        await writer.run(_write_described, hosted)
        synced = await _write_tasks(hosted, lists, writer, is_procedural=is_procedural)
        await writer.run(renew_missing)
        if any(split.added for split in synced):
            await writer.run(refresh_statistics)
    finally:
        writer.close()
    return synced


def _unwatched(step: str) -> None:
    """Begin a step that may take as long as it does."""


async def _lists(
    hosted: HostedEnvironment, host: Host, begin: Begin = _unwatched
) -> tuple[ClassLists, bool]:
    """Return the tasks that an environment lists, and whether it is procedural and so only counts
    them.

    Raises: UnlistableTasks.
    """
    tasks, texts = host.tasks(hosted.name), dict[str, list[str]]()
    try:
        for split in hosted.splits:
            call = f"list_tasks({split.name!r})"
            listing = tasks.listing(split.name)
            texts[split.name] = await _answer(hosted, call, split.name, listing, begin)
    except NotImplementedError:
        for split in hosted.splits:
            call = f"num_tasks({split.name!r})"
            await _answer(hosted, call, split.name, tasks.count(split.name), begin)
        return ClassLists({}), True
    return ClassLists(texts), False


async def _answer(
    hosted: HostedEnvironment, call: str, split: str, answer: Awaitable[_Answer], begin: Begin
) -> _Answer:
    """Return the answer to a call of a class method. Raises: UnlistableTasks."""
    begin(f"{hosted.name}: {call} of {hosted.origin}")
    slow = asyncio.get_running_loop().call_later(SLOW_SECONDS, _log_wait, hosted.name, call)
    try:
        return await answer
    except EnvironmentFault as fault:
        raise UnlistableTasks(hosted.name, hosted.origin, call, split, fault) from fault
    finally:
        slow.cancel()


def _log_wait(environment: str, call: str) -> None:
    log.info("waiting for the tasks of an environment", environment=environment, call=call)


def _warn_of_hidden_fields(hosted: HostedEnvironment, lists: ClassLists) -> None:
    """Log the hidden fields that no task has: perhaps another one should be hidden."""
    texts = [text for of_split in lists.texts.values() for text in of_split]
    for name in sorted(hosted.hidden_fields or ()) if texts else ():
        if not any(json.dumps(name) in text for text in texts):
            log.warning("no task has a hidden field", environment=hosted.name, field=name)


async def _write_tasks(
    hosted: HostedEnvironment, lists: ClassLists, writer: Workers, *, is_procedural: bool
) -> list[SplitSync]:
    """Write the tasks of one environment, and return what was done, by split."""
    await writer.run(forget_code, hosted)
    synced = await writer.run(_taken, hosted) if is_procedural else []
    synced += [await _sync_split(hosted, split, lists, writer) for split in lists.texts]
    await writer.run(_mark_procedural, hosted, is_procedural)
    return [*synced, *await writer.run(_drop_splits, hosted, lists)]


async def _sync_split(
    hosted: HostedEnvironment, split: str, lists: ClassLists, writer: Workers
) -> SplitSync:
    try:
        return await writer.run(_write_split, hosted.name, split, lists)
    except SplitBusy as busy:
        raise Unhostable(str(busy)) from busy


# --- environments ---------------------------------------------------------------------------------


def _hosted_names() -> frozenset[str]:
    return frozenset(Environment.objects.filter(is_hosted=True).values_list("name", flat=True))


def _write_environments(registry: Registry, served: Collection[str]) -> None:
    """Write the rows of every hosted class and its splits. A new split is served once its tasks are
    written. `served`: names of environments that a server may play."""
    columns = {
        hosted.name: {"position": n, **_columns(hosted, served)}
        for n, hosted in enumerate(registry)
    }
    with transaction.atomic():
        Environment.objects.exclude(name__in=registry.names).update(is_hosted=False)
        for hosted in registry:
            _write_splits(_write_environment(hosted.name, columns[hosted.name]), hosted)


def _write_some(registry: Registry, served: Collection[str]) -> None:
    for hosted in registry:
        _write_described(hosted, served)


def _write_described(hosted: HostedEnvironment, served: Collection[str] = ()) -> None:
    with transaction.atomic():
        _write_splits(_write_environment(hosted.name, _columns(hosted, served)), hosted)


def write_unavailable(environment: str, reason: str) -> None:
    """Write why the environment cannot be played now; an empty reason means that it can."""
    Environment.objects.filter(name=environment).update(unavailable=reason)


def _write_environment(name: str, columns: dict[str, Any]) -> Environment:
    """Write `columns` and return the row. The definition in force follows the class unless people
    changed it."""
    known = Environment.objects.filter(name=name).first()
    for in_force in IN_FORCE:
        if known is None or all(
            getattr(known, one) == getattr(known, other) for one, other in in_force.items()
        ):
            columns = {**columns, **{one: columns[other] for one, other in in_force.items()}}
    # uploads and imports make rows of what was never hosted here
    is_new = known is None or not known.class_path
    if is_new and conf.new_environments_are_private():
        columns = {**columns, "is_private": True}
        if known is not None:
            known.is_private = True
            # for the security log, which hears of what is saved
            known.save(update_fields=["is_private"])
    row = Environment(name=name, **columns)
    Environment.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["name"], update_fields=list(columns)
    )
    return row


def _write_splits(environment: Environment, hosted: HostedEnvironment) -> None:
    taken = set(
        environment.splits.filter(is_curated=True, is_served=True).values_list("name", flat=True)
    )
    rows = [
        Split(
            environment=environment,
            name=split.name,
            position=position,
            type=split.type,
            is_served=False,
        )
        for position, split in enumerate(hosted.splits)
        if split.name not in taken
    ]
    fields = ["position", "type", "is_curated"]  # people may have made it once
    Split.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["environment", "name"], update_fields=fields
    )


def _taken(hosted: HostedEnvironment) -> list[SplitSync]:
    """Report the declared splits whose names are taken by splits that people made."""
    names = [split.name for split in hosted.splits]
    curated = Split.objects.filter(environment__name=hosted.name, name__in=names, is_curated=True)
    return [
        SplitSync(hosted.name, split.name, unchanged=split.size, is_taken=True) for split in curated
    ]


def _mark_procedural(hosted: HostedEnvironment, is_procedural: bool) -> None:
    Environment.objects.filter(name=hosted.name).update(is_procedural=is_procedural)
    if is_procedural:
        splits_of_class(hosted.name).filter(name__in=declared(hosted)).update(is_served=True)


def _drop_splits(hosted: HostedEnvironment, lists: ClassLists) -> list[SplitSync]:
    """Stop serving the splits that the class no longer declares, and mark their tasks as
    dropped."""
    gone = splits_of_class(hosted.name).filter(is_served=True).exclude(name__in=declared(hosted))
    return [_drop_split(split, lists) for split in gone.select_related("environment")]


def _drop_split(split: Split, lists: ClassLists) -> SplitSync:
    dropped = mark_dropped(split.environment_id, lists.without(listed_before(split)))
    Split.objects.filter(pk=split.pk).update(is_served=False)
    return SplitSync(
        split.environment.name, split.name, removed=split.size, dropped=dropped, is_undeclared=True
    )


def check_declared(hosted: HostedEnvironment) -> None:
    """Raise Unhostable if the class declares what no server accepts."""
    _columns(hosted)


def _columns(hosted: HostedEnvironment, served: Collection[str] = ()) -> dict[str, Any]:
    """Return the columns of an environment as its class declares them, without whether it is
    available if a server may play it. Raises: Unhostable."""
    low, high = _floats(hosted, "reward_range", (0.0, 1.0), count=2)
    if low >= high:
        declared = hosted.declared("reward_range", ())
        raise Unhostable(
            f"{hosted.name}: reward_range is {declared!r}; it must be two finite numbers, the "
            "lower first."
        )
    [threshold] = _floats(hosted, "success_threshold", (0.9,), count=1)
    default_return = hosted.declared("default_return", "sum")
    if default_return not in RETURNS:
        raise Unhostable(
            f"{hosted.name}: default_return is {default_return!r}; use 'sum', 'last', "
            "'max' or 'mean'."
        )
    try:
        convention = convention_declared(hosted.declared("convention", {}))
    except ValueError as error:
        raise Unhostable(f"{hosted.name}: {error}") from error
    return {
        "class_path": shorten(hosted.origin, 400),
        "description": hosted.description,
        "card": hosted.card,
        "task_schema": task_schema.schema_json(hosted),
        "is_hosted": True,
        **({} if hosted.name in served else {"unavailable": hosted.unavailable}),
        "declared_return": default_return,
        "declared_low": low,
        "declared_high": high,
        "declared_threshold": threshold,
        "convention": convention.code,
    }


def _floats(
    hosted: HostedEnvironment, name: str, default: Sequence[float], *, count: int
) -> list[float]:
    declared = hosted.declared(name, default)
    try:
        numbers = [
            float(number) for number in (declared if isinstance(declared, Sequence) else [declared])
        ]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        what = "a finite number" if count == 1 else f"{count} finite numbers"
        raise Unhostable(f"{hosted.name}: {name} is {declared!r}; it must be {what}.")
    return numbers


# --- tasks ----------------------------------------------------------------------------------------


class ClassLists:
    """The tasks that a class lists now: the texts of each split, and their hashes, computed on
    first use."""

    def __init__(self, texts: Mapping[str, list[str]]) -> None:
        self.texts = texts
        self._hashes: dict[str, list[str]] = {}

    def hashes(self, split: str) -> list[str]:
        """Return the content hashes of a split's tasks, in order."""
        if split not in self._hashes:
            self._hashes[split] = [content_hash(text) for text in self.texts[split]]
        return self._hashes[split]

    def without(self, hashes: set[str]) -> set[str]:
        """Return those of `hashes` that the class lists in no split."""
        for split in sorted(
            self.texts, key=lambda split: split not in self._hashes
        ):  # splits whose hashes are not computed yet come last
            hashes = hashes.difference(self.hashes(split)) if hashes else hashes
        return hashes


def _write_split(environment: str, name: str, lists: ClassLists) -> SplitSync:
    split = Split.objects.select_related("environment").get(
        environment__name=environment, name=name
    )
    if split.is_curated:
        return SplitSync(environment, name, unchanged=split.size, is_taken=True)
    texts = lists.texts[name]
    source_hash = _list_hash(texts)
    if split.source_hash == source_hash or split.frozen:
        if not split.is_served:
            unmark_dropped(split.environment_id, lists.hashes(name))
            Split.objects.filter(pk=split.pk).update(is_served=True)
        is_frozen = split.source_hash != source_hash
        return SplitSync(
            environment,
            name,
            unchanged=split.size if is_frozen else len(texts),
            is_frozen=is_frozen,
        )
    if len(texts) >= MIN_LOGGED_TASKS:
        log.info(
            "bringing tasks into the database",
            environment=environment,
            split=name,
            tasks=len(texts),
        )
    return _write_list(split, lists, source_hash)


def _write_list(split: Split, lists: ClassLists, source_hash: str) -> SplitSync:
    hashes = lists.hashes(split.name)
    _add_tasks(split.environment_id, hashes, lists.texts[split.name])
    unmark_dropped(split.environment_id, hashes)
    # Before the commit: if this is interrupted, the next sync must still find what was listed
    # before.
    dropped = mark_dropped(split.environment_id, lists.without(listed_before(split)))
    with SplitChange(split, wait_seconds=CLAIM_SECONDS + 5) as change:
        merge = _merge(split, hashes, lists.texts, was_empty=change.was_empty)
        keep_quarantined(merge.reasons)
        change.place(merge.order)
        conflicts = list[SyncConflict]()

        def note() -> None:
            Split.objects.filter(pk=split.pk).update(source_hash=source_hash)
            conflicts.extend(note_conflicts(split, merge, hashes))

        commit(change, also=note)
    people = (merge.kept, merge.withheld, merge.edited, dropped, merge.succeeded, len(conflicts))
    return SplitSync(
        split.environment.name, split.name, merge.added, merge.unchanged, merge.removed, *people
    )


def _merge(
    split: Split, hashes: list[str], lists: Mapping[str, list[str]], *, was_empty: bool
) -> Merge:
    try:
        return merge_places(split, hashes, lists, was_empty=was_empty)
    except (
        KeyError
    ):  # a failing import has deleted tasks that it had added before this sync saw them
        _add_tasks(split.environment_id, hashes, lists[split.name])
        return merge_places(split, hashes, lists, was_empty=was_empty)


def _add_tasks(environment: int, hashes: list[str], texts: list[str]) -> None:
    """Add tasks in batches of one transaction each. Existing rows are left alone."""
    # Sorted: a batch of random hashes touches as many pages of the index as it has rows, which
    # takes four times the CPU.
    for batch in _batches(sorted(zip(hashes, texts, strict=True))):
        rows = [(digest, text, fold_json(text)) for digest, text in batch]
        with adding_tasks(environment):
            execute(_ADD_TASKS, [environment], rows)


def _batches(tasks: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch, size_bytes, most = [], 0, rows_at_once(BATCH_TASKS)
    for digest, text in tasks:
        batch.append((digest, text))
        size_bytes += len(text)
        if len(batch) == most or size_bytes > most * BYTES_OF_TASK:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def content_hash(text: str) -> str:
    """Return a task's identity: the sha256 of its content with sorted keys."""
    return hashlib.sha256(_SORTED.encode(json.loads(text)).encode()).hexdigest()


def _list_hash(texts: list[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()
