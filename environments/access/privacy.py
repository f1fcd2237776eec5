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

from django.db.models import BigIntegerField, BooleanField, Exists, F, Func, OuterRef, Q, Value

from environments.access.permissions import MAKE_STUDIES, SEE_HIDDEN, SEE_PRIVATE
from environments.models import Environment, Split, SplitEntry, Task, seen_at


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


def _read(user: Any) -> Hidden:
    private = Environment.objects.filter(is_private=True).order_by()
    sealed = Split.objects.filter(is_sealed_for_people=True).order_by().values_list("environment", "pk")
    no_split = Value(0, output_field=BigIntegerField())
    if user.has_perm(SEE_PRIVATE):
        private = private.none()
    if user.has_perm(SEE_HIDDEN):
        sealed = sealed.none()
    rows = list(private.annotate(split=no_split).values_list("pk", "split").union(sealed, all=True))
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


def outside_sealed_splits(hidden: frozenset[int], environment: str, task: str) -> Q:
    """Return the condition on rows whose task the person may read, by the paths to its environment and to the task.

    A task in a sealed split is sealed, and so is what it was before an edit, and what was in the split or played there
    while it was sealed. But what also stands in another split that is served can be read there by everybody.
    """
    if not (sealed := sealed_splits(hidden)):
        return Q()
    places = SplitEntry.objects.filter(seen_at(F("split__version")), task=OuterRef(task), split__is_served=True)
    # not looked up by the split, whose episodes are more than those of the task
    played = Task.objects.alias(of=F("episodes__split") + 0).filter(pk=OuterRef(task), of__in=list(sealed))
    is_sealed = Q(WasIn(F(task), splits=sealed)) | Q(Exists(played))
    is_open = Q(Exists(places.exclude(split__in=list(sealed))))
    return ~Q(**{f"{environment}__in": sorted(set(sealed.values()))}) | is_open | ~is_sealed


class WasIn(Func):
    """Whether a task, or one that edits put in its place, has or had a place in some splits."""

    template = """EXISTS (
        WITH RECURSIVE version(id) AS (
            SELECT %(expressions)s
            UNION SELECT old.replaced_by_id FROM environments_task AS old JOIN version ON old.id = version.id
            WHERE old.replaced_by_id IS NOT NULL
        )
        SELECT 1 FROM version JOIN environments_splitentry AS place ON place.task_id = version.id
        WHERE place.split_id IN (%(splits)s)
    )"""
    arity = 1
    output_field = BooleanField()

    def __init__(self, task: F, splits: Mapping[int, int]) -> None:
        super().__init__(task, splits=", ".join(map(str, sorted(splits))))


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
