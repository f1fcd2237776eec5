"""Models of rollups, which are derived from ended episodes: CurveBlock, RunTotal, StepSpan,
LatestTotal, StepGroup, Activity, ToolUse, RewardComponent, EpisodeComponent, TranscriptText and Progress.

The follower (`episodes/rollups`) writes them after an episode's commit, in the order of
`Episode.end_number`, and can rebuild all of them from the episodes.

Scopes and environments are referred to by id without a constraint, because rows here may outlive
what they describe.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from episodes.models.record import UNCHECKED, Episode

SCOPES = [("environment", "environment"), ("split", "split"), ("run", "run")]


class Summed(models.Model):
    """A stored summary of endings of one environment, split or run: see
    `episodes/rollups/summaries.py`.

    Of a run there is a row for each environment and split in which it played: each environment has
    its own definition of return, and splits are not pooled.
    """

    scope = models.CharField(max_length=11, choices=SCOPES)
    scope_id = models.BigIntegerField()
    environment_id = models.BigIntegerField(
        db_default=0, help_text="Environment of all of its episodes"
    )
    split_id = models.BigIntegerField(
        db_default=0, help_text="Of a run: split of all of its episodes; 0: none"
    )
    first_end = models.BigIntegerField(help_text="end_number of its first episode")
    last_end = models.BigIntegerField(help_text="end_number of its last episode")
    began = models.DateTimeField(help_text="When the first of its episodes ended")
    ended = models.DateTimeField(help_text="When the last of its episodes ended")
    episodes = models.PositiveIntegerField()
    causes = models.TextField(help_text="JSON object: endings by cause, probes as 'probe'")
    steps = models.PositiveBigIntegerField(
        help_text="Of the episodes that finished or were abandoned"
    )
    # of the same episodes: JSON arrays of [value, count], ascending; exact up to 32 distinct
    # values, else 32 centroids
    return_sum = models.TextField()
    return_last = models.TextField()
    return_max = models.TextField()
    return_mean = models.TextField()
    length = models.TextField(help_text="Steps of an episode")
    failed = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Calls of the same episodes that failed"
    )
    refused = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Calls of the same episodes that were refused"
    )
    scatter = models.TextField(
        blank=True,
        db_default="",
        help_text="JSON object by definition of return: scatter of its array "
        "(`episodes/attempts/sketches.py`)",
    )
    expired = models.TextField(
        blank=True,
        db_default="",
        help_text="The eight values above of expired episodes, as one array; empty without any",
    )

    class Meta:
        abstract = True


class CurveBlock(Summed):
    """A summary of consecutive endings within a scope, as far as they are of one environment;
    written once, when the block is full.

    Block `number` of level 0 holds 128 of the scope's endings from `number * 128` on; a block of
    each level above holds four blocks of the level below. Endings that no block holds yet are read
    from the episodes themselves.
    """

    level = models.PositiveSmallIntegerField()
    number = models.PositiveIntegerField(help_text="0-based within scope and level")

    class Meta:
        constraints: ClassVar = [  # a curve at one level, in order
            models.UniqueConstraint(
                fields=["scope", "scope_id", "level", "number", "environment_id", "split_id"],
                name="curveblock_unique",
            )
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.scope_id}, level {self.level}, block {self.number}"


class RunTotal(Summed):
    """A summary of all endings of one run in one environment and split, by which lists of runs are
    sorted; updated with each batch. Its scope is the run."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["scope_id", "environment_id", "split_id"], name="runtotal_unique"
            )
        ]

    def __str__(self) -> str:
        return f"run {self.scope_id}"


