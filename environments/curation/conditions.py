"""Conditions on Task, one for each thing a selection can ask for."""

from __future__ import annotations

import json

from django.db.models import Exists, OuterRef, Q

from environments import conf
from environments.database.storable import is_storable
from environments.models import Split, TaskFlag, TaskTag
from environments.scoring.buckets import BUCKETS, tasks_in
from environments.tasks.places import places, places_of


def stands_in(split: int) -> Q:
    """Tasks that stand in the split, as one subquery: for queries of whole sets."""
    return Q(pk__in=places(split).values("task"))


def stands_at(split: Split | None) -> Q:
    """Tasks that stand in the split, looked up task by task: for walks that go along the tasks."""
    return Q(Exists(places_of(split).filter(task=OuterRef("pk"))))


def is_tagged(tag: str) -> Q:
    return nothing() if not is_storable(tag) else Q(Exists(TaskTag.objects.filter(name=tag, task=OuterRef("pk"))))


def is_from(source: str) -> Q:
    """`dropped` and `code`, `import`, `edit`, `played`."""
    return Q(dropped__isnull=False) if source == "dropped" else Q(source=source)


def is_in_bucket(bucket: str) -> Q:
    return tasks_in(bucket, conf.thresholds()) if bucket in BUCKETS else nothing()


def is_flagged() -> Q:
    """Somebody said that it is broken, and nobody has settled it."""
    return Q(Exists(TaskFlag.objects.filter(task=OuterRef("pk"), settled=None)))


def contains(text: str) -> Q:
    """The text as it is or as JSON writes it within a string: a spec may hold it either way."""
    written = json.dumps(text)[1:-1]
    escaped = Q(spec__icontains=written)
    return escaped if written == text or not is_storable(text) else escaped | Q(spec__icontains=text)


def nothing() -> Q:
    return Q(pk__in=())
