"""Serializers of environments. `episodes/api/serializers.py` has the conventions."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from environments.scoring.returns import RETURNS
from episodes.api.serializers import LinkField, moment
from episodes.figures.serializers import ResultsField


class SplitSerializer(s.Serializer[Any]):
    name = s.CharField()
    type = s.ChoiceField(["train", "validation", "test"])
    tasks = s.IntegerField(source="size", help_text="Number of tasks in the split")
    is_served = s.BooleanField(help_text="Whether agents can list it")
    is_curated = s.BooleanField(help_text="Whether people made it; otherwise a class declares it")
    frozen = moment(allow_null=True, help_text="Time since which it cannot change")


class EnvironmentResultsSerializer(s.Serializer[Any]):
    name = s.CharField()
    url = LinkField("/api/environments/{}", "name")
    html_url = LinkField("/environments/{}/", "name")
    description = s.CharField()
    is_hosted = s.BooleanField(help_text="Whether this server offers it now")
    is_enabled = s.BooleanField(help_text="Whether agents may open sessions")
    unavailable = s.CharField(help_text="Why it cannot be played on this machine; empty if it can")
    is_procedural = s.BooleanField(
        help_text="Whether its class creates tasks on request instead of listing them"
    )
    default_return = s.ChoiceField(RETURNS, help_text="Definition of the return")
    reward_low = s.FloatField()
    reward_high = s.FloatField()
    success_threshold = s.FloatField(help_text="An attempt whose return is above it is a success")
    splits = SplitSerializer(many=True)
    figures = ResultsField()
