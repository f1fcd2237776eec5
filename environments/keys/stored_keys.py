"""Create, change and revoke API keys. The text of a key exists only in the answer to who creates
it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from environments import conf, security_log
from environments.database.storable import id_in
from environments.display.visible import visible
from environments.errors import nearest
from environments.keys.agent_key import SCOPES
from environments.models import ApiKey
from environments.quotas import DESCRIPTIONS, MAX_QUOTA

PREFIX = "orsweb_"
"""Start of every key, by which people and scanners of repositories recognise one."""
HINT_CHARACTERS = len(PREFIX) + 5
"""Characters that lists show of a key: 30 of its 256 bits."""


def hash_key(text: str) -> bytes:
    """Return the SHA-256 under which a key is stored and found."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def make_key(name: str, **values: Any) -> tuple[ApiKey, str]:
    """Store a new key with the fields `values` of its row, and return the row and the key's text.

    Raises: ValidationError with a sentence about each wrong field.
    """
    text = _new_text()
    row = ApiKey(
        name=name.strip(),
        digest=hash_key(text).hex(),
        hint=text[:HINT_CHARACTERS],
        **_without_repetitions(values),
    )
    row.clean_fields(exclude=["owner"])
    check_key(row, is_new_expiry=True)
    with _name_is_free(row):
        row.save(force_insert=True)
    names = ("scopes", "environments", "splits", "run", "owner", "expires")
    facts = facts_of(row)
    limits = "; ".join(f"{name}: {facts[name]}" for name in names if facts[name])
    security_log.note("key_made", f"key {row.name}", detail=limits)
    return row, text


def check_key(row: ApiKey, *, is_new_expiry: bool) -> None:
    """Check the values of a key that is to be stored. Raises: ValidationError."""
    problems = dict[str, str]()
    # owners of people's sessions start with @, and no key may open those
    if visible(row.name) != row.name or not row.name.isprintable():
        problems["name"] = f"The name {visible(row.name)!r} has characters that can't be seen."
    if row.name.startswith("@"):
        problems["name"] = f"The name {row.name!r} starts with @, which is reserved for people."
    if (
        row.name in conf.settings_keys()
        or ApiKey.objects.filter(name=row.name).exclude(pk=row.pk).exists()
    ):
        problems["name"] = _name_is_taken(row.name)
    if unknown := sorted(set(row.scopes) - set(SCOPES)):
        problems["scopes"] = f"There is no scope {unknown[0]!r}; use one of {', '.join(SCOPES)}."
    if not row.scopes:
        problems["scopes"] = f"A key needs at least one scope; use {', '.join(SCOPES)}."
    if problem := _problem_of(row.quotas):
        problems["quotas"] = problem
    if is_new_expiry and row.expires is not None and row.expires <= timezone.now():
        problems["expires"] = "The key would have expired already; choose a time in the future."
    if problems:
        raise ValidationError(problems)


def revoke_key(row: ApiKey, author: str) -> bool:
    """Revoke the key, which the server refuses within a second; return False if it was revoked
    before."""
    rows = ApiKey.objects.filter(pk=row.pk, revoked=None)
    if not rows.update(revoked=timezone.now(), revoked_by=author[:150], version=F("version") + 1):
        return False
    security_log.note("key_revoked", f"key {row.name}")
    return True


def find_key(name: str) -> ApiKey:
    """Return a key of the database that was not revoked. Raises: ValidationError."""
    row = ApiKey.objects.filter(name=name).first()
    if row is None:
        where = (
            " It is in ORSWEB_API_KEYS: change it there." if name in conf.settings_keys() else ""
        )
        hint = where or nearest(name, ApiKey.objects.values_list("name", flat=True))
        raise ValidationError(f"There is no API key named {name!r} in the database.{hint}")
    if row.revoked is not None:
        raise ValidationError(
            f"The API key {name!r} was revoked on {row.revoked:%Y-%m-%d %H:%M} UTC already."
        )
    return row


def quotas_in(texts: Sequence[str]) -> dict[str, int | None]:
    """Return the quotas in texts such as `requests=600`, by name; None: the server's default.
    Raises: ValidationError."""
    quotas: dict[str, int | None] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if value != "default" and id_in(value) is None:
            raise ValidationError(
                f"{text!r} is no quota; write it like requests=600, requests=0 or requests=default."
            )
        quotas[name] = None if value == "default" else int(value)
    if problem := _problem_of({name: value or 0 for name, value in quotas.items()}):
        raise ValidationError(problem)
    return quotas


