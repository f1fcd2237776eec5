"""Tasks and splits for tests of curation, and the tasks that agents would get."""

from __future__ import annotations

import json

from environments.database.background_jobs import Progress
from environments.models import Environment, Split, SplitEntry, Task
from environments.models.task_hash import content_hash
from environments.tasks.listed_tasks import ListedTasks
from tests.stored import make_environment

AUTHOR = "ada"
SMALL_BATCH = 20


def make_tasks(
    count: int, first: int = 0, environment: Environment | None = None, **values: object
) -> list[int]:
    """Return the ids of tasks `{"n": first}` and so on, oldest first."""
    environment = environment or make_environment()
    texts = [json.dumps({"n": n}) for n in range(first, first + count)]
    tasks = [
        Task(environment=environment, content_hash=content_hash(text), spec=text, **values)
        for text in texts
    ]
    Task.objects.bulk_create(tasks, batch_size=500)
    return [task.pk for task in tasks]


def served(split: Split | int) -> list[int]:
    """Return the ids of the tasks that the split serves, in order, as the catalogue reads them."""
    row = Split.objects.select_related("environment").get(
        pk=split if isinstance(split, int) else split.pk
    )
    ids = list(ListedTasks().ids(row.environment.name, row.name))
    assert len(ids) == row.size
    return ids


def split_of(
    *tasks: int, name: str = "train", environment: Environment | None = None, **values: object
) -> Split:
    """Return a served split with the tasks in this order."""
    environment = environment or make_environment()
    split = Split.objects.create(
        environment=environment, name=name, type="train", size=len(tasks), **values
    )
    entries = (SplitEntry(split=split, position=n, task_id=task) for n, task in enumerate(tasks))
    SplitEntry.objects.bulk_create(entries, batch_size=500)
    return split


def break_off_after(most: int) -> Progress:
    """Return a Progress that raises once more than `most` units are done."""

    def progress(done: int, total: int) -> None:
        if done > most:
            raise ZeroDivisionError

    return progress
