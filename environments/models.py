"""What can be played, as rows: Environment, Split, SplitEntry, Task.

In text, rows are `models.Environment`, classes `Environment`. Foreign keys that a unique constraint begins with have no
index of their own.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Environment(models.Model):
    """A hosted class, by the name it is served under. Stays when the class is no longer hosted: its episodes do too."""

    name = models.CharField(max_length=200, unique=True)
    class_path = models.CharField(max_length=400, help_text="module:Class of the last start that hosted it")
    description = models.TextField(blank=True, help_text="The class's docstring")
    is_hosted = models.BooleanField(default=True, help_text="Whether the last start hosted it")
    is_procedural = models.BooleanField(default=False, help_text="Tasks are asked of the class, not listed")
    default_return = models.CharField(max_length=8, default="sum")
    reward_low = models.FloatField(default=0.0)
    reward_high = models.FloatField(default=1.0)
    success_threshold = models.FloatField(default=0.9)
    position = models.PositiveIntegerField(default=0, help_text="Order of hosting; 0 is the default environment")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["position", "name"]

    def __str__(self) -> str:
        return self.name


class Split(models.Model):
    """An ordered list of tasks under a name."""

    TYPES: ClassVar = [("train", "train"), ("validation", "validation"), ("test", "test")]

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="splits", db_index=False)
    name = models.CharField(max_length=200)
    type = models.CharField(max_length=10, choices=TYPES)
    position = models.PositiveIntegerField(default=0)
    is_served = models.BooleanField(default=True, help_text="Whether the protocol lists it")
    source_hash = models.CharField(
        max_length=64, blank=True, help_text="Hash over the class's task list at the last sync"
    )
    version = models.PositiveBigIntegerField(default=0, help_text="Rises with every change of content or order")

    class Meta:
        ordering: ClassVar = ["environment", "position", "name"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["environment", "name"], name="split_name_unique")]

    def __str__(self) -> str:
        return f"{self.environment.name}/{self.name}"


class Task(models.Model):
    """A task is its content: unique by environment and sha256 of `json.dumps(spec, sort_keys=True)`."""

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="tasks", db_index=False)
    content_hash = models.CharField(max_length=64)
    spec = models.TextField(help_text="Exact JSON text; never rewritten")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["environment", "content_hash"], name="task_content_unique")
        ]

    def __str__(self) -> str:
        return f"task {self.content_hash[:8]}"


class SplitEntry(models.Model):
    """One place in a split."""

    split = models.ForeignKey(Split, on_delete=models.CASCADE, related_name="entries", db_index=False)
    position = models.PositiveIntegerField()
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="entries")

    class Meta:
        # the catalogue reads a split's task ids in order
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["split", "position"], name="splitentry_position_unique")
        ]

    def __str__(self) -> str:
        return f"#{self.position}"
