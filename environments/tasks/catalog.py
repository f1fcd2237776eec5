"""The tasks of every hosted environment, by split and index: the TaskSource that live play reads
from.

Listed tasks come from their rows, which two reader threads read: one unit of work checks the
split's version and fetches the task. The tasks of a procedural class come from the class itself,
except in splits that people made or froze.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError
from django.db.models import Q

from environments.authoring.hosted_environment import EnvironmentTasks, HostedEnvironment
from environments.authoring.registry import Registry
from environments.authoring.task_source import CHUNK_TASKS
from environments.database.worker_threads import Workers, until_there
from environments.errors import EnvironmentFault, InvalidSplit, ListingUnsupported, Unavailable
from environments.models import Environment
from environments.models import Split as SplitRow
from environments.runtime.fault_log import log_class_fault
from environments.runtime.host import Host
from environments.tasks.listed_tasks import ListedTasks
from environments.wire import Split

T = TypeVar("T")
MAX_AWAY_SECONDS = 30.0
"""How long the task of a session is waited for while the database is away."""


class Catalogue:
    """Implements `environments.runtime.records.TaskSource`. Every method may also raise
    UnknownEnvironment."""

    def __init__(self, registry: Registry, host: Host, readers: int = 2) -> None:
        """Read the tasks of `registry`, which has been synced, so that its environments have rows.

        `host` runs the procedural environments.
        """
        self._registry = registry
        self._host = host
        self._listed = ListedTasks()
        self._readers = Workers(readers, "catalogue")
        self._procedural: dict[str, frozenset[str] | None] = {}

    def close(self) -> None:
        """Stop the reader threads and close their connections."""
        self._readers.close()

    def forget(self, environment: str) -> None:
        """Read again whether the environment is procedural, after another sync of its tasks."""
        self._procedural.pop(environment, None)

    async def check_enabled(self, environment: str) -> None:
        """Check that agents may open sessions. Raises: Unavailable if the environment is
        disabled."""
        reason = self._listed.fresh_refusal(environment)
        if reason is None:
            try:
                reason = await self._readers.run(self._listed.refusal, environment)
            except (DatabaseError, InterfaceError):
                # the database is away: the session's record waits for it, and so does the agent
                return
        if reason:
            raise Unavailable(environment, reason)

    async def splits(self, environment: str) -> Sequence[Split]:
        """Return the splits that are served now, in order."""
        source = self._registry.get(environment)
        splits = await self._readers.run(self._listed.splits, source.name)
        procedural = await self._procedural_splits(source)
        if procedural is None:
            return splits
        own = [split for split in source.splits if split.name in procedural]
        return own + [split for split in splits if split.name not in procedural]

    async def is_sealed(self, environment: str, split: str) -> bool:
        """Return whether only keys that curate may read the split's tasks; False if it is
        unknown."""
        name = self._registry.get(environment).name
        return split in await self._readers.run(self._listed.sealed_splits, name)

    async def has_sealed_split(self, environment: str) -> bool:
        """Return whether any split of the environment is sealed; a change is noticed within a
        second."""
        splits = self._listed.fresh_sealed_splits(environment)
        if splits is None:
            try:
                splits = await self._readers.run(self._listed.sealed_splits, environment)
            except (DatabaseError, InterfaceError):
                # sessions can be opened while the database is away
                return self._listed.had_sealed_split(environment)
        return bool(splits)

    async def count(self, environment: str, split: str) -> int:
        """Return the number of tasks in a split. Raises: InvalidSplit, EnvironmentFault."""
        source = self._registry.get(environment)
        if await self._comes_from_class(source, split):
            with _logging(source, split):
                return await self._class_tasks(source, split).count(split)
        return len(await self._readers.run(self._listed.ids, source.name, split))

    async def get(self, environment: str, split: str, index: int) -> str:
        """Return the JSON text of a task; a negative index counts from the end of the split.

        Raises: InvalidSplit, InvalidIndex, EnvironmentFault.
        """
        source = self._registry.get(environment)
        if await self._comes_from_class(source, split):
            with _logging(source, split):
                return await self._class_tasks(source, split).get(split, index)
        if (text := self._listed.fresh(source.name, split, index)) is not None:
            return text
        return await self._read(self._listed.get, source.name, split, index)

    async def _read(self, read: Callable[..., T], *args: Any) -> T:
        """Return `read(*args)`, called again while the database is away: an agent waits for its
        task."""
        return await until_there(lambda: self._readers.run(read, *args), MAX_AWAY_SECONDS)

    async def range(
        self, environment: str, split: str, start: int | None, stop: int | None
    ) -> AsyncIterator[Sequence[str]]:
        """Yield the JSON texts of a slice in chunks. Both ends are clamped to the split; an empty
        slice may yield nothing.

        Raises: InvalidSplit before the first chunk; InvalidIndexRange, EnvironmentFault before any
        chunk.
        """
        source = self._registry.get(environment)
        chunks: AsyncIterator[Sequence[str]]
        if await self._comes_from_class(source, split):
            chunks = self._class_tasks(source, split).range(split, start, stop)
        else:
            chunks = self._chunks(source.name, split, slice(start, stop))
        with _logging(source, split):
            async for chunk in chunks:
                yield chunk

    async def tasks(self, environment: str, split: str) -> AsyncIterator[Sequence[str]]:
        """Yield the JSON texts of a whole split in chunks, all of one version even if the split
        changes meanwhile.

        Raises: InvalidSplit, ListingUnsupported before the first chunk.
        """
        source = self._registry.get(environment)
        if await self._comes_from_class(source, split):
            self._class_tasks(source, split)
            raise ListingUnsupported
        async for chunk in self._chunks(source.name, split, slice(None)):
            yield chunk

    async def _chunks(
        self, environment: str, split: str, positions: slice
    ) -> AsyncIterator[list[str]]:
        ids = (await self._readers.run(self._listed.ids, environment, split))[positions]
        for start in range(0, len(ids) or 1, CHUNK_TASKS):
            yield await self._readers.run(self._listed.texts, ids[start : start + CHUNK_TASKS])

    def _class_tasks(self, source: HostedEnvironment, split: str) -> EnvironmentTasks:
        """Return the tasks of the class itself. Raises: InvalidSplit."""
        names = [own.name for own in source.splits]
        if split not in names:
            raise InvalidSplit(split, source.name, names)
        return self._host.tasks(source.name)

    async def _comes_from_class(self, source: HostedEnvironment, split: str) -> bool:
        """Return whether the split's tasks come from the class itself and not from rows."""
        procedural = await self._procedural_splits(source)
        if procedural is None or split in procedural:
            return procedural is not None
        return all(row.name != split for row in await self.splits(source.name))

    async def _procedural_splits(self, source: HostedEnvironment) -> frozenset[str] | None:
        """Return the splits whose tasks come from a procedural class, as of the sync at the start;
        None for other classes."""
        if source.name not in self._procedural:
            names = [split.name for split in source.splits]
            self._procedural[source.name] = await self._read(_procedural_splits, source.name, names)
        return self._procedural[source.name]


@contextmanager
def _logging(source: HostedEnvironment, split: str) -> Iterator[None]:
    """Log what the class raises, and raise it."""
    try:
        yield
    except EnvironmentFault as fault:
        log_class_fault("tasks failed", source.name, split, fault)
        raise


def _procedural_splits(environment: str, names: list[str]) -> frozenset[str] | None:
    if not Environment.objects.filter(name=environment, is_procedural=True).exists():
        return None
    rows = SplitRow.objects.filter(
        Q(is_curated=True) | Q(frozen__isnull=False), environment__name=environment
    )
    return frozenset(names) - set(rows.values_list("name", flat=True))
