"""Finds the task that edits put in the place of another. Used by sync, curation and imports.
Blocking."""

from __future__ import annotations

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from environments.database.json_rows import among
from environments.models import SplitEntry, Task, seen_at


def is_superseded() -> Q:
    """Return the condition for tasks that an edit replaced, unless somebody put them into an open
    split again."""
    places = SplitEntry.objects.filter(
        seen_at(F("split__version")), task=OuterRef("pk"), split__frozen=None
    )
    return Q(replaced_by__isnull=False) & ~Q(Exists(places))


def successors(tasks: QuerySet[Task]) -> dict[int, int]:
    """Return task -> the task that edits put in its place last, of those that are superseded."""
    links = _links(tasks)
    olds, further = list(links), set(links.values()) - links.keys()
    while further:
        next_links = _links(Task.objects.filter(among("pk", further)))
        links |= next_links
        further = set(next_links.values()) - links.keys()
    lasts = dict[int, int]()
    for old in olds:
        task, chain = old, {old}
        while (following := links.get(task, task)) not in chain:  # an import can swap two contents
            chain.add(task := following)
        lasts[old] = task
    return lasts


def successors_of(tasks: list[int]) -> dict[int, int]:
    """Return the same for ids of tasks, some thousand at most."""
    return successors(Task.objects.filter(among("pk", tasks))) if tasks else {}


def _links(tasks: QuerySet[Task]) -> dict[int, int]:
    rows = tasks.filter(is_superseded()).order_by().values_list("pk", "replaced_by")
    return {old: new for old, new in rows if new is not None}