class StepSpan(Summed):
    """A summary of a scope's endings in one environment in neighbouring training steps, whenever
    they ended; updated with each batch.

    All spans of a scope have one `width`: the least power of 2 with which there are 256 of them at
    most, or fewer if they are of many environments (`episodes/rollups/step_spans.py`). Span
    `number` covers `width` training steps from `number * width` on. Endings without a training step
    are in no span.
    """

    width = models.BigIntegerField(help_text="Training steps")
    number = models.BigIntegerField()
    step_low = models.BigIntegerField(help_text="Lowest training step of its episodes")
    step_high = models.BigIntegerField(help_text="Highest training step of its episodes")
    groups = models.TextField(
        blank=True,
        db_default="",
        help_text="Of a run: JSON object, number of groups by signature "
        "(`episodes/attempts/group_states.py`)",
    )
    deviations = models.TextField(
        blank=True,
        db_default="",
        help_text="Of a run: JSON object by code, sums of the standard deviations within groups by "
        "definition of "
        "return",
    )

    class Meta:
        constraints: ClassVar = [  # a curve
            models.UniqueConstraint(
                fields=["scope", "scope_id", "width", "number", "environment_id", "split_id"],
                name="stepspan_unique",
            )
        ]

    def __str__(self) -> str:
        return (
            f"{self.scope} {self.scope_id}, {self.width} training steps from "
            f"{self.number * self.width} on"
        )


class LatestTotal(Summed):
    """A summary of the spans of the latest tenth of a run's training steps in one environment, by
    which lists of runs are sorted; written with these spans. Its scope is the run.

    Each split of the run has a tenth of its own. If there are several, so have all of them together,
    in rows with `split_id` ALL_SPLITS.
    """

    ALL_SPLITS = -1

    width = models.BigIntegerField(help_text="Of the spans: training steps")
    number = models.BigIntegerField(help_text="Of the first of the spans, in any environment")
    step_low = models.BigIntegerField(help_text="Lowest training step of its episodes")
    step_high = models.BigIntegerField(help_text="Highest training step of its episodes")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["scope_id", "environment_id", "split_id"], name="latesttotal_unique"
            )
        ]

    def __str__(self) -> str:
        return f"run {self.scope_id}, training steps {self.step_low} to {self.step_high}"


class StepGroup(models.Model):
    """What is known of one group: the rollouts of a run at one task of a split in one training
    step."""

    run_id = models.BigIntegerField()
    run_step = models.BigIntegerField()
    task_id = models.BigIntegerField()
    split_id = models.BigIntegerField(db_default=0, help_text="0: none")
    state = models.TextField(
        help_text="JSON array, as `episodes/attempts/group_states.py` makes it"
    )

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["run_id", "run_step", "task_id", "split_id"], name="stepgroup_unique"
            )
        ]

    def __str__(self) -> str:
        return f"run {self.run_id}, training step {self.run_step}, task {self.task_id}"


class Activity(models.Model):
    """Counts of the endings of one environment within one minute, hour or day."""

    PERIODS: ClassVar = [(60, "minute"), (3600, "hour"), (86400, "day")]

    period = models.PositiveIntegerField(choices=PERIODS, help_text="Seconds")
    start = models.BigIntegerField(help_text="Seconds since the epoch, a multiple of the period")
    environment_id = models.BigIntegerField()
    episodes = models.PositiveIntegerField(default=0)
    # returns of episodes that finished or were abandoned, by the definition in force when they were
    # counted
    scored = models.PositiveIntegerField(default=0, help_text="Those of them that have a return")
    successes = models.PositiveIntegerField(default=0)
    return_total = models.FloatField(default=0.0)
    # returns of episodes that expired, by that definition
    expired_scored = models.PositiveIntegerField(default=0, db_default=0)
    expired_successes = models.PositiveIntegerField(default=0, db_default=0)
    expired_total = models.FloatField(default=0.0, db_default=0.0)
    steps = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0)
    finished = models.PositiveIntegerField(default=0)
    abandoned = models.PositiveIntegerField(default=0, help_text="Without probes, like `expired`")
    expired = models.PositiveIntegerField(default=0)
    setup_failed = models.PositiveIntegerField(default=0)
    env_error = models.PositiveIntegerField(default=0)
    interrupted = models.PositiveIntegerField(default=0)
    no_call = models.PositiveIntegerField(default=0)
    probes = models.PositiveIntegerField(default=0)
    # of those that finished or were abandoned, and of expired ones
    numberless = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Those with a reward that was not a number"
    )
    expired_numberless = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        constraints: ClassVar = [  # a span of time in order
            models.UniqueConstraint(
                fields=["period", "start", "environment_id"], name="activity_unique"
            )
        ]

    def __str__(self) -> str:
        return f"environment {self.environment_id}, {self.period} s from {self.start}"


