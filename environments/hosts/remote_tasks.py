"""The tasks of a remote environment. Short lists are read whole, in pieces, and stored; long ones
are read by index.

A list is read with num_tasks and task_range where the server has them. If all splits together have
more than MAX_LISTED_TASKS, the environment counts as procedural: nothing is listed, and each task
is requested when it is played.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from environments.authoring.task_source import CHUNK_TASKS
from environments.errors import REMOTE_ERROR, EnvironmentFault, InvalidIndex, InvalidIndexRange
from environments.hosts.remote_environment import HostedRemote, count_tasks
from environments.hosts.remote_server import RemoteFault, RemoteServer, encoded
from environments.wire import object_json

MAX_LISTED_TASKS = 100_000
"""Most tasks of an environment that are listed and stored, which takes about a minute."""


class RemoteTasks:
    """The tasks of one remote environment as JSON texts. Every method may raise RemoteFault."""

    def __init__(self, environment: HostedRemote, server: RemoteServer) -> None:
        self._environment, self._server = environment, server

    async def listing(self, split: str) -> list[str]:
        """Return all tasks of the split, in order.

        Raises: NotImplementedError when there are too many to list, or the server only returns
        tasks by index.
        """
        counts: dict[str, int | None] = {}
        if description := self._environment.described:
            names = (split.name for split in description.splits)
            counts = dict(zip(names, description.counts, strict=True))
        if sum(count or 0 for count in counts.values()) > MAX_LISTED_TASKS:
            raise NotImplementedError
        if (count := counts.get(split)) is not None:
            try:
                return [text async for chunk in self._chunks(split, range(count)) for text in chunk]
            except RemoteFault as fault:
                if fault.status != 404:  # 404: the server has no task_range
                    raise
        try:
            return await self._ask("tasks", {"split": split})
        except RemoteFault as fault:
            if fault.status == 400 and "not supported" in fault.text:
                raise NotImplementedError from None
            raise

    async def count(self, split: str) -> int:
        """Return the number of tasks in the split."""
        return await count_tasks(self._server, split)

    async def get(self, split: str, index: int) -> str:
        """Return the task at `index`; a negative index counts from the end. Raises:
        InvalidIndex."""
        try:
            answer = await self._request("task", {"split": split, "index": index})
        except RemoteFault as fault:
            if fault.status == 400:
                raise InvalidIndex(index, split) from None
            if fault.status == 404:  # the server has no /task
                return await self._get_from_range(split, index)
            raise
        return self._text(answer.get("task"), f"task {index} of split {split!r}")

    async def _get_from_range(self, split: str, index: int) -> str:
        count = await self.count(split)
        if not -count <= index < count:
            raise InvalidIndex(index, split)
        start = index % count
        [[text]] = [texts async for texts in self._chunks(split, range(start, start + 1))]
        return text

    async def range(
        self, split: str, start: int | None, stop: int | None
    ) -> AsyncIterator[list[str]]:
        """Yield the tasks from `start` up to `stop` in chunks, each read when the caller asks for
        it.

        Raises: InvalidIndexRange when the server refuses a range that lies within its own count.
        """
        try:
            async for chunk in self._chunks(split, range(await self.count(split))[start:stop]):
                yield chunk
        except RemoteFault as fault:
            if fault.status == 400:
                raise InvalidIndexRange(start, stop, split) from None
            raise

    async def _chunks(self, split: str, indexes: Any) -> AsyncIterator[list[str]]:
        while indexes:
            part, indexes = indexes[:CHUNK_TASKS], indexes[CHUNK_TASKS:]
            texts = await self._ask(
                "task_range", {"split": split, "start": part[0], "stop": part[-1] + 1}
            )
            if len(texts) != len(part):
                raise RemoteFault(
                    f"{self._server.url} was asked for {len(part)} tasks of split {split!r} from "
                    f"index {part[0]}, and sent {len(texts)}"
                )
            yield texts

    async def _ask(self, path: str, body: dict[str, Any]) -> list[str]:
        tasks = (await self._request(path, body)).get("tasks")
        if not isinstance(tasks, list):
            raise RemoteFault(f"{self._server.url} answered /{path} without a list of tasks")
        return [
            self._text(task, f"task {number} of its answer to /{path}")
            for number, task in enumerate(tasks)
        ]

    async def _request(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._server.ask("POST", self._server.path(path), encoded(body))
        if not isinstance(answer, dict):
            raise RemoteFault(
                f"{self._server.url} answered /{path} with {type(answer).__name__}, not an object"
            )
        return answer

    def _text(self, task: Any, what: str) -> str:
        try:
            return object_json(task)
        except (TypeError, ValueError, RecursionError) as error:
            raise EnvironmentFault(
                REMOTE_ERROR, f"{self._server.url}: {what} is no JSON object: {error}"
            ) from None
