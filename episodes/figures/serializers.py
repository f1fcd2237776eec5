"""Serializers of figures and of what they follow. `episodes/api/serializers.py` has the
conventions."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers as s

from environments.scoring.convention import CONVENTION_PARTS
from environments.scoring.definition import Definition, Definitions
from environments.scoring.returns import RETURNS
from episodes.api.serializers import AttributesSerializer, CoverageSerializer
from episodes.figures.scope_figures import ScopeFigures


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
    "no_call": "How agents' episodes without a tool call count: as a return of 0, or not at all",
    "expired": "How expired episodes count: with their return, as 0, or not at all",
    "interrupted": "How episodes count that a stop of the server interrupted",
    "env_error": "How episodes count in which the environment failed, its setup included",
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
        help_text="Number of attempts: ended episodes that count, those that count as 0 included"
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


@extend_schema_field(
    ResultSerializer(
        allow_null=True,
        help_text="Figures of its episodes, for a key of its own; null if none has ended",
    )
)
class ResultsField(s.Field[Any, Any, Any, Any]):
    """The figures of a row, of which the context has `figures`: id -> RunLine or
    EnvironmentFigures."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True)

    def to_representation(self, value: Any) -> dict[str, Any] | None:
        line = self.context["figures"][value.pk]
        total, missing = line.outline.total, line.outline.missing
        return None if total is None else result_content(line.definition, total, missing)


def result_content(definition: Definitions, total: ScopeFigures, missing: str) -> dict[str, Any]:
    """Return what ResultSerializer serializes. `missing`: a sentence about older episodes that are
    not counted; may be empty."""
    return {
        **FiguresSerializer(total).data,
        "definition": definitions_content(definition),
        "is_bounded": bool(missing),
        "note": missing,
    }


class SplitNameSerializer(s.Serializer[Any]):
    environment = s.CharField(source="environment.name")
    split = s.CharField(source="name")
