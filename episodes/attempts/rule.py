"""The rule of what an attempt is: in Python, as conditions of the ORM, and as SQL made from those
conditions.

An attempt is an ended episode that says something about its task. Three kinds of endings do not:
infrastructure failures; probes; and plays of people that no figure counts. Those are continuations,
in which a person plays on from a step of another episode, so that the first steps are another
player's; plays of a task that the person has played before, or has seen the content of; those that
a person left in a study that does not count them; and those of a person who was excluded from their
study. The marks are `parent_step`, `is_repeat`, `counts_left` and `is_excluded` of its Play, which
stay when other rows are deleted, and travel in files. Only people's episodes have a Play, and none
of those has a run.

An agent's episode that ended without a tool call has the cause `no_call` if its client named a run
or a model or received the prompt: the agent was given the task and did nothing, so its four returns
are 0. Everything else that ended without a call is a probe: a client that only lists tools, a
person who opens Play and leaves, a scripted player.
In a study, one whose time ran out is none, nor one that was left if the study counts those. The
recorder and imports apply `ending_of`; the migration `0007_endings_without_a_call` has applied it
to older episodes.

Nothing here imports the models, because `Episode` has `AttemptQuerySet` as its manager.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import (
    BooleanField,
    Case,
    CharField,
    Expression,
    F,
    FloatField,
    Func,
    Model,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.expressions import Combinable
from django.db.models.sql.compiler import SQLCompiler

from environments.scoring.convention import NUMBERLESS_KINDS, Convention, Treatment
from environments.scoring.returns import RETURNS
from environments.wire import NO_NUMBER

FAILURES = ("setup_failed", "env_error", "interrupted")
"""Causes of endings that are infrastructure failures."""
OWN_CAUSES = ("finished", "abandoned")
OWN_KINDS = (*OWN_CAUSES, "finished_nan", "abandoned_nan")
"""Kinds of endings that count with their own return by every convention
(`environments/scoring/convention.py`)."""
EXPIRED_KINDS = ("expired", "expired_nan")
NO_CALL = "no_call"
"""Cause of an agent's attempt that ended without a tool call."""
NO_ROLLOUTS = ("probe", "continued")
"""Kinds of endings (see KIND) that no convention counts; "continued" are all plays of people that
no figure counts."""
EXCLUDED_KINDS = frozenset({*FAILURES, *NO_ROLLOUTS})
"""Kinds of endings that are no attempts by the default convention."""

_AnyModel = TypeVar("_AnyModel", bound=Model)


class _IsFurther(Func):
    """Whether the episode with this id has a Play that is not the first attempt of a person at the
    task, or one of a person who was excluded.
    """

    arity = 1
    output_field = BooleanField()
    template = (
        "EXISTS (SELECT 1 FROM episodes_play AS p WHERE p.episode_id = %(expressions)s"
        " AND (p.parent_step IS NOT NULL OR p.is_repeat OR p.is_excluded))"
    )


class _LeavesOut(_IsFurther):
    """Whether the episode with this id is of a study that does not count what people left."""

    template = (
        "EXISTS (SELECT 1 FROM episodes_play AS p WHERE p.episode_id = %(expressions)s AND NOT "
        "p.counts_left)"
    )


LEFT = "abandoned"
"""Cause of the ending of an episode that its player gave up or left."""
RAN_OUT = "expired"
"""Cause of the ending of an episode whose time was over."""
ENDED = Q(status="ended")
IS_UNCOUNTED_PLAY = Q(player="human") & (
    Q(_IsFurther("pk")) | (Q(cause=LEFT) & Q(_LeavesOut("pk")))
)
"""A continuation, a repeat, one of an excluded person, or one left in a study that does not count
it. The player alone decides for most.
"""
IS_ROLLOUT = ENDED & Q(is_probe=False) & (Q(cause__in=FAILURES) | ~IS_UNCOUNTED_PLAY)
"""An ended episode that is neither a probe nor an uncounted play; conventions say which of them
count."""
IS_ATTEMPT = ENDED & Q(is_probe=False) & ~Q(cause__in=FAILURES) & ~IS_UNCOUNTED_PLAY
_KIND = Case(
    When(is_probe=True, then=Value("probe")),
    When(IS_UNCOUNTED_PLAY & ~Q(cause__in=FAILURES), then=Value("continued")),
    *(
        When(cause=cause, detail__contains=NO_NUMBER, then=Value(kind))
        for kind, cause in NUMBERLESS_KINDS.items()
    ),
    default=F("cause"),
    output_field=CharField(),
)


