"""Serializers of the comparison of runs. `episodes/api/serializers.py` has the conventions."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from episodes.api.serializers import CoverageSerializer
from episodes.figures.comparison.measures import MEASURES
from episodes.figures.serializers import DefinitionsSerializer, SplitNameSerializer

NAMES = [measure.name for measure in MEASURES]


class ComparedRunSerializer(s.Serializer[Any]):
    id = s.IntegerField()
    name = s.CharField()
    tasks = s.IntegerField(help_text="Number of tasks that it attempted")
    rollouts = CoverageSerializer()


class StepsSerializer(s.Serializer[Any]):
    low = s.IntegerField()
    high = s.IntegerField()


class ConclusionSerializer(s.Serializer[Any]):
    run = s.CharField(source="run.name")
    text = s.CharField()
    is_warning = s.BooleanField(help_text="Whether the run may exploit its reward")


class DifferenceSerializer(s.Serializer[Any]):
    mean = s.FloatField(source="difference", help_text="Mean of the run minus the baseline's")
    low = s.FloatField(help_text="Lower end of its 95 % interval")
    high = s.FloatField()
    is_resampled = s.BooleanField(
        help_text="Whether the interval is that of the bootstrap over tasks, else the normal one"
    )
    effect = s.FloatField(
        allow_null=True, help_text="Cohen's d of paired differences; null if all are equal"
    )
    p = s.FloatField(help_text="Two-sided p of the exact sign test")
    above = s.IntegerField(source="wins", help_text="Tasks at which it is above the baseline")
    below = s.IntegerField(source="losses")


class RunFigureSerializer(s.Serializer[Any]):
    run = s.CharField(source="run.name")
    mean = s.FloatField(help_text="Mean of its means by task")
    reach = s.FloatField(
        allow_null=True,
        help_text="Half the width of the mean's 95 % interval, with tasks as observations",
    )
    attempts = s.IntegerField(help_text="Attempts at these tasks that have the measure")
    difference = DifferenceSerializer(
        source="evidence", allow_null=True, help_text="Null for the baseline, and below two tasks"
    )
    verdict = s.ChoiceField(
        ["better", "worse", ""], help_text="Empty: no significant difference from the baseline"
    )


class MeasureSerializer(s.Serializer[Any]):
    name = s.ChoiceField(NAMES, source="measure.name")
    is_regression = s.BooleanField(help_text="Whether a run is worse by it")
    tasks = s.IntegerField(help_text="Tasks at which all runs have it")
    runs = RunFigureSerializer(many=True)


class TaskMeasureSerializer(s.Serializer[Any]):
    name = s.ChoiceField(NAMES, source="measure.name")
    means = s.ListField(child=s.FloatField(), help_text="By run")
    difference = s.FloatField(help_text="Mean of the other runs minus the baseline's")


class ComparedTaskSerializer(s.Serializer[Any]):
    task = s.IntegerField()
    environment = s.CharField()
    attempts = s.ListField(child=s.IntegerField(), help_text="By run")
    p = s.FloatField(
        help_text="Two-sided p of Fisher's exact test of the successes of the baseline and the others"
    )
    measures = TaskMeasureSerializer(many=True)


class SettingSerializer(s.Serializer[Any]):
    name = s.CharField(help_text="`model`, `commit`, or a name in the configuration")
    values = s.ListField(child=s.CharField(allow_null=True), help_text="By run; null: not reported")
    is_different = s.BooleanField()


class RunComparisonSerializer(s.Serializer[Any]):
    runs = ComparedRunSerializer(many=True)
    baseline = s.CharField(help_text="Name of the run with which the others are compared")
    apart = s.ListField(
        child=s.ListField(child=s.CharField()),
        help_text="Runs that are not compared, because they have no task in common with `runs`: "
        "groups of those that have",
    )
    split = SplitNameSerializer(
        allow_null=True, help_text="Split whose episodes alone count; null: all"
    )
    definition = DefinitionsSerializer()
    steps = StepsSerializer(
        allow_null=True,
        help_text="Training steps that count; null: episodes are not matched by training step",
    )
    note = s.CharField(help_text="What is not read; may be empty")
    shared = s.IntegerField(help_text="Number of tasks that all runs attempted")
    conclusions = ConclusionSerializer(many=True)
    measures = MeasureSerializer(many=True)
    tasks = ComparedTaskSerializer(
        many=True, help_text="First those at which the others are significantly worse"
    )
    settings = SettingSerializer(many=True)
