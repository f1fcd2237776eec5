"""Models of what clients report about their own side of play: rollouts, and the messages of their
models.

Clients upload both with POST /v1/rollouts; the recorder's thread writes them
(`episodes/uploads/batch.py`). A rollout may belong to an episode that this server recorded, or have
been played anywhere else.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self

from django.db import models

from environments.database.storable import storable_json
from environments.models import Environment, Viewer
from episodes.models.blobs import Blob
from episodes.models.privacy import visible_rollouts
from episodes.models.record import HAS_RUN, UNCHECKED, Episode
from episodes.models.rollups import DocumentRow
from episodes.models.runs import Run

RESPONSE_KINDS = frozenset(("assistant_message", "reasoning", "tool_call"))
"""Types of messages that a model generates."""


HAS_EPISODE = models.Q(episode__isnull=False)
HAS_NO_EPISODE = models.Q(episode__isnull=True)
IS_GUESS = models.Q(joined_by="guess")
IS_UNSUMMARISED = models.Q(is_summarised=False)
JOINS = [("session", "session"), ("call", "call"), ("calls", "calls"), ("guess", "guess")]
"""How the episode of a rollout was found: see `episodes/uploads/matching.py`."""


def environment_name_of(text: str) -> str:
    """Return the last part of an environment's name such as `me/math` in lower case, as episodes
    have it."""
    return text.strip("/ ").rpartition("/")[2].strip(" ").lower()[:200]


class RolloutQuerySet(models.QuerySet["Rollout"]):
    def seen_by(self, viewer: Viewer) -> Self:
        """Return the rollouts that exist for the viewer."""
        return self.filter(visible_rollouts(viewer))


class Rollout(models.Model):
    """One rollout as its client reports it. Exists from the first event that names it, in whatever
    order they come.

    The follower summarises a rollout when nothing more has arrived for a while
    (`episodes/rollups/rollouts.py`): it finds the episode and fills the columns from `episode` on.
    They describe the rollout as long as `is_summarised`.
    """

    id = models.BigAutoField(primary_key=True)
    key_label = models.CharField(
        max_length=200, blank=True, help_text="API key of its client; ids are unique per key"
    )
    event_id = models.CharField(max_length=200, help_text="The id that the client gave it")
    is_announced = models.BooleanField(
        default=False, help_text="No: only messages or updates of it have arrived"
    )
    run = models.ForeignKey(
        Run, models.PROTECT, null=True, blank=True, related_name="rollouts", **UNCHECKED
    )
    run_step = models.BigIntegerField(null=True, blank=True, help_text="Training step of the run")
    name = models.CharField(max_length=300, blank=True)
    environment = models.CharField(max_length=300, blank=True, help_text="As the client names it")
    environment_name = models.CharField(
        max_length=200,
        blank=True,
        help_text="Last part of its name in lower case, as episodes have it",
    )
    hosted_environment = models.ForeignKey(
        Environment,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="rollouts",
        **UNCHECKED,
        help_text="The one of that name, if its key could use it; empty: played elsewhere, as far "
        "as this server knows",
    )
    variant = models.CharField(max_length=200, blank=True)
    split = models.CharField(max_length=200, blank=True)
    task_index = models.BigIntegerField(null=True, blank=True)
    model = models.CharField(
        max_length=200,
        blank=True,
        help_text="As the client names it, or else that of its episode unless it is a guess",
    )
    model_params = models.BigIntegerField(null=True, blank=True, help_text="Number of parameters")
    training_stage = models.CharField(max_length=20, blank=True)
    event = models.TextField(
        blank=True, help_text="The event that announced it, as JSON; empty if in event_blob"
    )
    event_blob = models.ForeignKey(
        Blob, models.PROTECT, null=True, blank=True, related_name="+", **UNCHECKED
    )
    info = models.TextField(
        blank=True, help_text="rollout_info as JSON: each key's latest [time in ms, value]"
    )
    sent_ms = models.BigIntegerField(
        null=True, blank=True, help_text="When it started, by the client's clock"
    )
    received = models.DateTimeField(
        help_text="When its first event arrived, by this server's clock"
    )
    problem = models.CharField(
        max_length=300, blank=True, help_text="What is wrong with what the client sent"
    )
    is_summarised = models.BooleanField(
        default=False, db_default=False, help_text="No: something has arrived since"
    )
    episode = models.ForeignKey(
        Episode,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="rollouts",
        **UNCHECKED,
        help_text="As joined",
    )
    joined_by = models.CharField(max_length=7, blank=True, db_default="", choices=JOINS)
    messages_count = models.BigIntegerField(default=0, db_default=0)
    reward = models.FloatField(null=True, blank=True, help_text="The last reward of a message")
    is_finished = models.BooleanField(
        default=False, db_default=False, help_text="Whether a message says so"
    )
    input_tokens = models.BigIntegerField(
        null=True, blank=True, help_text="As reported; empty if the client didn't"
    )
    output_tokens = models.BigIntegerField(
        null=True, blank=True, help_text="Includes those of reasoning"
    )
    reasoning_tokens = models.BigIntegerField(null=True, blank=True)
    cached_tokens = models.BigIntegerField(null=True, blank=True, help_text="Of the input")
    cost = models.FloatField(
        null=True, blank=True, help_text="As reported, in the client's currency, usually USD"
    )

    objects = RolloutQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["key_label", "event_id"], name="rollout_event_unique")
        ]
        indexes: ClassVar = [
            # a run's, newest first
            models.Index(fields=["run", "id"], name="rollout_run", condition=HAS_RUN),
            # by the id in addresses, whichever the key
            models.Index(fields=["event_id"], name="rollout_event"),
            # of a time span
            models.Index(fields=["environment_name", "received"], name="rollout_environment"),
            # newest first
            models.Index(fields=["environment_name", "id"], name="rollout_environment_id"),
            models.Index(  # whether a run belongs to a private environment
                fields=["hosted_environment"],
                name="rollout_hosted",
                condition=models.Q(hosted_environment__isnull=False),
            ),
            models.Index(fields=["model", "id"], name="rollout_model"),  # newest first
            # those of an episode
            models.Index(fields=["episode"], name="rollout_episode", condition=HAS_EPISODE),
            # without one, newest first
            models.Index(fields=["id"], name="rollout_alone", condition=HAS_NO_EPISODE),
            # with one
            models.Index(fields=["id"], name="rollout_joined", condition=HAS_EPISODE & ~IS_GUESS),
            # with a guess
            models.Index(fields=["id"], name="rollout_guess", condition=HAS_EPISODE & IS_GUESS),
            # the follower's next
            models.Index(fields=["id"], name="rollout_unsummarised", condition=IS_UNSUMMARISED),
            models.Index(  # whether a blob is needed
                fields=["event_blob"],
                name="rollout_event_blob",
                condition=models.Q(event_blob__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"rollout {self.event_id}"

    @property
    def title(self) -> str:
        """Return what a person calls the rollout: its name, or else its run, environment and
        task."""
        if self.name:
            return self.name
        parts = (self.run.name if self.run else "", self.environment_name, self.played_task)
        return " · ".join(filter(None, parts)) or self.event_id

    @property
    def certain_episode(self) -> Episode | None:
        return None if self.joined_by == "guess" else self.episode

    @property
    def played_task(self) -> str:
        """Return `split #index`, or what `name_tasks` found for the episode, or the split alone;
        empty if not known."""
        if (index := self.played_task_index) is not None:
            return f"{self.played_split} #{index}".strip()
        episode = self.certain_episode
        return (episode.task_place if episode else "") or self.played_split

    @property
    def played_split(self) -> str:
        """Return the name of the split: as the client names it, or else that of the episode unless
        it is a guess."""
        episode = None if self.split else self.certain_episode
        return episode.split.name if episode and episode.split else self.split

    @property
    def played_task_index(self) -> int | None:
        """Return the number of the task: as the client says, or else that of the episode unless it
        is a guess."""
        episode = self.certain_episode if self.task_index is None else None
        return episode.task_index if episode else self.task_index

    @property
    def played_step(self) -> int | None:
        """Return the training step: as the client says, or else that of the episode if it belongs
        to the same run."""
        episode = self.certain_episode if self.run_step is None else None
        return episode.run_step if episode and episode.run_id == self.run_id else self.run_step

    @property
    def has_usage(self) -> bool:
        """Return whether the client reported tokens or cost."""
        figures = (
            self.input_tokens,
            self.output_tokens,
            self.reasoning_tokens,
            self.cached_tokens,
            self.cost,
        )
        return any(value is not None for value in figures)

    @property
    def event_json(self) -> str:
        return self.event_blob.text if self.event_blob else self.event

    @property
    def event_object(self) -> dict[str, Any]:
        """The event that announced the rollout; empty if none has arrived."""
        return dict(json.loads(storable_json(self.event_json or "{}")))

    @property
    def info_object(self) -> dict[str, Any]:
        """The latest value of each key of rollout_info."""
        return {
            key: value for key, (_, value) in json.loads(storable_json(self.info or "{}")).items()
        }


class RolloutText(DocumentRow):
    """A part of the messages of a rollout without an episode.

    Messages of other rollouts belong to the document of their episode. See
    `episodes/search/rollouts.py`.
    """

    rollout_id = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["rollout_id", "part"], name="rollouttext_unique")
        ]

    def __str__(self) -> str:
        return f"words of rollout {self.rollout_id}"


class RolloutScan(models.Model):
    """How far the follower has looked through the messages: a single row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    message = models.BigIntegerField(default=0, help_text="Id of the last message")

    def __str__(self) -> str:
        return f"up to message {self.message}"


