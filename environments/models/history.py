"""The rows of what people changed: one for each action, and one for each task that it changed."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from environments.models.tasks import Environment, Split, Task


class CurationAction(models.Model):
    """One action of a person, a command or the server: a bulk change, an edit, an import, a freeze,
    a switch-off.

    `environments/curation/work.py` writes it. Its revisions have its token as their `change`.
    """

    KINDS: ClassVar = [
        ("quarantine", "Quarantined"),
        ("release", "Released"),
        ("tag", "Tagged"),
        ("splits", "Splits changed"),
        ("edit", "Edited"),
        ("import", "Imported"),
        ("restore", "Restored"),
        ("undo", "Undone"),
        ("freeze", "Split frozen"),
        ("unfreeze", "Split unfrozen"),
        ("seal", "Split sealed"),
        ("unseal", "Split unsealed"),
        ("delete", "Split deleted"),
        ("scoring", "Scoring changed"),
        ("enabled", "Switched on or off"),
        ("blind", "Blind play changed"),
        ("privacy", "Privacy changed"),
    ]
    STAGES: ClassVar = [("staging", "staging"), ("applying", "applying"), ("done", "done")]

    token = models.CharField(max_length=32, unique=True, help_text="What its revisions share")
    kind = models.CharField(max_length=10, choices=KINDS)
    stage = models.CharField(
        max_length=8,
        choices=STAGES,
        help_text="staging: nothing has changed yet; applying: decided, and labels are being "
        "written",
    )
    environment = models.ForeignKey(
        Environment,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        help_text="null: tasks of several environments",
    )
    split = models.ForeignKey(
        Split,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="What it made or filled",
    )
    author = models.CharField(
        max_length=150, help_text="User name, 'operator' without accounts, or a command's name"
    )
    title = models.TextField(help_text="What was done, as a sentence")
    reason = models.TextField(blank=True)
    changed = models.PositiveIntegerField(default=0, help_text="Number of tasks that it changed")
    before = models.TextField(
        blank=True, help_text="JSON of the settings before, where it changed no tasks"
    )
    after = models.TextField(blank=True, help_text="The same settings after it")
    undoes = models.OneToOneField(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="undone_by",
        help_text="The action that this one took back",
    )
    created = models.DateTimeField()

    class Meta:
        verbose_name = "action"
        verbose_name_plural = "activity"
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            # the list of one environment
            models.Index(fields=["environment", "-id"], name="action_environment"),
            models.Index(fields=["kind", "-id"], name="action_kind"),  # the list of one kind
            models.Index(  # what a dead process left
                fields=["stage"], name="action_unfinished", condition=~models.Q(stage="done")
            ),
        ]

    def __str__(self) -> str:
        return self.title


class TaskRevision(models.Model):
    """A change of a task: who, when, why, before and after."""

    KINDS: ClassVar = [
        (kind, kind)
        for kind in [
            "edit",
            "merge",
            "quarantine",
            "release",
            "tag",
            "splits",
            "import",
            "restore",
            "undo",
            "sync",
        ]
    ]

    task = models.ForeignKey(
        Task, on_delete=models.CASCADE, related_name="revisions", db_index=False
    )
    successor = models.ForeignKey(
        Task,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="origins",
        help_text="Of an edit: what it became",
    )
    kind = models.CharField(max_length=10, choices=KINDS)
    change = models.CharField(max_length=32, help_text="Shared by all revisions of one action")
    author = models.CharField(
        max_length=150, help_text="User name, 'operator' without accounts, or a command's name"
    )
    reason = models.TextField(blank=True)
    before = models.TextField(
        help_text="Exact spec of an edit; else JSON of what changed: state, reason, tags, splits"
    )
    after = models.TextField()
    created = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(fields=["task", "id"], name="taskrevision_task"),  # a task's history
            # what one action did
            models.Index(fields=["change", "id"], name="taskrevision_change"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.author}"


class SyncConflict(models.Model):
    """A task of a class that people edited, took out or quarantined, and that its class then
    changed or dropped.

    The class may have listed the former task in another split, or list it still.
    What people did stays in force. A sync writes it, and `environments/curation/conflicts.py`
    settles it.
    """

    DECISIONS: ClassVar = [
        ("edit", "edited"),
        ("removal", "taken out"),
        ("quarantine", "quarantined"),
    ]

    split = models.ForeignKey(Split, on_delete=models.CASCADE, related_name="conflicts")
    decision = models.CharField(
        max_length=10, choices=DECISIONS, help_text="What people did to the former task"
    )
    former = models.ForeignKey(
        Task,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        help_text="What the class listed before",
    )
    kept = models.ForeignKey(
        Task,
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        db_index=False,
        help_text="What people made of it by an edit",
    )
    listed = models.ForeignKey(
        Task,
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        db_index=False,
        help_text="What the class lists instead; null: nothing",
    )
    created = models.DateTimeField(auto_now_add=True)
    settled = models.DateTimeField(null=True, blank=True)
    settled_by = models.CharField(max_length=150, blank=True)

    class Meta:
        verbose_name = "conflict"
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"conflict about a task that people {self.get_decision_display()}"
