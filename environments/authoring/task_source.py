"""Source: an environment class asked for its tasks. Sync asks for whole lists, the catalogue asks procedural classes.

Divergences from the references (ors-sdk 0.1.0, openreward 0.1.167): plain and async overrides are alike; nothing is
cached on the class, where a subclass would inherit it; indexes are checked against `num_tasks` and arrive at the class
from 0 on, ranges clamped, and asked for in parts of 900 tasks at most, for a procedural class may count 10**12; tasks
leave as text, so no session can change another's.
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
"""Tasks read or asked for together: more would hold up others and fill the memory, whatever the length of a range."""
_ASKED_IN_A_ROW = 50
"""Calls of an async get_task, which may never suspend, before others get their turn."""


class CallUser(Protocol):
    """Runs an author's function: `environments.runtime.usercode.UserCode.call`."""

    async def __call__(self, fn: Any, *args: Any, passing: tuple[type[Exception], ...] = ()) -> Any:
        """What `fn(*args)` returns, awaited if need be. Raises: EnvironmentFault, OrsError and `passing`."""


class ClassTasks:
    """One class's tasks as JSON texts. Every method may raise EnvironmentFault: the class is the author's."""

    def __init__(self, hosted: HostedClass, call_user: CallUser) -> None:
        self._hosted, self._call_user = hosted, call_user

    async def listing(self, split: str) -> list[str]:
        """Every task of the split, in order. Raises: NotImplementedError when the class is procedural."""
        list_tasks = getattr(self._hosted.cls, "list_tasks")  # noqa: B009  (the class is of any SDK)
        tasks = await self._call_user(list_tasks, split, passing=(NotImplementedError,))
        texts: list[str] = await self._call_user(_texts, tasks)  # iterating may run the author's code
        return texts

    async def count(self, split: str) -> int:
        count = await self._ask("num_tasks", split)
        if not isinstance(count, int) or count < 0:
            raise EnvironmentFault("TypeError", f"num_tasks({split!r}) returned {count!r}, not a number of tasks")
        return count

    async def get(self, split: str, index: int) -> str:
        """Raises: InvalidIndex."""
        count = await self.count(split)
        if not -count <= index < count:
            raise InvalidIndex(index, split, count)
        try:
            return _text(await self._ask("get_task", split, index % count, passing=(IndexError,)), index)
        except IndexError as error:
            raise InvalidIndex(index, split) from error

    async def range(self, split: str, start: int | None, stop: int | None) -> AsyncIterator[list[str]]:
        """Texts in chunks, each asked for when it is wanted; a class that tells fewer than asked makes them shorter.

        Raises: InvalidIndexRange when the class refuses a range within its own count.
        """
        indexes = range(await self.count(split))[start:stop]
        while indexes:
            try:
                yield await self._chunk(split, indexes[:CHUNK_TASKS])
            except IndexError as error:
                raise InvalidIndexRange(start, stop, split) from error
            indexes = indexes[CHUNK_TASKS:]

    async def _chunk(self, split: str, indexes: Any) -> list[str]:
        await asyncio.sleep(0)  # the class may never suspend, and the list may be endless
        if self._hosted.overrides("get_task_range"):
            tasks = await self._ask("get_task_range", split, indexes[0], indexes[-1] + 1, passing=(IndexError,))
        else:
            tasks = await self._tasks(split, indexes)
        texts: list[str] = await self._call_user(_texts, tasks, indexes[0], len(indexes), passing=(IndexError,))
        return texts

    async def _tasks(self, split: str, indexes: Any) -> list[Any]:
        tasks = []
        for asked, index in enumerate(indexes, 1):
            tasks.append(await self._ask("get_task", split, index, passing=(IndexError,)))
            if asked % _ASKED_IN_A_ROW == 0:
                await asyncio.sleep(0)
        return tasks

    async def _ask(self, method: str, *args: Any, passing: tuple[type[Exception], ...] = ()) -> Any:
        if not self._hosted.overrides(method):
            text = f"{self._hosted.cls.__name__} lists no tasks, so it must implement {method}()"
            raise EnvironmentFault("NotImplementedError", text)
        return await self._call_user(getattr(self._hosted.cls, method), *args, passing=passing)


def _texts(tasks: Any, first: int = 0, most: int | None = None) -> list[str]:
    """Texts of `tasks`, the first of which has index `first`."""
    if isinstance(tasks, str | bytes | Mapping) or not isinstance(tasks, Iterable):
        raise EnvironmentFault("TypeError", f"expected a list of tasks, got {type(tasks).__name__}")
    taken = tasks if most is None else islice(tasks, most + 1)
    texts = [_text(task, index) for index, task in enumerate(taken, first)]
    if most is not None and len(texts) > most:
        raise EnvironmentFault("ValueError", f"get_task_range() returned more than the {most} tasks from index {first}")
    return texts


def _text(task: Any, index: int) -> str:
    try:
        return object_json(task)
    except (TypeError, ValueError, RecursionError) as error:
        advice = "a task is a JSON object of strings, finite numbers, booleans, null, lists and objects"
        raise EnvironmentFault(type(error).__name__, f"task {index}: {error}; {advice}") from error
