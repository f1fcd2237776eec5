"""Serializers of curves. `episodes/api/serializers.py` has the conventions."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from episodes.figures.serializers import (
    DefinitionsSerializer,
    FiguresSerializer,
    SplitNameSerializer,
)


class PlaceField(s.FloatField):
    def to_representation(self, value: float) -> float:  # type: ignore[override]
        """Return whole numbers as filters accept them: 7, not 7.0."""
        return int(value) if float(value).is_integer() else float(value)


class PointSerializer(FiguresSerializer):
    x = PlaceField(
        help_text="Start of the point: number of an episode, seconds since the epoch, "
        "or training step"
    )
    x_to = PlaceField(help_text="End of the point, like x")
    lowest = s.FloatField(allow_null=True, help_text="Lowest return of an attempt")
    highest = s.FloatField(allow_null=True, help_text="Highest return of an attempt")
    shortest = s.FloatField(allow_null=True, help_text="Fewest steps of an attempt")
    longest = s.FloatField(allow_null=True, help_text="Most steps of an attempt")
    first_end = s.IntegerField(help_text="`end_number` of its first episode")
    last_end = s.IntegerField(help_text="`end_number` of its last episode")
    ends = s.CharField(
        help_text="Value of `ends` that finds exactly its episodes; by training step with "
        "`step=<x>..<x_to>`"
    )
    causes = s.DictField(
        child=s.IntegerField(),
        help_text="Number of ended episodes by cause, `probe` (not played) or `continued`",
    )
    groups = s.IntegerField(
        allow_null=True,
        help_text="Groups (episodes at one task in one training step) with two returns or more; "
        "null unless the curve"
        " is that of a run over training steps",
    )
    flat_groups = s.IntegerField(
        allow_null=True, help_text="Those groups in which all returns are equal"
    )
    flat_share = s.FloatField(
        allow_null=True,
        help_text="flat_groups divided by groups: `frac_reward_zero_std` of TRL; "
        "null without groups",
    )
    group_deviation = s.FloatField(
        allow_null=True,
        help_text="Mean over the groups of the standard deviation (of the population) of their "
        "returns; null without"
        " groups",
    )


class ComponentPointSerializer(s.Serializer[Any]):
    n = s.IntegerField(help_text="Number of attempts that report the component")
    mean = s.FloatField(allow_null=True, help_text="Mean of their values; null without any")


class ComponentSerializer(s.Serializer[Any]):
    name = s.CharField()
    total = ComponentPointSerializer()
    points = ComponentPointSerializer(many=True, help_text="One for each of the curve's `points`")


class TokenPointSerializer(s.Serializer[Any]):
    attempts = s.IntegerField(help_text="Number of attempts that were read")
    known = s.IntegerField(help_text="Number of those whose tokens a client reported")
    input_tokens = s.FloatField(
        allow_null=True, help_text="Mean of the reported input tokens; null without any"
    )
    output_tokens = s.FloatField(
        allow_null=True,
        help_text="Mean of the reported output tokens, which include those of reasoning",
    )


class TokensSerializer(s.Serializer[Any]):
    total = TokenPointSerializer()
    points = TokenPointSerializer(many=True, help_text="One for each of the curve's `points`")


class MarkSerializer(s.Serializer[Any]):
    x = PlaceField(help_text="Where the point with the first episode of the revision starts")
    environment = s.CharField(source="revision.environment.name")
    code = s.CharField(
        source="revision.code",
        help_text="Value of `revision` that finds its episodes, if it has eight digits or more",
    )
    git_commit = s.CharField(
        source="revision.git_commit", help_text="Commit that was checked out; may be empty"
    )
    is_dirty = s.BooleanField(
        source="revision.is_dirty", help_text="Whether a source file differed from that commit"
    )


class CurveSerializer(s.Serializer[Any]):
    split = SplitNameSerializer(
        allow_null=True, help_text="Split whose episodes alone count; null: of all that match"
    )
    definition = DefinitionsSerializer()
    x = s.ChoiceField(["episode", "time", "step"])
    total = FiguresSerializer(
        allow_null=True, help_text="Figures of everything that is shown; null if nothing has ended"
    )
    excluded = s.DictField(
        child=s.IntegerField(),
        help_text="Number of endings that do not count by kind, including `probe` (not played)",
    )
    success_error = s.FloatField(
        help_text="By how much the success rate of `total` may be off, as a share of all attempts; "
        "0 if it is exact"
    )
    is_bounded = s.BooleanField(help_text="Whether older episodes are missing")
    note = s.CharField(help_text="Note to show with the curve; may be empty")
    points = PointSerializer(many=True, help_text="Points in order of x")
    revisions = MarkSerializer(
        many=True, help_text="Where another revision of an environment's code begins"
    )
    components = ComponentSerializer(
        many=True,
        help_text="Components of rewards that `component` picks, by the definition of the return",
    )
    tokens = TokensSerializer(
        allow_null=True, help_text="Tokens that clients reported; null unless asked for"
    )
