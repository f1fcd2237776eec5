"""Conditions: what a filter asks of an episode, one for each thing asked, each in two forms.

`where` may be found by an index. `beside` never is: SQLite has no statistics of its tables and takes a bad index when
two columns qualify, so one condition is chosen to find episodes (`query_plan.py`) and others are checked on what it
found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, Q
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Lookup
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from environments.tasks.places import places
from episodes.attempts.rule import IS_CONTINUATION, is_attempt
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.names import NamedRows
from episodes.filtering.parameters import WholeRange
from episodes.models import Episode
from episodes.search.index import matching

ALL = Q()
ENDED = Q(status="ended")
_LOOKUPS: dict[str, type[Lookup[Any]]] = {
    "exact": Exact, "gte": GreaterThanOrEqual, "lte": LessThanOrEqual, "lt": LessThan, "gt": GreaterThan, "in": In,
}  # fmt: skip


class Unindexed(Func):
    """A column that SQLite does not look up in an index. PostgreSQL has statistics and sees the bare column."""

    template = "%(expressions)s"
    arity = 1

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="+%(expressions)s", **extra)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of one column: `lookup` is Django's word for it."""

    column: str
    lookup: str
    value: Any

    @property
    def where(self) -> Q:
        return Q(**{f"{self.column}__{self.lookup}": self.value})

    @property
    def beside(self) -> Lookup[Any]:
        return _LOOKUPS[self.lookup](Unindexed(F(self.column)), self.value)


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    """Parameter of the filter; of a range, what comes before `_from`; `time` of since and until; `curated` of a split
    that people made; `people` of human players; `key` of the API's; `running` of that ending. `run` is also of a
    training step in it."""
    tests: Sequence[Comparison]
    """All have to hold."""
    of_index: Q = ALL
    """What the index is limited to, as its definition says it: without it a database does not take the index."""
    only_ended: bool = False
    checks: Sequence[Lookup[Any] | Q] = ()
    """In place of the tests, beside another condition."""
    further: Q = ALL
    """What no index holds; it is checked in either form."""
    branches: Sequence[Q] = ()
    """This condition in parts, no two of which share an episode: each is one stretch of the index."""

    @property
    def where(self) -> Q:
        found = self.of_index & (ENDED if self.only_ended else ALL) & self.further
        for test in self.tests:
            found &= test.where
        return found

    @property
    def beside(self) -> Sequence[Lookup[Any] | Q]:
        checks = [*(self.checks or (test.beside for test in self.tests)), *([ENDED] if self.only_ended else [])]
        return [*checks, self.further] if self.further else checks


def conditions_of(asked: EpisodeFilter, named: NamedRows) -> dict[str, Condition]:
    """By name, without order. The filter's names are all known."""
    found = [*_references(asked, named), *_words(asked), *_endings(asked), *_ranges(asked, named)]
    return {condition.name: condition for condition in found}


def _references(asked: EpisodeFilter, named: NamedRows) -> list[Condition]:
    found = []
    if asked.task is not None:
        found.append(Condition("task", [Comparison("task_id", "exact", asked.task)]))
    of_step = _of_step(asked.step)
    is_one = len(of_step) == 1  # the index has those of one training step of a run in order
    if named.run:
        found.append(Condition("run", [Comparison("run_id", "exact", named.run.pk), *(of_step if is_one else [])]))
    if of_step and not (named.run and is_one):
        found.append(Condition("step", of_step))
    if named.environment and not (named.split and not named.split.is_curated):  # such a split belongs to it
        found.append(Condition("environment", [Comparison("environment_id", "exact", named.environment.pk)]))
    if named.split and named.split.is_curated:  # by what stands in it now: who played it knew its tasks, not it
        found.append(Condition("curated", [Comparison("task_id", "in", places(named.split.pk).values("task"))]))
    elif named.split:
        found.append(Condition("split", [Comparison("split_id", "exact", named.split.pk)]))
    return found


