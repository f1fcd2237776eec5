"""Models of studies: Study, and which of its tasks each of its guests was dealt.

`episodes/people/studies/` alone writes them. The tasks of a study are a member of a suite's
version, so they never change.
"""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models

from environments.models import Environment, Task, Viewer
from episodes.models.people import Guest
from episodes.models.privacy import visible_studies
from episodes.models.suites import Suite, SuiteMember


class StudyQuerySet(models.QuerySet["Study"]):
    def seen_by(self, viewer: Viewer) -> Self:
        """Return the studies that exist for the viewer."""
        return self.filter(visible_studies(viewer))


class Study(models.Model):
    """A fixed list of tasks that invited people play, each by the same rules."""

    name = models.CharField(
        max_length=100, unique=True, help_text="As in addresses: letters, digits, and - _ . inside"
    )
    environment = models.ForeignKey(
        Environment, on_delete=models.PROTECT, related_name="studies", db_index=False
    )
    member = models.ForeignKey(
        SuiteMember,
        on_delete=models.PROTECT,
        related_name="studies",
        help_text="Whose tasks the study has",
    )
    suite = models.ForeignKey(
        Suite,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        help_text="That was published for it, and is hidden as long as it is; empty: it has tasks "
        "of another suite",
    )
    is_shuffled = models.BooleanField(
        default=False, help_text="Every person gets an order of their own"
    )
    people_per_task = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Tasks are dealt out until each has so many people; empty: everybody gets all",
    )
    tasks_per_person = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most tasks that one person gets; empty: no limit"
    )
    attempts = models.PositiveSmallIntegerField(
        default=1, help_text="Attempts that a person has at each task"
    )
    is_blind = models.BooleanField(
        default=False, help_text="Rewards stay hidden until an episode ends"
    )
    instructions = models.TextField(blank=True, help_text="Markdown, shown before the first task")
    consent = models.TextField(
        blank=True, help_text="Markdown, to which people agree before the first task"
    )
    least_finished = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Tasks that a person has to finish to complete it; empty: all that they get",
    )
    completion = models.TextField(blank=True, help_text="Markdown, shown to who completed it")
    completion_code = models.CharField(
        max_length=100, blank=True, help_text="Shown to who completed it"
    )
    incomplete_code = models.CharField(
        max_length=100, blank=True, help_text="Shown to who finished fewer tasks"
    )
    no_task_code = models.CharField(
        max_length=100, blank=True, help_text="Shown to who came when no task was left"
    )
    limit_seconds = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Time for each task, without pauses; then its episode ends. Empty: no limit",
    )
    pause_seconds = models.PositiveIntegerField(
        default=3600,
        help_text="How long the clock of a task may stand still in all, and its episode is kept",
    )
    counts_left = models.BooleanField(
        default=False,
        help_text="Attempts that people left or gave up count in the results of the study",
    )
    author = models.CharField(max_length=150)
    created = models.DateTimeField(auto_now_add=True)
    closed = models.DateTimeField(
        null=True, blank=True, help_text="When its links were revoked for good"
    )

    objects = StudyQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-id"]
        verbose_name_plural = "studies"

    def __str__(self) -> str:
        return self.name


class DealtTask(models.Model):
    """A task that a guest of a study was given to play."""

    id = models.BigAutoField(primary_key=True)
    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="dealt", db_index=False)
    guest = models.ForeignKey(Guest, on_delete=models.CASCADE, related_name="dealt", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+", db_index=False)
    created = models.DateTimeField(auto_now_add=True)
    starting = models.DateTimeField(
        null=True, blank=True, help_text="Since when a session for it is being started"
    )

    class Meta:
        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["guest", "task"], name="dealttask_unique"),
        ]
        indexes: ClassVar = [
            # how many people have each task
            models.Index(fields=["study", "task"], name="dealttask_study"),
            models.Index(fields=["task"], name="dealttask_task"),  # whether a task can be deleted
        ]

    def __str__(self) -> str:
        return f"task {self.task_id} of guest {self.guest_id}"