class RolloutMessage(models.Model):
    """One message of a rollout's conversation."""

    id = models.BigAutoField(primary_key=True)
    rollout = models.ForeignKey(Rollout, models.CASCADE, related_name="messages", db_index=False)
    index = models.BigIntegerField(
        help_text="Position in the rollout; -1 if the client sent none that can be used"
    )
    event_id = models.CharField(max_length=64)
    kind = models.CharField(
        max_length=40, help_text="The type that the client sent, such as tool_call"
    )
    name = models.CharField(max_length=200, blank=True, help_text="Of the tool, for a tool_call")
    call_id = models.CharField(
        max_length=200, blank=True, help_text="Joins a tool_call to its tool_result"
    )
    content = models.TextField(blank=True, help_text="Empty if in content_blob")
    content_blob = models.ForeignKey(
        Blob, models.PROTECT, null=True, blank=True, related_name="+", **UNCHECKED
    )
    summary = models.TextField(blank=True, help_text="Of reasoning; empty if in summary_blob")
    summary_blob = models.ForeignKey(
        Blob, models.PROTECT, null=True, blank=True, related_name="+", **UNCHECKED
    )
    extra = models.TextField(
        blank=True, help_text="Metadata and all other fields as JSON; empty if none"
    )
    extra_blob = models.ForeignKey(
        Blob, models.PROTECT, null=True, blank=True, related_name="+", **UNCHECKED
    )
    reward = models.FloatField(null=True, blank=True)
    is_finished = models.BooleanField(default=False)
    response_characters = models.BigIntegerField(
        default=0, help_text="Generated by the model; 0 of other messages"
    )
    sent_ms = models.BigIntegerField(null=True, blank=True, help_text="By the client's clock")
    received = models.DateTimeField(help_text="By this server's clock")
    problem = models.CharField(
        max_length=300, blank=True, help_text="What is wrong with what the client sent"
    )

    class Meta:
        ordering: ClassVar = ["rollout", "index", "id"]
        constraints: ClassVar = [
            # a conversation in order; a message that is sent again is not stored again
            models.UniqueConstraint(
                fields=["rollout", "index", "event_id"], name="message_event_unique"
            )
        ]
        indexes: ClassVar = [  # whether a blob is needed
            models.Index(
                fields=[f"{name}_blob"],
                name=f"message_{name}_blob",
                condition=models.Q((f"{name}_blob__isnull", False)),
            )
            for name in ("content", "summary", "extra")
        ]

    def __str__(self) -> str:
        return f"message {self.index}"

    @property
    def text(self) -> str:
        """The content: visible text, or the arguments of a tool call as JSON."""
        return self.content_blob.text if self.content_blob else self.content

    @property
    def summary_text(self) -> str:
        return self.summary_blob.text if self.summary_blob else self.summary

    @property
    def extra_json(self) -> str:
        return self.extra_blob.text if self.extra_blob else self.extra

    @property
    def extra_object(self) -> dict[str, Any]:
        """Metadata under "metadata", and all fields that have no column."""
        return dict(json.loads(storable_json(self.extra_json or "{}")))
