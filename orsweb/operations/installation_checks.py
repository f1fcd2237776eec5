"""What the checks of `doctor` return, and the checks of the place: disk, files, settings, proxies
and migrations."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.checks import run_checks
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from environments import command_line
from orsweb.server import pending_migrations

MIN_FREE_BYTES = 1_000_000_000
MIN_FREE_SHARE = 0.1
MAX_NAMED = 5
"""Rows that a problem names, as examples."""


@dataclass(frozen=True, slots=True)
class DoctorProblem:
    """Something that is wrong."""

    sentence: str
    remedy: str
    """What to do, as a sentence."""
    is_grave: bool = True
    """False for what works, but not as well as it could."""


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    name: str
    """What is true if nothing is found."""
    find: Callable[[], Iterator[DoctorProblem]]


def listing(ids: Sequence[object]) -> str:
    """Return the first of some rows, for people to look them up."""
    names = ", ".join(map(str, ids[:MAX_NAMED]))
    return f"{names} and {len(ids) - MAX_NAMED:,} more" if len(ids) > MAX_NAMED else names


def rows(sql: str, values: Sequence[int] = ()) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, list(values))
        return list(cursor.fetchall())


def unusable(error: DatabaseError) -> DoctorProblem:
    """Return the problem that the database cannot be read."""
    reason = " ".join(str(error).split()).rstrip(".")
    if "no such" in reason or "does not exist" in reason:
        remedy = (
            f"Run {command_line.command('migrate')}; if nothing was left to migrate, restore the "
            "latest backup."
        )
    elif "malformed" in reason or "not a database" in reason:
        remedy = (
            "The file is damaged: stop the server, restore the latest backup, and look at the disk."
        )
    else:
        remedy = "See whether it runs, can be reached, and is the one that DATABASE_URL names."
    return DoctorProblem(f"The database cannot be used: {reason}.", remedy)


def check_migrations() -> Iterator[DoctorProblem]:
    executor = MigrationExecutor(connection)
    if newer := pending_migrations.newer_than_this(executor.loader.applied_migrations):
        yield DoctorProblem(
            f"The database {newer}.", "Install that version, or restore a backup from before."
        )
    if plan := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        names = listing([f"{migration.app_label}.{migration.name}" for migration, _ in plan])
        yield DoctorProblem(
            f"Migrations are pending: {names}.", f"Run {command_line.command('migrate')}."
        )


def check_database_file() -> Iterator[DoctorProblem]:
    if connection.vendor != "sqlite":
        return
    results = rows("PRAGMA integrity_check(5)")
    if results != [("ok",)]:
        damage = "; ".join(str(text) for (text,) in results)
        yield DoctorProblem(
            f"The database file is damaged: {damage}.",
            "Stop the server and restore the latest backup; look at the disk.",
        )


def check_disk() -> Iterator[DoctorProblem]:
    places = {"The data directory": Path(settings.DATA_DIR)}
    if connection.vendor == "sqlite":
        places["The database"] = Path(str(connection.settings_dict["NAME"])).resolve().parent
    for name, place in places.items():
        usage = shutil.disk_usage(place)
        if usage.free < max(MIN_FREE_BYTES, MIN_FREE_SHARE * usage.total):
            yield DoctorProblem(
                f"{name} ({place}) has {usage.free / 1e9:.1f} of {usage.total / 1e9:.1f} GB left.",
                "Remove old episodes with prune_episodes, set a retention period, or use a larger "
                "disk.",
                is_grave=usage.free < MIN_FREE_BYTES,
            )


def check_file_modes() -> Iterator[DoctorProblem]:
    secret = [Path(settings.DATA_DIR), Path(settings.DATA_DIR) / "secret_key"]
    if connection.vendor == "sqlite":
        file = Path(str(connection.settings_dict["NAME"])).resolve()
        secret += [file, file.with_name(f"{file.name}-wal")]
    for path in secret:
        if path.exists() and (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
            yield DoctorProblem(
                f"Other users of this machine may use {path} (mode {mode:04o}).",
                f"Run chmod go= {path}.",
            )


def check_settings() -> Iterator[DoctorProblem]:
    for message in run_checks(include_deployment_checks=True):
        if not message.is_silenced():
            sentence = f"{message.msg.rstrip('.')} ({message.id})."
            yield DoctorProblem(sentence, message.hint or "See docs/operations.md.")
    if settings.DEBUG:
        yield DoctorProblem(
            "ORSWEB_DEBUG is on: pages show code and settings.", "Unset ORSWEB_DEBUG."
        )


def check_proxies() -> Iterator[DoctorProblem]:
    if "*" in str(settings.FORWARDED_ALLOW_IPS).split(","):
        yield DoctorProblem(
            "FORWARDED_ALLOW_IPS=* lets every client say which address it has.",
            "Set it to the addresses of your proxies.",
        )
    if settings.ORSWEB_API_KEYS and not settings.ORSWEB_ALLOWED_HOSTS:
        yield DoctorProblem(
            "There are API keys, but only this machine's own names are served.",
            "Set ORSWEB_ALLOWED_HOSTS to the name under which others reach this server.",
            is_grave=False,
        )


PLACE_CHECKS = (
    DoctorCheck("The database has all migrations", check_migrations),
    DoctorCheck("The database file is intact", check_database_file),
    DoctorCheck("The disk has free space", check_disk),
    DoctorCheck("Only the server's user can read its files", check_file_modes),
    DoctorCheck("Settings suit a server in production", check_settings),
    DoctorCheck("Proxies and host names are set", check_proxies),
)
