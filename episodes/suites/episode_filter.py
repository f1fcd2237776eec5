"""The filter of episodes by the tasks of a suite: a version, such as `core/v2`, or one of its
members, such as `core/v2/1`."""

from __future__ import annotations

import re
from typing import NamedTuple

from django.db.models import Q

from environments.filtering.filters import Parameter
from environments.filtering.parameters import BadFilter, any_text
from environments.models import Viewer
from episodes.filtering.names import MAX_NAMES, unknown
from episodes.models import Suite, SuiteMember, SuiteTask, SuiteVersion

_SUITE = re.compile(r"([^/]{1,200})/v([1-9][0-9]{0,8})(?:/([1-9][0-9]{0,3}))?")


class SuitePart(NamedTuple):
    """A version of a suite, written `core/v2`, or one of its members, written `core/v2/1`."""

    suite: str
    version: int
    member: int | None = None

    def __str__(self) -> str:
        return f"{self.suite}/v{self.version}" + ("" if self.member is None else f"/{self.member}")


def suite_part(name: str, text: str) -> SuitePart:
    match = _SUITE.fullmatch(any_text(name, text))
    if match is None:
        raise BadFilter(
            name, text, "it has to be a version of a suite (core/v2) or its member (core/v2/1)"
        )
    return SuitePart(match[1], int(match[2]), int(match[3]) if match[3] else None)


def by_suite(part: SuitePart, viewer: Viewer) -> Q | str:
    suites = Suite.objects.seen_by(viewer)
    members = SuiteMember.objects.filter(
        version__suite__in=suites.filter(name=part.suite), version__number=part.version
    )
    if part.member is not None:
        members = members.filter(number=part.member)
    if ids := list(members.values_list("pk", flat=True)):
        return Q(task__in=SuiteTask.objects.filter(member__in=ids).values("task"))
    versions = SuiteVersion.objects.filter(suite__in=suites).order_by("suite__name", "-number")
    names = versions.values_list("suite__name", "number")[:MAX_NAMES]
    return unknown("version of a suite", str(part), (f"{name}/v{n}" for name, n in names))


EPISODE_FILTERS = [
    Parameter(
        "suite",
        suite_part,
        "Version of a suite, such as `core/v2`, or one of its members, such as `core/v2/1`: "
        "episodes of its tasks",
        example="core/v2, or its first member: core/v2/1",
        narrow=by_suite,
        is_indexed=False,
        is_of_tasks=True,
        after="task",
    )
]
