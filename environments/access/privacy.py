"""Who may see a private environment.

A private environment, with its splits, tasks, episodes, figures and files, exists for its members only: accounts that
it names or whose group it names, and accounts with the permission SEE_PRIVATE, which operators have. An API key may use
it if the key names it or has the scope `admin` (`environments/keys/`). For everybody else, all doors answer as if there
were no such environment.

Queries of pages, admin and API leave out the ids that `hidden_from` returns; there are usually none. The same value
says whether studies that are not closed yet, and what is played in them, exist for the person: only people who may make
studies see these (`episodes/models/privacy.py`).
"""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from environments.access.permissions import MAKE_STUDIES, SEE_PRIVATE
from environments.models import Environment


class Hidden(frozenset[int]):
    """Ids of the private environments that do not exist for a person."""

    hides_open_studies = False
    """Whether studies that are not closed do not exist for them either."""
    open_studies: list[int] | None = None
    """Ids of these studies, once they were read."""


def hidden_from(user: Any) -> frozenset[int]:
    """Return the ids of the private environments that a person may not see. The first time one query, or two if some
    environments are private.

    Later calls with the same object return the same, so pass the `user` of one request, or load it again. A visitor
    without an account sees none of them.
    """
    if not hasattr(user, "hidden_environments"):
        hidden = Hidden(_hidden_from(user))
        hidden.hides_open_studies = not user.has_perm(MAKE_STUDIES)
        user.hidden_environments = hidden
    known: frozenset[int] = user.hidden_environments
    return known


def _hidden_from(user: Any) -> frozenset[int]:
    if user.has_perm(SEE_PRIVATE):
        return frozenset()
    private = frozenset(Environment.objects.filter(is_private=True).values_list("pk", flat=True))
    if not private or user.pk is None:
        return private
    is_member = Q(members=user.pk) | Q(member_groups__user=user.pk)
    return private.difference(Environment.objects.filter(is_member, is_private=True).values_list("pk", flat=True))


def visible(hidden: frozenset[int], path: str = "environment") -> Q:
    """Return the condition that leaves out rows of the environments in `hidden`.

    It is empty if `hidden` is, so that queries and their plans stay as they are. `path`: from a row to its environment.
    """
    return ~Q(**{f"{path}__in": hidden}) if hidden else Q()


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
