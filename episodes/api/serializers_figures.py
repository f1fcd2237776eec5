"""Figures: the JSON of curves and leaderboards. See `serializers.py` for what all of them have in common."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from environments.scoring.returns import RETURNS


class DefinitionSerializer(s.Serializer[Any]):
    threshold = s.FloatField(help_text="A return above it is a success")

    def get_fields(self) -> dict[str, s.Field[Any, Any, Any, Any]]:
        name = s.ChoiceField(RETURNS, help_text="Of the rewards of an episode's steps")
        return {"return": name, **super().get_fields()}  # a word of the language, so no attribute


class FiguresSerializer(s.Serializer[Any]):
    episodes = s.IntegerField(help_text="Endings of every kind")
    n = s.IntegerField(help_text="Attempts: without probes, continuations and failures of the machinery")
    scored = s.IntegerField(help_text="Attempts that have a return")
    mean = s.FloatField(allow_null=True, help_text="Of the returns")
    error = s.FloatField(allow_null=True, help_text="Standard error of the mean")
    p10 = s.FloatField(allow_null=True, help_text="Tenth percentile of the returns")
    p90 = s.FloatField(allow_null=True, help_text="Ninetieth")
    successes = s.IntegerField()
    success = s.FloatField(allow_null=True, help_text="successes by n")
    success_low = s.FloatField(help_text="Wilson's 95 % interval")
    success_high = s.FloatField()
    length_mean = s.FloatField(allow_null=True, help_text="Steps that ran in an attempt")
    length_p10 = s.FloatField(allow_null=True)
    length_p90 = s.FloatField(allow_null=True)


class PlaceField(s.FloatField):
    def to_representation(self, value: float) -> float:  # type: ignore[override]
        """A whole number as filters take it: 7, not 7.0."""
        return int(value) if float(value).is_integer() else float(value)


class PointSerializer(FiguresSerializer):
    x = PlaceField(help_text="Where it begins: place of an episode, seconds since the epoch, or training step")
    x_to = PlaceField(help_text="Where it ends")
    first_end = s.IntegerField(help_text="`ends_from` of the filter that finds its episodes")
    last_end = s.IntegerField(help_text="`ends_to` of it; by training step it asks for `step=<x>..<x_to>` too")
    causes = s.DictField(
        child=s.IntegerField(),
        help_text="Endings by cause, `probe` or `continued`",
    )


class CurveSerializer(s.Serializer[Any]):
    definition = DefinitionSerializer()
    x = s.ChoiceField(["episode", "time", "step"])
    total = FiguresSerializer(allow_null=True, help_text="Of all that is shown; null without an ending")
    excluded = s.DictField(child=s.IntegerField(), help_text="Probes, continuations and failures of the machinery")
    is_bounded = s.BooleanField(help_text="Whether older episodes are missing")
    note = s.CharField(help_text="What should be said beside the curve; may be empty")
    points = PointSerializer(many=True, help_text="In order of x")


class PassSerializer(s.Serializer[Any]):
    k = s.IntegerField()
    rate = s.FloatField(help_text="Chance that one of k attempts succeeds: unbiased, mean over the tasks")
    tasks = s.IntegerField(help_text="Those that have k attempts or more")


class LeaderboardRowSerializer(s.Serializer[Any]):
    key = s.CharField(help_text="Name of the model or run; `agent`, `human` or `script`")
    is_human = s.BooleanField()
    n = s.IntegerField(help_text="Attempts")
    mean = s.FloatField(allow_null=True, help_text="Of the returns")
    error = s.FloatField(allow_null=True, help_text="Standard error of the mean, clustered by task")
    successes = s.IntegerField()
    success = s.FloatField(help_text="successes by n")
    success_low = s.FloatField(help_text="Wilson's 95 % interval")
    success_high = s.FloatField()
    tasks = s.IntegerField(help_text="That were attempted")
    coverage = s.FloatField(allow_null=True, help_text="Share of the tasks there are; null: not known")
    passes = PassSerializer(many=True, help_text="For k = 1, 2, 4, …")


class LeaderboardSerializer(s.Serializer[Any]):
    environment = s.CharField()
    split = s.CharField(allow_null=True)
    by = s.ChoiceField(["model", "run", "player"])
    definition = DefinitionSerializer()
    tasks = s.IntegerField(allow_null=True, help_text="There are; null: not listed, or too many to count")
    is_bounded = s.BooleanField(help_text="Whether only the newest episodes were read")
    note = s.CharField(help_text="What should be said beside it; may be empty")
    rows = LeaderboardRowSerializer(many=True, help_text="Best mean first; the humans have one of their own")
