"""The episodes that a filter finds, as a queryset of plain conditions. Used by lists, counts, curves and exports.

Most indexes of episodes are partial, and a database takes one only where the query repeats what the index is limited
to, so a condition repeats that too (`~Q(model="")`, `ENDED`). SQLite prefers the index of an equality to all others. It
gets no statistics (`ANALYZE`), because with them it takes worse indexes (docs/decisions/0017-plain-filters.md).
"""

from __future__ import annotations

from django.db.models import F, Q
from django.db.models.lookups import Exact
from django.utils import timezone

from environments.tasks.task_places import places
from episodes.attempts.rule import FAILURES, IS_CONTINUATION, AttemptQuerySet, is_attempt
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.names import NamedRows
from episodes.filtering.people import Unindexed
from episodes.models import Episode
from episodes.search.index import matching

ENDED = Q(status="ended")
_COUNTED = [cause for cause, _ in Episode.CAUSES if is_attempt(cause)]


def episodes_of(asked: EpisodeFilter, named: NamedRows | None = None) -> AttemptQuerySet[Episode]:
    """Return every episode that the filter finds, in no order; none if it names something that does not exist.

    `named`: the rows that the filter names, if the caller has them already; otherwise queries read them.
    """
    named = named or NamedRows.of(asked)
    if named.unknown:
        return Episode.objects.none()
    found = _references(asked, named) & _played_by(asked) & _ending(asked, named) & _error(asked.error)
    if asked.text is not None:
        found &= Q(pk__in=matching(asked.text))
    return Episode.objects.filter(found & _figures(asked, named) & _time(asked)).order_by()


def parts_of(asked: EpisodeFilter) -> frozenset[str]:
    """Return the names of what the filter sets conditions for.

    They are parameters, without `_from` and `_to` for a range, and `time` for since and until. What one index holds
    together counts once: a split and its environment, a run and one of its training steps.
    """
    names = {"time" if name in ("since", "until") else name.partition("_")[0] for name in asked.conditions}
    implied = {"environment"} if "split" in names else set()
    if asked.run is not None and asked.step is not None and asked.step.low == asked.step.high:
        implied.add("step")
    return frozenset(names - implied)


def has_index(parts: frozenset[str]) -> bool:
    """Return whether an index alone gives what a filter about `parts` finds, and no other episode has to be read."""
    return len(parts) <= 1 and parts != {"step"}


def _references(asked: EpisodeFilter, named: NamedRows) -> Q:
    found = Q()
    if asked.task is not None:
        found &= Q(task=asked.task)
    if named.run:
        found &= Q(run=named.run.pk)
    if asked.step is not None:
        low, high = asked.step
        found &= Q(run_step=low) if low == high else Q(run_step__gte=low, run_step__lte=high)
    if named.split and not named.split.is_curated:  # it belongs to one environment, so that is not checked
        return found & Q(split=named.split.pk)
    if named.split:  # clients do not name the splits that people make, so what they hold now counts
        found &= Q(task__in=places(named.split.pk).values("task"))
    if not named.environment:
        return found
    if (
        asked.player == "human" or asked.who is not None
    ):  # SQLite would use the index of the environment, but people are few
        return found & Q(Exact(Unindexed(F("environment_id")), named.environment.pk))
    return found & Q(environment=named.environment.pk)


def _played_by(asked: EpisodeFilter) -> Q:
    found = Q()
    if asked.model is not None:
        found &= Q(model=asked.model) & ~Q(model="")
    player = "human" if asked.who is not None else asked.player
    if player is not None:
        found &= Q(player=player) if player == "agent" else Q(player=player) & ~Q(player="agent")
    for label in (asked.who, asked.key):
        if label is not None:
            found &= Q(key_label=label)
    return found


def _ending(asked: EpisodeFilter, named: NamedRows) -> Q:
    ending = asked.ending
    # lists of one value are deliberate: Django writes `is_probe=False` as NOT is_probe, which SQLite does not look up
    if ending is None:
        return Q()
    if ending == "running":
        return Q(status="running")
    if ending == "failure":
        return ENDED & Q(cause__in=FAILURES, is_probe__in=[False])
    if ending == "probe":
        return ENDED & Q(cause__in=_COUNTED, is_probe__in=[True])
    if ending == "attempt":
        treatments = named.convention(asked).treatments
        counted = [cause for cause, _ in Episode.CAUSES if treatments.get(cause, "keep") != "out"]
        return ENDED & Q(cause__in=counted, is_probe__in=[False]) & ~IS_CONTINUATION
    if ending == "continued":
        return ENDED & Q(cause__in=_COUNTED, is_probe__in=[False]) & ~Q(player="agent") & IS_CONTINUATION
    return ENDED & Q(cause=ending, is_probe__in=[False])


def _error(has_error: bool | None) -> Q:
    if has_error is None:
        return Q()
    either = Q(refused_count__gt=0) | Q(failed_count__gt=0)
    return either if has_error else ENDED & Q(refused_count=0, failed_count=0)


def _figures(asked: EpisodeFilter, named: NamedRows) -> Q:
    """Return the conditions on figures. They find only ended episodes: a running episode has no figures yet."""
    bounds = {
        f"return_{named.definition(asked)}": (asked.return_from, asked.return_to),
        "steps_count": (asked.steps_from, asked.steps_to),
        "end_number": (asked.ends_from, asked.ends_to),
    }
    found = Q()
    for column, (low, high) in bounds.items():
        if low is not None:
            found &= ENDED & Q(**{f"{column}__gte": low})
        if high is not None:
            found &= ENDED & Q(**{f"{column}__lte": high})
    return found


def _time(asked: EpisodeFilter) -> Q:
    since, until = asked.span(timezone.now())
    found = Q() if since is None else Q(created__gte=since)
    return found if until is None else found & Q(created__lt=until)
