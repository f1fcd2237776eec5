"""The tasks of an environment class, read from the class itself.

Sync reads whole lists; the catalogue reads procedural classes (those without a list) task by task.

Divergences from the references (ors-sdk 0.1.0, openreward 0.1.167): plain and async overrides are
treated alike; nothing is cached on the class, where a subclass would inherit it; indexes are
checked against `num_tasks` and reach the class as numbers from 0 on; ranges are clamped and read in
chunks of at most 900 tasks, because a procedural class may count 10**12; tasks are returned as
text, so no session can change the tasks of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import islice
from typing import Any, Protocol

from environments.authoring.hosted_class import HostedClass
from environments.errors import EnvironmentFault, InvalidIndex, InvalidIndexRange
from environments.wire import object_json

CHUNK_TASKS = 900
"""Tasks read in one chunk, however long the range: larger chunks would delay other requests and
fill the memory."""
_MAX_CALLS_IN_A_ROW = 50
"""Calls of get_task before other tasks of the event loop get a turn, because an async get_task may
never suspend."""


class CallUser(Protocol):
    """Runs an author's function; implemented by `environments.runtime.usercode.UserCode.call`."""

    async def __call__(self, fn: Any, *args: Any, passing: tuple[type[Exception], ...] = ()) -> Any:
        """Return the result of `fn(*args)`, awaited if necessary.

        Raises: EnvironmentFault for what `fn` raises, except OrsError and the types in `passing`,
        which pass unchanged.
        """


class ClassTasks:
    """The tasks of one class as JSON texts. Every method runs the author's code, so it may raise
    EnvironmentFault."""

    def __init__(self, environment: HostedClass, call_user: CallUser) -> None:
        self._environment, self._call_user = environment, call_user

    async def listing(self, split: str) -> list[str]:
        """Return all tasks of the split, in order. Raises: NotImplementedError when the class is
        procedural."""
        list_tasks = getattr(self._environment.cls, "list_tasks")  # noqa: B009  (the class is of any SDK)
        tasks = await self._call_user(list_tasks, split, passing=(NotImplementedError,))
        # iterating may run the author's code
        texts: list[str] = await self._call_user(_texts, tasks)
        return texts

    async def count(self, split: str) -> int:
        """Return the number of tasks in the split."""
        count = await self._ask("num_tasks", split)
        if not isinstance(count, int) or count < 0:
            raise EnvironmentFault(
                "TypeError", f"num_tasks({split!r}) returned {count!r}, not a number of tasks"
            )
        return count

    async def get(self, split: str, index: int) -> str:
        """Return the task at `index`; a negative index counts from the end. Raises:
        InvalidIndex."""
        count = await self.count(split)
        if not -count <= index < count:
            raise InvalidIndex(index, split, count)
        try:
            return _text(
                await self._ask("get_task", split, index % count, passing=(IndexError,)), index
            )
        except IndexError as error:
            raise InvalidIndex(index, split) from error

    async def range(
        self, split: str, start: int | None, stop: int | None
    ) -> AsyncIterator[list[str]]:
        """Yield the tasks from `start` up to `stop` in chunks, each read when the caller asks for
        it.

        A chunk is shorter when the class returns fewer tasks than requested.

        Raises: InvalidIndexRange when the class refuses a range that lies within its own count.
        """
        indexes = range(await self.count(split))[start:stop]
        while indexes:
            try:
                yield await self._chunk(split, indexes[:CHUNK_TASKS])
            except IndexError as error:
                raise InvalidIndexRange(start, stop, split) from error
            indexes = indexes[CHUNK_TASKS:]

    async def _chunk(self, split: str, indexes: Any) -> list[str]:
        # other tasks of the loop need a turn: the class may never suspend, and count 10**12
        await asyncio.sleep(0)
        if self._environment.overrides("get_task_range"):
            tasks = await self._ask(
                "get_task_range", split, indexes[0], indexes[-1] + 1, passing=(IndexError,)
            )
        else:
            tasks = []
            for call_count, index in enumerate(indexes, 1):
                tasks.append(await self._ask("get_task", split, index, passing=(IndexError,)))
                if call_count % _MAX_CALLS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
        texts: list[str] = await self._call_user(
            _texts, tasks, indexes[0], len(indexes), passing=(IndexError,)
        )
        return texts

    async def _ask(self, method: str, *args: Any, passing: tuple[type[Exception], ...] = ()) -> Any:
        if not self._environment.overrides(method):
            text = (
                f"{self._environment.cls.__name__} lists no tasks, so it must implement {method}()"
            )
            raise EnvironmentFault("NotImplementedError", text)
        return await self._call_user(getattr(self._environment.cls, method), *args, passing=passing)


def _texts(tasks: Any, first: int = 0, max_count: int | None = None) -> list[str]:
    """Return the JSON texts of `tasks`, the first of which has the index `first`."""
    if isinstance(tasks, str | bytes | Mapping) or not isinstance(tasks, Iterable):
        raise EnvironmentFault("TypeError", f"expected a list of tasks, got {type(tasks).__name__}")
    if max_count is not None:
        tasks = islice(tasks, max_count + 1)
    texts = [_text(task, index) for index, task in enumerate(tasks, first)]
    if max_count is not None and len(texts) > max_count:
        text = f"get_task_range() returned more than the {max_count} tasks from index {first}"
        raise EnvironmentFault("ValueError", text)
    return texts


def _text(task: Any, index: int) -> str:
    try:
        return object_json(task)
    except (TypeError, ValueError, RecursionError) as error:
        advice = (
            "a task is a JSON object of strings, finite numbers, booleans, null, lists and objects"
        )
        raise EnvironmentFault(type(error).__name__, f"task {index}: {error}; {advice}") from error
