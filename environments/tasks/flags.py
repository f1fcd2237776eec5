"""Flags: people report that a task is broken, and a curator settles the report. Pages create, list
and settle them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from environments.errors import OrsError
from environments.models import Task, TaskFlag

MAX_CHARACTERS = 2_000
"""Longest note, in characters."""
MAX_TOGETHER = 20_000
"""Longest text of one person's open flag of a task, in characters."""
MAX_SHOWN = 100
"""Maximum number of flags that the page of a task shows."""


class FlagRefused(OrsError):
    """The report cannot be stored; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The newest MAX_SHOWN flags of one task, oldest first; settled ones only where all open ones
    have room."""

    open: list[TaskFlag]
    settled: list[TaskFlag]


def flag(task: Task, author: str, note: str, episode: int | None = None) -> TaskFlag:
    """Add `note` to the author's open flag of `task`, or create one. Returns the flag.

    `episode`: number of the episode that showed the fault. Raises: FlagRefused.
    """
    text = note.replace("\0", "").strip()
    if not text:
        raise FlagRefused("Say what is wrong with the task.")
    if len(text) > MAX_CHARACTERS:
        raise FlagRefused(
            f"This note has {len(text):,} characters; at most {MAX_CHARACTERS:,} fit. Shorten it."
        )
    with transaction.atomic():
        # anyone who flags the same task waits here, so that one person has one open flag; episodes
        # go on being recorded
        Task.objects.select_for_update(no_key=True).get(pk=task.pk)
        row = TaskFlag.objects.filter(task=task, author=author, settled=None).first()
        if row is None:
            return TaskFlag.objects.create(task=task, author=author, note=text, episode=episode)
        if text in row.note.split("\n\n"):  # the same form, sent twice
            return row
        addition = text if episode in (None, row.episode) else f"Episode {episode}: {text}"
        if len(row.note) + len(addition) > MAX_TOGETHER:
            raise FlagRefused(
                f"Your text about this task has {len(row.note):,} characters, and at most "
                f"{MAX_TOGETHER:,} fit. Write again once somebody has settled it."
            )
        row.note = f"{row.note}\n\n{addition}"
        row.episode = row.episode or episode
        row.save(update_fields=["note", "episode"])
        return row


def settle(task: Task, author: str, number: int | None = None) -> int:
    """Settle the open flag of `task` with the id `number`, or all of them. Returns the number of
    flags settled."""
    rows = TaskFlag.objects.filter(task=task, settled=None)
    row = rows if number is None else rows.filter(pk=number)
    return row.update(settled=timezone.now(), settled_by=author[:150])


def flags_of(task: Task) -> Flags:
    """Return the flags of a task that its page shows. One query."""
    rows = TaskFlag.objects.filter(task=task).order_by(F("settled").desc(nulls_first=True), "-pk")
    newest = list(rows[:MAX_SHOWN])[::-1]
    return Flags(
        [row for row in newest if row.settled is None], [row for row in newest if row.settled]
    )


def flagged() -> QuerySet[Task]:
    """Return the tasks with an open flag."""
    return Task.objects.filter(pk__in=TaskFlag.objects.filter(settled=None).values("task"))
