"""Making a study. Its tasks are a member of a suite's version.

Either a suite has the member already, or a suite with the name of the study is published for it. So
the list is frozen, has a hash, and models that play the same tasks have a leaderboard.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import QuerySet

from environments.curation.task_filter import TaskFilter
from environments.errors import OrsError
from environments.models import UNRESTRICTED, Split, Task, Viewer
from environments.models.viewer import visible_splits
from environments.scoring.definition import definition_of
from environments.tasks.split_indexes import served
from episodes.models import Study, Suite, SuiteMember
from episodes.suites.leaks import leaks_of_list
from episodes.suites.versions import NewMember, check_spelling, publish

_TAKEN = ("new",)
"""Names that are addresses of other pages."""
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class StudyRefused(OrsError):
    """A study cannot be made as it was asked for. The message says why, and what is allowed."""


@dataclass(frozen=True, slots=True)
class TaskSelection:
    """Which tasks of a split a study has. Each condition that is given leaves out others."""

    split: Split
    """With its environment."""
    numbers: str = ""
    """Numbers of tasks in the split, such as `0, 3, 5-9`."""
    search: str = ""
    """A part of their content."""
    bucket: str = ""
    """Bucket of their success rate."""
    at_random: int | None = None
    """How many of them are drawn."""

    def tasks(self) -> frozenset[int] | None:
        """Return the ids of the tasks; None for all of the split. Raises: StudyRefused."""
        if not (self.numbers or self.search or self.bucket or self.at_random):
            return None
        ids = list(served(self.split).order_by("position").values_list("task", flat=True))
        tasks = (
            [ids[number] for number in _numbers(self.numbers, len(ids))] if self.numbers else ids
        )
        if self.search or self.bucket:
            filters = TaskFilter(
                split=self.split.pk,
                state="served",
                search=self.search,
                bucket=self.bucket,
                viewer=UNRESTRICTED,
            )
            matches = set(Task.objects.filter(filters.condition()).values_list("pk", flat=True))
            tasks = [pk for pk in tasks if pk in matches]
        if not tasks:
            raise StudyRefused(
                f"No task of {self.split} meets all of these conditions. Remove one of them."
            )
        if self.at_random is not None:
            if self.at_random > len(tasks):
                raise StudyRefused(
                    f"{self.at_random:,} tasks can't be drawn of {len(tasks):,}. Draw fewer."
                )
            tasks = random.SystemRandom().sample(tasks, self.at_random)
        return frozenset(tasks)


def studies_seen(viewer: Viewer) -> QuerySet[Study]:
    """Return the studies that exist for the viewer, with their environments and suites."""
    return Study.objects.seen_by(viewer).select_related("environment", "member__version__suite")


def members_for_studies(viewer: Viewer) -> QuerySet[SuiteMember]:
    """Return the members of suites whose tasks a study can have."""
    suites = Suite.objects.seen_by(viewer)
    rows = SuiteMember.objects.filter(visible_splits(viewer, "split__"), version__suite__in=suites)
    rows = rows.select_related("version__suite", "environment")
    return rows.order_by("version__suite__name", "-version__number", "number")


def check_study_name(name: str) -> None:
    """Raises: OrsError unless a new study may have the name."""
    check_spelling(name, "study")
    if name in _TAKEN or Study.objects.filter(name=name).exists():
        raise StudyRefused(f"The name {name!r} is taken. Choose another one.")


def leaks_of_study(tasks: SuiteMember | TaskSelection) -> list[str]:
    """Return what to know of the tasks of a study before it is made. Of a random draw, all are
    looked at.

    Raises: StudyRefused.
    """
    if isinstance(tasks, SuiteMember):
        return leaks_of_list(tasks.split, frozenset(tasks.tasks.values_list("task", flat=True)))
    return leaks_of_list(tasks.split, replace(tasks, at_random=None).tasks())


def make_study(study: Study, tasks: SuiteMember | TaskSelection) -> None:
    """Save a new study, which has everything but its tasks. Raises: OrsError."""
    check_study_name(study.name)
    if isinstance(tasks, SuiteMember):
        _save(study, tasks)
        return
    split = tasks.split
    member = NewMember(split, definition_of(split.environment), only=tasks.tasks())
    suite = Suite(
        name=study.name, author=study.author, description=f"The tasks of the study {study.name}."
    )
    with transaction.atomic():
        version = publish(suite, "success", [member], study.author)
        study.suite = version.suite
        _save(study, version.members.get())


def _save(study: Study, member: SuiteMember) -> None:
    """Raises: StudyRefused."""
    if study.least_finished is not None and study.least_finished > member.tasks_count:
        count = f"{member.tasks_count:,} task{'' if member.tasks_count == 1 else 's'}"
        raise StudyRefused(
            f"Nobody can finish {study.least_finished:,} tasks of a study that has {count}. Enter "
            "fewer."
        )
    study.member, study.environment = member, member.environment
    study.save(force_insert=True)


def _numbers(text: str, count: int) -> list[int]:
    """Return the numbers in a text such as `0, 3, 5-9`, in order. Raises: StudyRefused."""
    numbers = set[int]()
    for part in text.replace("\u2013", "-").split(","):
        characters = "".join(part.split())
        if not characters:
            continue
        match = _RANGE.fullmatch(characters)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if high < low:
            raise StudyRefused(
                f"{part.strip()[:40]!r} is no number or range of tasks. Write them as 0, 3, 5-9."
            )
        if high >= count:
            raise StudyRefused(
                f"There is no task {high}; the split has tasks 0 to {count - 1} now."
            )
        numbers.update(range(low, high + 1))
    return sorted(numbers)
