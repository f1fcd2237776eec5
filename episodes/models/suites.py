"""Models of suites: Suite, its versions, the members of a version, and their tasks.

`episodes/suites/versions.py` alone makes versions. A version, its members and their tasks never
change.
"""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models

from environments.models import Environment, Split, Task, Viewer
from environments.scoring.convention import CONVENTION_PARTS, Convention
from episodes.models.privacy import visible_suites


class SuiteQuerySet(models.QuerySet["Suite"]):
    def seen_by(self, viewer: Viewer) -> Self:
        """Return the suites that exist for the viewer."""
        return self.filter(visible_suites(viewer))


class Suite(models.Model):
    """A benchmark under a name: lists of tasks of one environment or several, with one score."""

    name = models.CharField(
        max_length=100, unique=True, help_text="As in addresses: letters, digits, and - _ . inside"
    )
    description = models.TextField(blank=True)
    author = models.CharField(max_length=150)
    created = models.DateTimeField(auto_now_add=True)

    objects = SuiteQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class SuiteVersion(models.Model):
    """What a suite consists of, frozen. A change makes another version."""

    SCORES: ClassVar = [("success", "success rate"), ("return", "mean return")]

    suite = models.ForeignKey(
        Suite, on_delete=models.CASCADE, related_name="versions", db_index=False
    )
    number = models.PositiveIntegerField(help_text="From 1 on")
    score = models.CharField(
        max_length=7, choices=SCORES, help_text="Figure of a task that the score averages"
    )
    document = models.TextField(
        help_text="JSON of everything that the hash identifies, exactly as it was hashed"
    )
    salt = models.CharField(
        max_length=32, help_text="Random, so that no hash confirms guesses of hidden fields"
    )
    hash = models.CharField(max_length=64, help_text="sha256 of the document")
    author = models.CharField(max_length=150)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["suite", "number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["suite", "number"], name="suiteversion_unique")
        ]

    def __str__(self) -> str:
        return f"{self.suite.name} v{self.number}"


class SuiteMember(models.Model):
    """A list of tasks in a version, by what definition their episodes count, and with what
    weight."""

    version = models.ForeignKey(
        SuiteVersion, on_delete=models.CASCADE, related_name="members", db_index=False
    )
    number = models.PositiveSmallIntegerField(help_text="From 1 on, in the order of the version")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+")
    split = models.ForeignKey(Split, on_delete=models.PROTECT, related_name="+", db_index=False)
    split_name = models.CharField(max_length=200, help_text="Its name when the version was made")
    split_version = models.PositiveBigIntegerField(
        help_text="Version of the split whose tasks these are"
    )
    return_name = models.CharField(max_length=8, help_text="Definition of return")
    threshold = models.FloatField(help_text="A return above it is a success")
    convention = models.CharField(
        max_length=4, help_text="How rollouts count, as in Environment.convention"
    )
    weight = models.FloatField(help_text="Above 0; the score divides by the sum of all weights")
    tasks_count = models.PositiveIntegerField()
    tasks_hash = models.CharField(
        max_length=64, help_text="Of the salt and the tasks' content hashes, by sha256"
    )

    class Meta:
        ordering: ClassVar = ["version", "number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["version", "number"], name="suitemember_unique")
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return f"{self.environment.name}/{self.split_name}"

    @property
    def definition_content(self) -> dict[str, object]:
        """The definition as the API and the document write it."""
        convention = Convention.from_code(self.convention)
        parts = {name: getattr(convention, name) for name in CONVENTION_PARTS}
        return {"return": self.return_name, "threshold": self.threshold, **parts}

    @property
    def has_changed(self) -> bool:
        """Return whether the split has changed, or was deleted, since the version was made."""
        return not self.split.is_served or self.split.version != self.split_version


class SuiteTask(models.Model):
    """A task of a member. Each task of the split is there once, at its first place."""

    id = models.BigAutoField(primary_key=True)
    member = models.ForeignKey(
        SuiteMember, on_delete=models.CASCADE, related_name="tasks", db_index=False
    )
    position = models.PositiveIntegerField(help_text="From 0 on, in the order of the split")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["member", "position"], name="suitetask_place_unique"),
            models.UniqueConstraint(fields=["member", "task"], name="suitetask_unique"),
        ]

    def __str__(self) -> str:
        return f"#{self.position}"
