"""Serializers of curves and leaderboards. `serializers.py` has the conventions."""

from __future__ import annotations

from typing import Any, NamedTuple

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers as s

from environments.scoring.convention import CONVENTION_PARTS
from environments.scoring.definition import Definition, Definitions
from environments.scoring.returns import RETURNS
from episodes.analytics.figures import ScopeFigures
from episodes.analytics.runs import RunLine, parts_of
from episodes.api.serializers import (
    AttributesSerializer,
    CoverageSerializer,
    EnvironmentSerializer,
    RevisionSerializer,
    RunDetailSerializer,
    RunSerializer,
)


def _definition_fields(**options: Any) -> dict[str, s.Field[Any, Any, Any, Any]]:
    parts = {
        part: s.ChoiceField(treatments, help_text=_PARTS[part], **options)
        for part, treatments in CONVENTION_PARTS.items()
    }
    return {
        "return": s.ChoiceField(
            RETURNS,
            help_text="How the return is computed from the rewards of an episode",
            **options,
        ),
        "threshold": s.FloatField(help_text="A return above it is a success", **options),
        **parts,
    }


class DefinitionSerializer(s.Serializer[Any]):
    def get_fields(self) -> dict[str, s.Field[Any, Any, Any, Any]]:
        # a Python keyword cannot be an attribute
        return {**super().get_fields(), **_definition_fields()}


_PARTS = {
    "no_call": "How agents' rollouts without a tool call count: as a return of 0, or not at all",
    "expired": "How expired rollouts count: with their return, as 0, or not at all",
    "interrupted": "How rollouts count that a stop of the server interrupted",
    "env_error": "How rollouts count in which the environment failed, its setup included",
}


class EnvironmentDefinitionSerializer(DefinitionSerializer):
    environment = s.CharField(help_text="Name of the environment")


class DefinitionsSerializer(s.Serializer[Any]):
    """The definition of all episodes; a member in which their environments differ is null."""

    environments = EnvironmentDefinitionSerializer(
        many=True,
        help_text="Definition of each environment where they differ; empty where all "
        "have one in common",
    )

    def get_fields(self) -> dict[str, s.Field[Any, Any, Any, Any]]:
        return {**_definition_fields(allow_null=True), **super().get_fields()}


def definition_content(definition: Definitions) -> dict[str, Any]:
    """Return what DefinitionSerializer serializes."""
    parts = {name: definition.part(name) for name in CONVENTION_PARTS}
    return {"return": definition.return_, "threshold": definition.threshold, **parts}


def definitions_content(definitions: Definitions) -> dict[str, Any]:
    """Return what DefinitionsSerializer serializes."""
    own = {} if isinstance(definitions, Definition) else definitions.by_environment_name
    each = [{"environment": name, **definition_content(part)} for name, part in own.items()]
    return {**definition_content(definitions), "environments": each}


class FiguresSerializer(AttributesSerializer):
    episodes = s.IntegerField(help_text="Number of ended episodes, of every kind")
    n = s.IntegerField(
        help_text="Number of attempts: rollouts that count, those that count as 0 included"
    )
    rollouts = CoverageSerializer(source="coverage")
    scored = s.IntegerField(help_text="Number of attempts that have a return")
    mean = s.FloatField(
        allow_null=True, help_text="Mean return; returns beyond 1e290 of either sign count as that"
    )
    error = s.FloatField(
        allow_null=True, help_text="Standard error of the mean; exact, like the mean"
    )
    p10 = s.FloatField(allow_null=True, help_text="Tenth percentile of the returns")
    p90 = s.FloatField(allow_null=True, help_text="Ninetieth percentile of the returns")
    successes = s.IntegerField()
    success = s.FloatField(
        allow_null=True, help_text="Success rate: successes divided by n; null without attempts"
    )
    success_low = s.FloatField(allow_null=True, help_text="Lower end of the 95 % Wilson interval")
    success_high = s.FloatField(allow_null=True)
    length_mean = s.FloatField(
        allow_null=True,
        help_text="Mean number of steps of an attempt; infrastructure failures have no length",
    )
    length_p10 = s.FloatField(allow_null=True)
    length_p90 = s.FloatField(allow_null=True)
    tool_errors = s.FloatField(
        allow_null=True,
        help_text="Mean number of calls of such an attempt that failed or were refused",
    )
    refused_calls = s.FloatField(
        allow_null=True, help_text="Mean number of those calls that were refused"
    )


