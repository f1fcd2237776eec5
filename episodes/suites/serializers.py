"""Serializers of suites, their versions and leaderboards."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from episodes.api.serializers import CoverageSerializer, LinkField
from episodes.figures.serializers import DefinitionSerializer
from episodes.suites.versions import SCORES


class SuiteVersionSerializer(s.Serializer[Any]):
    """A version of a suite without its members."""

    number = s.IntegerField()
    score = s.ChoiceField(
        SCORES, help_text="Figure of a task that the score averages: success rate or mean return"
    )
    hash = s.CharField(help_text="sha256 of `document`")
    author = s.CharField()
    created = s.DateTimeField()


class SuiteSerializer(s.Serializer[Any]):
    name = s.CharField()
    url = LinkField("/api/suites/{}", "name")
    html_url = LinkField("/suites/{}/", "name")
    description = s.CharField()
    versions = SuiteVersionSerializer(many=True, help_text="Latest first")


class SuiteMemberSerializer(s.Serializer[Any]):
    number = s.IntegerField(
        help_text="From 1 on; `suite=<name>/v<version>/<number>` finds the episodes of its tasks"
    )
    environment = s.CharField(source="environment.name")
    split = s.CharField(source="split_name")
    tasks = s.IntegerField(source="tasks_count")
    tasks_sha256 = s.CharField(source="tasks_hash")
    weight = s.FloatField()
    definition = DefinitionSerializer(source="definition_content")


class MemberScoreSerializer(s.Serializer[Any]):
    tasks = s.IntegerField(source="sums.tasks", help_text="Tasks with an attempt")
    missing = s.IntegerField(help_text="Tasks without one, of those that do not fail")
    attempts = s.IntegerField(source="sums.attempts")
    score = s.FloatField(
        source="sums.mean", allow_null=True, help_text="Mean over the tasks; null without any"
    )
    low = s.FloatField(
        source="interval.low",
        allow_null=True,
        help_text="Lower end of the 95 % interval; null if it cannot be said",
    )
    high = s.FloatField(source="interval.high", allow_null=True)
    rollouts = CoverageSerializer(source="coverage")
    episodes = s.CharField(
        source="query", help_text="Query string of `/api/episodes` that lists the attempts"
    )


class SuiteRowSerializer(s.Serializer[Any]):
    key = s.CharField(help_text="Name of the model or run")
    rank = s.IntegerField(
        allow_null=True, help_text="Null unless every task that does not fail was attempted"
    )
    score = s.FloatField(allow_null=True, help_text="Null without an attempt at some member")
    low = s.FloatField(
        source="interval.low",
        allow_null=True,
        help_text="Lower end of the 95 % interval; null if it cannot be said",
    )
    high = s.FloatField(source="interval.high", allow_null=True)
    tasks = s.IntegerField(help_text="Tasks with an attempt")
    attempts = s.IntegerField()
    rollouts = CoverageSerializer(source="coverage")
    members = MemberScoreSerializer(many=True, help_text="In the order of the suite's members")


class FailingTaskSerializer(s.Serializer[Any]):
    id = s.IntegerField(source="task")
    url = LinkField("/api/tasks/{}", "task")
    html_url = LinkField("/tasks/{}/", "task")
    failures = s.IntegerField(help_text="Episodes that ended by a failure of the environment")


class SaltField(s.CharField):
    # the context says `sees_salt`
    def get_attribute(self, instance: Any) -> Any:
        return super().get_attribute(instance) if self.context["sees_salt"] else None


class SuiteStandingsSerializer(s.Serializer[Any]):
    name = s.CharField(source="version.suite.name")
    description = s.CharField(source="version.suite.description")
    version = SuiteVersionSerializer()
    versions = s.ListField(
        source="numbers", child=s.IntegerField(), help_text="Numbers of all versions"
    )
    document = s.CharField(
        source="version.document",
        help_text="JSON that the hash identifies, exactly as it was hashed",
    )
    salt = SaltField(
        source="version.salt",
        allow_null=True,
        help_text="Of the digests of tasks; null unless you see hidden fields of tasks",
    )
    tasks = s.IntegerField()
    members = SuiteMemberSerializer(many=True)
    by = s.ChoiceField(["model", "run"])
    notes = s.ListField(
        child=s.CharField(), help_text="Sentences about members that are not counted as usual"
    )
    known = s.IntegerField(
        help_text="Number of models or runs, of which there may be more than rows"
    )
    is_provisional = s.BooleanField(
        help_text="Whether ranks leave out tasks at which the environment fails for everybody"
    )
    failing_tasks = FailingTaskSerializer(many=True, help_text="Those tasks")
    rows = SuiteRowSerializer(many=True, help_text="Ranked ones first")
