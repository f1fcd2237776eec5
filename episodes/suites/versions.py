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
from django.db.models import Count, QuerySet

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


class SuiteRefused(OrsError):
    """A suite cannot be published. The message says why, and what is allowed."""


class UnchangedSuite(SuiteRefused):
    """The version would be the latest one again."""


@dataclass(frozen=True, slots=True)
class NewMember:
    """A member of a version that is to be published."""

    split: Split
    """With its environment."""
    definition: Definition
    weight: float = 1.0
    only: frozenset[int] | None = None
    """Ids of the tasks of the split that the member has; None: all."""


def splits_for_suites(viewer: Viewer) -> QuerySet[Split]:
    """Return the splits whose tasks a person can put into a version, with their environments."""
    return (
        Split.objects.seen_by(viewer)
        .filter(is_served=True, size__gt=0)
        .select_related("environment")
        .order_by("environment__position", "environment__name", "position", "name")
    )


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
        names = list(rows.values_list("name", flat=True)[:MAX_NAMES])
        return f"There is no suite {name!r}.{nearest(name, names)}"
    versions = SuiteVersion.objects.filter(suite=suite).select_related("suite").order_by("-number")
    if number is not None:
        versions = versions.filter(number=number)
    return (
        versions.first()
        or f"There is no v{number} of the suite {name}. Its page lists all versions."
    )


def check_spelling(name: str, what: str) -> None:
    """Raises: SuiteRefused unless a suite or a study, whose name is part of addresses, may be spelt
    so."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        raise SuiteRefused(
            f"A {what}'s name has 1 to {MAX_NAME_CHARACTERS} letters, digits, and - _ . between "
            f"them; {name[:120]!r} has not."
        )


def check_name(name: str) -> None:
    """Raises: SuiteRefused unless a new suite may have the name."""
    check_spelling(name, "suite")
    # suites/new/ is the address of the form
    if name == "new" or Suite.objects.filter(name=name).exists():
        raise SuiteRefused(f"The name {name!r} is taken. Choose another one.")


def publish(
    suite: Suite, score: Score, new_members: Sequence[NewMember], author: str
) -> SuiteVersion:
    """Freeze the members as the next version of the suite, which is saved if it is new.
    Raises: SuiteRefused."""
    _check(score, new_members)
    lists = [_tasks_of(member) for member in new_members]
    count = sum(map(len, lists))
    if count > MAX_TASKS:
        raise SuiteRefused(f"The members have {count:,} tasks together; {MAX_TASKS:,} are allowed.")
    with transaction.atomic():
        if suite.pk is None:
            check_name(suite.name)
            suite.save()
        # makes two who publish at once wait for each other
        Suite.objects.select_for_update().get(pk=suite.pk)
        latest = suite.versions.order_by("-number").first()
        if latest is not None:
            members = _members(latest.salt, new_members, lists)
            if document_of(score, members) == latest.document:
                raise UnchangedSuite(
                    f"Nothing has changed since v{latest.number}, so there is no new version to "
                    "publish."
                )
        salt = secrets.token_hex(16)
        members = _members(salt, new_members, lists)
        document = document_of(score, members)
        version = SuiteVersion.objects.create(
            suite=suite,
            number=latest.number + 1 if latest else 1,
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


def document_of(score: str, members: Iterable[SuiteMember]) -> str:
    """Return the JSON that a version's hash identifies: keys sorted, no spaces, ASCII."""
    content = {
        "format": "orsweb suite 1",
        "score": score,
        "members": [
            {
                "environment": member.environment.name,
                "split": member.split_name,
                "tasks": member.tasks_count,
                "tasks_sha256": member.tasks_hash,
                **member.definition_content,
                "weight": member.weight,
            }
            for member in members
        ],
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


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


def quarantined_tasks(version: SuiteVersion) -> list[int]:
    """Return the ids of its tasks that are quarantined, in order. One query."""
    tasks = SuiteTask.objects.filter(member__version=version, task__state="quarantined")
    return list(tasks.order_by("member__number", "position").values_list("task", flat=True))


def quarantined_counts(versions: Sequence[int]) -> dict[int, int]:
    """Return how many tasks of the versions, by their ids, are quarantined, where any is. One
    query."""
    tasks = SuiteTask.objects.filter(member__version__in=versions, task__state="quarantined")
    counts = tasks.order_by().values_list("member__version")
    return dict(counts.annotate(n=Count("task", distinct=True)))


def problems_of(version: SuiteVersion) -> list[str]:
    """Return a sentence for everything in the rows of a version that its hash does not identify;
    empty if all is right.

    It reads all of its tasks.
    """
    members = members_of(version)
    problems = []
    for member in members:
        tasks = SuiteTask.objects.filter(member=member).order_by("position")
        hashes = tasks.values_list("task__content_hash", flat=True)
        if tasks_digest(version.salt, hashes) != member.tasks_hash:
            problems.append(f"The tasks of {member.label} are not those that were published.")
    if document_of(version.score, members) != version.document:
        problems.append("The members are not those that were published.")
    if digest(version.document) != version.hash:
        problems.append("The hash is not that of the document.")
    return problems


def _check(score: Score, members: Sequence[NewMember]) -> None:
    if score not in SCORES:
        raise SuiteRefused(f"The score {score!r} is unknown; use {' or '.join(SCORES)}.")
    if not 0 < len(members) <= MAX_MEMBERS:
        raise SuiteRefused(f"A suite has 1 to {MAX_MEMBERS} members; this one has {len(members)}.")
    keys = set()
    for member in members:
        split = member.split
        if not 0 < member.weight <= MAX_WEIGHT:
            raise SuiteRefused(
                f"The weight of {split} is {plain(member.weight)}; it must be above 0 and at most "
                f"{plain(MAX_WEIGHT)}."
            )
        if split.is_generated:
            raise SuiteRefused(
                f"The class generates the tasks of {split}, so there is no list to freeze. Save or "
                "import tasks as a new split and choose that."
            )
        key = (split.pk, member.definition)
        if key in keys:
            raise SuiteRefused(
                f"{split} is there twice with the same definition. Give it a weight instead."
            )
        keys.add(key)


def _tasks_of(member: NewMember) -> dict[int, str]:
    """Return the content hash of each task of the member by its id, in the order of the split."""
    places = served(member.split).order_by("position").values_list("task", "task__content_hash")
    if member.only is None:
        tasks = dict(places[: MAX_TASKS + 1])
    else:
        tasks = {pk: content_hash for pk, content_hash in places if pk in member.only}
    if not tasks:
        which = "tasks" if member.only is None else "such tasks"
        raise SuiteRefused(f"{member.split} has no {which} now.")
    return tasks


def _members(
    salt: str, new_members: Sequence[NewMember], lists: Sequence[dict[int, str]]
) -> list[SuiteMember]:
    return [
        SuiteMember(
            number=number,
            environment=member.split.environment,
            split=member.split,
            split_name=member.split.name,
            split_version=member.split.version,
            return_name=member.definition.return_,
            threshold=float(member.definition.threshold),
            convention=member.definition.convention.code,
            weight=float(member.weight),
            tasks_count=len(tasks),
            tasks_hash=tasks_digest(salt, tasks.values()),
        )
        for number, (member, tasks) in enumerate(zip(new_members, lists, strict=True), 1)
    ]
