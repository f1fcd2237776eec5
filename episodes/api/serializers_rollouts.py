"""Serializers of uploaded rollouts and their messages."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from episodes.api.serializers import ExactField, LinkField, moment
from episodes.models.rollouts import JOINS


class UsageSerializer(s.Serializer[Any]):
    """Tokens and cost as the client reported them; null where it did not, and while the rollout is being uploaded."""

    input_tokens = s.IntegerField(allow_null=True)
    output_tokens = s.IntegerField(allow_null=True, help_text="Includes those of reasoning")
    reasoning_tokens = s.IntegerField(allow_null=True)
    cached_tokens = s.IntegerField(
        allow_null=True, help_text="Input tokens that were read from a cache"
    )
    cost = s.FloatField(allow_null=True, help_text="In the client's currency, usually USD")


class RolloutSerializer(s.Serializer[Any]):
    id = s.IntegerField()
    url = LinkField("/api/rollouts/{}")
    html_url = LinkField("/conversations/{}/", "event_id")
    event_id = s.CharField(help_text="Id that the client gave it")
    name = s.CharField(help_text="Name that the client gave it; may be empty")
    title = s.CharField(help_text="Its name, or else its run, environment and task")
    run = s.CharField(source="run.name", allow_null=True)
    step = s.IntegerField(
        source="played_step",
        allow_null=True,
        help_text="Training step of the run, as the client or the episode says",
    )
    environment = s.CharField(help_text="As the client names it")
    variant = s.CharField()
    split = s.CharField(
        source="played_split", help_text="As the client names it, or else that of the episode"
    )
    task_index = s.IntegerField(
        source="played_task_index",
        allow_null=True,
        help_text="As the client says, or else that of the episode",
    )
    model = s.CharField(help_text="As the client names it, or else that of the episode")
    episode = s.IntegerField(
        source="episode_id", allow_null=True, help_text="Episode here that it was played as"
    )
    joined_by = s.ChoiceField(
        ["", *(name for name, _ in JOINS)],
        help_text="How the episode was found: session id, id of a `call`, equal `calls`, or a "
        "guess; empty without one",
    )
    is_announced = s.BooleanField(help_text="False: only messages of it have arrived so far")
    is_summarised = s.BooleanField(
        help_text="False: something has just arrived, so its episode may change"
    )
    is_finished = s.BooleanField(help_text="Whether a message says so")
    messages = s.IntegerField(source="messages_count", help_text="Number of messages")
    reward = s.FloatField(allow_null=True, help_text="The last reward of a message")
    usage = UsageSerializer(source="*")
    received = moment(help_text="When its first event arrived")
    problem = s.CharField(help_text="What is unusual about what the client sent; empty otherwise")


class RolloutDetailSerializer(RolloutSerializer):
    messages_url = LinkField("/api/rollouts/{}/messages")
    event = ExactField(
        source="event_json", help_text="The event that announced it; null if none has arrived"
    )
    info = s.DictField(
        source="info_object", help_text="The latest value of each key of `rollout_info`"
    )


class RolloutMessageSerializer(s.Serializer[Any]):
    index = s.IntegerField(help_text="Position; -1 if the client sent none that can be used")
    event_id = s.CharField()
    type = s.CharField(
        source="kind", help_text="As the client sent it, such as `assistant_message` or `reasoning`"
    )
    name = s.CharField(help_text="Of the tool, for a `tool_call`")
    call_id = s.CharField(help_text="Joins a `tool_call` to its `tool_result`")
    content = s.CharField(
        source="text", help_text="Visible text, or the arguments of a tool call as JSON"
    )
    summary = s.CharField(source="summary_text", help_text="Of reasoning")
    reward = s.FloatField(allow_null=True)
    is_finished = s.BooleanField()
    extra = ExactField(
        source="extra_json",
        help_text="Metadata under `metadata`, and all other fields; null if none",
    )
    received = moment()
    problem = s.CharField(help_text="What is unusual about what the client sent; empty otherwise")
