"""Serializers of runs with their figures. `episodes/api/serializers.py` has the conventions."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers as s

from episodes.api.serializers import ExactField, LinkField, moment
from episodes.figures.runs.run_lines import RunLine, parts_of
from episodes.figures.serializers import (
    ResultSerializer,
    ResultsField,
    SplitNameSerializer,
    result_content,
)
from episodes.models import Episode
from episodes.models.privacy import own_records
from episodes.runs.description import (
    MAX_COMMIT_CHARACTERS,
    MAX_CONFIG_CHARACTERS,
    MAX_ID_CHARACTERS,
    MAX_MODEL_CHARACTERS,
    MAX_NOTES_CHARACTERS,
    MAX_TAG_CHARACTERS,
    MAX_TAGS,
    STATES,
)

MAX_COUNTED = 10_000
"""Episodes of a run that its description counts, because a trainer may change it at each step."""


class RunSerializer(s.Serializer[Any]):
    id = s.IntegerField()
    url = LinkField("/api/runs/{}")
    html_url = LinkField("/runs/{}/")
    name = s.CharField(help_text="Name of this run alone: `tiny-1`, then `tiny-1 (2)`")
    title = s.CharField(help_text="Name as clients say it, which several runs may have")
    number = s.IntegerField(help_text="1 for the first run of its title")
    run_id = s.CharField(source="own_id", help_text="Id that its client gave it; may be empty")
    model = s.CharField(
        help_text="As its trainer says, else the first model named by one of its episodes; may be "
        "empty"
    )
    created = moment()
    state = s.ChoiceField(
        ["", *STATES], help_text="As its trainer says; empty if none has described the run"
    )
    step = s.IntegerField(
        allow_null=True, help_text="Current training step, given to episodes that name none"
    )
    git_commit = s.CharField(help_text="Commit of the trainer's code; may be empty")
    tags = s.ListField(child=s.CharField(), source="tag_names")
    updated = moment(
        allow_null=True, help_text="Last time a trainer described the run; null if none has"
    )


class RunDetailSerializer(RunSerializer):
    notes = s.CharField()
    config = ExactField(help_text="JSON object of the trainer; null if there is none")
    episodes = s.SerializerMethodField(
        help_text=f"Number of its episodes, for a key of its own; {MAX_COUNTED} stands for more, "
        "too"
    )

    def get_episodes(self, run: Any) -> int:
        own = own_records(self.context["viewer"])
        return Episode.objects.filter(own, run=run).order_by()[:MAX_COUNTED].count()


@extend_schema_field(
    {
        "type": "object",
        "additionalProperties": {
            "oneOf": [
                {"type": "number"},
                {"type": "string", "enum": ["NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"]},
                {"type": "null"},
            ]
        },
        "description": "Numbers of the trainer at the step by name, such as `loss`; null is NaN",
    }
)
class ScalarsField(s.Field[Any, Any, Any, Any]):
    """The numbers that a trainer reports of one step."""


class RunDescriptionSerializer(s.Serializer[Any]):
    """What a trainer says about its run. Members that are left out keep their values; null empties a member."""

    step = s.IntegerField(
        required=False,
        allow_null=True,
        help_text="Current training step. Episodes of the run that name none get it. A lower one "
        "than before needs "
        "`resume`, or `state: running`, which begins the next run",
    )
    state = s.ChoiceField(
        STATES,
        required=False,
        help_text="`ended` and `failed` close the live sessions of the run that the sender's key "
        "opened. A new run is "
        "`running` unless this says otherwise",
    )
    model = s.CharField(required=False, allow_null=True, max_length=MAX_MODEL_CHARACTERS)
    config = s.DictField(
        required=False,
        allow_null=True,
        help_text=f"Any JSON object of up to {MAX_CONFIG_CHARACTERS:,} characters",
    )
    git_commit = s.CharField(
        required=False,
        allow_null=True,
        max_length=MAX_COMMIT_CHARACTERS,
        help_text="Commit of the trainer's code",
    )
    notes = s.CharField(required=False, allow_null=True, max_length=MAX_NOTES_CHARACTERS)
    tags = s.ListField(
        child=s.CharField(max_length=MAX_TAG_CHARACTERS),
        required=False,
        allow_null=True,
        max_length=MAX_TAGS,
        help_text="All tags of the run; replaces those that it has",
    )
    run_id = s.CharField(
        required=False,
        allow_null=True,
        max_length=MAX_ID_CHARACTERS,
        help_text="An id of the sender's own for this execution: the run of the title that has it, "
        "or a new one",
    )
    resume = s.BooleanField(
        required=False,
        help_text="Go on with the newest run of the title, whatever its state and step are",
    )
    scalars = ScalarsField(required=False)


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
    """The split whose figures are those of a run, of which the context has `figures`: id ->
    RunLine."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True)

    def to_representation(self, value: Any) -> dict[str, Any] | None:
        split = self.context["figures"][value.pk].split
        return None if split is None else SplitNameSerializer(split).data


@extend_schema_field(
    SplitResultsSerializer(
        many=True, help_text="Figures of each split that the run played, in order"
    )
)
class BySplitField(s.Field[Any, Any, Any, Any]):
    """The figures of the parts of a run, of which the context has `figures`: id -> RunLine."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True)

    def to_representation(self, value: Any) -> list[dict[str, Any]]:
        line: RunLine = self.context["figures"][value.pk]
        return [
            {
                "environment": part.environment.name if part.environment else None,
                "split": part.split.name if part.split else None,
                **result_content(part.definition, part.total, line.outline.missing),
            }
            for part in parts_of(line)
        ]


class LatestSerializer(s.Serializer[Any]):
    from_step = s.IntegerField(source="low")
    to_step = s.IntegerField(source="high")
    n = s.IntegerField(source="totals.attempts", help_text="Attempts")
    mean = s.FloatField(source="totals.mean", allow_null=True, help_text="Mean return")
    error = s.FloatField(source="totals.error", allow_null=True, help_text="Standard error of it")
    success = s.FloatField(source="totals.success", allow_null=True, help_text="0 to 1")


@extend_schema_field(
    LatestSerializer(
        allow_null=True,
        help_text="Figures of the last tenth of its training steps, in the same split; null without "
        "training steps, and for a key",
    )
)
class LatestField(s.Field[Any, Any, Any, Any]):
    """The latest training steps of a run, of which the context has `figures`: id -> RunLine."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True)

    def to_representation(self, value: Any) -> dict[str, Any] | None:
        latest = self.context["figures"][value.pk].latest
        return None if latest is None else LatestSerializer(latest).data


@extend_schema_field(s.DictField(help_text="Values that `columns` names, those that the run has"))
class ColumnsField(s.Field[Any, Any, Any, Any]):
    def __init__(self) -> None:
        super().__init__(source="*", read_only=True)

    def to_representation(self, value: Any) -> dict[str, Any]:
        return dict(self.context["columns"].get(value.pk, {}))


class RunResultsSerializer(RunSerializer):
    columns = ColumnsField()
    figures = ResultsField()
    latest = LatestField()
    split = ShownSplitField()
    by_split = BySplitField()


class RunDetailResultsSerializer(RunDetailSerializer):
    figures = ResultsField()
    latest = LatestField()
    split = ShownSplitField()
    by_split = BySplitField()
