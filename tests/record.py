"""Implementations of Record and TaskSource without a database: a list that commits on demand, and
tasks of classes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import Registry
from environments.authoring.task_source import ClassTasks
from environments.errors import InvalidSplit
from environments.runtime.records import (
    EpisodeEnded,
    EpisodeStarted,
    RecalledCall,
    RecordedPast,
    Row,
    SnapshotTaken,
    StepTaken,
)
from environments.runtime.usercode import UserCode
from environments.wire import Split

R = TypeVar("R")


class ListRecord:
    """A `Record` that keeps rows in order. While `holds` is true, nothing becomes durable until
    `commit`."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.holds = False
        self._waiting: list[Callable[[], None]] = []
        self._episodes = 0

    def next_episode(self) -> int:
        self._episodes += 1
        return self._episodes

    def record(self, *rows: Row, on_commit: Callable[[], None] | None = None) -> None:
        self.rows.extend(rows)
        if on_commit is not None:
            self._waiting.append(on_commit)
        if not self.holds:
            asyncio.get_running_loop().call_soon(self.commit)

    def commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        for on_commit in waiting:
            on_commit()

    async def recall(
        self, session_id: str, owner: str, task_id: str, hidden: frozenset[int] = frozenset()
    ) -> RecalledCall | None:
        starts = self.of(EpisodeStarted)
        episodes = {
            row.episode for row in starts if (row.session_id, row.key_label) == (session_id, owner)
        }
        for row in reversed(self.steps):
            if row.episode in episodes and row.task_id == task_id:
                return RecalledCall(row.status, row.output_json, row.error, row.reason)
        return None

    async def past(self, episode: int) -> RecordedPast:
        start = next(row for row in self.of(EpisodeStarted) if row.episode == episode)
        snapshots = [row for row in self.of(SnapshotTaken) if row.episode == episode]
        steps = [row for row in self.steps if row.episode == episode]
        return RecordedPast(start.spec_json, None, steps, snapshots[-1] if snapshots else None)

    async def interruption(self, session_id: str, owner: str) -> str:
        return ""

    def of(self, kind: type[R]) -> list[R]:
        return [row for row in self.rows if isinstance(row, kind)]

    @property
    def steps(self) -> list[StepTaken]:
        return self.of(StepTaken)

    @property
    def end(self) -> EpisodeEnded:
        """The latest ending that was recorded."""
        return self.of(EpisodeEnded)[-1]


class AskedTasks:
    """A `TaskSource` that asks the classes every time, including those that list their tasks."""

    def __init__(self, registry: Registry, code: UserCode) -> None:
        self._registry, self._code = registry, code

    async def check_enabled(self, environment: str) -> None:
        pass

    async def splits(self, environment: str) -> Sequence[Split]:
        return self._registry.get(environment).splits

    async def is_sealed(self, environment: str, split: str) -> bool:
        return False

    async def has_sealed_split(self, environment: str) -> bool:
        return False

    async def count(self, environment: str, split: str) -> int:
        return len(await self._texts(environment, split))

    async def get(self, environment: str, split: str, index: int) -> str:
        source = self._source(environment, split)
        return await source.get(split, index)

    async def range(
        self, environment: str, split: str, start: int | None, stop: int | None
    ) -> AsyncIterator[Sequence[str]]:
        yield (await self._texts(environment, split))[start:stop]

    async def tasks(self, environment: str, split: str) -> AsyncIterator[Sequence[str]]:
        yield await self._texts(environment, split)

    async def _texts(self, environment: str, split: str) -> Sequence[str]:
        return await self._source(environment, split).listing(split)

    def _source(self, environment: str, split: str) -> ClassTasks:
        hosted = self._registry.get(environment)
        assert isinstance(hosted, HostedClass)
        names: Iterable[str] = [declared.name for declared in hosted.splits]
        if split not in names:
            raise InvalidSplit(split, hosted.name, names)
        source: Any = _Listing(hosted, self._code.call)
        return source  # type: ignore[no-any-return]


class _Listing(ClassTasks):
    """Uses the class's own num_tasks and get_task, including the defaults of the base classes."""

    async def _ask(self, method: str, *args: Any, passing: tuple[type[Exception], ...] = ()) -> Any:
        return await self._call_user(getattr(self._environment.cls, method), *args, passing=passing)
