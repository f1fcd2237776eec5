"""Models of what was played: Episode, Step, SessionSnapshot and Incident, and SavedView for people
who read.

The recorder's thread writes them (`episodes/recording/writer.py`). So does a server at its start,
which ends the episodes that a dead server left open (`recording/interrupted_episodes.py`), and so
do imports (`episodes/transfer`). Every page reads them.

Environments, splits, runs and blobs are referred to without a constraint in the database
(`UNCHECKED`). The recorder has found or made them in the same transaction, and nothing that is
referred to is deleted, while with a constraint PostgreSQL would lock, and so write, the few rows
that all episodes refer to at every insert (0.16 of 1.2 CPU ms an episode).
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self

from django.db import models

from environments.database.storable import storable_json
from environments.models import Environment, Split, Task, Viewer
from episodes.attempts.rule import ENDED, AttemptQuerySet
from episodes.models.blobs import Blob
from episodes.models.privacy import outside_open_studies, visible_episodes
from episodes.models.runs import Run

UNCHECKED: dict[str, Any] = {"db_index": False, "db_constraint": False}
"""Options of a foreign key without constraint and index; an index that a query needs is named in
Meta."""
HAS_RUN = models.Q(run__isnull=False)
HAS_SPLIT = models.Q(split__isnull=False)
HAS_REVISION = models.Q(revision__isnull=False)


class EnvironmentRevision(models.Model):
    """The code of an environment from one episode on, until the next revision of the environment.

    A new row is made when anything has changed since the last one. Rows with the same `code` are
    the same code, for example at two commits, or before and after a change that was taken back.
    """

    environment = models.ForeignKey(
        Environment, models.CASCADE, related_name="revisions", **UNCHECKED
    )
    code = models.CharField(
        max_length=32, help_text="Digest of the class, its source files and the versions"
    )
    digest = models.CharField(max_length=32, help_text="Digest of everything")
    source_hash = models.CharField(
        max_length=64, blank=True, help_text="SHA-256 of the class's source files"
    )
    git_commit = models.CharField(max_length=64, blank=True)
    is_dirty = models.BooleanField(
        default=False, help_text="Whether a source file differs from the commit"
    )
    versions = models.TextField(help_text="JSON object: SDK and named packages with their versions")
    first_episode = models.BigIntegerField(
        help_text="Id of the first episode that was played by it"
    )
    created = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["id"]
        indexes: ClassVar = [
            models.Index(fields=["environment", "id"], name="revision_environment")
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """Return the short name of the code, as pages and addresses show it."""
        return self.code[:8]

    @property
    def version_of(self) -> dict[str, str]:
        return dict(json.loads(self.versions))


class EpisodeQuerySet(AttemptQuerySet["Episode"]):
    """Queries of episodes that know which are attempts, and which exist for whom."""

    def seen_by(self, viewer: Viewer) -> Self:
        """Return the episodes that exist for the viewer."""
        return self.filter(visible_episodes(viewer))

    def in_figures_for(self, viewer: Viewer) -> Self:
        """Return the episodes that the figures of an environment count for the viewer, those of
        sealed splits too."""
        return self.filter(outside_open_studies(viewer))


class Episode(models.Model):
    """One session's play of one task, from the start of construction to its end."""

    STATUSES: ClassVar = [("running", "running"), ("ended", "ended")]
    CAUSES: ClassVar = [
        ("finished", "finished"),
        ("abandoned", "abandoned"),
        ("expired", "expired"),
        ("setup_failed", "setup failed"),
        ("env_error", "environment error"),
        ("interrupted", "interrupted"),
        ("no_call", "no call"),
    ]
    SURVIVALS: ClassVar = [
        ("replay", "its calls are made again"),
        ("key", "its calls are made again, with its API key"),
        ("sealed", "as the first, with its secrets"),
        ("secrets", "ends: secrets"),
        ("toolset", "ends: toolset"),
    ]
    PLAYERS: ClassVar = [("agent", "agent"), ("human", "human"), ("script", "script")]

    id = models.BigAutoField(primary_key=True)
    environment = models.ForeignKey(
        Environment, models.PROTECT, related_name="episodes", **UNCHECKED
    )
    split = models.ForeignKey(
        Split,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="episodes",
        help_text="As the client named it; else the one that held the task when the episode began",
        **UNCHECKED,
    )
    task_index = models.BigIntegerField(
        null=True, blank=True, help_text="Only when the client named a split"
    )
    task = models.ForeignKey(
        Task, on_delete=models.PROTECT, related_name="episodes", db_index=False
    )
    session_id = models.CharField(max_length=512)
    user_agent = models.CharField(max_length=300, blank=True)
    key_label = models.CharField(max_length=200, blank=True)
    player = models.CharField(max_length=6, choices=PLAYERS, default="agent")
    revision = models.ForeignKey(
        EnvironmentRevision,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="episodes",
        help_text="Code of the environment; null: unknown",
        **UNCHECKED,
    )
    run = models.ForeignKey(
        Run, models.PROTECT, null=True, blank=True, related_name="episodes", **UNCHECKED
    )
    run_step = models.BigIntegerField(null=True, blank=True, help_text="Training step of the run")
    model = models.CharField(max_length=200, blank=True)
    labels = models.TextField(blank=True, help_text="Further orsweb_ values, a JSON object")
    prompt = models.ForeignKey(
        Blob,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="As the agent got it",
        **UNCHECKED,
    )
    tools = models.ForeignKey(
        Blob,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="As the agent got them",
        **UNCHECKED,
    )
    survival = models.CharField(
        max_length=8,
        choices=SURVIVALS,
        null=True,
        blank=True,
        help_text="How its session goes on after a restart of the server; null: it ends",
    )
    status = models.CharField(max_length=8, choices=STATUSES, default="running")
    cause = models.CharField(max_length=12, choices=CAUSES, blank=True)
    detail = models.TextField(blank=True, help_text="Why it ended, in words")
    is_probe = models.BooleanField(
        default=False, help_text="Ended without a tool call and isn't an attempt"
    )
    steps_count = models.PositiveIntegerField(
        default=0, help_text="Steps that ran; refused ones are not counted"
    )
    failed_count = models.PositiveIntegerField(
        default=0, help_text="Of those that ran, how many failed"
    )
    refused_count = models.PositiveIntegerField(default=0)
    return_sum = models.FloatField(default=0.0)
    return_last = models.FloatField(null=True, blank=True, help_text="Last non-null reward")
    return_max = models.FloatField(null=True, blank=True)
    return_mean = models.FloatField(null=True, blank=True)
    created = models.DateTimeField()
    ready = models.DateTimeField(null=True, blank=True)
    first_acted = models.DateTimeField(null=True, blank=True)
    last_acted = models.DateTimeField(null=True, blank=True)
    ended = models.DateTimeField(null=True, blank=True)
    duration_seconds = models.FloatField(
        null=True, blank=True, help_text="From ready to the last answer; null without calls"
    )
    end_number = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="Rises by one with every ending of this database, in the order of their commits",
    )

    has_components = models.BooleanField(
        null=True,
        blank=True,
        help_text="Whether an output may report components of a reward; null: not known without "
        "reading them",
    )

    task_place: str = ""
    """Name of the task by its place in a split, once `browsing.task_lines.name_tasks` has looked it
    up."""
    task_words: str = ""
    """The task in one line, once `browsing.task_lines.describe_tasks` has made it."""

    objects = EpisodeQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            # recall of a call by session and task_id
            models.Index(fields=["session_id"], name="episode_session"),
            # an environment's, newest first
            models.Index(fields=["environment", "id"], name="episode_environment"),
            # a run's episodes in order
            models.Index(fields=["run", "id"], name="episode_run", condition=HAS_RUN),
            models.Index(  # a training step's, newest first
                fields=["run", "run_step", "id"],
                name="episode_run_step",
                condition=HAS_RUN & models.Q(run_step__isnull=False),
            ),
            models.Index(  # the splits that a run played, and its episodes in one of them
                fields=["run", "split", "id"],
                name="episode_run_split",
                condition=HAS_RUN & HAS_SPLIT,
            ),
            models.Index(fields=["task", "id"], name="episode_task"),  # a task's attempts in order
            # a split's, newest first
            models.Index(fields=["split", "id"], name="episode_split", condition=HAS_SPLIT),
            models.Index(  # a revision's, newest first
                fields=["revision", "id"], name="episode_revision", condition=HAS_REVISION
            ),
            models.Index(fields=["created", "id"], name="episode_created"),  # of a span of time
            # a model's
            models.Index(
                fields=["model", "id"], name="episode_model", condition=~models.Q(model="")
            ),
            # a key's
            models.Index(
                fields=["key_label", "id"], name="episode_key", condition=~models.Q(key_label="")
            ),
            models.Index(
                fields=["player", "id"], name="episode_player", condition=~models.Q(player="agent")
            ),
            models.Index(fields=["cause", "is_probe", "id"], name="episode_cause", condition=ENDED),
            models.Index(  # episodes in which a call was refused or failed
                fields=["id"],
                name="episode_error",
                condition=models.Q(refused_count__gt=0) | models.Q(failed_count__gt=0),
            ),
            # sorted by a figure, or within a range of it
            models.Index(fields=["return_sum", "id"], name="episode_return_sum", condition=ENDED),
            models.Index(fields=["return_last", "id"], name="episode_return_last", condition=ENDED),
            models.Index(fields=["return_max", "id"], name="episode_return_max", condition=ENDED),
            models.Index(fields=["return_mean", "id"], name="episode_return_mean", condition=ENDED),
            models.Index(fields=["steps_count", "id"], name="episode_steps", condition=ENDED),
            models.Index(
                fields=["duration_seconds", "id"], name="episode_duration", condition=ENDED
            ),
            # in the order in which they ended, which rollups follow
            models.Index(fields=["end_number"], name="episode_end", condition=ENDED),
            models.Index(
                fields=["environment", "end_number"],
                name="episode_environment_end",
                condition=ENDED,
            ),
            models.Index(
                fields=["split", "end_number"],
                name="episode_split_end",
                condition=ENDED & HAS_SPLIT,
            ),
            models.Index(
                fields=["run", "end_number"], name="episode_run_end", condition=ENDED & HAS_RUN
            ),
            # episodes that a dead server left open
            models.Index(
                fields=["id"], name="episode_running", condition=models.Q(status="running")
            ),
        ]

    def __str__(self) -> str:
        return f"episode {self.pk}"

    @property
    def labels_object(self) -> dict[str, Any]:
        return dict(json.loads(storable_json(self.labels))) if self.labels else {}

    @property
    def person(self) -> str:
        """Name of the person who played, such as @alice; empty for other players."""
        return self.key_label if self.player == "human" else ""

    @property
    def task_name(self) -> str:
        """`task_place`, else `split #index` as the client named it, else `task` and its number."""
        if self.task_place:
            return self.task_place
        if self.split is not None and self.task_index is not None:
            return f"{self.split.name} #{self.task_index}"
        return f"task {self.task_id}"

    @property
    def returns(self) -> dict[str, float | None]:
        """Return by definition; all None while the episode runs, because they are stored when it
        ends."""
        returns = {
            "sum": self.return_sum,
            "last": self.return_last,
            "max": self.return_max,
            "mean": self.return_mean,
        }
        return returns if self.status == "ended" else dict.fromkeys(returns)


