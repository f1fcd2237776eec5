"""The rule of what an attempt is: in Python, as conditions of the ORM, and as SQL made from those conditions.

An attempt is an ended episode that says something about its task. Three kinds of endings do not, and stay out of every
figure: failures of the machinery; probes, which ended without a tool call; and continuations, in which a person plays
on from a step of another episode, so that the first steps are another player's. The mark of a continuation is its
Play's `parent_step`, which stays when the parent is deleted, and travels in files. Only people's episodes have a Play,
and none of those has a run.

Nothing here imports the models, because `Episode` has `AttemptQuerySet` as its manager.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

from django.db import connections
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

from environments.scoring.returns import RETURNS

FAILURES = ("setup_failed", "env_error", "interrupted")
"""Causes of endings that are failures of the machinery."""
EXCLUDED_KINDS = frozenset({*FAILURES, "probe", "continued"})
"""Kinds of endings (see KIND) that are no attempts."""

_AnyModel = TypeVar("_AnyModel", bound=Model)


class _HasParentStep(Func):
    """Whether the episode with this id has a Play that continues from a step of another episode."""

    arity = 1
    output_field = BooleanField()
    template = (
        "EXISTS (SELECT 1 FROM episodes_play AS p WHERE p.episode_id = %(expressions)s AND p.parent_step IS NOT NULL)"
    )


IS_CONTINUATION = Q(player="human") & Q(_HasParentStep("pk"))  # the player alone decides for most
IS_ATTEMPT = Q(status="ended", is_probe=False) & ~Q(cause__in=FAILURES) & ~IS_CONTINUATION
KIND = Case(
    When(is_probe=True, then=Value("probe")),
    When(IS_CONTINUATION & ~Q(cause__in=FAILURES), then=Value("continued")),
    default=F("cause"),
    output_field=CharField(),
)
"""Kind of an ending: "probe"; "continued" for a continuation, unless the machinery failed; otherwise its cause."""


class AttemptQuerySet(QuerySet[_AnyModel, _AnyModel]):
    """Queries of episodes that know which of them are attempts."""

    def ended(self) -> Self:
        return self.filter(status="ended")

    def by_people(self) -> Self:
        """Return the episodes that people play or played, along the index of players that are not agents."""
        return self.filter(~Q(player="agent"), player="human")

    def attempts(self) -> Self:
        return self.filter(IS_ATTEMPT)

    def with_return(self, return_: str | None) -> Self:
        """Episodes with the alias `own_return`, their return by `return_`; None: by their environment's definition."""
        return self.alias(own_return=return_of(return_))

    def condition_sql(self, alias: str) -> str:
        """Return the condition of this query as SQL without parameters, for a statement that calls the table `alias`.

        Bulk statements contain it, so the rule is not written a second time. Values can be texts only.
        """
        connection = connections[self.db]
        sql, values = self.query.where.as_sql(self.query.get_compiler(using=self.db), connection)
        table = connection.ops.quote_name(self.model._meta.db_table)
        return sql.replace(f"{table}.", f"{alias}.") % tuple(_quoted(value) for value in values)


def return_of(return_: str | None) -> Combinable:
    """Expression of an episode's return. `return_`: sum, last, max or mean; None: by its environment's definition."""
    if return_:
        return F(f"return_{return_}")
    whens = [When(environment__default_return=name, then=F(f"return_{name}")) for name in RETURNS]
    found: Expression = Case(*whens, output_field=FloatField())
    return found


def is_attempt(kind: str, *, is_probe: bool = False) -> bool:
    """Return whether an ending of this kind, or of this cause if `is_probe` is given, is an attempt."""
    return not is_probe and kind not in EXCLUDED_KINDS


def _quoted(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"