def _of_step(asked: WholeRange | None) -> list[Comparison]:
    if asked is None:
        return []
    return [Comparison("run_step", "exact", asked.low)] if asked.low == asked.high else _between("run_step", *asked)


def _words(asked: EpisodeFilter) -> list[Condition]:
    found = []
    if asked.model is not None:
        found.append(Condition("model", [Comparison("model", "exact", asked.model)], of_index=~Q(model="")))
    if asked.player is not None or asked.who is not None:
        found.append(_player(asked.player or "human"))
    if asked.who is not None:
        found.append(Condition("who", [Comparison("key_label", "exact", asked.who)]))
    if asked.text is not None:
        found.append(Condition("text", [Comparison("id", "in", matching(asked.text))]))
    if asked.key is not None:
        found.append(Condition("key", [Comparison("key_label", "exact", asked.key)]))
    if asked.error is not None:
        found.append(_error(has_one=asked.error))
    return found


def _player(player: str) -> Condition:
    """People are few among all; scripted players may be most of them."""
    of_index = ALL if player == "agent" else ~Q(player="agent")
    name = "people" if player == "human" else "player"
    return Condition(name, [Comparison("player", "exact", player)], of_index=of_index)


def _error(*, has_one: bool) -> Condition:
    if has_one:  # the index holds them and no others
        either = Q(refused_count__gt=0) | Q(failed_count__gt=0)
        # PostgreSQL knows how few they are, and finds them by both indexes at once
        sum_of_both = GreaterThan(F("refused_count") + F("failed_count"), 0)
        unindexed = either if connection.vendor == "postgresql" else sum_of_both
        return Condition("error", [], of_index=either, checks=[unindexed])
    none = [Comparison("refused_count", "exact", 0), Comparison("failed_count", "exact", 0)]
    return Condition("error", none, only_ended=True)


def _endings(asked: EpisodeFilter) -> list[Condition]:
    ending = asked.ending
    if ending is None:
        return []
    if ending == "running":
        return [Condition("running", [], of_index=Q(status="running"), checks=[Q(status="running")])]
    counted = [cause for cause, _ in Episode.CAUSES if is_attempt(cause)]
    if ending == "continued":  # they are few among the few that people played
        tests = [
            Comparison("player", "exact", "human"),
            Comparison("cause", "in", counted),
            Comparison("is_probe", "in", [False]),
        ]
        return [Condition("ending", tests, ~Q(player="agent"), only_ended=True, further=IS_CONTINUATION)]
    probes, further = ending == "probe", ~IS_CONTINUATION if ending == "attempt" else ALL
    causes = {"probe": counted, "attempt": counted}.get(ending, [ending])
    in_causes = Comparison("cause", "in", causes) if len(causes) > 1 else Comparison("cause", "exact", causes[0])
    is_probe = Comparison(
        "is_probe", "in", [probes]
    )  # Django writes an equation as NOT is_probe, which SQLite looks up nowhere
    branches = [ENDED & Q(cause=cause) & is_probe.where & further for cause in causes]
    return [Condition("ending", [in_causes, is_probe], only_ended=True, further=further, branches=branches)]


def _ranges(asked: EpisodeFilter, named: NamedRows) -> list[Condition]:
    """A running episode has no figures yet: what asks for one asks for the end."""
    span = asked.span(timezone.now())
    figures = [
        ("return", f"return_{named.definition(asked)}", (asked.return_from, asked.return_to)),
        ("steps", "steps_count", (asked.steps_from, asked.steps_to)),
        ("ends", "end_number", (asked.ends_from, asked.ends_to)),
    ]
    found = [Condition(name, _between(column, *ends), only_ended=True) for name, column, ends in figures]
    since, until = span
    time = [Comparison("created", "gte", since)] * (since is not None) + [Comparison("created", "lt", until)] * (
        until is not None
    )
    return [condition for condition in [*found, Condition("time", time)] if condition.tests]


def _between(column: str, low: float | None, high: float | None) -> list[Comparison]:
    least = [] if low is None else [Comparison(column, "gte", low)]
    return least if high is None else [*least, Comparison(column, "lte", high)]
