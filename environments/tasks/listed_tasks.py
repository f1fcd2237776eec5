"""The tasks of synced splits, read from their rows at a cost that does not depend on a split's
size.

Each split has an array of task ids in order (8 bytes a task), which is rebuilt when the split's
version has risen. A task's text never changes, so texts are cached by id. Where tasks are read one
after another, those that follow are read with them; where all of a split's texts fit into the
cache, those around them are, because an order as good as random gets to them, too. Blocking: the
catalogue calls it on its reader threads.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import connection

from environments.database.json_rows import rows_among
from environments.database.storable import is_storable
from environments.errors import InvalidIndex, InvalidSplit
from environments.tasks.split_indexes import served_at
from environments.wire import Split

MAX_TEXT_CACHE_BYTES = 32 * 1024 * 1024

_FIND_SPLIT = """
    SELECT s.id, s.version, e.is_enabled
    FROM environments_split s JOIN environments_environment e ON e.id = s.environment_id
    WHERE e.name = %s AND s.name = %s AND s.is_served
"""
_LIST_SPLITS = """
    SELECT s.name, s.type FROM environments_split s JOIN environments_environment e ON e.id = s.environment_id
    WHERE e.name = %s AND s.is_served ORDER BY s.position, s.name
"""
_IS_SEALED = """
    SELECT 1 FROM environments_split s JOIN environments_environment e ON e.id = s.environment_id
    WHERE e.name = %s AND s.name = %s AND s.is_sealed
"""
_HAS_SEALED_SPLIT = """
    SELECT 1 FROM environments_split s JOIN environments_environment e ON e.id = s.environment_id
    WHERE e.name = %s AND s.is_sealed LIMIT 1
"""
_IS_ENABLED = "SELECT is_enabled FROM environments_environment WHERE name = %s"
_DISABLED_REASON = "SELECT disabled_reason FROM environments_environment WHERE name = %s"
_SPECS = "SELECT id, spec FROM environments_task WHERE id {among}"
_SHORT_SPECS = (
    "SELECT id, spec FROM environments_task WHERE (id = %s OR LENGTH(spec) <= %s) AND id {among}"
)


FRESH_SECONDS = 0.02
"""Interval at which a split's version is read again. At hundreds of sessions a second the query,
with the hop to another thread and back, would cost more than the rest of opening a session.
"""
AHEAD = 64
"""Number of tasks that are read at once, if the last one that was read is less than this many
places before, or if all fit into the cache. 64 short ones take 56 µs, one takes 22 and the way to
another thread and back 100.
"""
MAX_STREAMS = 8
"""How many that play a split in order are told apart."""
MAX_AHEAD_CHARACTERS = 4096
"""A longer text is read when it is needed, so that those read at once take at most 256 KB."""
SEALED_SECONDS = 0.5
"""Interval at which is read again whether an environment has a sealed split."""
_STALE = (0.0, array("q"))


@dataclass(frozen=True, slots=True)
class ServedOrder:
    """Ids of a split's tasks by index, as of `version`."""

    version: int
    ids: array[int]