class ResultSerializer(FiguresSerializer):
    definition = DefinitionsSerializer(help_text="What the figures follow")
    is_bounded = s.BooleanField(help_text="Whether older episodes are not counted, or not yet")
    note = s.CharField(
        help_text="Which episodes are missing, and whether they will be counted; empty if none are"
    )


class Results(NamedTuple):
    """What ResultsField needs to know of a row."""

    definition: Definitions
    figures: ScopeFigures | None
    missing: str
    """A sentence about older episodes that are not counted; may be empty."""


@extend_schema_field(
    ResultSerializer(
        allow_null=True,
        help_text="Figures of its episodes, for a key of its own; null if none has ended",
    )
)
class ResultsField(s.Field[Any, Any, Any, Any]):
    """The figures of a row, of which the context has `results`: id -> Results."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True)

    def to_representation(self, value: Any) -> dict[str, Any] | None:
        results: Results = self.context["results"][value.pk]
        return None if results.figures is None else _content(results)


def _content(results: Results) -> dict[str, Any]:
    return {
        **FiguresSerializer(results.figures).data,
        "definition": definitions_content(results.definition),
        "is_bounded": bool(results.missing),
        "note": results.missing,
    }


SPLIT_TEXT = (
    "Split whose episodes alone `figures` count, because the run played several: the one that the "
    "request names, else "
    "the first; null: all count"
)


class SplitNameSerializer(s.Serializer[Any]):
    environment = s.CharField(source="environment.name")
    split = s.CharField(source="name")


class SplitResultsSerializer(ResultSerializer):
    environment = s.CharField(help_text="Name of the environment")
    split = s.CharField(
        allow_null=True, help_text="Name of the split; null for episodes at tasks of none"
    )


@extend_schema_field(SplitNameSerializer(allow_null=True, help_text=SPLIT_TEXT))
class ShownSplitField(s.Field[Any, Any, Any, Any]):
    """The split whose figures are those of a run, of which the context has `lines`: id ->
    RunLine."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True)

    def to_representation(self, value: Any) -> dict[str, Any] | None:
        split = self.context["lines"][value.pk].split
        return None if split is None else SplitNameSerializer(split).data


@extend_schema_field(
    SplitResultsSerializer(
        many=True, help_text="Figures of each split that the run played, in order"
    )
)
class BySplitField(s.Field[Any, Any, Any, Any]):
    """The figures of the parts of a run, of which the context has `lines`: id -> RunLine."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True)

    def to_representation(self, value: Any) -> list[dict[str, Any]]:
        line: RunLine = self.context["lines"][value.pk]
        return [
            {
                "environment": part.environment.name if part.environment else None,
                "split": part.split.name if part.split else None,
                **_content(Results(part.definition, part.total, line.outline.missing)),
            }
            for part in parts_of(line)
        ]


class EnvironmentResultsSerializer(EnvironmentSerializer):
    figures = ResultsField()


class RunResultsSerializer(RunSerializer):
    figures = ResultsField()
    split = ShownSplitField()
    by_split = BySplitField()


class RunDetailResultsSerializer(RunDetailSerializer):
    figures = ResultsField()
    split = ShownSplitField()
    by_split = BySplitField()


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
    first_end = s.IntegerField(help_text="`end_number` of its first episode")
    last_end = s.IntegerField(help_text="`end_number` of its last episode")
    ends = s.CharField(
        help_text="Value of `ends` that finds exactly its episodes; by training step with "
        "`step=<x>..<x_to>`"
    )
    causes = s.DictField(
        child=s.IntegerField(),
        help_text="Number of ended episodes by cause, `probe` or `continued`",
    )
    groups = s.IntegerField(
        allow_null=True,
        help_text="Groups (rollouts at one task in one training step) with two returns or more; "
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
        help_text="Number of endings that do not count by kind, including probes",
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


class PassSerializer(s.Serializer[Any]):
    k = s.IntegerField()
    rate = s.FloatField(
        help_text="Probability that one of k attempts succeeds: unbiased, mean over the tasks"
    )
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
    success_low = s.FloatField(allow_null=True, help_text="Lower end of the 95 % Wilson interval")
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
