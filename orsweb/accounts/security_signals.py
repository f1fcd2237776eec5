"""Notes logins, and changes of accounts, groups, access to environments and retention periods, in
the security log.

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
    auth.user_logged_in.connect(note_login)
    auth.user_logged_out.connect(note_logout)
    auth.user_login_failed.connect(note_failed_login)
    for model in WATCHED:
        pre_save.connect(remember_values, sender=model)
        post_save.connect(note_saved, sender=model)
        if model is not Split:
            post_delete.connect(note_deleted, sender=model)
    for relation in (
        User.groups.through,
        User.user_permissions.through,
        Group.permissions.through,
        Environment.members.through,
        Environment.member_groups.through,
    ):
        m2m_changed.connect(note_relation, sender=relation)


def _address_of(request: HttpRequest | None) -> str:
    return str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""


def note_login(sender: Any, request: HttpRequest | None, user: User, **more: Any) -> None:
    note("login", who=user.get_username(), address=_address_of(request))


def note_logout(sender: Any, request: HttpRequest | None, user: User | None, **more: Any) -> None:
    if user is not None:
        note("logout", who=user.get_username(), address=_address_of(request))


def note_failed_login(
    sender: Any, credentials: Mapping[str, Any], request: HttpRequest | None = None, **more: Any
) -> None:
    """Note the name only of an account that exists: people type passwords into the field of the
    name."""
    name = str(credentials.get("username") or "").replace("\0", "")
    username = name if name and User.objects.filter(username=name).exists() else ""
    what = "" if username else "no such account"
    if "code_verifier" in credentials:
        what = "single sign-on"
    detail = getattr(request, "sign_on_problem", "")
    note("login_failed", what, who=username, address=_address_of(request), detail=detail)


def remember_values(
    sender: type[Model], instance: Any, raw: bool = False, update_fields: Any = None, **more: Any
) -> None:
    """Keep the values of before, for `note_saved`."""
    instance._security_log_before = None
    names = WATCHED[sender][1]
    field_names = set(names if update_fields is None else update_fields)
    if raw or field_names == BY_LOGIN or field_names.isdisjoint(names):
        return
    rows = sender._default_manager.filter(pk=instance.pk).values(*names)
    before = rows.first() if instance.pk else None
    instance._security_log_before = before or {}


def note_saved(sender: type[Model], instance: Any, created: bool, **more: Any) -> None:
    kind, names = WATCHED[sender]
    before = instance.__dict__.pop("_security_log_before", None)
    if before is None:
        return
    if created:
        if sender not in MADE_BY_STARTS and str(instance) != OPERATOR:
            rights = [
                name for name in ("is_staff", "is_superuser") if getattr(instance, name, False)
            ]
            detail = f"made with {_words(' and '.join(rights))} status" if rights else "made"
            note(kind, _name_of(instance), detail=detail)
        return
    changes = list[str]()
    for name in names:
        old, new = before.get(name), getattr(instance, name)
        if old == new:
            continue
        if isinstance(new, bool):
            changes.append(_words(name) if new else f"not {_words(name)}")
        elif name == "password":
            changes.append("password changed")
        else:
            changes.append(f"{_words(name)} {old!r} -> {new!r}")
    if changes:
        note(kind, _name_of(instance), detail="; ".join(changes))


def _words(name: str) -> str:
    return name.replace("is_", "").removesuffix("_id").replace("_", " ")


def note_deleted(sender: type[Model], instance: Any, **more: Any) -> None:
    note(WATCHED[sender][0], _name_of(instance), detail="deleted")


def note_relation(
    sender: Any, instance: Any, action: str, model: Any, pk_set: Any, reverse: bool, **more: Any
) -> None:
    """Note which groups, permissions, users or members a row got or lost."""
    verb = {"post_add": "added", "post_remove": "removed", "pre_clear": "removed all"}.get(action)
    if verb is None or (action != "pre_clear" and not pk_set):
        return
    rows = model._default_manager.filter(pk__in=sorted(pk_set or ())[:MAX_LISTED])
    names = ", ".join(getattr(row, "codename", str(row)) for row in rows)
    kind = next(kind for model, (kind, _) in WATCHED.items() if isinstance(instance, model))
    detail = f"{model._meta.verbose_name_plural} {verb}"
    note(kind, _name_of(instance), detail=f"{detail}: {names}" if names else detail)


def _name_of(row: Model) -> str:
    return f"{row._meta.verbose_name} {row}"
