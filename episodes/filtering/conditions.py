"""What a filter means in the database: the rows that it names, and the episodes that it finds, as
plain conditions. Used by lists, counts, curves and exports.

SQLite prefers the index of an equality to all others. It gets no statistics (`ANALYZE`), because
with them it takes worse indexes (docs/decisions/0017-plain-filters.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, Q
from django.db.models.lookups import Exact
from django.db.models.sql.compiler import SQLCompiler

from environments.errors import OrsError
from environments.models import Environment, Split
from environments.models.viewer import visible_environments
from environments.scoring.definition import Definitions, definition_of, definitions_in_force
from environments.scoring.returns import Return
from environments.tasks.task_places import places
from environments.tasks.unknown_environment import unknown_environment
from episodes.attempts.conventions import ConventionsInForce
from episodes.attempts.rule import ENDED, FAILURES, IS_UNCOUNTED_PLAY, AttemptQuerySet, is_attempt
from episodes.attempts.success import has_success
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.names import runs, unknown
from episodes.models import Episode, Run
from episodes.models.privacy import outside_open_studies, outside_seals, own_records
from episodes.search.index import MAX_MATCHES, transcript_contains

COUNTED_CAUSES = [cause for cause, _ in Episode.CAUSES if is_attempt(cause)]
"""Causes of the endings of attempts, and of probes."""


class Unindexed(Func):
    """A column that SQLite does not look up in an index. Of two equalities SQLite may choose the
    index of the one that most episodes meet, such as the environment instead of people. PostgreSQL
    has statistics and uses the plain column.
    """

    template = "%(expressions)s"
    arity = 1

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> Any:
        return self.as_sql(compiler, connection, template="+%(expressions)s", **extra)


@dataclass(frozen=True)
class NamedRows:
    """A filter, the rows that it names, and the episodes that it finds. A row is None when the
    filter names none, or one that does not exist."""

    filter: EpisodeFilter
    environment: Environment | None
    split: Split | None
    run: Run | None
    condition: Q
    """Condition of the parameters that depend on no other."""
    unknown: str
    """One sentence for each name that does not exist; empty when all exist."""

    @classmethod
    def of(cls, filters: EpisodeFilter) -> NamedRows:
        """Read the rows: one query for each name, and one more for each that is unknown."""
        sentences = list[str]()
        environment = split = run = None
        if filters.environment is not None:
            rows = Environment.objects.defer("card", "description").seen_by(filters.viewer)
            environment = rows.filter(name=filters.environment).first()
            if environment is None:
                sentences.append(unknown_environment(filters.environment, filters.viewer))
        if filters.split is not None and environment is not None:
            split = environment.splits.filter(name=filters.split).first()
            if split is None:
                names = environment.splits.values_list("name", flat=True)
                sentences.append(unknown(f"split of {environment.name}", filters.split, names))
        if filters.run is not None:
            run = Run.objects.seen_by(filters.viewer).filter(name=filters.run).first()
            if run is None:
                sentences.append(unknown("run", filters.run, runs(filters.viewer)))
        condition, further = filters.condition_and_unknown_names()
        sentences += further
        return cls(filters, environment, split, run, condition, " ".join(sentences))

    def episodes(
        self, most_texts: int | None = MAX_MATCHES, *, for_figures: bool = False
    ) -> AttemptQuerySet[Episode]:
        """Return every episode that the filter finds, in no order; none if it names something that
        does not exist.

        `most_texts`: number of the newest transcripts with the filter's text that are considered;
        None: all, however long that takes. `for_figures`: also those of splits that are sealed for
        the reader, unless their number would tell what was said.
        """
        if self.unknown:
            return Episode.objects.none()
        condition, columns = Q(), dict[str, int]()
        if self.run:
            columns["run_id"] = self.run.pk
        if self.split and not self.split.is_curated:
            columns["split_id"] = self.split.pk  # of one environment, so that is not checked
        elif self.environment:
            columns["environment_id"] = self.environment.pk
            if self.split:  # clients do not name a split that people made: what it holds now counts
                condition = Q(task__in=places(self.split.pk).values("task"))
        if self.filter.is_of_people:  # SQLite would use a column's index, but people are few
            for column, pk in columns.items():
                condition &= Q(Exact(Unindexed(F(column)), pk))
        else:
            condition &= Q(**columns)
        condition &= self.condition & _player(self.filter) & self._ending()
        text, viewer = self.filter.text, self.filter.viewer
        if text is not None:
            condition &= transcript_contains(text, most_texts)
        condition &= self._returns()
        if self.filter.success is not None:
            condition &= has_success(self.definitions, self.filter.success)
        # what does not exist for the viewer; each of these is empty if that is nothing
        condition &= own_records(viewer) & outside_open_studies(viewer)
        if not for_figures or text is not None:
            condition &= outside_seals(viewer)
        if self.environment is None:  # a filter by an environment finds no episodes of others
            condition &= visible_environments(viewer)
        return Episode.objects.filter(condition).order_by()

    @cached_property
    def definitions(self) -> Definitions:
        """The definition of the environment, or of each, with the filter's parts. One query at
        most."""
        if self.environment is not None:
            return definition_of(self.environment, self.filter.overrides)
        return definitions_in_force(self.filter.overrides)

    @cached_property
    def conventions(self) -> ConventionsInForce:
        """The convention of the environment, or of each, with the filter's parts. One query at
        most."""
        return ConventionsInForce.of(self.environment, self.filter.overrides)

    @property
    def definition(self) -> Return:
        """The definition of the return: the filter's, else the environment's, else the sum."""
        if self.filter.definition or self.environment is None:
            return self.filter.definition or "sum"
        return cast(Return, self.environment.default_return)

    def _ending(self) -> Q:
        ending = self.filter.ending
        # lists of one value are deliberate: Django writes `is_probe=False` as NOT is_probe, which
        # SQLite does not look up
        if ending is None:
            return Q()
        if ending == "running":  # named by their ids, because figures ask for the ended among them
            return Q(pk__in=Episode.objects.filter(status="running").values("pk"), status="running")
        if ending == "failure":
            return ENDED & Q(cause__in=FAILURES, is_probe__in=[False])
        if ending == "probe":
            return ENDED & Q(cause__in=COUNTED_CAUSES, is_probe__in=[True])
        if ending == "attempt":
            return self.conventions.attempts
        if ending == "continued":
            return (
                ENDED
                & Q(cause__in=COUNTED_CAUSES, is_probe__in=[False])
                & ~Q(player="agent")
                & IS_UNCOUNTED_PLAY
            )
        condition = ENDED & Q(cause=ending, is_probe__in=[False])
        return condition if ending in FAILURES else condition & ~IS_UNCOUNTED_PLAY

    def _returns(self) -> Q:
        """Return the condition on the return that counts, which is 0 for rollouts that the
        convention counts as 0."""
        low, high = self.filter.return_from, self.filter.return_to
        column, condition = f"return_{self.definition}", Q()
        if low is not None:
            condition &= ENDED & Q(**{f"{column}__gte": low})
        if high is not None:
            condition &= ENDED & Q(**{f"{column}__lte": high})
        if not condition or (zeros := self.conventions.zeros) is None:
            return condition
        is_zero_within = (low is None or low <= 0) and (high is None or high >= 0)
        return (condition & ~zeros) | zeros if is_zero_within else condition & ~zeros


def _player(filters: EpisodeFilter) -> Q:
    player = "human" if filters.is_of_people else filters.player
    if player is None:
        return Q()
    if player == "others":
        return ~Q(player="human")
    return Q(player=player) if player == "agent" else Q(player=player) & ~Q(player="agent")


def refuse_all(filters: EpisodeFilter, advice: str) -> None:
    """Refuse a filter that leaves no ended episode out, before all are removed or played again.
    Raises: OrsError.

    It is empty, or has only bounds that every episode is within, such as `steps_from=0` or
    `since=1970-01-01`. `advice`: the sentence that says what to do instead.
    """
    if filters.is_empty:
        raise OrsError(advice)
    parameters = filters.parameters()
    bounds = {name: text for name, text in filters.values().items() if parameters[name].is_bound}
    if not bounds.keys() >= set(filters.names_of_conditions):
        return
    episodes = NamedRows.of(EpisodeFilter(viewer=filters.viewer)).episodes().ended()
    if not episodes.exclude(pk__in=NamedRows.of(filters).episodes().values("pk")).exists():
        words = " and ".join(f"{name}={text}" for name, text in bounds.items())
        raise OrsError(f"No ended episode is outside of {words}. {advice}")
