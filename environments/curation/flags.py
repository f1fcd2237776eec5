"""Flags: people say that a task is broken, until a curator settles it. Pages raise, queue and settle them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from environments.curation.action import ActionRefused
from environments.models import Task, TaskFlag

MAX_CHARACTERS = 2_000
"""Characters that one note may have."""
MAX_TOGETHER = 20_000
"""Characters of all that one person says of a task before it is settled."""
MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of one task, oldest first: the newest MAX_SHOWN; a settled one only where all open ones have room."""

    open: list[TaskFlag]
    settled: list[TaskFlag]


def flag(task: Task, author: str, note: str, episode: int | None = None) -> TaskFlag:
    """The author's open flag of `task` with `note` in it: a new one, or what they said before and then this.

    `episode`: number of the one in which it showed. Raises: Refused.
    """
    text = note.replace("\0", "").strip()
    if not text:
        raise ActionRefused("Say what is wrong with the task: a curator reads it before anything else.")
    if len(text) > MAX_CHARACTERS:
        raise ActionRefused(f"This note has {len(text):,} characters; at most {MAX_CHARACTERS:,} fit. Shorten it.")
    with transaction.atomic():
        # whoever flags the same task waits here, so that one person has one open flag; episodes go on being recorded
        Task.objects.select_for_update(no_key=True).get(pk=task.pk)
        found = TaskFlag.objects.filter(task=task, author=author, settled=None).first()
        if found is None:
            return TaskFlag.objects.create(task=task, author=author, note=text, episode=episode)
        return _appended(found, text, episode)


def settle(task: Task, author: str, number: int | None = None) -> int:
    """How many open flags of `task` it settled: the one of that id, or all of them."""
    rows = TaskFlag.objects.filter(task=task, settled=None)
    chosen = rows if number is None else rows.filter(pk=number)
    return chosen.update(settled=timezone.now(), settled_by=author[:150])


def flags_of(task: Task) -> Flags:
    """One query."""
    rows = TaskFlag.objects.filter(task=task).order_by(F("settled").desc(nulls_first=True), "-pk")
    found = list(rows[:MAX_SHOWN])[::-1]
    return Flags([row for row in found if row.settled is None], [row for row in found if row.settled])


def flagged() -> QuerySet[Task]:
    """Tasks with an open flag."""
    return Task.objects.filter(pk__in=TaskFlag.objects.filter(settled=None).values("task"))


def _appended(found: TaskFlag, text: str, episode: int | None) -> TaskFlag:
    if text in found.note.split("\n\n"):  # the same form, sent twice
        return found
    said = text if episode in (None, found.episode) else f"Episode {episode}: {text}"
    if len(found.note) + len(said) > MAX_TOGETHER:
        raise ActionRefused(
            f"Your open flag of this task has {len(found.note):,} characters, and {MAX_TOGETHER:,} is the most. "
            "A curator will settle it; flag the task again then."
        )
    found.note = f"{found.note}\n\n{said}"
    found.episode = found.episode or episode
    found.save(update_fields=["note", "episode"])
    return found
