"""Catalogue: every hosted environment's tasks, by name and position. The TaskSource of live play.

Listed tasks come from their rows, read on two reader threads: one unit of work checks the split's version and fetches
the task. A procedural class is asked itself, but for the splits that people made of its tasks or froze.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

from django.db import DatabaseError, InterfaceError
from django.db.models import Q

from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import Registry
from environments.authoring.task_source import CHUNK_TASKS, CallUser, ClassTasks
from environments.database.worker_threads import Workers
from environments.errors import EnvironmentFault, InvalidSplit, ListingUnsupported, Unavailable
from environments.models import Environment
from environments.models import Split as SplitRow
from environments.runtime.fault_log import log_class_fault
from environments.tasks.served_tasks import ListedTasks
from environments.wire import Split


class Catalogue:
    """Implements `environments.runtime.records.TaskSource`. Every method also raises UnknownEnvironment."""

    def __init__(self, registry: Registry, call_user: CallUser, readers: int = 2) -> None:
        """`registry` has been synced: rows of its environments exist."""
        self._registry = registry
        self._call_user = call_user
        self._listed = ListedTasks()
        self._readers = Workers(readers, "catalogue")
        self._asked: dict[str, frozenset[str] | None] = {}

    def close(self) -> None:
        """End the reader threads and their connections."""
        self._readers.close()

    async def check_enabled(self, environment: str) -> None:
        """Raises: Unavailable when somebody has switched the environment off."""
        is_enabled = self._listed.fresh_enabled(environment)
        if is_enabled is None:
            try:
                is_enabled = await self._readers.run(self._listed.is_enabled, environment)
            except (
                DatabaseError,
                InterfaceError,
            ):  # it is away: the session's record waits for it, and so does the agent
                return
        if not is_enabled:
            raise Unavailable(environment, "It was switched off in the admin, on the environment's page.")

    async def splits(self, environment: str) -> Sequence[Split]:
        """The splits served now, in order."""
        hosted = self._registry.get(environment)
        listed = await self._readers.run(self._listed.splits, hosted.name)
        asked = await self._asked_splits(hosted)
        if asked is None:
            return listed
        own = [split for split in hosted.splits if split.name in asked]
        return [*own, *(split for split in listed if split.name not in asked)]

    async def count(self, environment: str, split: str) -> int:
        """Number of tasks. Raises: InvalidSplit, EnvironmentFault."""
        hosted = self._registry.get(environment)
        if await self._asks(hosted, split):
            with _logging(hosted, split):
                return await self._source(hosted, split).count(split)
        return await self._readers.run(self._listed.count, hosted.name, split)

    async def get(self, environment: str, split: str, index: int) -> str:
        """The task's JSON text; negative indexes count from the end.

        Raises: InvalidSplit, InvalidIndex, EnvironmentFault.
        """
        hosted = self._registry.get(environment)
        if await self._asks(hosted, split):
            with _logging(hosted, split):
                return await self._source(hosted, split).get(split, index)
        if (known := self._listed.fresh(hosted.name, split, index)) is not None:
            return known
        return await self._readers.run(self._listed.get, hosted.name, split, index)

    async def range(
        self, environment: str, split: str, start: int | None, stop: int | None
    ) -> AsyncIterator[Sequence[str]]:
        """JSON texts of a slice, both ends clamped, in chunks; an empty slice may have none.

        Raises, before the first chunk: InvalidSplit; before any chunk: InvalidIndexRange, EnvironmentFault.
        """
        hosted = self._registry.get(environment)
        chunks: AsyncIterator[Sequence[str]]
        if await self._asks(hosted, split):
            chunks = self._source(hosted, split).range(split, start, stop)
        else:
            chunks = self._chunks(hosted, split, slice(start, stop))
        with _logging(hosted, split):
            async for chunk in chunks:
                yield chunk

    async def tasks(self, environment: str, split: str) -> AsyncIterator[Sequence[str]]:
        """All JSON texts, in chunks; those of one version, whatever changes meanwhile.

        Raises, before the first chunk: InvalidSplit, ListingUnsupported.
        """
        hosted = self._registry.get(environment)
        if await self._asks(hosted, split):
            self._source(hosted, split)
            raise ListingUnsupported
        async for chunk in self._chunks(hosted, split, slice(None)):
            yield chunk

    async def _chunks(self, hosted: HostedClass, split: str, positions: slice) -> AsyncIterator[list[str]]:
        first, ids = await self._readers.run(self._first_chunk, hosted.name, split, positions)
        yield first
        for start in range(CHUNK_TASKS, len(ids), CHUNK_TASKS):
            yield await self._readers.run(self._listed.texts, ids[start : start + CHUNK_TASKS])

    def _first_chunk(self, environment: str, split: str, positions: slice) -> tuple[list[str], array[int]]:
        ids = self._listed.ids(environment, split)[positions]
        return self._listed.texts(ids[:CHUNK_TASKS]), ids

    def _source(self, hosted: HostedClass, split: str) -> ClassTasks:
        names = [declared.name for declared in hosted.splits]
        if split not in names:
            raise InvalidSplit(split, hosted.name, names)
        return ClassTasks(hosted, self._call_user)

    async def _asks(self, hosted: HostedClass, split: str) -> bool:
        """Whether the class itself is asked for the split's tasks; splits that people made or froze are listed."""
        asked = await self._asked_splits(hosted)
        if asked is None:
            return False
        return split in asked or split not in [one.name for one in await self.splits(hosted.name)]

    async def _asked_splits(self, hosted: HostedClass) -> frozenset[str] | None:
        """Splits for whose tasks a procedural class is asked; None: it lists them. As sync found it at the start."""
        if hosted.name not in self._asked:
            names = [split.name for split in hosted.splits]
            self._asked[hosted.name] = await self._readers.run(_asked_splits, hosted.name, names)
        return self._asked[hosted.name]


@contextmanager
def _logging(hosted: HostedClass, split: str) -> Iterator[None]:
    """What the class raises is logged on its way to whoever asked."""
    try:
        yield
    except EnvironmentFault as fault:
        log_class_fault("tasks failed", hosted.name, split, fault)
        raise


def _asked_splits(environment: str, declared: list[str]) -> frozenset[str] | None:
    if not Environment.objects.filter(name=environment, is_procedural=True).exists():
        return None
    kept = SplitRow.objects.filter(Q(is_curated=True) | Q(frozen__isnull=False), environment__name=environment)
    return frozenset(declared) - set(kept.values_list("name", flat=True))
