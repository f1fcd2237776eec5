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
    SELECT s.id, s.version, e.is_enabled, e.disabled_reason
    FROM environments_split s JOIN environments_environment e ON e.id = s.environment_id
    WHERE e.name = %s AND s.name = %s AND s.is_served
"""
_LIST_SPLITS = """
    SELECT s.name, s.type FROM environments_split s JOIN environments_environment e ON e.id = s.environment_id
    WHERE e.name = %s AND s.is_served ORDER BY s.position, s.name
"""
_SEALED_SPLITS = """
    SELECT s.name FROM environments_split s JOIN environments_environment e ON e.id = s.environment_id
    WHERE e.name = %s AND s.is_sealed
"""
_IS_ENABLED = "SELECT is_enabled, disabled_reason FROM environments_environment WHERE name = %s"
_DISABLED = "It is disabled; an administrator can enable it on its page in the admin."
_SPECS = "SELECT id, spec FROM environments_task WHERE id {among}"
_SHORT_SPECS = (
    "SELECT id, spec FROM environments_task WHERE (id = %s OR LENGTH(spec) <= %s) AND id {among}"
)


FRESH_SECONDS = 0.02
"""Interval at which a split's version is read again. At hundreds of sessions a second the query,
with the hop to another thread and back, would cost more than the rest of opening a session.
"""
AHEAD = 64
"""Number of tasks read at once, if the last read one is less than this many places before, or if all
fit into the cache. 64 short ones take 56 µs, one takes 22 and the way to another thread and back
100."""
MAX_STREAMS = 8
"""Number of players of a split in order whose places are remembered."""
MAX_AHEAD_CHARACTERS = 4096
"""A longer text is read alone, so that those read at once take at most 256 KB."""
SEALED_SECONDS = 0.5
"""Interval at which the sealed splits of an environment are read again."""
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
        self._refusals: dict[str, tuple[float, str]] = {}
        self._sealed: dict[str, tuple[float, frozenset[str]]] = {}
        self._rebuilding = threading.Lock()
        self._texts_by_id = TextCache(MAX_TEXT_CACHE_BYTES)
        self._last_places = defaultdict[tuple[str, str], deque[int]](
            lambda: deque(maxlen=MAX_STREAMS)
        )
        """For each split, the last place that was read for each of its players in order."""
        self._mean_lengths: dict[tuple[str, str], float] = {}
        """For each split, the mean length of the texts that were read last."""

    def splits(self, environment: str) -> list[Split]:
        """Return the served splits of an environment, in order."""
        return [Split(name=name, type=kind) for name, kind in _rows(_LIST_SPLITS, environment)]

    def ids(self, environment: str, split: str) -> array[int]:
        """Return the ids of a split's tasks in order. The array must not be changed. Raises:
        InvalidSplit."""
        rows = _rows(_FIND_SPLIT, environment, split) if is_storable(split) else []
        if not rows:
            raise InvalidSplit(split, environment, [row.name for row in self.splits(environment)])
        [(split_id, version, *availability)] = rows
        self._note_refusal(environment, *availability)
        order = self._orders.get(split_id)
        if order is None or order.version < version:
            # One reader at a time, or all of them would read the same million entries. `version`
            # was read before the entries, so an order can be newer than its version; it is then
            # rebuilt once more, never served too long.
            with self._rebuilding:
                order = self._orders.get(split_id)
                if order is None or order.version < version:
                    order = ServedOrder(version, task_ids(split_id, version))
                    self._orders[split_id] = order
        self._fresh[environment, split] = (time.monotonic() + FRESH_SECONDS, order.ids)
        return order.ids

    def fresh(self, environment: str, split: str, index: int) -> str | None:
        """Return the task's text without a query, if the split was read within FRESH_SECONDS and
        the text is cached."""
        until, ids = self._fresh.get((environment, split), _STALE)
        if time.monotonic() > until or not -len(ids) <= index < len(ids):
            return None
        return self._texts_by_id.get(ids[index])

    def fresh_refusal(self, environment: str) -> str | None:
        """Return the same as `refusal` if it was read within FRESH_SECONDS; else None."""
        until, reason = self._refusals.get(environment, (0.0, ""))
        return reason if time.monotonic() <= until else None

    def refusal(self, environment: str) -> str:
        """Return why agents may open no session; empty if they may, also where there is no row."""
        [row] = _rows(_IS_ENABLED, environment) or [(True, "")]
        return self._note_refusal(environment, *row)

    def _note_refusal(self, environment: str, is_enabled: bool, reason: str) -> str:
        """`reason`: why the server disabled the environment; empty if a person did."""
        refusal = "" if is_enabled else f"{reason} {_DISABLED}".lstrip()
        self._refusals[environment] = (time.monotonic() + FRESH_SECONDS, refusal)
        return refusal

    def fresh_sealed_splits(self, environment: str) -> frozenset[str] | None:
        """Return the same as `sealed_splits` if it was read within SEALED_SECONDS; else None."""
        until, names = self._sealed.get(environment, (0.0, frozenset()))
        return names if time.monotonic() <= until else None

    def had_sealed_split(self, environment: str) -> bool:
        """Return whether a split was sealed when that was last read; yes if it never was."""
        return environment not in self._sealed or bool(self._sealed[environment][1])

    def sealed_splits(self, environment: str) -> frozenset[str]:
        """Return the names of the sealed splits of the environment."""
        names = frozenset(name for (name,) in _rows(_SEALED_SPLITS, environment))
        self._sealed[environment] = (time.monotonic() + SEALED_SECONDS, names)
        return names

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
        """Read the text at an index. Also read those that follow, if the split seems to be played
        in order, or those around it, if all of the split fit into the cache."""
        places, task = self._last_places[environment, split], ids[index]
        near = next((place for place in list(places) if 0 <= index - place < AHEAD), None)
        mean_length = self._mean_lengths.get((environment, split), math.inf)
        fits = len(ids) * mean_length <= MAX_TEXT_CACHE_BYTES
        first = index - index % AHEAD if fits else index
        tasks = ids[first : first + (1 if near is None and not fits else AHEAD)]
        texts: dict[int, str] = dict(rows_among(_SHORT_SPECS, [task, MAX_AHEAD_CHARACTERS], tasks))
        with suppress(ValueError):  # there is none, or another thread has replaced it
            places.remove(near)  # type: ignore[arg-type]
        if len(texts[task]) <= MAX_AHEAD_CHARACTERS:
            places.append(first + len(tasks) - 1)
        self._mean_lengths[environment, split] = sum(map(len, texts.values())) / len(texts)
        for pk, text in texts.items():
            self._texts_by_id.put(pk, text)
        return texts[task]


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
