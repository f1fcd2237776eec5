"""Tasks and splits for tests of curation; and what agents would be served."""

from __future__ import annotations

import json

from environments.listed import ListedTasks
from environments.models import Environment, Split, Task
from environments.sync import content_hash
from tests.stored import make_environment

AUTHOR = "ada"


def make_tasks(count: int, first: int = 0, environment: Environment | None = None, **values: object) -> list[int]:
    """Ids of tasks `{"n": first}` and so on, oldest first."""
    environment = environment or make_environment()
    texts = [json.dumps({"n": n}) for n in range(first, first + count)]
    tasks = [Task(environment=environment, content_hash=content_hash(text), spec=text, **values) for text in texts]
    Task.objects.bulk_create(tasks, batch_size=500)
    return [task.pk for task in tasks]


def served(split: Split | int) -> list[int]:
    """Ids of the tasks that the split serves, in order, as the catalogue reads them."""
    row = Split.objects.select_related("environment").get(pk=split if isinstance(split, int) else split.pk)
    ids = list(ListedTasks().ids(row.environment.name, row.name))
    assert len(ids) == row.size
    return ids
