"""The permissions that pages and API require, and the sentence for a person who lacks one.

Four groups exist from the start (made by the first migration of `episodes`): viewer, player,
curator and operator. An administrator may rename and change them, so nothing here depends on their
names: the sentence lists the groups that have the permission now.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.db import connection

SEE_PAGES = "episodes.view_episode"
PLAY = "episodes.add_play"
INVITE = "episodes.add_invite"
WRITE_NOTES = "episodes.add_note"
SAVE_VIEWS = "episodes.add_savedview"
FLAG_TASKS = "environments.add_taskflag"
SEE_HIDDEN = "environments.view_hidden_fields"
SEE_PRIVATE = "environments.view_private_environments"
DESCRIBE_RUNS = "episodes.change_run"
PUBLISH_SUITES = "episodes.add_suite"
MAKE_STUDIES = "episodes.add_study"
SEE_OPERATIONS = "episodes.view_operations"
SEE_INCIDENTS = "episodes.view_incident"
CHANGE_KEYS = "environments.change_apikey"
OPEN_ADMIN = "environments.open_admin"

ACTS = {
    SEE_PAGES: "see the pages of this server",
    PLAY: "play in the browser",
    INVITE: "invite guests",
    WRITE_NOTES: "write notes",
    SAVE_VIEWS: "save views",
    FLAG_TASKS: "flag tasks",
    SEE_PRIVATE: "see private environments",
    DESCRIBE_RUNS: "describe runs",
    PUBLISH_SUITES: "publish suites",
    MAKE_STUDIES: "make studies",
    SEE_OPERATIONS: "see the operation of this server",
    OPEN_ADMIN: "open the admin",
}
"""What a person does with each permission, to follow "may not"."""
MAX_GROUPS = 20


ALL_OF_A_PERSON = """
SELECT app_label || '.' || codename FROM auth_permission AS p JOIN django_content_type AS t ON t.id = p.content_type_id
WHERE p.id IN (
    SELECT permission_id FROM auth_user_user_permissions WHERE user_id = %s UNION ALL
    SELECT permission_id FROM auth_group_permissions JOIN auth_user_groups USING (group_id) WHERE user_id = %s
)"""


def read_permissions(user: Any) -> None:
    """Read all permissions of an account with one query, into Django's cache for `has_perm`.

    Django itself runs two, for the account's own and for those of its groups, which takes a tenth
    of the time of a plain page.
    """
    if (
        user.is_active
        and not user.is_superuser
        and user.pk is not None
        and not hasattr(user, "_perm_cache")
    ):
        with connection.cursor() as cursor:
            cursor.execute(ALL_OF_A_PERSON, [user.pk, user.pk])
            user._perm_cache = {permission for (permission,) in cursor.fetchall()}


def may_open_admin(user: Any) -> bool:
    """Return whether the person may open the admin, whose pages require further permissions."""
    return bool(user.is_active and (user.is_staff or user.has_perm(OPEN_ADMIN)))


def refusal(user: Any, permission: str) -> str:
    """Return the sentences that say what the person may not do, and which groups may."""
    name = name_of(permission)
    act = ACTS.get(permission, f"do this, which takes the permission “{name}”")
    *others, last = groups_with(permission) or [""]
    if others:
        rule = f"One of the groups {', '.join(others)} or {last} is needed"
    elif last:
        rule = f"The group {last} is needed"
    else:
        rule = f"No group has the permission for it, “{name}”"
    return (
        f"Your account, {user.get_username()}, may not {act}. {rule}. A superuser can change that "
        "in the admin under Users."
    )


def groups_with(permission: str) -> list[str]:
    """Return the names of the groups that give a permission."""
    app, _, codename = permission.partition(".")
    groups = Group.objects.filter(
        permissions__codename=codename, permissions__content_type__app_label=app
    )
    return list(groups.order_by("pk").values_list("name", flat=True)[:MAX_GROUPS])


def name_of(permission: str) -> str:
    """Return the name of a permission as the admin shows it."""
    app, _, codename = permission.partition(".")
    names = Permission.objects.filter(codename=codename, content_type__app_label=app).values_list(
        "name", flat=True
    )
    return names.first() or permission
