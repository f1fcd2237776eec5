"""Shapes: the JSON of what the API tells, as DRF serializers, from which the OpenAPI document is made too.

Times are ISO 8601 in UTC; durations in seconds or milliseconds, as the names say. What has a name goes by it: an
environment, a split, a run. What has none goes by its number: an episode, a task. Addresses stand here in full, for
other programs keep them.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers as s

from environments.scoring.returns import RETURNS
from episodes.api.exact_json import Exact
from episodes.filtering.people import person_of
from episodes.models import Episode

UTC_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


def moment(**options: Any) -> s.DateTimeField:
    return s.DateTimeField(format=UTC_FORMAT, **options)


@extend_schema_field({"description": "Any JSON value, exactly as it was recorded"})
class ExactField(s.Field[Any, Any, Any, Any]):
    """Of an attribute with JSON text; null when it is empty or there is none."""

    def get_attribute(self, instance: Any) -> str:
        for name in self.source_attrs:
            instance = instance and getattr(instance, name)
        return instance or ""

    def to_representation(self, value: str) -> Exact:
        return Exact(value)


@extend_schema_field({"type": ["string", "null"]})
class PersonField(s.Field[Any, Any, Any, Any]):
    """Of an episode."""

    def get_attribute(self, instance: Episode) -> str | None:
        return person_of(instance) or None

    def to_representation(self, value: str) -> str:
        return value


@extend_schema_field({"type": "string", "format": "uri"})
class LinkField(s.Field[Any, Any, Any, Any]):
    """Where something stands: `path` with `key`, an attribute of the row, in place of {}."""

    def __init__(self, path: str, key: str = "pk") -> None:
        super().__init__(source="*", read_only=True)
        self.path, self.key = path, key

    def to_representation(self, value: Any) -> str:
        path = self.path.format(quote(str(getattr(value, self.key)), safe=""))
        request = self.context.get("request")
        return str(request.build_absolute_uri(path)) if request else path


# --- environments ----------------------------------------------------------------------------------------------------


class SplitSerializer(s.Serializer[Any]):
    name = s.CharField()
    type = s.ChoiceField(["train", "validation", "test"])
    tasks = s.IntegerField(source="size", help_text="How many stand in it")
    is_served = s.BooleanField(help_text="Whether agents can list it")
    is_curated = s.BooleanField(help_text="Made by people; no class declares it")
    frozen = moment(allow_null=True, help_text="Since when it cannot change")


class EnvironmentSerializer(s.Serializer[Any]):
    name = s.CharField()
    url = LinkField("/api/environments/{}", "name")
    html_url = LinkField("/environments/{}/", "name")
    description = s.CharField()
    is_hosted = s.BooleanField(help_text="Whether this server offers it now")
    is_enabled = s.BooleanField(help_text="Whether agents may open sessions")
    unavailable = s.CharField(help_text="Why it cannot be played on this machine; empty: it can")
    is_procedural = s.BooleanField(help_text="Tasks are asked of the class, not listed")
    default_return = s.ChoiceField(RETURNS, help_text="Definition of return in force")
    reward_low = s.FloatField()
    reward_high = s.FloatField()
    success_threshold = s.FloatField(help_text="An attempt whose return is above it is a success")
    splits = SplitSerializer(many=True)


# --- tasks -----------------------------------------------------------------------------------------------------------


class TaskFigures(s.Serializer[Any]):
    """Over all attempts at a task: without probes, continuations and failures of the machinery."""

    attempts = s.IntegerField()
    scored = s.IntegerField(help_text="Attempts that have a return")
    successes = s.IntegerField()
    rate = s.FloatField(help_text="successes by attempts")
    rate_low = s.FloatField(help_text="Wilson's 95 % interval")
    rate_high = s.FloatField()
    return_mean = s.FloatField(allow_null=True)
    return_low = s.FloatField(allow_null=True)
    return_high = s.FloatField(allow_null=True)


class TaskSerializer(s.Serializer[Any]):
    id = s.IntegerField()
    url = LinkField("/api/tasks/{}")
    html_url = LinkField("/tasks/{}/")
    environment = s.CharField(source="environment.name")
    hash = s.CharField(source="content_hash", help_text="sha256 of the spec with sorted keys: the task's identity")
    spec = ExactField()
    state = s.ChoiceField(["active", "quarantined"])
    reason = s.CharField(help_text="Why it is quarantined")
    origin = s.ChoiceField(["code", "import", "edit", "played"], source="source", help_text="Where it came from first")
    created = moment()
    statistics = TaskFigures(source="figures", allow_null=True, help_text="null: no attempt, or a key asks")


# --- runs ------------------------------------------------------------------------------------------------------------


class RunSerializer(s.Serializer[Any]):
    id = s.IntegerField()
    url = LinkField("/api/runs/{}")
    html_url = LinkField("/runs/{}/")
    name = s.CharField()
    model = s.CharField(help_text="First model named by one of its episodes; may be empty")
    created = moment()


# --- episodes --------------------------------------------------------------------------------------------------------


class ReturnsSerializer(s.Serializer[Any]):
    """All four definitions. Nulls while the episode runs."""

    sum = s.FloatField(allow_null=True)
    last = s.FloatField(allow_null=True)
    max = s.FloatField(allow_null=True)
    mean = s.FloatField(allow_null=True)


class EpisodeTaskSerializer(s.Serializer[Any]):
    id = s.IntegerField()
    url = LinkField("/api/tasks/{}")
    hash = s.CharField(source="content_hash")


class EpisodeSerializer(s.Serializer[Any]):
    id = s.IntegerField()
    url = LinkField("/api/episodes/{}")
    html_url = LinkField("/episodes/{}/")
    environment = s.CharField(source="environment.name")
    split = s.CharField(source="split.name", allow_null=True)
    task = EpisodeTaskSerializer()
    run = s.CharField(source="run.name", allow_null=True)
    step = s.IntegerField(source="run_step", allow_null=True, help_text="Training step of the run")
    model = s.CharField()
    player = s.ChoiceField(["agent", "human", "script"])
    who = PersonField(help_text="The person who played, such as `@alice`; null of other players")
    status = s.ChoiceField(["running", "ended"])
    cause = s.ChoiceField(
        ["", "finished", "abandoned", "expired", "setup_failed", "env_error", "interrupted"],
        help_text="Why it ended; empty while it runs",
    )
    is_probe = s.BooleanField(help_text="Ended without a tool call; stays out of statistics")
    returns = ReturnsSerializer()
    steps = s.IntegerField(source="steps_count", help_text="That ran; 0 while the episode runs, as the next two")
    failed = s.IntegerField(source="failed_count", help_text="Of those")
    refused = s.IntegerField(source="refused_count", help_text="Calls beside those that ran")
    created = moment()
    ended = moment(allow_null=True)
    duration_seconds = s.FloatField(allow_null=True, help_text="From ready to the last answer")
    end_number = s.IntegerField(allow_null=True, help_text="Rises by one with every ending on this server")


class EpisodeDetailSerializer(EpisodeSerializer):
    steps_url = LinkField("/api/episodes/{}/steps")
    events_url = LinkField("/api/episodes/{}/events")
    session_id = s.CharField()
    user_agent = s.CharField()
    labels = s.DictField(source="labels_object", help_text="Further orsweb_ values of the client")
    detail = s.CharField(help_text="Why it ended, in words")
    ready = moment(allow_null=True)
    first_acted = moment(allow_null=True)
    last_acted = moment(allow_null=True)
    spec = ExactField(source="task.spec", help_text="The task's")
    prompt = ExactField(source="prompt.text", help_text="As the agent got it; null: it never asked")
    tools = ExactField(source="tools.text", help_text="As the agent got them")


class StepSerializer(s.Serializer[Any]):
    index = s.IntegerField(help_text="0-based, in order of completion")
    tool = s.CharField()
    status = s.ChoiceField(["ok", "refused", "failed"])
    reason = s.CharField(help_text="Of a refusal or failure; else empty")
    error = s.CharField(help_text="The error that the agent got; empty if there was none")
    reward = s.FloatField(allow_null=True)
    finished = s.BooleanField()
    task_id = s.CharField(help_text="Id of the call, under which its client can ask again")
    started = moment()
    duration_ms = s.FloatField()
    waited_ms = s.FloatField(help_text="Until the session was set up, and queued behind other calls of it")
    input = ExactField(source="input_json")
    output = ExactField(source="output_json", help_text="The ToolOutput; null unless ok")


# --- answers ---------------------------------------------------------------------------------------------------------


class ErrorSerializer(s.Serializer[Any]):
    detail = s.CharField(help_text="What is wrong, and what would be right")
    field = s.CharField(required=False, help_text="Parameter that was refused")
    value = s.CharField(required=False)
    allowed = s.CharField(required=False)


def page_serializer(shape: type[s.Serializer[Any]], name: str, **further: s.Field[Any, Any, Any, Any]) -> Any:
    """A page of them: `results`, and where the pages beside it are, null at the ends."""
    members: dict[str, Any] = {
        "next": s.URLField(allow_null=True),
        "previous": s.URLField(allow_null=True),
        **further,
        "results": shape(many=True),
    }
    return type(name, (s.Serializer,), members)
