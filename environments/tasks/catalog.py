"""The tasks of every hosted environment, by split and index: the TaskSource that live play reads
from.

Listed tasks come from their rows, which two reader threads read: one unit of work checks the
split's version and fetches the task. The tasks of a procedural class come from the class itself,
except in splits that people made or froze.
"""

from __future__ import annotations

from array import array
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
        """Read the tasks of `registry`, which must have been synced, so that its environments have
        rows.

        `host` runs the environments, for those that are procedural.
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
        """Read again whether the environment is procedural; called when its tasks have been synced
        once more."""
        self._procedural.pop(environment, None)

    async def check_enabled(self, environment: str) -> None:
        """Check that agents may open sessions. Raises: Unavailable if the environment is
        disabled."""
        is_enabled = self._listed.fresh_enabled(environment)
        if is_enabled is None:
            try:
                is_enabled = await self._readers.run(self._listed.is_enabled, environment)
            except (DatabaseError, InterfaceError):
                # the database is away: the session's record waits for it, and so does the agent
                return
        if not is_enabled:
            reason = await self._readers.run(self._listed.disabled_reason, environment)
            remedy = "It is disabled; an administrator can enable it on its page in the admin."
            raise Unavailable(environment, f"{reason} {remedy}".lstrip())

    async def splits(self, environment: str) -> Sequence[Split]:
        """Return the splits that are served now, in order."""
        hosted = self._registry.get(environment)
        listed = await self._readers.run(self._listed.splits, hosted.name)
        procedural = await self._procedural_splits(hosted)
        if procedural is None:
            return listed
        own = [split for split in hosted.splits if split.name in procedural]
        return [*own, *(split for split in listed if split.name not in procedural)]

    async def is_sealed(self, environment: str, split: str) -> bool:
        """Return whether only keys that curate may read the tasks of the split. Unknown splits are
        not sealed."""
        return await self._readers.run(
            self._listed.is_sealed, self._registry.get(environment).name, split
        )

    async def has_sealed_split(self, environment: str) -> bool:
        """Return whether any split of the environment is sealed; a change is noticed within a
        second."""
        if (has_sealed := self._listed.fresh_sealed(environment)) is not None:
            return has_sealed
        try:
            return await self._readers.run(self._listed.has_sealed_split, environment)
        except (DatabaseError, InterfaceError):
            # sessions can be opened while the database is away
            return self._listed.last_sealed(environment)

    async def count(self, environment: str, split: str) -> int:
        """Return the number of tasks in a split. Raises: InvalidSplit, EnvironmentFault."""
        hosted = self._registry.get(environment)
        if await self._comes_from_class(hosted, split):
            with _logging(hosted, split):
                return await self._source(hosted, split).count(split)
        return await self._readers.run(self._listed.count, hosted.name, split)

    async def get(self, environment: str, split: str, index: int) -> str:
        """Return the JSON text of a task; a negative index counts from the end of the split.

        Raises: InvalidSplit, InvalidIndex, EnvironmentFault.
        """
        hosted = self._registry.get(environment)
        if await self._comes_from_class(hosted, split):
            with _logging(hosted, split):
                return await self._source(hosted, split).get(split, index)
        if (text := self._listed.fresh(hosted.name, split, index)) is not None:
            return text
        return await self._read(self._listed.get, hosted.name, split, index)

    async def _read(self, read: Callable[..., T], *args: Any) -> T:
        """Return what `read(*args)` returns, called again while the database is away: an agent
        waits for its task."""
        return await until_there(lambda: self._readers.run(read, *args), MAX_AWAY_SECONDS)

    async def range(
        self, environment: str, split: str, start: int | None, stop: int | None
    ) -> AsyncIterator[Sequence[str]]:
        """Yield the JSON texts of a slice in chunks. Both ends are clamped to the split; an empty
        slice may yield nothing.

        Raises: InvalidSplit before the first chunk; InvalidIndexRange, EnvironmentFault before any
        chunk.
        """
        hosted = self._registry.get(environment)
        chunks: AsyncIterator[Sequence[str]]
        if await self._comes_from_class(hosted, split):
            chunks = self._source(hosted, split).range(split, start, stop)
        else:
            chunks = self._chunks(hosted, split, slice(start, stop))
        with _logging(hosted, split):
            async for chunk in chunks:
                yield chunk

    async def tasks(self, environment: str, split: str) -> AsyncIterator[Sequence[str]]:
        """Yield the JSON texts of a whole split in chunks, all of one version even if the split
        changes meanwhile.

        Raises: InvalidSplit, ListingUnsupported before the first chunk.
        """
        hosted = self._registry.get(environment)
        if await self._comes_from_class(hosted, split):
            self._source(hosted, split)
            raise ListingUnsupported
        async for chunk in self._chunks(hosted, split, slice(None)):
            yield chunk

    async def _chunks(
        self, hosted: HostedEnvironment, split: str, positions: slice
    ) -> AsyncIterator[list[str]]:
        first, ids = await self._readers.run(self._first_chunk, hosted.name, split, positions)
        yield first
        for start in range(CHUNK_TASKS, len(ids), CHUNK_TASKS):
            yield await self._readers.run(self._listed.texts, ids[start : start + CHUNK_TASKS])

    def _first_chunk(
        self, environment: str, split: str, positions: slice
    ) -> tuple[list[str], array[int]]:
        ids = self._listed.ids(environment, split)[positions]
        return self._listed.texts(ids[:CHUNK_TASKS]), ids

    def _source(self, hosted: HostedEnvironment, split: str) -> EnvironmentTasks:
        names = [declared.name for declared in hosted.splits]
        if split not in names:
            raise InvalidSplit(split, hosted.name, names)
        return self._host.tasks(hosted.name)

    async def _comes_from_class(self, hosted: HostedEnvironment, split: str) -> bool:
        """Return whether the split's tasks come from the class itself and not from rows."""
        procedural = await self._procedural_splits(hosted)
        if procedural is None:
            return False
        return split in procedural or split not in [
            one.name for one in await self.splits(hosted.name)
        ]

    async def _procedural_splits(self, hosted: HostedEnvironment) -> frozenset[str] | None:
        """Return the splits whose tasks come from a procedural class, as of the sync at the start;
        None for other classes.
        """
        if hosted.name not in self._procedural:
            names = [split.name for split in hosted.splits]
            self._procedural[hosted.name] = await self._read(_procedural_splits, hosted.name, names)
        return self._procedural[hosted.name]


@contextmanager
def _logging(hosted: HostedEnvironment, split: str) -> Iterator[None]:
    """Log what the class raises and let it pass on to the caller."""
    try:
        yield
    except EnvironmentFault as fault:
        log_class_fault("tasks failed", hosted.name, split, fault)
        raise


def _procedural_splits(environment: str, declared: list[str]) -> frozenset[str] | None:
    if not Environment.objects.filter(name=environment, is_procedural=True).exists():
        return None
    kept = SplitRow.objects.filter(
        Q(is_curated=True) | Q(frozen__isnull=False), environment__name=environment
    )
    return frozenset(declared) - set(kept.values_list("name", flat=True))
