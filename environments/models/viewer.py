"""Who looks: the value that every queryset takes, as in `Episode.objects.seen_by(viewer)`.

It says what does not exist for a person or an API key: private environments, the tasks of splits
that are sealed for people, and studies that are not closed yet. `environments/access/privacy.py`
has the rules and makes it for a person, `episodes/models/privacy.py` has the conditions on what was
played.

A condition is empty if nothing is hidden from the viewer, so that queries and their plans stay as
they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, Q, Value
from django.db.models.sql.compiler import SQLCompiler


@dataclass(unsafe_hash=True)
class Viewer:
    """What is hidden from somebody who looks."""

    hidden_environments: frozenset[int] = frozenset()
    """Ids of the private environments that do not exist for the viewer."""
    sealed_splits: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Environment by split, as ids, of the splits that are sealed for people and that the viewer
    may not read."""
    sees_open_studies: bool = True
    """Whether studies that are not closed exist for the viewer."""
    reads_hidden_fields: bool = True
    """Whether the viewer reads tasks completely."""
    is_key: bool = False
    """Whether an API key looks. Splits that are sealed for keys are sealed for it, unless it reads
    hidden fields."""
    key_label: str | None = None
    """Label of the API key that looks, which reads only what was recorded with it. None: a person,
    or a key that reads all records."""
    open_studies: list[int] | None = field(default=None, compare=False)
    """Ids of the studies that do not exist for the viewer, once `episodes/models/privacy.py` has
    read them."""

    @property
    def hides_anything(self) -> bool:
        """Whether a text about anything, such as a log, may tell of what the viewer may not see.
        Open studies do not matter, as such texts do not name them."""
        return bool(self.hidden_environments or self.sealed_splits)

    def sees_environment(self, pk: int) -> bool:
        return pk not in self.hidden_environments

    def sees_all_of(self, other: Viewer) -> bool:
        """Return whether every environment that exists for `other` exists for the viewer."""
        return self.hidden_environments <= other.hidden_environments


UNRESTRICTED = Viewer()
"""The server itself and its commands: everything exists for them."""


def visible_environments(viewer: Viewer, path: str = "environment") -> Q:
    """Return the condition that leaves out rows of hidden environments. `path`: from a row to its
    environment."""
    ids = viewer.hidden_environments
    return ~Q(**{f"{path}__in": ids}) if ids else Q()


def visible_splits(viewer: Viewer, path: str = "") -> Q:
    """Return the condition on splits whose tasks a person may choose or change. `path`: from a row
    to its split, with the underscores after it.
    """
    condition = visible_environments(viewer, f"{path}environment")
    if viewer.sealed_splits:
        condition &= ~Q(**{f"{path}pk__in": list(viewer.sealed_splits)})
    return condition


def visible_tasks(viewer: Viewer, path: str = "") -> Q:
    """Return the condition on tasks. `path`: from a row to its task, with the underscores after
    it."""
    environment = f"{path}environment"
    return visible_environments(viewer, environment) & outside_sealed_splits(
        viewer, environment, f"{path}pk"
    )


def outside_sealed_splits(
    viewer: Viewer, environment: str, task: str, split: str | None = None
) -> Q:
    """Return the condition on rows whose task the person may read, by the paths to its environment
    and to the task.

    `split`: path to the split that it was played from, which must not be sealed either.

    A task in a sealed split is sealed, and so is what it was before an edit, and what was in the
    split or played there while it was sealed. But what also stands in another split that is served
    can be read there by everybody.
    """
    sealed_splits = viewer.sealed_splits
    split_or_none = Value(None) if split is None else F(split)
    if not sealed_splits:
        return Q()
    return Q(IsReadable(F(environment), F(task), split_or_none, sealed_splits=sealed_splits))


class IsReadable(Func):
    """Whether a person may read a task, by its environment, its id, and the split that it was
    played from.

    It is SQL because Django takes a millisecond to build such a condition, and a page has several.
    Most rows are decided by what comes first. Places that have ended count as sealed
    (`SplitChange`). Episodes are looked up by their task, because those of a split are more.
    PostgreSQL may make a table of all tasks for an EXISTS, so there is none.
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

    def __init__(
        self, environment: F, task: F, split: F | Value, *, sealed_splits: Mapping[int, int]
    ) -> None:
        super().__init__(environment, task, split)
        self.splits = ", ".join(map(str, sorted(sealed_splits)))
        self.environments = ", ".join(map(str, sorted(set(sealed_splits.values()))))

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *_: Any, **__: Any
    ) -> Any:
        environment, task, split = (
            compiler.compile(expression)[0] for expression in self.get_source_expressions()
        )
        ids = {"splits": self.splits, "environments": self.environments}
        return self.SQL.format(environment=environment, task=task, split=split, **ids), []
