"""Versions of suites: publishing one, what its hash identifies, and checking that.

The hash is the sha256 of a JSON document with the score, the members, their definitions and
weights, and for each member a digest of its tasks. The digest begins with a salt, which only people
who see hidden fields learn: without it nobody can try out answers that are hidden from them until
the hash is right. docs/suites.md says how to check a hash.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from django.db import transaction
from django.db.models import Max, QuerySet

from environments.display.numbers import plain
from environments.errors import OrsError, nearest
from environments.models import Split, Viewer
from environments.scoring.convention import Convention
from environments.scoring.definition import Definition
from environments.scoring.returns import Return
from environments.tasks.split_indexes import served
from episodes.filtering.names import MAX_NAMES
from episodes.models import Suite, SuiteMember, SuiteTask, SuiteVersion

Score = Literal["success", "return"]
SCORES: tuple[Score, ...] = get_args(Score)
MAX_MEMBERS = 20
MAX_TASKS = 20_000
"""Tasks of all members of a version together; so many take 0.5 s to publish."""
MAX_WEIGHT = 1e6
MAX_NAME_CHARACTERS = 100
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_TAKEN = ("new",)
"""Names that are addresses of other pages."""


class SuiteRefused(OrsError):
    """A suite cannot be published as it was asked for. The message says why, and what is
    allowed."""


class UnchangedSuite(SuiteRefused):
    """The version would be the latest one again."""


@dataclass(frozen=True, slots=True)
class MemberAsked:
    split: Split
    """With its environment."""
    definition: Definition
    weight: float = 1.0
    only: frozenset[int] | None = None
    """Ids of the tasks of the split that the member has; None: all."""


@dataclass(frozen=True, slots=True)
class SuiteAsked:
    score: Score
    members: Sequence[MemberAsked]


def splits_for_suites(viewer: Viewer) -> QuerySet[Split]:
    """Return the splits whose tasks a person can put into a version, with their environments."""
    served_ones = (
        Split.objects.seen_by(viewer)
        .filter(is_served=True, size__gt=0)
        .select_related("environment")
    )
    return served_ones.order_by("environment__position", "environment__name", "position", "name")


def quoted_in(split: Split) -> str:
    """Return a sentence if a suite uses this split, else an empty string."""
    first = (
        SuiteMember.objects.filter(split=split).select_related("version").order_by("-pk").first()
    )
    return f"a suite has listed its tasks since {first.version.created:%Y-%m-%d}" if first else ""


def version_named(name: str, number: int | None, viewer: Viewer) -> SuiteVersion | str:
    """Return a version with its suite, the latest without a number; or a sentence that there is
    none."""
    rows = Suite.objects.seen_by(viewer)
    suite = rows.filter(name=name).first() if "\0" not in name else None
    if suite is None:
        return (
            "There is no suite "
            f"{name!r}.{nearest(name, list(rows.values_list('name', flat=True)[:MAX_NAMES]))}"
        )
    versions = SuiteVersion.objects.filter(suite=suite).select_related("suite").order_by("-number")
    found = versions.first() if number is None else versions.filter(number=number).first()
    return found or f"There is no v{number} of the suite {name}. Its page lists all versions."


def check_spelling(name: str, what: str) -> None:
    """Raises: SuiteRefused unless something whose name is part of addresses, a suite or a study,
    may be spelt so."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        raise SuiteRefused(
            f"A {what}'s name has 1 to {MAX_NAME_CHARACTERS} letters, digits, and - _ . between "
            f"them; {name[:120]!r} "
            "has not."
        )


def check_name(name: str) -> None:
    """Raises: SuiteRefused unless a new suite may have the name."""
    check_spelling(name, "suite")
    if name in _TAKEN or Suite.objects.filter(name=name).exists():
        raise SuiteRefused(f"The name {name!r} is taken. Choose another one.")


def publish(suite: Suite, asked: SuiteAsked, author: str) -> SuiteVersion:
    """Freeze what is asked for as the next version of the suite, which is saved if it is new.
    Raises: SuiteRefused."""
    _check(asked)
    lists = [_tasks_of(one) for one in asked.members]
    count = sum(map(len, lists))
    if count > MAX_TASKS:
        raise SuiteRefused(f"The members have {count:,} tasks together; {MAX_TASKS:,} are allowed.")
    salt = secrets.token_hex(16)
    members = [
        _member(number, one, salt, tasks)
        for number, (one, tasks) in enumerate(zip(asked.members, lists, strict=True), 1)
    ]
    with transaction.atomic():
        if suite.pk is None:
            check_name(suite.name)
            suite.save()
        # makes two who publish at once wait for each other
        Suite.objects.select_for_update().get(pk=suite.pk)
        latest = suite.versions.order_by("-number").first()
        if latest is not None and _is_same(latest, asked.score, members, lists):
            raise UnchangedSuite(
                f"Nothing has changed since v{latest.number}, so there is no new "
                "version to publish."
            )
        return _save(suite, asked.score, salt, members, lists, author)


def document_of(score: str, members: Iterable[SuiteMember]) -> str:
    """Return the JSON that a version's hash identifies: keys sorted, no spaces, ASCII."""
    listed = [
        {
            "environment": one.environment.name,
            "split": one.split_name,
            "tasks": one.tasks_count,
            "tasks_sha256": one.tasks_hash,
            **one.definition_content,
            "weight": one.weight,
        }
        for one in members
    ]
    return json.dumps(
        {"format": "orsweb suite 1", "members": listed, "score": score},
        sort_keys=True,
        separators=(",", ":"),
    )


