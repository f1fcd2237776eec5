"""The revisions of environments that played the episodes of a scope, and where a curve passes from
one to another.

A revision is in force from one episode on until the next revision of its environment, so the
episodes of a scope that it played are found with one seek along the scope's index, however many
there are.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Count, QuerySet

from environments.models import Environment, Split, Task
from episodes.attempts.endings import rows_of
from episodes.figures.curves.curve_points import Curve
from episodes.figures.scopes import Scope
from episodes.models import EnvironmentRevision, Episode

MAX_REVISIONS = 12
"""Revisions of a scope that are looked at, the latest ones."""
MAX_LOOKED_AT = 24
"""Revisions that are looked at for all curves of a chart together."""
NEWEST = 500
"""Newest episodes of a run whose environments are looked at."""
NEIGHBOURS = 20
"""Episodes among which the first one of a revision is found: those that start together may be
recorded in any order."""

_CHANGED = (
    "SELECT environment_id FROM episodes_environmentrevision GROUP BY environment_id HAVING "
    "COUNT(DISTINCT code) > 1"
)
"""SQL text, because every page with figures runs this query, and Django takes longer to compile it
than it runs."""


class UsedRevision(NamedTuple):
    """A revision, and the first episode of a scope that it played."""

    revision: EnvironmentRevision
    end_number: int | None
    """None while that episode runs."""
    run_step: int | None


class RevisionMark(NamedTuple):
    revision: EnvironmentRevision
    x: float
    """Start of the point of the curve that holds the first episode of the revision."""


def used_in(scope: Scope, most: int = MAX_REVISIONS) -> list[UsedRevision]:
    """Return which of the `most` latest revisions played episodes of the scope, oldest first.

    Empty while its environments have only one. One query; with several revisions two, and one for
    each of them.
    """
    candidates = EnvironmentRevision.objects.select_related("environment").filter(
        environment__in=_environments(scope)
    )
    # imported ones may be older than their rows
    rows = list(candidates.order_by("-first_episode", "-pk")[:most])
    if len(rows) < 2:  # one revision alone is not worth a search
        return []
    newest: int | None = scope.episodes.order_by("-pk").values_list("pk", flat=True).first()
    uses, next_first = list[UsedRevision](), dict[int, int]()
    for row in rows:
        if newest is None or row.first_episode > newest:
            continue
        episodes = scope.episodes.filter(pk__gte=row.first_episode, environment=row.environment_id)
        if row.environment_id in next_first:
            episodes = episodes.filter(pk__lt=next_first[row.environment_id])
        next_first[row.environment_id] = row.first_episode
        first = episodes.order_by("pk").values_list("end_number", "run_step", "revision_id")
        for end, step, revision in rows_of(first[:NEIGHBOURS]):
            if revision == row.pk:
                uses.append(UsedRevision(row, end, step))
                break
    return uses[::-1]


def changes_in(scope: Scope, most: int = MAX_REVISIONS) -> list[UsedRevision]:
    """Return the revisions of `used_in` whose code differs from that before it in the same
    environment."""
    last: dict[int, str] = {}
    changes = []
    for use in used_in(scope, most):
        environment, code = use.revision.environment_id, use.revision.code
        if last.get(environment, code) != code:
            changes.append(use)
        last[environment] = code
    return changes


def pooled_in(scopes: Collection[Scope]) -> list[EnvironmentRevision]:
    """Return one revision for each code, latest first, if the scopes together hold several of one
    environment.

    Empty if the figures of the scopes pool nothing, which takes one query to find out while no code
    has changed.
    """
    if not (scopes and _changed()):
        return []
    rows = {use.revision.code: use.revision for scope in scopes for use in used_in(scope)}
    environments = [row.environment_id for row in rows.values()]
    several = [row for row in rows.values() if environments.count(row.environment_id) > 1]
    return sorted(several, key=lambda row: -row.pk)


def several_codes(environments: Collection[int]) -> list[str]:
    """Return the names of those environments whose code has changed since it was first recorded.
    One query."""
    rows = EnvironmentRevision.objects.filter(environment__in=environments).order_by(
        "environment__name"
    )
    codes_by_name = rows.values_list("environment__name").annotate(
        codes=Count("code", distinct=True)
    )
    return [name for name, codes in codes_by_name if codes > 1]


def marks_of(*curves: Curve) -> list[RevisionMark]:
    """Return where the curves of a chart pass to another revision, in order of x; none for scopes
    that any filter may give. One query for the curves in whose environments no code has changed.
    """
    candidates = [curve for curve in curves if curve.scope.has_blocks or curve.scope.kind == "task"]
    changed_environments = _changed() if candidates else set()
    most = min(MAX_REVISIONS, MAX_LOOKED_AT // max(1, len(curves)))
    marks = list[RevisionMark]()
    for curve in candidates:
        if curve.environments & changed_environments:
            places = ((use.revision, _x_of(use, curve)) for use in changes_in(curve.scope, most))
            marks += [RevisionMark(row, x) for row, x in places if x is not None]
    return sorted(marks, key=lambda mark: mark.x)


def _changed() -> set[int]:
    """Return the ids of the environments whose code has changed since it was first recorded. One
    query."""
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED)
        return {pk for (pk,) in cursor.fetchall()}


def _environments(scope: Scope) -> QuerySet[Any, Any]:
    """Return a subquery of the ids of the environments of the scope, for a run of those of its
    newest episodes."""
    if scope.kind == "environment" or scope.environment is not None:
        return Environment.objects.filter(pk=scope.environment or scope.id).values("pk")
    if scope.kind in ("split", "task"):
        model: Any = Split if scope.kind == "split" else Task
        return model.objects.filter(pk=scope.id).values("environment_id")  # type: ignore[no-any-return]
    return Episode.objects.filter(
        pk__in=scope.episodes.order_by("-pk").values("pk")[:NEWEST]
    ).values("environment_id")


def _x_of(use: UsedRevision, curve: Curve) -> float | None:
    """Return the start of the point that holds the revision's first episode; None if the curve has
    no such point."""
    end, step = use.end_number, use.run_step
    for point in curve.points:
        if curve.axis == "step":
            holds = step is not None and point.x <= step <= point.x_to
        else:
            holds = end is not None and point.last_end >= end
        if holds:
            return point.x
    return None