def change_key(row: ApiKey, **values: Any) -> str:
    """Change fields of the key, which is in force within a second; return what changed, in words.

    A key that was used keeps its name: what was recorded with it belongs to that name, so nobody
    may take it later. Raises: ValidationError with a sentence about each wrong value.
    """
    before, old_name, old_expiry = facts_of(row), row.name, row.expires
    values = _without_repetitions(values)
    for field, value in values.items():
        setattr(row, field, value)
    row.clean_fields(exclude=["owner"])
    check_key(row, is_new_expiry=row.expires != old_expiry)
    if row.name != old_name and row.last_used is not None:
        raise ValidationError(
            {"name": f"The key {old_name!r} was used already, so it keeps its name."}
        )
    after = facts_of(row)
    changes = "; ".join(
        f"{name}: {value} (was {before[name]})"
        for name, value in after.items()
        if value != before[name]
    )
    if changes:
        with _name_is_free(row):
            ApiKey.objects.filter(pk=row.pk).update(**values, version=F("version") + 1)
        security_log.note("key_changed", f"key {old_name}", detail=changes)
    return changes


def rotate_key(row: ApiKey) -> str:
    """Give the key another text, and return it. The server refuses the old one within a second;
    sessions go on."""
    text = _new_text()
    ApiKey.objects.filter(pk=row.pk).update(
        digest=hash_key(text).hex(), hint=text[:HINT_CHARACTERS], version=F("version") + 1
    )
    row.refresh_from_db()
    security_log.note("key_changed", f"key {row.name}", detail="another text")
    return text


def status_of(row: ApiKey) -> str:
    """Return one word for a key: active, expired, revoked, or disabled with its owner's account."""
    if row.revoked is not None:
        return "revoked"
    if row.expires is not None and row.expires <= timezone.now():
        return "expired"
    return "disabled" if row.owner is not None and not row.owner.is_active else "active"


def keys_naming(environment: str) -> list[ApiKey]:
    """Return the keys that name the environment and were not revoked, by name. One query, of all
    keys."""
    rows = ApiKey.objects.filter(revoked=None).order_by("name")
    return [row for row in rows if environment.lower() in map(str.lower, row.environments)]


def facts_of(row: ApiKey, unseen: Collection[str] = ()) -> Mapping[str, str]:
    """Return what a list shows of a key, by heading. `unseen`: environments not to be named, in
    lower case."""
    environments = [name for name in row.environments if name.lower() not in unseen]
    if len(environments) < len(row.environments):
        environments.append("others")
    return {
        "name": row.name,
        "key": f"{row.hint}…",
        "status": status_of(row),
        "scopes": ", ".join(scope for scope in SCOPES if scope in row.scopes),
        "environments": ", ".join(environments) or "all",
        "splits": ", ".join(row.splits) or "all",
        "run": row.run or "any",
        "quotas": ", ".join(
            f"{name} {row.quotas[name]:,}" for name in DESCRIPTIONS if name in row.quotas
        )
        or "default",
        "owner": row.owner.get_username() if row.owner else "",
        "expires": _day(row.expires) or "never",
        "last used": f"{_day(row.last_used)} from {row.last_address}" if row.last_used else "never",
    }


def _new_text() -> str:
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


def _without_repetitions(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with each scope, environment and split once."""
    return {
        name: list(dict.fromkeys(value)) if isinstance(value, list) else value
        for name, value in values.items()
    }


def _problem_of(quotas: Any) -> str:
    """Return what is wrong with the quotas of a key, as a sentence; empty if nothing is."""
    if not isinstance(quotas, Mapping):
        quotas = {"quotas": None}
    for name, value in quotas.items():
        if name not in DESCRIPTIONS:
            return f"There is no quota {name!r}; use one of {', '.join(DESCRIPTIONS)}."
        if type(value) is not int or not 0 <= value <= MAX_QUOTA:
            return (
                f"The quota {name} is {value!r}; it must be a whole number up to {MAX_QUOTA:,}, "
                "and 0 for no limit."
            )
    return ""


def _day(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""


@contextmanager
def _name_is_free(row: ApiKey) -> Iterator[None]:
    """Store the key in the block. Raises: ValidationError if its name was taken since it was
    checked."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        raise ValidationError({"name": _name_is_taken(row.name)}) from None


def _name_is_taken(name: str) -> str:
    return f"There is already a key named {name!r}; choose another name."
