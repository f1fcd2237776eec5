"""What the API returns of tasks; `episodes/api/serializers.py` says how."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from environments.tasks.task_states import STATES
from episodes.api.serializers import (
    CoverageSerializer,
    LinkField,
    RevisionSerializer,
    TaskHashField,
    TaskSpecField,
    moment,
)
from episodes.visibility import TaskGuard


class TaskFigures(s.Serializer[Any]):
    """Figures of all attempts at a task, which are the episodes that count by the environment's convention."""

    attempts = s.IntegerField()
    rollouts = CoverageSerializer(source="coverage")
    scored = s.IntegerField(help_text="Attempts that have a return")
    successes = s.IntegerField()
    rate = s.FloatField(
        allow_null=True,
        source="success",
        help_text="Successes divided by attempts; null without attempts",
    )
    rate_low = s.FloatField(
        allow_null=True, source="success_low", help_text="Lower end of the 95 % Wilson interval"
    )
    rate_high = s.FloatField(allow_null=True, source="success_high")
    return_mean = s.FloatField(allow_null=True, source="mean")
    return_low = s.FloatField(allow_null=True, source="low")
    return_high = s.FloatField(allow_null=True, source="high")


class SuccessorSerializer(s.Serializer[Any]):
    """The task that an edit put in the place of another."""

    id = s.IntegerField(source="pk")
    url = LinkField("/api/tasks/{}")


class TaskSerializer(s.Serializer[Any]):
    id = s.IntegerField()
    url = LinkField("/api/tasks/{}")
    html_url = LinkField("/tasks/{}/")
    environment = s.CharField(source="environment.name")
    hash = TaskHashField(
        source="content_hash",
        help_text="The task's identity: sha256 of the spec with sorted keys, or for a key without "
        "the scope `curate` a "
        "hash of that with the server's secret",
    )
    spec = TaskSpecField(
        help_text="For a key without the scope `curate`: without the hidden fields, and null in a "
        "sealed split"
    )
    state = s.ChoiceField(
        ["active", *(state for state in STATES if state != "served")],
        source="state_now",
        help_text="`active`: agents get it, which pages call served; `quarantined`; `superseded`: "
        "replaced by an edit; "
        "`removed`: in no split that is served; `pasted`: known only because a client sent it",
    )
    replaced_by = SuccessorSerializer(
        source="successor",
        allow_null=True,
        help_text="What replaced a superseded task; null for others, and if the reader may not "
        "read it",
    )
    reason = s.SerializerMethodField(
        help_text="Why it was quarantined; empty if the reader may not read the task"
    )
    origin = s.ChoiceField(
        ["code", "import", "edit", "played"],
        source="source",
        help_text="Where the task first came from",
    )
    created = moment()
    statistics = TaskFigures(
        source="figures", allow_null=True, help_text="null without attempts, and for a key"
    )

    def get_reason(self, task: Any) -> str:
        guard: TaskGuard = self.context["guard"]
        return "" if guard.is_sealed(task.pk) else str(task.reason)


class TaskDetailSerializer(TaskSerializer):
    pooled_revisions = RevisionSerializer(
        many=True,
        help_text="Revisions of the environment whose episodes the statistics count, latest first; "
        "empty for one alone",
    )
