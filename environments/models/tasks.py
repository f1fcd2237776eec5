"""The rows of what can be played: environments, splits, tasks, and what people and episodes say
about tasks.

In docs and comments, `models.Environment` is a row and `Environment` a class. A foreign key that
starts a unique constraint has no index of its own.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from django.db import models

from environments.models.folding import FoldedJSON
from environments.models.viewer import Viewer, visible_environments, visible_splits, visible_tasks

DEFAULT_CONVENTION = "zkoo"
"""Code of the default convention (`environments/scoring/convention.py`)."""


class EnvironmentQuerySet(models.QuerySet["Environment"]):
    def seen_by(self, viewer: Viewer) -> Self:
        """Return the environments that exist for the viewer."""
        return self.filter(visible_environments(viewer, "pk"))

    def unavailable(self) -> Self:
        """Return the hosted environments that the server cannot play, as it noted last."""
        return self.filter(is_hosted=True).exclude(unavailable="")


class Environment(models.Model):
    """A hosted class, or an environment of another server, under the name it is served by.

    The row stays when it is no longer hosted, as do its episodes. `class_path` of a remote
    environment is its URL.
    """

    name = models.CharField(max_length=200, unique=True)
    class_path = models.CharField(
        max_length=400, help_text="module:Class of the last start that hosted it"
    )
    description = models.TextField(blank=True, help_text="The class's docstring")
    card = models.TextField(
        blank=True, help_text="Markdown: the README beside the class, else empty"
    )
    task_schema = models.TextField(
        blank=True, help_text="JSON Schema of a task, as the class declares it"
    )
    unavailable = models.TextField(
        blank=True, help_text="Why it cannot be played on this machine; empty: it can"
    )
    is_enabled = models.BooleanField(default=True, help_text="Whether agents may open sessions")
    disabled_reason = models.TextField(
        blank=True, db_default="", help_text="Why the server disabled it; empty if a person did"
    )
    is_blind = models.BooleanField(
        default=False, help_text="People who play it see rewards only at the end"
    )
    is_private = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether only its members may see it, and keys that name it",
    )
    members = models.ManyToManyField(
        "auth.User", blank=True, related_name="+", help_text="Who may see it if private"
    )
    member_groups = models.ManyToManyField(
        "auth.Group",
        blank=True,
        related_name="+",
        help_text="Groups whose people may see it if private",
    )
    is_hosted = models.BooleanField(default=True, help_text="Whether the last start hosted it")
    is_procedural = models.BooleanField(
        default=False, help_text="Tasks are asked of the class, not listed"
    )
    default_return = models.CharField(max_length=8, default="sum")
    reward_low = models.FloatField(default=0.0)
    reward_high = models.FloatField(default=1.0)
    success_threshold = models.FloatField(default=0.9)
    declared_return = models.CharField(
        max_length=8,
        default="sum",
        help_text="Definition of return that the class declares; default_return is the one in force",
    )
    declared_low = models.FloatField(default=0.0)
    declared_high = models.FloatField(default=1.0)
    declared_threshold = models.FloatField(default=0.9)
    convention = models.CharField(
        max_length=4,
        default=DEFAULT_CONVENTION,
        db_default=DEFAULT_CONVENTION,
        help_text="How rollouts count, as the class says: a letter for no_call, expired, "
        "interrupted and env_error,"
        " each k (with its return), z (as 0) or o (left out)",
    )
    counted = models.CharField(
        max_length=40,
        blank=True,
        help_text="Definition that TaskStatistics follow; unless in force, they are recounted",
    )
    bucketed = models.CharField(
        max_length=80,
        blank=True,
        help_text="Thresholds that their buckets follow; unless in force, they are recounted",
    )
    position = models.PositiveIntegerField(
        default=0, help_text="Order of hosting; 0 is the default environment"
    )
    listed_code = models.CharField(
        max_length=32,
        blank=True,
        db_default="",
        help_text="Code that the tasks follow, if they depend on it alone",
    )
    created = models.DateTimeField(auto_now_add=True)

    objects = EnvironmentQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["position", "name"]
        permissions: ClassVar = [
            ("open_admin", "Can open the admin"),
            ("view_hidden_fields", "Can see hidden fields of tasks"),
            ("view_private_environments", "Can see all private environments"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_remote(self) -> bool:
        """Return whether another server runs the environment; `class_path` is then its URL."""
        return self.class_path.startswith(("http://", "https://"))

    @property
    def is_playable(self) -> bool:
        """Return whether people and agents may open sessions of it now."""
        return self.is_hosted and self.is_enabled and not self.unavailable

    @property
    def definition(self) -> str:
        """The definition of return and success in force, such as "sum > 0.9"; with the convention
        unless default."""
        convention = "" if self.convention == DEFAULT_CONVENTION else f" {self.convention}"
        return f"{self.default_return} > {self.success_threshold!r}{convention}"


class SplitQuerySet(models.QuerySet["Split"]):
    def seen_by(self, viewer: Viewer) -> Self:
        """Return the splits whose tasks exist for the viewer; of a sealed one people see the name
        and the figures."""
        return self.filter(visible_splits(viewer))

    def existing(self) -> Self:
        """Return all splits except deleted ones, including those that their class no longer
        declares."""
        return self.exclude(is_curated=True, is_served=False).select_related("environment")


class Split(models.Model):
    """An ordered list of tasks under a name. `environments/tasks/split_change.py` alone changes its
    content."""

    TYPES: ClassVar = [("train", "train"), ("validation", "validation"), ("test", "test")]

    environment = models.ForeignKey(
        Environment, on_delete=models.PROTECT, related_name="splits", db_index=False
    )
    name = models.CharField(max_length=200)
    type = models.CharField(max_length=10, choices=TYPES)
    position = models.PositiveIntegerField(default=0)
    is_served = models.BooleanField(default=True, help_text="Whether the protocol lists it")
    source_hash = models.CharField(
        max_length=64, blank=True, help_text="Hash over the class's task list at the last sync"
    )
    version = models.PositiveBigIntegerField(
        default=0, help_text="Rises with every change of content or order"
    )
    size = models.PositiveIntegerField(default=0, help_text="Number of tasks served")
    is_curated = models.BooleanField(
        default=False, help_text="Made by people; no class declares it"
    )
    is_sealed = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Keys without the scope curate play its tasks and cannot read them",
    )
    is_sealed_for_people = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Neither do people without the permission to see hidden fields read them, nor "
        "what was played there",
    )
    frozen = models.DateTimeField(
        null=True, blank=True, help_text="Since when content and order cannot change"
    )
    frozen_hash = models.CharField(
        max_length=64, blank=True, help_text="Over its tasks' hashes in order, when frozen"
    )
    changing = models.CharField(
        max_length=32, blank=True, help_text="Token of the change that is under way"
    )
    changing_until = models.DateTimeField(
        null=True, blank=True, help_text="The change is dead if this has passed"
    )

    objects = SplitQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["environment", "position", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["environment", "name"], name="split_name_unique")
        ]

    def __str__(self) -> str:
        return f"{self.environment.name}/{self.name}"

    @property
    def is_generated(self) -> bool:
        """Return whether the class generates each task on demand. A frozen split holds the tasks
        that it had."""
        return self.environment.is_procedural and not self.is_curated and not self.frozen


class TaskQuerySet(models.QuerySet["Task"]):
    def seen_by(self, viewer: Viewer) -> Self:
        """Return the tasks that exist for the viewer."""
        return self.filter(visible_tasks(viewer))


class Task(models.Model):
    """A task is its content: unique by environment and sha256 of
    `json.dumps(spec, sort_keys=True)`."""

    STATES: ClassVar = [("active", "active"), ("quarantined", "quarantined")]
    SOURCES: ClassVar = [
        ("code", "code"),
        ("import", "import"),
        ("edit", "edit"),
        ("played", "played"),
    ]

    environment = models.ForeignKey(
        Environment, on_delete=models.PROTECT, related_name="tasks", db_index=False
    )
    content_hash = models.CharField(max_length=64)
    spec = models.TextField(help_text="Exact JSON text; never rewritten")
    folded = FoldedJSON(
        null=True,
        editable=False,
        help_text="The spec as searches compare it; null: it is in ASCII, so it is the spec",
    )
    state = models.CharField(max_length=11, choices=STATES, db_default="active")
    reason = models.TextField(blank=True, db_default="", help_text="Why it is quarantined")
    source = models.CharField(
        max_length=6, choices=SOURCES, db_default="played", help_text="Where it came from first"
    )
    dropped = models.DateTimeField(
        null=True, blank=True, help_text="Since when no class lists it, though one did"
    )
    is_unseen = models.BooleanField(
        db_default=True,
        help_text="No attempt was counted and no failure of the environment; may still say so of "
        "one that has statistics, never the other way round",
    )
    replaced_by = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        help_text="The task that an edit put in its place last; null: none, or it was restored "
        "since",
    )
    created = models.DateTimeField(auto_now_add=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["environment", "content_hash"], name="task_content_unique"
            )
        ]
        indexes: ClassVar = [
            # Each leads to the tasks of one filter, newest first. What several filters have in
            # common is found by going along all of them at once (`curation/index_walk.py`).
            models.Index(fields=["environment", "id"], name="task_environment"),
            models.Index(fields=["state", "id"], name="task_state"),
            models.Index(fields=["source", "id"], name="task_source"),
            models.Index(
                fields=["id"], name="task_dropped", condition=models.Q(dropped__isnull=False)
            ),
            models.Index(fields=["id"], name="task_unseen", condition=models.Q(is_unseen=True)),
            models.Index(
                fields=["id"], name="task_superseded", condition=models.Q(replaced_by__isnull=False)
            ),
            models.Index(  # what a deleted task had replaced
                fields=["replaced_by"],
                name="task_replaced_by",
                condition=models.Q(replaced_by__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"task {self.pk}"


class TaskTag(models.Model):
    """A word that people attached to a task."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=60)

    class Meta:
        ordering: ClassVar = ["name"]
        # The tasks with a tag, newest first.
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name", "task"], name="tasktag_unique")
        ]

    def __str__(self) -> str:
        return self.name


