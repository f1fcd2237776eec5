"""What does not exist for a person: private environments, the tasks of splits that are sealed for
people, open studies.

A private environment, with its splits, tasks, episodes, figures and files, exists for its members
only: accounts that it names or whose group it names, and accounts with the permission SEE_PRIVATE,
which operators have. An API key may use it if the key names it or has the scope `admin`
(`environments/keys/`). For everybody else, all doors answer as if there were no such environment.

The tasks of a split that is sealed for people, and what was played of them, exist for people who
may see hidden fields of tasks. Others see the split's name and its figures, but no text. It is like
the scope `curate` of a key.

Pages, admin and API pass the person's `Viewer` to each query (`environments/models/viewer.py`). It
also says whether studies that are not closed yet, and what is played in them, exist for the person:
only people who may make studies see these (`episodes/models/privacy.py`).
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import Q

from environments.access.permissions import MAKE_STUDIES, SEE_HIDDEN, SEE_PRIVATE
from environments.models import Environment, Viewer


def viewer_of(user: Any) -> Viewer:
    """Return what exists for a person. One query, or two if some environments are private.

    The user object keeps the answer, so pass the `user` of one request, or load it again. A visitor
    without an account sees no private environment.
    """
    if not hasattr(user, "viewer"):
        user.viewer = _read(user)
    viewer: Viewer = user.viewer
    return viewer


_PRIVATE = "SELECT id, 0 FROM environments_environment WHERE is_private"
_SEALED = "SELECT environment_id, id FROM environments_split WHERE is_sealed_for_people"


def _read(user: Any) -> Viewer:
    queries = [
        query
        for query, permission in ((_PRIVATE, SEE_PRIVATE), (_SEALED, SEE_HIDDEN))
        if not user.has_perm(permission)
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
    sealed_splits = {split: environment for environment, split in rows if split}
    return Viewer(
        hidden_environments=environments,
        sealed_splits=sealed_splits,
        sees_open_studies=user.has_perm(MAKE_STUDIES),
        reads_hidden_fields=user.has_perm(SEE_HIDDEN),
    )


MAX_NAMED = 20
"""Members that the sentence of `who_sees` names."""


def who_sees(environment: Environment) -> str:
    """Return the sentence that says who sees a private environment. Two queries."""
    names = list(environment.members.order_by("username").values_list("username", flat=True))
    names += [
        f"the group {name}"
        for name in environment.member_groups.order_by("name").values_list("name", flat=True)
    ]
    if len(names) > MAX_NAMED:
        names[MAX_NAMED:] = [f"{len(names) - MAX_NAMED} more"]
    return f"Seen only by {', '.join([*names, 'operators'])}, and by API keys that name it."


def private_names() -> dict[str, int]:
    """Return the ids of all private environments by name, in lower case. One query."""
    return {
        name.lower(): pk
        for pk, name in Environment.objects.filter(is_private=True).values_list("pk", "name")
    }


def hidden_names(viewer: Viewer) -> frozenset[str]:
    """Return the names of the environments that do not exist for the viewer, in lower case. One
    query, unless there are none."""
    if not viewer.hidden_environments:
        return frozenset()
    rows = Environment.objects.filter(pk__in=viewer.hidden_environments)
    return frozenset(name.lower() for name in rows.values_list("name", flat=True))
