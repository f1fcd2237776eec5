"""The states of tasks: served, quarantined, superseded, removed from all splits, or pasted by a
client.

Every task is in exactly one of them, computed from its places now. Lists, bulk actions, exports and
statistics mean served tasks unless somebody asks for others.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Value, When

from environments.models import Environment, SplitEntry, Task, seen_at
from environments.tasks.successors import is_superseded

SERVED = "served"
STATES = (SERVED, "quarantined", "superseded", "removed", "pasted")
"""In the order in which pages offer them."""
LABELS = {
    "served": "served",
    "quarantined": "quarantined",
    "superseded": "superseded",
    "removed": "removed from all splits",
    "pasted": "pasted by a client",
}


def is_in_state(state: str) -> Q:
    """Return the condition on Task for one of STATES; of `active`: for every task that is not
    quarantined."""
    match state:
        case "served":
            return _is_served()
        case "quarantined":
            return Q(state="quarantined") & ~is_superseded()
        case "superseded":
            return is_superseded()
        case "removed":
            return Q(state="active") & ~Q(source="played") & ~is_superseded() & ~_is_served()
        case "pasted":
            return Q(state="active", source="played") & ~is_superseded() & ~_is_served()
        case _:
            return Q(state=state)


def _is_served() -> Q:
    """Return the condition for tasks that agents get: those in splits, and those of a class that
    generates them on demand.

    A frozen split still serves what an edit replaced; that alone doesn't count, for it is a record
    and not a choice.
    """
    places = SplitEntry.objects.filter(seen_at(F("split__version")), task=OuterRef("pk"))
    visible = places.filter(split__is_served=True, is_hidden=False)
    current = Q(Exists(visible), replaced_by=None) | Q(
        Exists(visible.filter(split__frozen=None)), replaced_by__isnull=False
    )
    procedural = Environment.objects.filter(is_procedural=True).values("pk")
    on_demand = Q(environment__in=procedural, source="played", replaced_by=None)
    return Q(state="active") & (current | on_demand)


def with_states(tasks: QuerySet[Task]) -> QuerySet[Any]:
    """Return the tasks with `standing`, the one of STATES that each is in."""
    cases = [
        When(is_in_state(state), then=Value(state))
        for state in ("superseded", "quarantined", "served")
    ]
    cases.append(When(source="played", then=Value("pasted")))
    return tasks.annotate(standing=Case(*cases, default=Value("removed"), output_field=CharField()))
