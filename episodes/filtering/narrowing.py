"""Conditions on episodes of single parameters of a filter, and the sentences about names that do
not exist. `filters.py` declares the parameters.

Most indexes of episodes are partial, and a database takes one only where the query repeats what the
index is limited to, so a condition repeats that too (`~Q(model="")`, `ENDED`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_

from django.db.models import Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from environments.errors import nearest
from environments.filtering.parameters import LabelValues, WholeRange, WholeRanges
from environments.models import Task, Viewer
from environments.models.viewer import visible_environments
from environments.wire import value_json
from episodes.attempts.rule import ENDED
from episodes.filtering.names import MAX_NAMES, REVISION_DIGITS, models, people, revisions, studies
from episodes.models import EnvironmentRevision, Episode, Play, Study
from episodes.models.privacy import played_with

MAX_NEAREST = 5
"""Number of names in the sentence about an unknown one."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence that nothing of a kind has the name, with the nearest names or the
    first."""
    names = list(known)
    first = " There is none yet."
    if names:
        first = f" There are {', '.join(map(repr, names[:MAX_NEAREST]))}."
    return f"No {kind} is named {name!r}.{nearest(name, names, MAX_NEAREST) or first}"


def by_task(pk: int, viewer: Viewer) -> Q | str:
    if Task.objects.seen_by(viewer).filter(pk=pk).exists():
        return Q(task=pk)
    return f"There is no task {pk}; a task's number is in the address of its page."


def by_model(name: str, viewer: Viewer) -> Q | str:
    condition = Q(model=name) & ~Q(model="")
    if Episode.objects.filter(visible_environments(viewer), condition).exists():
        return condition
    return unknown("model", name, models(viewer))


def by_revision(code: str, viewer: Viewer) -> Q | str:
    rows = revision_ids(code, viewer)
    if not rows:
        return unknown("revision", code, revisions(viewer))
    # an index gives the episodes of one row in order
    return Q(revision=rows[0]) if len(rows) == 1 else Q(revision__in=rows)


def revision_ids(code: str, viewer: Viewer) -> list[int]:
    """Return the ids of the rows whose code begins with `code`; none if it is shorter than pages
    show."""
    if len(code) < REVISION_DIGITS:
        return []
    rows = EnvironmentRevision.objects.filter(visible_environments(viewer), code__startswith=code)
    return list(rows.values_list("pk", flat=True)[:MAX_NAMES])


def by_person(label: str, viewer: Viewer) -> Q | str:
    if Episode.objects.by_people().seen_by(viewer).filter(key_label=label).exists():
        return played_with(label)
    return unknown("player", label, people(viewer))


def by_study(name: str, viewer: Viewer) -> Q | str:
    if Study.objects.seen_by(viewer).filter(name=name).exists():
        return Q(pk__in=Play.objects.filter(guest__invite__study__name=name).values("pk"))
    return unknown("study", name, studies(viewer))


def by_step(steps: WholeRange, viewer: Viewer) -> Q:
    if steps.low == steps.high:
        return Q(run_step=steps.low)
    return Q(run_step__gte=steps.low, run_step__lte=steps.high)


def by_labels(labels: LabelValues, viewer: Viewer) -> Q:
    """Return the condition on labels, which are stored as compact JSON: a pair of name and value is
    a part of it."""
    condition = Q()
    for label in labels:
        pairs = [value_json({label.name: value})[1:-1] for value in label.values]
        condition &= reduce(
            or_, (Q(GreaterThan(StrIndex("labels", Value(pair)), 0)) for pair in pairs)
        )
    return condition


def by_error(has_error: bool, viewer: Viewer) -> Q:
    if has_error:
        return Q(refused_count__gt=0) | Q(failed_count__gt=0)
    return ENDED & Q(refused_count=0, failed_count=0)


def by_bound(lookup: str) -> Callable[[float, Viewer], Q]:
    """Return what narrows by a figure, which only ended episodes have, such as
    `steps_count__gte`."""
    return lambda bound, viewer: ENDED & Q(**{lookup: bound})


def by_endings(ranges: WholeRanges, viewer: Viewer) -> Q:
    # the range around all of them is what leads to the index
    around = min(part.low for part in ranges), max(part.high for part in ranges)
    parts = reduce(or_, (Q(end_number__range=part) for part in ranges))
    return ENDED & Q(end_number__range=around) & parts