class Step(models.Model):
    """One tool call of an episode. Refused calls are stored, but not counted."""

    STATUSES: ClassVar = [("ok", "ok"), ("refused", "refused"), ("failed", "failed")]

    id = models.BigAutoField(primary_key=True)
    episode = models.ForeignKey(
        Episode, on_delete=models.CASCADE, related_name="steps", db_index=False
    )
    index = models.PositiveIntegerField(help_text="0-based, in order of completion")
    tool = models.CharField(max_length=200)
    input = models.TextField(
        blank=True, help_text="Exact JSON text; empty when it is in input_blob"
    )
    input_blob = models.ForeignKey(
        Blob, models.PROTECT, null=True, blank=True, related_name="+", **UNCHECKED
    )
    output = models.TextField(
        blank=True, help_text="The ToolOutput's JSON; empty unless ok, or when in output_blob"
    )
    output_blob = models.ForeignKey(
        Blob, models.PROTECT, null=True, blank=True, related_name="+", **UNCHECKED
    )
    reward = models.FloatField(null=True, blank=True)
    finished = models.BooleanField(default=False)
    status = models.CharField(max_length=8, choices=STATUSES)
    error = models.TextField(blank=True)
    reason = models.CharField(max_length=40, blank=True)
    task_id = models.CharField(
        max_length=300, help_text="Id under which the client can fetch the result again"
    )
    started = models.DateTimeField()
    duration_ms = models.FloatField()
    waited_ms = models.FloatField(default=0.0, help_text="Queued behind other calls of the session")

    class Meta:
        ordering: ClassVar = ["episode", "index"]
        constraints: ClassVar = [
            # a transcript in order
            models.UniqueConstraint(fields=["episode", "index"], name="step_index_unique"),
            # recall; never twice
            models.UniqueConstraint(fields=["episode", "task_id"], name="step_task_id_unique"),
        ]
        indexes: ClassVar = [  # whether a blob is needed
            models.Index(
                fields=["input_blob"],
                name="step_input_blob",
                condition=models.Q(input_blob__isnull=False),
            ),
            models.Index(
                fields=["output_blob"],
                name="step_output_blob",
                condition=models.Q(output_blob__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"step {self.index}"

    @property
    def input_json(self) -> str:
        return self.input_blob.text if self.input_blob else self.input

    @property
    def output_json(self) -> str:
        """The exact JSON of the ToolOutput; empty unless status is ok."""
        return self.output_blob.text if self.output_blob else self.output

    @property
    def blocks(self) -> list[dict[str, Any]]:
        return list(json.loads(self.output_json)["blocks"]) if self.output_json else []

    @property
    def metadata(self) -> dict[str, Any] | None:
        return json.loads(self.output_json)["metadata"] if self.output_json else None


class SavedView(models.Model):
    """A page with its filters under a name, for everybody who may see pages."""

    page = models.CharField(max_length=20, default="episodes", help_text="Its name in addresses")
    name = models.CharField(max_length=100)
    query = models.TextField(help_text="Of the page, as in its address")
    author = models.CharField(max_length=150)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["page", "name"], name="savedview_unique")
        ]

    def __str__(self) -> str:
        return self.name


class Incident(models.Model):
    """What the supervisor saw (`orsweb/server/watchdog.py`), the end of a worker process that had
    sessions, or an exception of an environment's code.

    Similar ones within an hour are one row, except for deaths of the server.
    """

    KINDS: ClassVar = [
        ("died", "server died"),
        ("held", "server held"),
        ("lost", "worker process"),
        ("left", "processes left"),
        ("code", "exception"),
    ]

    kind = models.CharField(max_length=4, choices=KINDS)
    happened = models.DateTimeField(help_text="Of several holds, the latest")
    how = models.CharField(
        max_length=200, help_text="How the process died, what was held or left, or what was raised"
    )
    seconds = models.FloatField(
        default=0.0, help_text="How long the server was held; of several holds, the longest"
    )
    count = models.PositiveIntegerField(default=1)
    environment = models.ForeignKey(
        Environment,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="incidents",
        help_text="Empty: unknown",
    )
    call = models.CharField(
        max_length=100, blank=True, help_text="The tool, or what else of the environment ran"
    )
    episode = models.BigIntegerField(
        null=True, blank=True, help_text="Id of the episode, which may have been deleted"
    )
    input_hash = models.CharField(
        max_length=32, blank=True, help_text="BLAKE2b-128 of the recorded input"
    )
    since = models.DateTimeField(null=True, blank=True, help_text="When the call began")
    is_certain = models.BooleanField(
        default=False, help_text="Whether this call is known to have caused it"
    )
    has_disabled = models.BooleanField(
        default=False, help_text="Whether the environment was disabled because of it"
    )
    others = models.TextField(
        blank=True,
        help_text="What else ran, if the cause is not certain; of an exception, episodes and steps",
    )
    trace = models.TextField(blank=True, help_text="Stack of the thread, or traceback")

    class Meta:
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [
            models.Index(fields=["environment", "kind", "id"], name="incident_environment")
        ]
        permissions: ClassVar = [("view_operations", "Can view operations")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.how}"