def tasks_digest(salt: str, hashes: Iterable[str]) -> str:
    """Return the sha256 of the salt and the content hash of each task in order, each followed by a
    newline."""
    return hashlib.sha256("".join(f"{line}\n" for line in (salt, *hashes)).encode()).hexdigest()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def definition_of_member(member: SuiteMember) -> Definition:
    """Return the definition of return and success that the member's figures follow."""
    return Definition(
        cast(Return, member.return_name), member.threshold, Convention.from_code(member.convention)
    )


def members_of(version: SuiteVersion) -> list[SuiteMember]:
    """Return the members of a version in order, with their environments and splits. One query."""
    return list(version.members.select_related("environment", "split").order_by("number"))


def problems_of(version: SuiteVersion) -> list[str]:
    """Return a sentence for everything in the rows of a version that its hash does not identify;
    empty if all is right.

    It reads all of its tasks.
    """
    members = members_of(version)
    found = []
    for member in members:
        tasks = SuiteTask.objects.filter(member=member).order_by("position")
        hashes = tasks.values_list("task__content_hash", flat=True)
        if tasks_digest(version.salt, hashes) != member.tasks_hash:
            found.append(f"The tasks of {member.label} are not those that were published.")
    if document_of(version.score, members) != version.document:
        found.append("The members are not those that were published.")
    if digest(version.document) != version.hash:
        found.append("The hash is not that of the document.")
    return found


def _check(asked: SuiteAsked) -> None:
    if asked.score not in SCORES:
        raise SuiteRefused(f"The score {asked.score!r} is unknown; use {' or '.join(SCORES)}.")
    if not 0 < len(asked.members) <= MAX_MEMBERS:
        raise SuiteRefused(
            f"A suite has 1 to {MAX_MEMBERS} members; this one has {len(asked.members)}."
        )
    for one in asked.members:
        if not 0 < one.weight <= MAX_WEIGHT:
            raise SuiteRefused(
                f"The weight of {one.split} is {plain(one.weight)}; it must be above 0 and at most "
                f"{plain(MAX_WEIGHT)}."
            )
        if one.split.is_generated:
            raise SuiteRefused(
                f"The class generates the tasks of {one.split}, so there is no list to freeze. "
                "Save or import tasks "
                "as a new split and choose that."
            )
    keys = [(one.split.pk, one.definition) for one in asked.members]
    if twice := next(
        (one for one in asked.members if keys.count((one.split.pk, one.definition)) > 1), None
    ):
        raise SuiteRefused(
            f"{twice.split} is there twice with the same definition. Give it a weight instead."
        )


def _tasks_of(asked: MemberAsked) -> dict[int, str]:
    """Return the content hash of each task of the member by its id, in the order of the split."""
    places = served(asked.split).order_by("position").values_list("task", "task__content_hash")
    found = dict(places if asked.only is not None else places[: MAX_TASKS + 1])
    if asked.only is not None:
        found = {pk: digest for pk, digest in found.items() if pk in asked.only}
    if not found:
        raise SuiteRefused(
            f"{asked.split} has no {'such ' if asked.only is not None else ''}tasks now."
        )
    return found


def _member(number: int, asked: MemberAsked, salt: str, tasks: dict[int, str]) -> SuiteMember:
    split, definition = asked.split, asked.definition
    return SuiteMember(
        number=number,
        environment=split.environment,
        split=split,
        split_name=split.name,
        split_version=split.version,
        return_name=definition.return_,
        threshold=float(definition.threshold),
        convention=definition.convention.code,
        weight=float(asked.weight),
        tasks_count=len(tasks),
        tasks_hash=tasks_digest(salt, tasks.values()),
    )


def _is_same(
    latest: SuiteVersion,
    score: str,
    members: Sequence[SuiteMember],
    lists: Sequence[dict[int, str]],
) -> bool:
    """Return whether the latest version has the same score, and members that differ in nothing but
    their salt."""
    before = members_of(latest)
    if len(before) != len(members) or latest.score != score:
        return False
    for old, new, tasks in zip(before, members, lists, strict=True):
        same = (
            "split_id",
            "split_name",
            "return_name",
            "threshold",
            "convention",
            "weight",
            "tasks_count",
        )
        if any(getattr(old, name) != getattr(new, name) for name in same):
            return False
        if list(old.tasks.order_by("position").values_list("task", flat=True)) != list(tasks):
            return False
    return True


def _save(
    suite: Suite,
    score: str,
    salt: str,
    members: Sequence[SuiteMember],
    lists: Sequence[dict[int, str]],
    author: str,
) -> SuiteVersion:
    number = (suite.versions.aggregate(last=Max("number"))["last"] or 0) + 1
    document = document_of(score, members)
    version = SuiteVersion.objects.create(
        suite=suite,
        number=number,
        score=score,
        salt=salt,
        document=document,
        hash=digest(document),
        author=author,
    )
    for member, tasks in zip(members, lists, strict=True):
        member.version = version
        member.save()
        rows = [
            SuiteTask(member=member, position=position, task_id=pk)
            for position, pk in enumerate(tasks)
        ]
        SuiteTask.objects.bulk_create(rows, batch_size=1000)
    return version
