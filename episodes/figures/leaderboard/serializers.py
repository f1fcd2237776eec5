"""Serializers of leaderboards. `episodes/api/serializers.py` has the conventions."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from episodes.api.serializers import CoverageSerializer, RevisionSerializer
from episodes.figures.serializers import DefinitionSerializer


class PassSerializer(s.Serializer[Any]):
    k = s.IntegerField()
    rate = s.FloatField(
        help_text="Probability that one of k attempts succeeds: unbiased, mean over the tasks"
    )
    low = s.FloatField(
        help_text="Lower end of the 95 % interval, with every task as one observation"
    )
    high = s.FloatField()
    tasks = s.IntegerField(
        help_text="Number of these tasks, the same for each k: those with enough attempts for the "
        "last"
    )


class LeaderboardRowSerializer(s.Serializer[Any]):
    key = s.CharField(help_text="Name of the model or run; `agent`, `human` or `script`")
    is_human = s.BooleanField()
    n = s.IntegerField(help_text="Number of attempts")
    rollouts = CoverageSerializer(source="coverage")
    mean = s.FloatField(
        allow_null=True, help_text="Mean return; returns beyond 1e290 of either sign count as that"
    )
    error = s.FloatField(allow_null=True, help_text="Standard error of the mean, clustered by task")
    successes = s.IntegerField()
    success = s.FloatField(
        allow_null=True, help_text="Success rate: successes divided by n; null without attempts"
    )
    success_low = s.FloatField(
        allow_null=True,
        help_text="Lower end of the 95 % Wilson interval with tasks as observations",
    )
    success_high = s.FloatField(allow_null=True)
    tasks = s.IntegerField(help_text="Number of tasks that were attempted")
    coverage = s.FloatField(
        allow_null=True,
        source="tasks_share",
        help_text="Share of all tasks that were attempted; null if unknown",
    )
    passes = PassSerializer(many=True, help_text="pass@k for k = 1, 2, 4, …")


class LeaderboardSerializer(s.Serializer[Any]):
    environment = s.CharField()
    split = s.CharField(allow_null=True)
    by = s.ChoiceField(["model", "run", "player"])
    definition = DefinitionSerializer()
    tasks = s.IntegerField(
        allow_null=True,
        help_text="Number of tasks; null if they are not listed, or too many to count",
    )
    is_bounded = s.BooleanField(help_text="Whether only the newest episodes were read")
    note = s.CharField(help_text="Note to show with the leaderboard; may be empty")
    pooled_revisions = RevisionSerializer(
        many=True,
        help_text="Revisions of the environment whose episodes are counted, latest first; empty "
        "for one alone",
    )
    rows = LeaderboardRowSerializer(
        many=True, help_text="Rows, best mean first; all people share one row"
    )