class _Kind(Func):
    """_KIND, compiled once for each kind of database: Django takes 0.7 ms for it, five times as long
    as for all else of a query of endings, and pages make a union of twenty of these."""

    output_field = CharField()
    _compiled: ClassVar = dict[str, tuple[str, list[Any]]]()

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *args: Any, **extra: Any
    ) -> Any:
        column: Any = self.get_source_expressions()[0]
        model, quote = column.target.model, compiler.quote_name_unless_alias
        if connection.vendor not in self._compiled:
            query = model._default_manager.order_by().values_list(_KIND).query
            alone = query.get_compiler(connection=connection)
            alone.setup_query()
            [(_, (sql, values), _)] = alone.select
            self._compiled[connection.vendor] = sql, list(values)
        sql, values = self._compiled[connection.vendor]
        return sql.replace(f"{quote(model._meta.db_table)}.", f"{quote(column.alias)}."), [*values]


KIND = _Kind("pk")
"""Kind of an ending: "probe"; "continued" for an uncounted play that is no failure; otherwise its
cause, with "_nan" if a reward was not a number."""


def kind_of(episode: Any) -> str:
    """Return the kind of an ended Episode, as KIND does. Reads `episode.play` of people."""
    if episode.is_probe:
        return "probe"
    if episode.player == "human" and episode.cause not in FAILURES:
        play = getattr(episode, "play", None)
        if play is not None and (
            play.parent_step is not None or play.is_repeat or play.is_excluded
        ):
            return "continued"
        if play is not None and play.counts_left is False and episode.cause == LEFT:
            return "continued"
    cause = str(episode.cause)
    numberless = f"{cause}_nan"
    return numberless if numberless in NUMBERLESS_KINDS and NO_NUMBER in episode.detail else cause


def treatment_of(episode: Any, convention: Convention) -> Treatment:
    """Return how an ended Episode counts by the convention: one that was finished or abandoned keeps
    its return. Reads `episode.play` of people."""
    return convention.treatments.get(kind_of(episode), "keep")


class AttemptQuerySet(QuerySet[_AnyModel, _AnyModel]):
    """Queries of episodes that know which of them are attempts."""

    def ended(self) -> Self:
        return self.filter(ENDED)

    def by_people(self) -> Self:
        """Return the episodes that people play or played, along the index of players that are not
        agents."""
        return self.filter(~Q(player="agent"), player="human")

    def attempts(self) -> Self:
        """Return the rollouts that count by the default convention (`conventions.py` has all
        others)."""
        return self.filter(IS_ATTEMPT)

    def rollouts(self) -> Self:
        return self.filter(IS_ROLLOUT)

    def condition_sql(self, alias: str) -> str:
        """Return the condition of this query as SQL without parameters, for a statement that calls
        the table `alias`.

        Bulk statements contain it, so the rule is not written a second time. Values can be texts
        only.
        """
        connection = connections[self.db]
        sql, values = self.query.where.as_sql(self.query.get_compiler(using=self.db), connection)
        table = connection.ops.quote_name(self.model._meta.db_table)
        return sql.replace(f"{table}.", f"{alias}.") % tuple(
            "'" + str(value).replace("'", "''") + "'" for value in values
        )


def return_of(return_: str | None) -> Combinable:
    """Return the expression of an episode's return.

    `return_`: sum, last, max or mean; None: by its environment's definition.
    """
    if return_:
        return F(f"return_{return_}")
    whens = [When(environment__default_return=name, then=F(f"return_{name}")) for name in RETURNS]
    expression: Expression = Case(*whens, output_field=FloatField())
    return expression


class SortedEnding(NamedTuple):
    """An ending after the rule was applied to it."""

    cause: str
    detail: str
    is_probe: bool


def ending_of(
    cause: str, detail: str = "", *, calls: int, is_rollout: bool, counts_left: bool | None = None
) -> SortedEnding:
    """Return the ending of an episode with `calls` tool calls, including refused ones.

    `cause`: how it ended apart from this rule; `detail` says so where the cause becomes `no_call`.
    An ending that was sorted before stays as it is. Only a tool call finishes an episode, so one
    that finished without a call comes from a file that lacks its steps, and stays as it is too.
    `counts_left`: of its Play.
    """
    is_attempt_in_study = counts_left is not None and (cause == RAN_OUT or counts_left)
    if calls or cause not in (LEFT, RAN_OUT) or is_attempt_in_study:
        return SortedEnding(cause, detail, is_probe=False)
    if is_rollout:
        return SortedEnding(
            NO_CALL, f"{cause.capitalize()} without a tool call. {detail}".strip(), is_probe=False
        )
    return SortedEnding(cause, detail, is_probe=True)


def is_rollout(player: str, *, is_named: bool, has_prompt: bool) -> bool:
    """Return whether an episode is an attempt even without a tool call.

    `is_named`: whether its client named a run or a model; `has_prompt`: whether its client received
    the prompt.
    """
    return player == "agent" and (is_named or has_prompt)


def is_attempt(kind: str, *, is_probe: bool = False) -> bool:
    """Return whether an ending of this kind, or of this cause if `is_probe` is given, is an
    attempt."""
    return not is_probe and kind not in EXCLUDED_KINDS
