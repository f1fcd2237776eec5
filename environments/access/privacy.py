"""What does not exist for a person: private environments, the tasks of splits that are sealed for people, open studies.

A private environment, with its splits, tasks, episodes, figures and files, exists for its members only: accounts that
it names or whose group it names, and accounts with the permission SEE_PRIVATE, which operators have. An API key may use
it if the key names it or has the scope `admin` (`environments/keys/`). For everybody else, all doors answer as if there
were no such environment.

The tasks of a split that is sealed for people, and what was played of them, exist for people who may see hidden fields
of tasks. Others see the split's name and its figures, but no text. It is like the scope `curate` of a key.

Queries of pages, admin and API leave out what `hidden_from` returns; there is usually nothing. The same value says
whether studies that are not closed yet, and what is played in them, exist for the person: only people who may make
studies see these (`episodes/models/privacy.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, Q, Value
from django.db.models.sql.compiler import SQLCompiler

from environments.access.permissions import MAKE_STUDIES, SEE_HIDDEN, SEE_PRIVATE
from environments.models import Environment


class Hidden(frozenset[int]):
    """Ids of the private environments that do not exist for a person."""

    sealed: Mapping[int, int] = MappingProxyType({})
    """Environment by split, as ids, of the splits that are sealed for people and that the person may not read."""
    hides_open_studies = False
    """Whether studies that are not closed do not exist for them either."""
    open_studies: list[int] | None = None
    """Ids of these studies, once they were read."""


def hidden_from(user: Any) -> frozenset[int]:
    """Return the ids of the private environments that a person may not see, with what else is hidden from them. The
    first time one query, or two if some environments are private.

    Later calls with the same object return the same, so pass the `user` of one request, or load it again. A visitor
    without an account sees none of them.
    """
    if not hasattr(user, "hidden_environments"):
        user.hidden_environments = _read(user)
    known: frozenset[int] = user.hidden_environments
    return known


_PRIVATE = "SELECT id, 0 FROM environments_environment WHERE is_private"
_SEALED = "SELECT environment_id, id FROM environments_split WHERE is_sealed_for_people"


def _read(user: Any) -> Hidden:
    queries = [
        query for query, permission in ((_PRIVATE, SEE_PRIVATE), (_SEALED, SEE_HIDDEN)) if not user.has_perm(permission)
    ]
    rows: list[tuple[int, int]] = []
    if queries:
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(queries))
            rows = cursor.fetchall()
    environments = frozenset(environment for environment, split in rows if not split)
    if environments and user.pk is not None:
        is_member = Q(members=user.pk) | Q(member_groups__user=user.pk)
        of_person = Environment.objects.filter(is_member, is_private=True)
        environments = environments.difference(of_person.values_list("pk", flat=True))
    hidden = Hidden(environments)
    hidden.sealed = {split: environment for environment, split in rows if split}
    hidden.hides_open_studies = not user.has_perm(MAKE_STUDIES)
    return hidden


def sealed_splits(hidden: frozenset[int]) -> Mapping[int, int]:
    """Return the environment of each split whose tasks do not exist for the person, by the split."""
    return hidden.sealed if isinstance(hidden, Hidden) else Hidden.sealed


def hides_anything(hidden: frozenset[int]) -> bool:
    """Return whether texts that may be about anything, such as those of logs, may be about what the person may not see.

    Open studies aside, which such texts do not name.
    """
    return bool(hidden or sealed_splits(hidden))


def visible(hidden: frozenset[int], path: str = "environment") -> Q:
    """Return the condition that leaves out rows of the environments in `hidden`.

    It is empty if `hidden` is, so that queries and their plans stay as they are. `path`: from a row to its environment.
    """
    return ~Q(**{f"{path}__in": hidden}) if hidden else Q()


def visible_splits(hidden: frozenset[int], path: str = "") -> Q:
    """Return the condition on splits whose tasks a person may choose or change. `path`: from a row to its split, with
    the underscores after it.
    """
    sealed = sealed_splits(hidden)
    return visible(hidden, f"{path}environment") & (~Q(**{f"{path}pk__in": list(sealed)}) if sealed else Q())


def visible_tasks(hidden: frozenset[int], path: str = "") -> Q:
    """Return the condition on tasks. `path`: from a row to its task, with the underscores after it."""
    return visible(hidden, f"{path}environment") & outside_sealed_splits(hidden, f"{path}environment", f"{path}pk")


def outside_sealed_splits(hidden: frozenset[int], environment: str, task: str, split: str | None = None) -> Q:
    """Return the condition on rows whose task the person may read, by the paths to its environment and to the task.

    `split`: path to the split that it was played from, which must not be sealed either.

    A task in a sealed split is sealed, and so is what it was before an edit, and what was in the split or played there
    while it was sealed. But what also stands in another split that is served can be read there by everybody.
    """
    sealed = sealed_splits(hidden)
    split_or_none = Value(None) if split is None else F(split)
    return Q(IsReadable(F(environment), F(task), split_or_none, sealed=sealed)) if sealed else Q()


class IsReadable(Func):
    """Whether a person may read a task, by its environment, its id, and the split that it was played from.

    It is SQL because Django takes a millisecond to make such a condition, which a page has several times. Most rows are
    decided by what comes first. Places that have ended count as sealed (`SplitChange`). Episodes are looked up by their
    task, because those of a split are more. PostgreSQL may make a table of all tasks for an EXISTS, so there is none.
    """

    SQL = """({environment} IS NULL OR {environment} NOT IN ({environments})
    OR ({split} IS NULL OR {split} NOT IN ({splits})) AND ((
        SELECT 1 FROM environments_splitentry AS place WHERE place.task_id = {task} AND place.split_id NOT IN ({splits})
        AND (
            SELECT place.since <= split.version AND (place.until IS NULL OR place.until > split.version)
            FROM environments_split AS split WHERE split.id = place.split_id AND split.is_served
        )
        LIMIT 1
    ) IS NOT NULL OR (
        WITH RECURSIVE version(id) AS (
            SELECT {task}
            UNION SELECT old.replaced_by_id FROM environments_task AS old JOIN version ON old.id = version.id
            WHERE old.replaced_by_id IS NOT NULL
        )
        SELECT 1 FROM version JOIN environments_splitentry AS place ON place.task_id = version.id
        WHERE place.split_id IN ({splits}) LIMIT 1
    ) IS NULL AND (
        SELECT 1 FROM episodes_episode AS played WHERE played.task_id = {task} AND played.split_id + 0 IN ({splits})
        LIMIT 1
    ) IS NULL))"""
    arity = 3
    output_field = BooleanField()

    def __init__(self, environment: F, task: F, split: F | Value, *, sealed: Mapping[int, int]) -> None:
        super().__init__(environment, task, split)
        self.splits = ", ".join(map(str, sorted(sealed)))
        self.environments = ", ".join(map(str, sorted(set(sealed.values()))))

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *_: Any, **__: Any) -> Any:
        environment, task, split = (compiler.compile(one)[0] for one in self.get_source_expressions())
        ids = {"splits": self.splits, "environments": self.environments}
        return self.SQL.format(environment=environment, task=task, split=split, **ids), []


MAX_NAMED = 20
"""Members that the sentence of `who_sees` names."""


def who_sees(environment: Environment) -> str:
    """Return the sentence that says who sees a private environment. Two queries."""
    names = list(environment.members.order_by("username").values_list("username", flat=True))
    names += [f"the group {name}" for name in environment.member_groups.order_by("name").values_list("name", flat=True)]
    shown = names[:MAX_NAMED] + ([f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else [])
    return f"Seen only by {', '.join([*shown, 'operators'])}, and by API keys that name it."


def private_names() -> dict[str, int]:
    """Return the ids of all private environments by name, in lower case. One query."""
    return {name.lower(): pk for pk, name in Environment.objects.filter(is_private=True).values_list("pk", "name")}


def names_of(hidden: frozenset[int]) -> frozenset[str]:
    """Return the names of these environments, in lower case. One query, unless there are none."""
    if not hidden:
        return frozenset()
    return frozenset(name.lower() for name in Environment.objects.filter(pk__in=hidden).values_list("name", flat=True))
