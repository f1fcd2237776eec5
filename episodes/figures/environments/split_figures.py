"""Whose episodes the figures on the page of an environment are of: the split that is shown, and the
models and runs in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from django.db.models import Case, Count, Exists, OuterRef, When

from environments.models import Split, Viewer
from episodes.attempts.rule import ENDED
from episodes.figures.scopes import WITHOUT_PEOPLE, Scope, floor_of
from episodes.models import Episode, Run

MAX_READ = 10_000
"""Newest episodes in which models and runs are looked for."""
MAX_NAMED = 8
_FIRST = ("test", "validation")


def default_splits(environments: Collection[int]) -> dict[int, Split]:
    """Return the split of each environment whose figures are shown if nobody names one: a test split
    if agents played it, else one of validation, else any other; environments where they played none
    are left out. One query.

    Splits that people made are passed over, because no index has their episodes.
    """
    attempts = Episode.objects.filter(WITHOUT_PEOPLE, ENDED, split=OuterRef("pk"))
    splits = Split.objects.filter(
        Exists(attempts), environment__in=environments, is_served=True, is_curated=False
    )
    first = Case(*(When(type=type, then=place) for place, type in enumerate(_FIRST)), default=2)
    rows = splits.order_by(first.desc(), "-position", "-name")
    return {split.environment_id: split for split in rows}


@dataclass(frozen=True, slots=True)
class Names:
    """Models or runs, with how many ended episodes each has, most first."""

    counts: Sequence[tuple[str, int]]
    """MAX_NAMED at most."""
    total: int
    """Number of all of them."""

    @property
    def more(self) -> int:
        return self.total - len(self.counts)


@dataclass(frozen=True, slots=True)
class ScopeNames:
    models: Names
    runs: Names
    is_bounded: bool
    """Whether there are older episodes than the newest MAX_READ."""


def names_in(scope: Scope, viewer: Viewer) -> ScopeNames:
    """Return the models and the runs that the viewer may know of, by the newest episodes of the
    scope. Three queries."""
    episodes = scope.episodes if scope.within is None else scope.within
    floor = floor_of(replace(scope, within=episodes), MAX_READ)
    rows = list(
        scope.episodes.filter(ENDED, pk__gt=floor)
        .order_by()
        .values_list("model", "run")
        .annotate(count=Count("pk"))
    )
    runs = Run.objects.seen_by(viewer).filter(pk__in={run for _, run, _ in rows if run})
    labels = dict(runs.values_list("pk", "name"))
    return ScopeNames(
        models=_names([(model, count) for model, _, count in rows if model]),
        runs=_names([(labels[run], count) for _, run, count in rows if run in labels]),
        is_bounded=floor > 0,
    )


def _names(counts: Sequence[tuple[str, int]]) -> Names:
    totals = dict[str, int]()
    for name, count in counts:
        totals[name] = totals.get(name, 0) + count
    names = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    return Names(names[:MAX_NAMED], len(names))