class ToolUse(models.Model):
    """Counts of the calls of one tool of one environment in the episodes that ended on one day."""

    environment_id = models.BigIntegerField()
    tool = models.CharField(max_length=200)
    day = models.BigIntegerField(help_text="Seconds since the epoch at which the day begins, UTC")
    ok = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    rewarded = models.PositiveIntegerField(default=0, help_text="Calls with a reward other than 0")
    duration_ms = models.FloatField(default=0.0, help_text="Of all calls that ran together")
    durations = models.TextField(
        default="[]",
        help_text="JSON array: calls that ran by duration; place n is below 2**(n-3) ms, the last "
        "all others",
    )

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["environment_id", "tool", "day"], name="tooluse_unique")
        ]

    def __str__(self) -> str:
        return f"{self.tool} of environment {self.environment_id}"


class RewardComponent(models.Model):
    """A name under which an environment reports a part of its rewards."""

    environment_id = models.BigIntegerField()
    name = models.CharField(max_length=80)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["environment_id", "name"], name="rewardcomponent_unique"
            )
        ]

    def __str__(self) -> str:
        return self.name


class EpisodeComponent(models.Model):
    """One component of the rewards of an ended episode, over the steps that report it."""

    id = models.BigAutoField(primary_key=True)
    episode = models.ForeignKey(Episode, models.CASCADE, related_name="components", **UNCHECKED)
    component = models.ForeignKey(
        RewardComponent, models.CASCADE, related_name="values", **UNCHECKED
    )
    # by definition of return, as the returns of the episode
    value_sum = models.FloatField()
    value_last = models.FloatField()
    value_max = models.FloatField()
    value_mean = models.FloatField()

    class Meta:
        constraints: ClassVar = [  # the components of an episode
            models.UniqueConstraint(fields=["episode", "component"], name="episodecomponent_unique")
        ]

    def __str__(self) -> str:
        return f"component {self.component_id} of episode {self.episode_id}"


class DocumentRow(models.Model):
    """A part of a searchable document; the index holds its words under this row's id.

    Rows never change and ids are never used twice: when a document is indexed again it gets new
    rows.
    """

    id = models.BigAutoField(primary_key=True)
    part = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="0-based number of the part"
    )
    is_cut = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether some of the document is not indexed, as it is too long",
    )

    class Meta:
        abstract = True


class TranscriptText(DocumentRow):
    """A part of the transcript of an ended episode."""

    episode_id = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["episode_id", "part"], name="transcripttext_unique")
        ]
        # what a search says about transcripts that are not indexed whole, and about long ones
        indexes: ClassVar = [
            models.Index(
                fields=["episode_id"],
                name="transcripttext_cut",
                condition=models.Q(is_cut=True, part=0),
            ),
            models.Index(
                fields=["episode_id"], name="transcripttext_long", condition=models.Q(part=1)
            ),
        ]

    def __str__(self) -> str:
        return f"text of episode {self.episode_id}"


class Progress(models.Model):
    """The last ending that one kind of rollup has processed."""

    name = models.CharField(max_length=40, primary_key=True)
    end_number = models.BigIntegerField(default=0)
    removals = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        help_text="Rises when episodes are removed; what was read before is then read again",
    )

    def __str__(self) -> str:
        return f"{self.name}: {self.end_number}"
