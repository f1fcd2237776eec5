"""Serializers of the JSON of the API. The OpenAPI document is generated from them.

Times are ISO 8601 in UTC; durations are in seconds or milliseconds, as their names say.
Environments, splits and runs are referred to by name; episodes and tasks, which have none, by
number. Addresses are absolute, because other programs store them.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import quote

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers as s

from environments import conf
from environments.scoring.definition import NO_OVERRIDES, definition_of
from episodes.api.exact_json import Exact
from episodes.attempts.success import success_of
from episodes.filtering.columns import EPISODE_COLUMNS, EpisodeColumn
from episodes.models import Episode
from episodes.visibility import TaskGuard

UTC_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


def moment(**options: Any) -> s.DateTimeField:
    return s.DateTimeField(format=UTC_FORMAT, **options)


@extend_schema_field({"description": "Any JSON value, exactly as it was recorded"})
class ExactField(s.Field[Any, Any, Any, Any]):
    """An attribute that is JSON text; null if it is empty or absent."""

    def get_attribute(self, instance: Any) -> str:
        for name in self.source_attrs:
            instance = instance and getattr(instance, name)
        return instance or ""

    def to_representation(self, value: str) -> Exact:
        return Exact(value)


class TaskHashField(s.CharField):
    """The hash that identifies a task for the reader."""

    def to_representation(self, value: str) -> str:
        guard: TaskGuard = self.context["guard"]
        return guard.hash(value)


class TaskSpecField(ExactField):
    """What the reader may read of a task, or of the task of an episode."""

    def get_attribute(self, instance: Any) -> str:
        guard: TaskGuard = self.context["guard"]
        task = instance.task if isinstance(instance, Episode) else instance
        return guard.spec(task.pk, instance.environment.name, task.spec)


@extend_schema_field({"type": ["string", "null"]})
class PersonField(s.Field[Any, Any, Any, Any]):
    """The person who played an episode; null for other players."""

    def get_attribute(self, instance: Episode) -> str | None:
        return instance.person or None

    def to_representation(self, value: str) -> str:
        return value


@extend_schema_field({"type": ["boolean", "null"]})
class SuccessField(s.Field[Any, Any, Any, Any]):
    """Whether an episode is a success, by `overrides` of the context and else by the definition of
    its environment; null where no figure counts it."""

    def get_attribute(self, instance: Episode) -> bool | None:
        overrides = self.context.get("overrides", NO_OVERRIDES)
        return success_of(instance, definition_of(instance.environment, overrides))

    def to_representation(self, value: bool) -> bool:
        return value


@extend_schema_field({"type": "string", "format": "uri"})
class LinkField(s.Field[Any, Any, Any, Any]):
    """The address of a row: `path` with the attribute `key` of the row for {}."""

    def __init__(self, path: str, key: str = "pk") -> None:
        super().__init__(source="*", read_only=True)
        self.path, self.key = path, key

    def to_representation(self, value: Any) -> str:
        path = conf.path_prefix() + self.path.format(quote(str(getattr(value, self.key)), safe=""))
        request = self.context.get("request")
        return str(request.build_absolute_uri(path)) if request else path


class AttributesSerializer(s.Serializer[Any]):
    # Members are attributes; DRF takes longer to look for them, and a curve has up to 500 points
    # with 30 each. A docstring would be that of subclasses in the OpenAPI document.

    @cached_property
    def _members(self) -> list[tuple[str, str, s.Field[Any, Any, Any, Any]]]:
        return [(name, str(field.source), field) for name, field in self.fields.items()]

    def to_representation(self, instance: Any) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for name, attribute, field in self._members:
            value = getattr(instance, attribute)
            content[name] = None if value is None else field.to_representation(value)
        return content


# --- tasks ----------------------------------------------------------------------------------------


class CoverageSerializer(AttributesSerializer):
    """How many episodes the figures next to it count."""

    rollouts = s.IntegerField(
        help_text="Number of ended episodes that were played and are no continuations"
    )
    own = s.IntegerField(help_text="Number of these that count with their own return")
    zero = s.DictField(
        child=s.IntegerField(), help_text="Those that count as a return of 0, by kind of ending"
    )
    out = s.DictField(
        child=s.IntegerField(), help_text="Those that are excluded, by kind of ending"
    )
    numberless = s.IntegerField(
        help_text="Number of these that count with their own return, which lacks a reward that "
        "was not a number"
    )
    text = s.CharField(
        help_text="Sentence, such as `30 attempts; 6 no call scored 0, 2 infrastructure failures "
        "excluded`"
    )


# --- episodes -------------------------------------------------------------------------------------


class ReturnsSerializer(s.Serializer[Any]):
    """The return by each of the four definitions; null while the episode runs."""

    sum = s.FloatField(allow_null=True)
    last = s.FloatField(allow_null=True)
    max = s.FloatField(allow_null=True)
    mean = s.FloatField(allow_null=True)


class EpisodeTaskSerializer(s.Serializer[Any]):
    id = s.IntegerField()
    url = LinkField("/api/tasks/{}")
    hash = TaskHashField(source="content_hash")


class PlaySerializer(s.Serializer[Any]):
    is_blind = s.BooleanField(help_text="Whether rewards were hidden until the end")
    is_repeat = s.BooleanField(
        help_text="Whether the person had played or seen the task before, so it is not counted"
    )
    counts_left = s.BooleanField(
        allow_null=True,
        help_text="In a study, whether it counts if the person leaves it; null in no study",
    )
    is_excluded = s.BooleanField(
        help_text="Whether the person was excluded from the study, so it is not counted"
    )
    continues = s.IntegerField(
        source="parent_id", allow_null=True, help_text="Id of the episode that it continues"
    )
    continues_step = s.IntegerField(
        source="parent_step",
        allow_null=True,
        help_text="Last of its steps that was run again; no figure counts a continuation",
    )
    study = s.CharField(
        source="guest.invite.study.name",
        default=None,
        allow_null=True,
        help_text="Name of the study that it belongs to",
    )


class _EpisodeBeginning(s.Serializer[Any]):
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
    who = PersonField(help_text="The person who played, such as `@alice`; null for other players")
    play = PlaySerializer(
        allow_null=True, default=None, help_text="How a person played; null for other players"
    )
    status = s.ChoiceField(["running", "ended"])
    cause = s.ChoiceField(
        [
            "",
            "finished",
            "abandoned",
            "expired",
            "setup_failed",
            "env_error",
            "interrupted",
            "no_call",
        ],
        help_text="Why it ended; empty while it runs",
    )
    is_probe = s.BooleanField(
        help_text="Whether it ended without a tool call and isn't an attempt; statistics leave it "
        "out"
    )
    returns = ReturnsSerializer()
    success = SuccessField(
        help_text="Whether it is a success by the definition in force; null while it runs, and if no "
        "figure counts it"
    )


_COLUMN_FIELDS: dict[type, Any] = {
    int: s.IntegerField,
    float: s.FloatField,
    str: s.CharField,
    datetime: moment,
}


def _field_of(column: EpisodeColumn) -> s.Field[Any, Any, Any, Any]:
    options: dict[str, Any] = {"help_text": column.text} if column.text else {}
    if column.attribute != column.name:  # DRF refuses a source that the name already says
        options["source"] = column.attribute
    if column.is_optional:
        options["allow_null"] = True
    return _COLUMN_FIELDS[column.kind](**options)  # type: ignore[no-any-return]


_EpisodeColumns: Any = type(
    "_EpisodeColumns",
    (s.Serializer,),
    {column.name: _field_of(column) for column in EPISODE_COLUMNS},
)


class EpisodeSerializer(_EpisodeBeginning, _EpisodeColumns):  # type: ignore[misc]  # made of the columns
    end_number = s.IntegerField(
        allow_null=True,
        help_text="Number of the ending; rises by one with every ending on this server",
    )


class SnippetSerializer(s.Serializer[Any]):
    step = s.IntegerField(
        allow_null=True, help_text="Index of the step; null if it is of the prompt or of a message"
    )
    message = s.IntegerField(
        source="message.index",
        default=None,
        allow_null=True,
        help_text="Index of an uploaded message; else null",
    )
    text = s.CharField()
    matches = s.ListField(
        child=s.ListField(child=s.IntegerField(), min_length=2, max_length=2),
        help_text="Where each match begins and ends in `text`, in code points",
    )


class ListedEpisodeSerializer(EpisodeSerializer):
    snippet = SnippetSerializer(
        allow_null=True,
        help_text="Where the transcript has what `text` searches for; null without `text`, or "
        "where it was not found "
        "in what was read of the transcript",
    )


class RevisionSerializer(s.Serializer[Any]):
    code = s.CharField(help_text="Digest of source files and versions; equal for equal code")
    source_hash = s.CharField(help_text="SHA-256 of the source files; may be empty")
    git_commit = s.CharField(help_text="Commit that was checked out; may be empty")
    is_dirty = s.BooleanField(help_text="Whether a source file differed from that commit")
    versions = s.DictField(
        child=s.CharField(), source="version_of", help_text="Versions of the SDK and named packages"
    )


class EpisodeDetailSerializer(EpisodeSerializer):
    revision = RevisionSerializer(
        allow_null=True, help_text="Code of the environment; null if it is unknown"
    )
    steps_url = LinkField("/api/episodes/{}/steps")
    events_url = LinkField("/api/episodes/{}/events")
    rollouts_url = LinkField("/api/rollouts?episode={}")
    session_id = s.CharField()
    user_agent = s.CharField()
    labels = s.DictField(source="labels_object", help_text="Other orsweb_ values of the client")
    detail = s.CharField(help_text="Why it ended, as text")
    ready = moment(allow_null=True)
    first_acted = moment(allow_null=True)
    last_acted = moment(allow_null=True)
    spec = TaskSpecField(help_text="Spec of the task, as far as the reader may read it")
    prompt = ExactField(
        source="prompt.text",
        help_text="Prompt as the agent received it; null if it never requested it",
    )
    tools = ExactField(source="tools.text", help_text="Tools as the agent received them")


class StepSerializer(s.Serializer[Any]):
    index = s.IntegerField(help_text="Number of the step from 0, in order of completion")
    tool = s.CharField()
    status = s.ChoiceField(["ok", "refused", "failed"])
    reason = s.CharField(help_text="Kind of refusal or failure; empty otherwise")
    error = s.CharField(help_text="Error message that the agent received; empty otherwise")
    reward = s.FloatField(allow_null=True)
    finished = s.BooleanField()
    task_id = s.CharField(help_text="Id of the call, with which its client can retry it")
    started = moment()
    duration_ms = s.FloatField()
    waited_ms = s.FloatField(
        help_text="Time until the session was set up and its earlier calls had finished"
    )
    input = ExactField(source="input_json")
    output = ExactField(
        source="output_json", help_text="The ToolOutput; null unless `status` is ok"
    )


# --- answers --------------------------------------------------------------------------------------


class ErrorSerializer(s.Serializer[Any]):
    detail = s.CharField(help_text="What is wrong, and what is allowed")
    field = s.CharField(required=False, help_text="Parameter that was refused")
    value = s.CharField(required=False)
    allowed = s.CharField(required=False)


def page_serializer(
    shape: type[s.Serializer[Any]], name: str, **further: s.Field[Any, Any, Any, Any]
) -> Any:
    """Return the serializer of a page: `results`, and the addresses of the `next` and `previous`
    page or null."""
    members: dict[str, Any] = {
        "next": s.URLField(allow_null=True),
        "previous": s.URLField(allow_null=True),
        **further,
        "results": shape(many=True),
    }
    return type(name, (s.Serializer,), members)