class ListedTasks:
    """The splits of all environments that list their tasks, as the protocol serves them."""

    def __init__(self) -> None:
        self._orders: dict[int, ServedOrder] = {}
        self._fresh: dict[tuple[str, str], tuple[float, array[int]]] = {}
        self._enabled: dict[str, tuple[float, bool]] = {}
        self._sealed: dict[str, tuple[float, bool]] = {}
        self._rebuilding = threading.Lock()
        self._texts_by_id = TextCache(MAX_TEXT_CACHE_BYTES)
        self._last_places = defaultdict[tuple[str, str], deque[int]](
            lambda: deque(maxlen=MAX_STREAMS)
        )
        """For each split, the last place that was read for each of those who play it in order."""
        self._mean_lengths: dict[tuple[str, str], float] = {}
        """For each split, the mean length of the texts that were read last."""

    def splits(self, environment: str) -> list[Split]:
        """Return the served splits of an environment, in order."""
        return [Split(name=name, type=kind) for name, kind in _rows(_LIST_SPLITS, environment)]

    def ids(self, environment: str, split: str) -> array[int]:
        """Return the ids of a split's tasks in order. The array must not be changed. Raises:
        InvalidSplit."""
        found = _rows(_FIND_SPLIT, environment, split) if is_storable(split) else []
        if not found:
            raise InvalidSplit(
                split, environment, [served.name for served in self.splits(environment)]
            )
        [(split_id, version, is_enabled)] = found
        self._note_enabled(environment, bool(is_enabled))
        order = self._orders.get(split_id)
        if order is None or order.version < version:
            order = self._rebuild(split_id, version)
        self._fresh[environment, split] = (time.monotonic() + FRESH_SECONDS, order.ids)
        return order.ids

    def fresh(self, environment: str, split: str, index: int) -> str | None:
        """Return the task's text without a query, if the split was read within FRESH_SECONDS and
        the text is cached."""
        until, ids = self._fresh.get((environment, split), _STALE)
        if time.monotonic() > until or not -len(ids) <= index < len(ids):
            return None
        return self._texts_by_id.get(ids[index])

    def fresh_enabled(self, environment: str) -> bool | None:
        """Return whether agents may open sessions, if that was read within FRESH_SECONDS; else
        None."""
        until, is_enabled = self._enabled.get(environment, (0.0, False))
        return is_enabled if time.monotonic() <= until else None

    def is_enabled(self, environment: str) -> bool:
        """Return whether agents may open sessions. An environment without a row was never
        disabled."""
        found = _rows(_IS_ENABLED, environment)
        return self._note_enabled(environment, not found or bool(found[0][0]))

    def disabled_reason(self, environment: str) -> str:
        """Return why the server disabled the environment; empty if a person did."""
        found = _rows(_DISABLED_REASON, environment)
        return str(found[0][0]) if found else ""

    def _note_enabled(self, environment: str, is_enabled: bool) -> bool:
        self._enabled[environment] = (time.monotonic() + FRESH_SECONDS, is_enabled)
        return is_enabled

    def is_sealed(self, environment: str, split: str) -> bool:
        """Return whether the split is sealed. A split that does not exist is not."""
        return is_storable(split) and bool(_rows(_IS_SEALED, environment, split))

    def fresh_sealed(self, environment: str) -> bool | None:
        """Return whether a split is sealed, if that was read within SEALED_SECONDS; else None."""
        until, has_sealed = self._sealed.get(environment, (0.0, False))
        return has_sealed if time.monotonic() <= until else None

    def last_sealed(self, environment: str) -> bool:
        """Return whether a split was sealed when that was last read; yes if it never was."""
        return self._sealed.get(environment, (0.0, True))[1]

    def has_sealed_split(self, environment: str) -> bool:
        """Return whether any split of the environment is sealed."""
        has_sealed = bool(_rows(_HAS_SEALED_SPLIT, environment))
        self._sealed[environment] = (time.monotonic() + SEALED_SECONDS, has_sealed)
        return has_sealed

    def count(self, environment: str, split: str) -> int:
        """Return the number of tasks in a split. Raises: InvalidSplit."""
        return len(self.ids(environment, split))

    def get(self, environment: str, split: str, index: int) -> str:
        """Return the JSON text of a task. Raises: InvalidSplit, InvalidIndex."""
        until, ids = self._fresh.get((environment, split), _STALE)
        # or a task was added a moment ago
        if time.monotonic() > until or not -len(ids) <= index < len(ids):
            ids = self.ids(environment, split)
        try:
            task = ids[index]
        except IndexError as error:
            raise InvalidIndex(index, split, len(ids)) from error
        return self._texts_by_id.get(task) or self._read_text(
            environment, split, ids, index % len(ids)
        )

    def texts(self, ids: Sequence[int]) -> list[str]:
        """Return the texts of some tasks, in the order of `ids`."""
        by_id = dict(rows_among(_SPECS, [], ids)) if ids else {}
        return [by_id[task] for task in ids]

    def _read_text(self, environment: str, split: str, ids: array[int], index: int) -> str:
        """Read the text at an index; also those that follow, if the split seems to be played in
        order, or those around it, if all of the split fit into the cache.
        """
        places, task = self._last_places[environment, split], ids[index]
        near = next((place for place in list(places) if 0 <= index - place < AHEAD), None)
        fits = (
            len(ids) * self._mean_lengths.get((environment, split), math.inf)
            <= MAX_TEXT_CACHE_BYTES
        )
        first = index - index % AHEAD if fits else index
        wanted = ids[first : first + (1 if near is None and not fits else AHEAD)]
        found: dict[int, str] = dict(rows_among(_SHORT_SPECS, [task, MAX_AHEAD_CHARACTERS], wanted))
        with suppress(ValueError):  # there is none, or another thread has replaced it
            places.remove(near)  # type: ignore[arg-type]
        if len(found[task]) <= MAX_AHEAD_CHARACTERS:
            places.append(first + len(wanted) - 1)
        self._mean_lengths[environment, split] = sum(map(len, found.values())) / len(found)
        for pk, text in found.items():
            self._texts_by_id.put(pk, text)
        return found[task]

    def _rebuild(self, split_id: int, version: int) -> ServedOrder:
        # One reader at a time, or all of them would read the same million entries. `version` was
        # read before the entries, so an order can be newer than its version; it is then rebuilt
        # once more, never served too long.
        with self._rebuilding:
            order = self._orders.get(split_id)
            if order is None or order.version < version:
                order = self._orders[split_id] = ServedOrder(version, task_ids(split_id, version))
        return order


class TextCache:
    """Task texts by id. Beyond `limit_bytes` the least recently used ones are dropped. Shared by
    threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._texts: OrderedDict[int, str] = OrderedDict()
        self._lock = threading.Lock()  # keeps `_size_bytes` equal to the size of `_texts`

    def get(self, task: int) -> str | None:
        with self._lock:
            if task not in self._texts:
                return None
            self._texts.move_to_end(task)
            return self._texts[task]

    def put(self, task: int, text: str) -> None:
        with self._lock:
            if task in self._texts:
                return
            self._texts[task] = text
            self._size_bytes += len(text)  # ASCII
            while self._size_bytes > self._limit_bytes:
                self._size_bytes -= len(self._texts.popitem(last=False)[1])


def task_ids(split_id: int, version: int) -> array[int]:
    """Return the ids of the tasks served at `version`, in order. A million take about a second,
    read in chunks."""
    ids = served_at(split_id, version).order_by("position").values_list("task_id", flat=True)
    return array("q", ids.iterator(chunk_size=2000))


def _rows(query: str, *parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())