class TaskFlag(models.Model):
    """A report that a task is broken. It is open until a curator resolves it."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="flags")
    note = models.TextField(help_text="What is wrong with it")
    author = models.CharField(max_length=200)
    episode = models.BigIntegerField(
        null=True, blank=True, help_text="Number of the episode in which it showed"
    )
    created = models.DateTimeField(auto_now_add=True)
    settled = models.DateTimeField(null=True, blank=True)
    settled_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering: ClassVar = ["id"]
        indexes: ClassVar = [
            models.Index(  # the queue of open flags, newest task first
                fields=["task"], name="taskflag_open", condition=models.Q(settled__isnull=True)
            )
        ]

    def __str__(self) -> str:
        return self.note[:60]


class SplitEntry(models.Model):
    """A place in a split, valid from one version of the split until another. Positions may have
    gaps."""

    split = models.ForeignKey(
        Split, on_delete=models.CASCADE, related_name="entries", db_index=False
    )
    position = models.PositiveIntegerField()
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="entries")
    source_hash = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="Hash of the task that the class lists here; empty: none",
    )
    is_hidden = models.BooleanField(
        db_default=False, help_text="Quarantined: keeps its place, is not served"
    )
    since = models.PositiveBigIntegerField(
        db_default=0, help_text="First version of the split that has it"
    )
    until = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="First version without it; null: none yet"
    )

    class Meta:
        # The catalogue reads the ids of a split's tasks in order.
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["split", "position", "since"], name="splitentry_place_unique"
            )
        ]
        indexes: ClassVar = [
            # a split's tasks, newest first
            models.Index(fields=["split", "task"], name="splitentry_task"),
            models.Index(  # places that ended and can be deleted
                fields=["split", "until"],
                name="splitentry_ended",
                condition=models.Q(until__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.position}"


def seen_at(version: Any) -> models.Q:
    """Return the condition for places that are valid at `version` (a number or expression),
    including hidden ones."""
    return models.Q(models.Q(until=None) | models.Q(until__gt=version), since__lte=version)


class SplitStretches(models.Model):
    """Number of served tasks in each 100 positions of a split. Only valid if its version is that of
    the split."""

    split = models.OneToOneField(
        Split, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    version = models.PositiveBigIntegerField(help_text="Of the split")
    counts = models.TextField(help_text="JSON: a number for each stretch, in order")

    def __str__(self) -> str:
        return f"stretches at {self.version}"


class SplitRemoval(models.Model):
    """A task that the class lists in a split but that people removed, so that a sync does not add
    it again."""

    split = models.ForeignKey(
        Split, on_delete=models.CASCADE, related_name="removals", db_index=False
    )
    source_hash = models.CharField(max_length=64)

    class Meta:
        # what comes back
        indexes: ClassVar = [
            models.Index(fields=["split", "source_hash"], name="splitremoval_hash")
        ]

    def __str__(self) -> str:
        return f"without {self.source_hash[:8]}"


class TaskStatistics(models.Model):
    """Statistics of the attempts at a task: of all of them, and for each run and model.

    Attempts are the rollouts that count by the environment's convention, and their returns follow
    its definition in force; an attempt without a return is not a success. A row may have no
    attempts, only rollouts that are left out.
    """

    BY: ClassVar = [("all", "all"), ("run", "run"), ("model", "model")]

    task = models.ForeignKey(
        Task, on_delete=models.CASCADE, related_name="statistics", db_index=False
    )
    environment = models.ForeignKey(
        Environment, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    by = models.CharField(max_length=5, choices=BY)
    key = models.CharField(
        max_length=200, blank=True, help_text="Name of the run or model; empty for all"
    )
    attempts = models.PositiveIntegerField()
    scored = models.PositiveIntegerField(help_text="Attempts that have a return")
    successes = models.PositiveIntegerField()
    return_total = models.FloatField(help_text="Sum of the returns; the mean is this by scored")
    return_low = models.FloatField(null=True, blank=True)
    return_high = models.FloatField(null=True, blank=True)
    # how these rollouts ended, whether they count as attempts or not
    no_call = models.PositiveIntegerField(default=0, db_default=0)
    expired = models.PositiveIntegerField(default=0, db_default=0)
    interrupted = models.PositiveIntegerField(default=0, db_default=0)
    env_error = models.PositiveIntegerField(default=0, db_default=0, help_text="With failed setups")
    numberless = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Attempts whose own return lacks a reward that was not a number",
    )
    rate = models.FloatField(help_text="successes by attempts, 0 to 1; 0 without attempts")
    bucket = models.CharField(
        max_length=9,
        db_default="",
        help_text="By the thresholds that the environment's statistics follow",
    )

    class Meta:
        constraints: ClassVar = [
            # written by the record
            models.UniqueConstraint(fields=["task", "by", "key"], name="taskstatistics_unique")
        ]
        indexes: ClassVar = [
            # An attempt that does not move its task to another bucket changes no index. The bucket
            # index includes `by`, because SQLite would otherwise read each row to check the
            # condition.
            models.Index(
                fields=["bucket", "task", "by"],
                name="taskstatistics_bucket",
                condition=models.Q(by="all"),
            ),
            models.Index(
                fields=["environment", "task"],
                name="taskstatistics_overall",
                condition=models.Q(by="all"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.by} {self.key}: {self.attempts}"

    @property
    def return_mean(self) -> float | None:
        """Mean of the returns, not beyond them as 3 * 0.1 / 3 is, which is more than 0.1; None
        without a return."""
        if not self.scored:
            return None
        mean = self.return_total / self.scored
        if self.return_low is None or self.return_high is None:
            return mean
        return min(max(mean, self.return_low), self.return_high)
