"""Serializers of runs with their figures. `episodes/api/serializers.py` has the conventions."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers as s

from episodes.api.serializers import RunDetailSerializer, RunSerializer
from episodes.figures.runs.run_lines import RunLine, parts_of
from episodes.figures.serializers import (
    Results,
    ResultSerializer,
    ResultsField,
    SplitNameSerializer,
    result_content,
)

SPLIT_TEXT = (
    "Split whose episodes alone `figures` count, because the run played several: the one that the "
    "request names, else "
    "the first; null: all count"
)


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
                **result_content(Results(part.definition, part.total, line.outline.missing)),
            }
            for part in parts_of(line)
        ]


class RunResultsSerializer(RunSerializer):
    figures = ResultsField()
    split = ShownSplitField()
    by_split = BySplitField()


class RunDetailResultsSerializer(RunDetailSerializer):
    figures = ResultsField()
    split = ShownSplitField()
    by_split = BySplitField()
