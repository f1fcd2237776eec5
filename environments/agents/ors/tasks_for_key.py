"""The tasks of a split as a key may read them, and the task that a session is opened with.

With the scope `curate`, or on a server without keys, a task is listed as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from environments.authoring.hosted_environment import HostedEnvironment
from environments.authoring.registry import Registry
from environments.keys.agent_key import CURATE, AgentKey
from environments.keys.task_view import TaskReference, visible_spec
from environments.runtime.records import TaskSource
from environments.runtime.session_request import SessionRequest

Chunks = AsyncIterator[Sequence[str]]


@dataclass(frozen=True)
class ListedTasksOfKey:
    """The tasks of one split for one key."""

    source: TaskSource
    key: AgentKey
    environment: HostedEnvironment
    split: str
    is_sealed: bool
    is_readable: bool
    """Whether the key may read all tasks of the environment."""

    @classmethod
    async def of(
        cls, source: TaskSource, key: AgentKey, environment: HostedEnvironment, split: str
    ) -> ListedTasksOfKey:
        """Return the tasks. Raises: Forbidden if the key may not use the split."""
        key.check_split(split)
        is_readable = await may_read_all(key, environment, source)
        is_sealed = not is_readable and await source.is_sealed(environment.name, split)
        return cls(source, key, environment, split, is_sealed, is_readable)

    @property
    def _is_plain(self) -> bool:
        return self.is_readable and self.key.splits is None

    async def one(self, index: int) -> str:
        """Return the JSON of one task."""
        text = await self.source.get(self.environment.name, self.split, index)
        if self._is_plain:
            return text
        count = await self.source.count(self.environment.name, self.split) if index < 0 else 0
        return self._readable(text, index + count)

    async def all(self) -> Chunks:
        """Yield the JSON of all tasks in chunks."""
        async for chunk in self._convert(self.source.tasks(self.environment.name, self.split), 0):
            yield chunk

    async def range(self, start: int | None, stop: int | None) -> Chunks:
        """Yield the JSON of some tasks in chunks."""
        chunks, first = self.source.range(self.environment.name, self.split, start, stop), 0
        if not self._is_plain:
            count = await self.source.count(self.environment.name, self.split)
            first = slice(start, stop).indices(count)[0]
        async for chunk in self._convert(chunks, first):
            yield chunk

    async def _convert(self, chunks: Chunks, first: int) -> Chunks:
        async for chunk in chunks:
            if self._is_plain:
                yield chunk
                continue
            yield await asyncio.to_thread(self._readable_chunk, chunk, first)
            first += len(chunk)

    def _readable_chunk(self, chunk: Sequence[str], first: int) -> list[str]:
        return [self._readable(text, index) for index, text in enumerate(chunk, first)]

    def _readable(self, text: str, index: int) -> str:
        """Return what the key may read of a task, with a reference: its content alone would not be
        this task."""
        spec = text
        if not self.is_readable:
            spec = visible_spec(text, self.environment.hidden_fields, is_sealed=self.is_sealed)
        return TaskReference.to(self.split, index, text).added_to(spec)


async def may_read_all(key: AgentKey, environment: HostedEnvironment, source: TaskSource) -> bool:
    """Return whether the key may read all tasks of the environment: none has hidden fields or is in
    a sealed split."""
    return key.may(CURATE) or (
        environment.hidden_fields == frozenset()
        and not await source.has_sealed_split(environment.name)
    )


async def resolved(
    request: SessionRequest, source: TaskSource, key: AgentKey, registry: Registry
) -> SessionRequest:
    """Return the request to open a session, with the split and index that a reference in its task
    names.

    A task without a reference is marked as sent if the key may not read all tasks of the
    environment.

    Raises: InvalidRequest if the reference is wrong; Forbidden, InvalidSplit, InvalidIndex.
    """
    reference = TaskReference.of(request.spec)
    if request.environment is None or request.spec is None:
        return request
    if reference is None:
        if await may_read_all(key, registry.get(request.environment), source):
            return request
        return replace(request, is_sent=True)
    key.check_split(reference.split)
    spec = await source.get(request.environment, reference.split, reference.index)
    reference.check(spec)
    return replace(request, spec=None, split=reference.split, index=reference.index)
