"""Models of what was removed from the record, and of when it is to be removed: Removal, Retention
and LooseBlob.

`episodes/removal` reads and writes them.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from environments.models import Environment
from episodes.models.runs import Run


class Removal(models.Model):
    """One removal of episodes: who removed which of them, and how far it got."""

    author = models.CharField(
        max_length=150, help_text='"retention" for those that a retention period removed'
    )
    reason = models.TextField(blank=True)
    query = models.TextField(
        blank=True, help_text="The filter of the episodes, as in the address of a page"
    )
    episodes = models.PositiveBigIntegerField(default=0, help_text="Removed so far")
    steps = models.PositiveBigIntegerField(default=0)
    last_episode = models.BigIntegerField(
        default=0, help_text="Highest id of them, which is never used again"
    )
    created = models.DateTimeField(auto_now_add=True)
    updated = models.DateTimeField(
        auto_now=True, help_text="When the last of its episodes was removed"
    )
    ended = models.DateTimeField(
        null=True, blank=True, help_text="Empty while it runs, or if it was stopped"
    )

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.episodes:,} episodes"


class Retention(models.Model):
    """How long the episodes of an environment or of a run are kept. That of a run takes
    precedence."""

    environment = models.OneToOneField(
        Environment,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="retention",
        help_text="Or choose a run",
    )
    run = models.OneToOneField(
        Run,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="retention",
        help_text="Or choose an environment",
    )
    days = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Days after its end at which an episode is removed; empty: never",
    )

    class Meta:
        ordering: ClassVar = ["environment__name", "run__name"]
        verbose_name = "retention period"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(environment__isnull=True) ^ models.Q(run__isnull=True),
                name="retention_of_one",
            )
        ]

    def __str__(self) -> str:
        period = (
            "forever" if self.days is None else f"{self.days:,} day{'' if self.days == 1 else 's'}"
        )
        return f"{self.environment or self.run}: {period}"


class LooseBlob(models.Model):
    """A blob that lost a reference when an episode was removed. It goes unless something else
    refers to it.

    A blob has a row for each time that it was noted, so none is missed that is noted while others
    are checked.
    """

    id = models.BigAutoField(primary_key=True)
    digest = models.CharField(max_length=32)

    def __str__(self) -> str:
        return self.digest
