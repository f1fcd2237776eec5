"""Cost of curation: the time of actions on 100,000 tasks, and how long other writers wait for the
database meanwhile.

Run as `python -m benchmarks.curation [tasks]`, on SQLite in a temporary directory or on
DATABASE_URL (a database that may be filled). A second thread writes one row after another; its
longest write shows how long an agent's step would have waited. Transactions are also measured in
CPU time, which other programs on the machine do not affect.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from environments.curation.action import Action

TASKS = 100_000
PAUSE_SECONDS = 0.002
"""Pause between two writes of the second thread."""


def main(count: int) -> None:
    from environments.curation.edit import Edit
    from environments.curation.membership import MoveToSplit, SaveAsSplit
    from environments.curation.quarantine import Quarantine
    from environments.curation.selection import Selection
    from environments.curation.splits import DeleteSplit
    from environments.curation.tags import AddTags
    from environments.curation.undo import Undo
    from environments.models import UNRESTRICTED, CurationAction

    environment, train, test = _fill(count)
    everything = Selection(environment=environment, viewer=UNRESTRICTED)
    for name, action in (
        ("quarantine", Quarantine(everything, "measured")),
        ("tag", AddTags(everything, ("measured",))),
        ("move to split", MoveToSplit(everything, train, test)),
    ):
        _measure(name, action)
        _measure(f"undo of {name}", Undo(CurationAction.objects.latest("pk").pk))
    saved = _measure("save as split", SaveAsSplit(everything, "saved", "train"))
    _measure("delete split", DeleteSplit(saved))
    [task] = everything.batch(limit=1).ids
    _measure("edit of one task", Edit(task, '{"answer": "another"}', 10**12))


def _measure(name: str, action: Action) -> int:
    started = time.perf_counter()
    action.plan()
    planned, cpu = time.perf_counter(), time.process_time()
    with _other_writer() as waits, _transactions() as held:
        result = action.apply("benchmark")
    seconds, cpu = time.perf_counter() - planned, time.process_time() - cpu
    print(
        f"{name:22} plan {planned - started:5.1f} s  apply {seconds:5.1f} s ({cpu:4.1f} CPU s with "
        "the writer)  "
        f"longest wait {max(waits) * 1000:4.0f} ms  longest transaction {max(held) * 1000:4.0f} "
        "CPU ms"
    )
    return result.split or 0


@contextmanager
def _other_writer() -> Iterator[list[float]]:
    """Yield a list of the seconds that each write of a second thread takes."""
    waits, is_over = [0.0], threading.Event()

    def write() -> None:
        from django.db import connection

        from episodes.models import Run

        while not is_over.wait(PAUSE_SECONDS):
            started = time.perf_counter()
            Run.objects.filter(name="other").update(name="other")
            waits.append(time.perf_counter() - started)
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    yield waits
    is_over.set()
    writer.join()


@contextmanager
def _transactions() -> Iterator[list[float]]:
    """Yield a list of the CPU seconds of each outermost transaction of the main thread."""
    from django.db import connection, transaction

    held = [0.0]
    enter, leave = transaction.Atomic.__enter__, transaction.Atomic.__exit__

    def entered(atomic: Any) -> None:
        is_outer = not connection.in_atomic_block
        enter(atomic)
        if is_outer and threading.current_thread() is threading.main_thread():
            atomic.started = time.thread_time()

    def left(atomic: Any, *error: Any) -> None:
        leave(atomic, *error)
        if not connection.in_atomic_block and hasattr(atomic, "started"):
            held.append(time.thread_time() - atomic.started)

    transaction.Atomic.__enter__, transaction.Atomic.__exit__ = entered, left  # type: ignore[method-assign]
    yield held
    transaction.Atomic.__enter__, transaction.Atomic.__exit__ = enter, leave  # type: ignore[method-assign]


def _fill(count: int) -> tuple[int, int, int]:
    """Create an environment, a split with `count` tasks and an empty split; return their ids."""
    from environments.models import Environment, Split, Task
    from environments.tasks.split_change import SplitChange, commit

    environment = Environment.objects.create(name="big", class_path="benchmarks:Big")
    texts = [
        json.dumps({"question": f"How much is {n} times {n % 97}?", "answer": n * (n % 97)})
        for n in range(count)
    ]
    hashes = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    tasks = [
        Task(environment=environment, spec=text, content_hash=content)
        for content, text in sorted(zip(hashes, texts, strict=True))
    ]
    Task.objects.bulk_create(tasks, batch_size=1000)
    splits = [
        Split.objects.create(environment=environment, name=name, type="train")
        for name in ("train", "test")
    ]
    with SplitChange(splits[0]) as change:
        change.add(task.pk for task in tasks)
        commit(change)
    return environment.pk, splits[0].pk, splits[1].pk


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "orsweb.settings"
    with tempfile.TemporaryDirectory(prefix="orsweb-curation-") as directory:
        os.environ["ORSWEB_DATA_DIR"] = directory
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        main(int(sys.argv[1]) if len(sys.argv) > 1 else TASKS)
