"""Tells the security log of logins, and of changes of accounts, groups, environments' access and
retention periods.

Django's signals show them wherever they come from: a page, the admin, a command, or a script.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth import signals as auth
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save
from django.http import HttpRequest

from environments.access.local_operator import OPERATOR
from environments.models import Environment, Split
from environments.security_log import note
from episodes.models import Retention

WATCHED: Mapping[type[Model], tuple[str, tuple[str, ...]]] = {
    User: (
        "account_changed",
        ("username", "email", "is_active", "is_staff", "is_superuser", "password"),
    ),
    Group: ("group_changed", ("name",)),
    Environment: ("environment_changed", ("is_enabled", "is_blind", "is_private")),
    Split: ("environment_changed", ("is_sealed", "is_sealed_for_people")),
    Retention: ("retention_changed", ("environment_id", "run_id", "days")),
}
"""Models with the kind of event that a change is, and the fields whose changes are noted."""
BY_LOGIN = {"password"}
"""What a login itself saves besides its time: the password's hash, if it is an outdated one."""
MADE_BY_STARTS = (Environment, Split)
"""Rows that the start of a server makes: that they are new is not noted, nor that a split was
deleted. Nor is the account of the local operator."""
MAX_LISTED = 10


def connect() -> None:
    """Connect all of them; called once, when the models are loaded."""
    auth.user_logged_in.connect(_logged_in)
    auth.user_logged_out.connect(_logged_out)
    auth.user_login_failed.connect(_login_failed)
    for model in WATCHED:
        pre_save.connect(_remember, sender=model)
        post_save.connect(_saved, sender=model)
        if model is not Split:
            post_delete.connect(_deleted, sender=model)
    of_environments = (Environment.members.through, Environment.member_groups.through)
    for many in (
        User.groups.through,
        User.user_permissions.through,
        Group.permissions.through,
        *of_environments,
    ):
        m2m_changed.connect(_related, sender=many)


def _address_of(request: HttpRequest | None) -> str:
    return str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""


def _logged_in(sender: Any, request: HttpRequest | None, user: User, **more: Any) -> None:
    note("login", who=user.get_username(), address=_address_of(request))


def _logged_out(sender: Any, request: HttpRequest | None, user: User | None, **more: Any) -> None:
    if user is not None:
        note("logout", who=user.get_username(), address=_address_of(request))


def _login_failed(
    sender: Any, credentials: Mapping[str, Any], request: HttpRequest | None = None, **more: Any
) -> None:
    """Note the name only of an account that exists: people type passwords into the field of the
    name."""
    name = str(credentials.get("username") or "").replace("\0", "")
    known = name if name and User.objects.filter(username=name).exists() else ""
    what = (
        "single sign-on" if "code_verifier" in credentials else "" if known else "no such account"
    )
    detail = getattr(request, "sign_on_problem", "")
    note("login_failed", what, who=known, address=_address_of(request), detail=detail)


def _remember(
    sender: type[Model], instance: Any, raw: bool = False, update_fields: Any = None, **more: Any
) -> None:
    """Keep the values of before, for `_saved`."""
    instance._security_log_before = None
    names = WATCHED[sender][1]
    saved = set(names if update_fields is None else update_fields)
    if raw or saved == BY_LOGIN or saved.isdisjoint(names):
        return
    before = (
        sender._default_manager.filter(pk=instance.pk).values(*names).first()
        if instance.pk
        else None
    )
    instance._security_log_before = before or {}


def _saved(sender: type[Model], instance: Any, created: bool, **more: Any) -> None:
    kind, names = WATCHED[sender]
    before = instance.__dict__.pop("_security_log_before", None)
    if before is None:
        return
    if created:
        if sender not in MADE_BY_STARTS and str(instance) != OPERATOR:
            note(
                kind, _name_of(instance), detail=_rights_of(instance) if sender is User else "made"
            )
        return
    changed = [_change(name, before.get(name), getattr(instance, name)) for name in names]
    if words := [change for change in changed if change]:
        note(kind, _name_of(instance), detail="; ".join(words))


def _change(name: str, before: Any, after: Any) -> str:
    if before == after:
        return ""
    if isinstance(after, bool):
        return _words(name) if after else f"not {_words(name)}"
    return "password changed" if name == "password" else f"{_words(name)} {before!r} -> {after!r}"


def _words(name: str) -> str:
    return name.replace("is_", "").removesuffix("_id").replace("_", " ")


def _rights_of(user: User) -> str:
    rights = [name for name in ("is_staff", "is_superuser") if getattr(user, name)]
    return f"made with {_words(' and '.join(rights))} status" if rights else "made"


def _deleted(sender: type[Model], instance: Any, **more: Any) -> None:
    note(WATCHED[sender][0], _name_of(instance), detail="deleted")


def _related(
    sender: Any, instance: Any, action: str, model: Any, pk_set: Any, reverse: bool, **more: Any
) -> None:
    """Note which groups or permissions a user or group got or lost, which users a group, and an
    environment's members.

    The relations of users to groups are also changed from the group's side, with `reverse`.
    """
    verb = {"post_add": "added", "post_remove": "removed", "pre_clear": "removed all"}.get(action)
    if verb is None or (action != "pre_clear" and not pk_set):
        return
    rows = model._default_manager.filter(pk__in=sorted(pk_set or ())[:MAX_LISTED])
    listed = ", ".join(getattr(row, "codename", str(row)) for row in rows)
    kind = next(kind for model, (kind, _) in WATCHED.items() if isinstance(instance, model))
    note(
        kind,
        _name_of(instance),
        detail=f"{model._meta.verbose_name_plural} {verb}{': ' if listed else ''}{listed}",
    )


def _name_of(row: Model) -> str:
    return f"{row._meta.verbose_name} {row}"
