"""Conditions on Task, one for each filter of a selection. Used by `filter_parameters` and by the actions."""

from __future__ import annotations

import json
import re

from django.db.models import Exists, OuterRef, Q, QuerySet

from environments import conf
from environments.database.storable import is_storable
from environments.models import Split, SplitEntry, TaskFlag, TaskTag
from environments.scoring.task_buckets import BUCKETS, tasks_in
from environments.tasks.task_places import places, places_of


def is_in_split(split: int, *, is_served: bool = False) -> Q:
    """Return the condition for tasks in the split, as one subquery of all of them: for queries over whole sets.

    `is_served`: only those that it serves.
    """
    return Q(pk__in=(_served(places(split)) if is_served else places(split)).values("task"))


def is_at_a_place_of(split: Split | None, *, is_served: bool = False) -> Q:
    """Return the condition for tasks in the split, looked up task by task: for walks along the tasks."""
    found = places_of(split).filter(task=OuterRef("pk"))
    return Q(Exists(_served(found) if is_served else found))


def is_tagged(tag: str) -> Q:
    return nothing() if not is_storable(tag) else Q(Exists(TaskTag.objects.filter(name=tag, task=OuterRef("pk"))))


def is_from(source: str) -> Q:
    """Return the condition for tasks from a source (`code`, `import`, `edit`, `played`) or `dropped` from the code."""
    return Q(dropped__isnull=False) if source == "dropped" else Q(source=source)


def is_in_bucket(bucket: str) -> Q:
    return tasks_in(bucket, conf.thresholds()) if bucket in BUCKETS else nothing()


def is_flagged() -> Q:
    """Return the condition for tasks with an open flag: a person reported them as broken."""
    return Q(Exists(TaskFlag.objects.filter(task=OuterRef("pk"), settled=None)))


_WORDS = re.compile(r'"([^"]+)"|(\S+)')
MAX_WORDS = 20
_HASH = re.compile("[0-9a-f]{8,64}")


def contains(text: str) -> Q:
    """Return the condition for tasks whose spec holds all words of the text, in any order, or whose hash begins so.

    Words in double quotes are looked for as one phrase, and so are more than MAX_WORDS.
    """
    words = [phrase or word for phrase, word in _WORDS.findall(text)]
    found = Q()
    for word in words if len(words) <= MAX_WORDS else [text]:
        found &= _contains(word)
    return found | Q(content_hash__startswith=text) if _HASH.fullmatch(text) else found


def _contains(text: str) -> Q:
    """Return the condition for tasks whose spec holds the text, as it is or as JSON escapes it within a string."""
    written = json.dumps(text)[1:-1]
    escaped = Q(spec__icontains=written)
    return escaped if written == text or not is_storable(text) else escaped | Q(spec__icontains=text)


def _served(found: QuerySet[SplitEntry]) -> QuerySet[SplitEntry]:
    return found.filter(is_hidden=False)


def nothing() -> Q:
    return Q(pk__in=())
