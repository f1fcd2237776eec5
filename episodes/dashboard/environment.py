"""The list of environments, and the page of one: its description, the figures of its attempts and
how to connect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments import conf
from environments.access.privacy import viewer_of
from environments.curation.splits import existing_splits
from environments.curation.task_states import is_in_state
from environments.display import parts
from environments.display.card import rendered
from environments.display.schema_fields import fields_of
from environments.display.task_line import MAX_READ_CHARACTERS, summary, summary_field
from environments.filtering.addresses import takes
from environments.filtering.parameters import BadFilter, definition_in
from environments.models import Environment, Split, Task, TaskStatistics, Viewer
from environments.models.tasks import EnvironmentQuerySet
from environments.scoring.definition import DEFINITION_PARAMETERS, definition_of
from environments.scoring.task_statistics import result_of
from environments.service import hidden_fields, service_or_none
from environments.tasks.split_indexes import served
from environments.tasks.task_facts import task_names
from episodes.analytics.environment import tool_figures
from episodes.analytics.histogram import histogram
from episodes.analytics.overview import environment_figures
from episodes.analytics.players import in_environment
from episodes.analytics.revision_marks import pooled_in
from episodes.analytics.scopes import scope_of, scope_of_filter
from episodes.analytics.summary_cover import note_of_part
from episodes.dashboard.client_examples import example_call
from episodes.dashboard.guards import environment_named, refused
from episodes.dashboard.histogram_drawing import drawn_histogram
from episodes.dashboard.view_parameters import (
    asked_context,
    definition_context,
    revision_asked,
)
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Rollout
from episodes.rollups.tools import ToolsPart

TASKS_SHOWN = 12


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS)
def environments(request: HttpRequest) -> HttpResponse:
    """Return the list of environments. Raises: BadRequest."""
    asked = definition_in(request.GET)
    viewer = viewer_of(request.user)
    shown = _with_splits().seen_by(viewer)
    figures = [(one, one.outline.means) for one in environment_figures(list(shown), viewer, asked)]
    page = "environments_list" if "HX-Request" in request.headers else "environments"
    return render(request, f"episodes/{page}.html", {"rows": figures, **asked_context(asked)})


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS, "revision")
def environment(request: HttpRequest, name: str) -> HttpResponse:
    splits = existing_splits().order_by("position", "name")
    rows = Environment.objects.prefetch_related(Prefetch("splits", queryset=splits))
    found = environment_named(request, name, rows)
    try:
        definition = definition_of(found, definition_in(request.GET))
        revision, _ = revision_asked(request)
    except BadFilter as error:
        links = [(request.path, "The page with the environment's definition")]
        return refused(request, "This address cannot be used", str(error), links)
    viewer = viewer_of(request.user)
    asked = EpisodeFilter(
        environment=found.name, revision=revision or None, player="others", viewer=viewer
    )
    scope = scope_of_filter(asked, NamedRows.of(asked)) if revision else scope_of(found)
    returns = histogram(scope, definition)
    context = {
        **_about(found, viewer),
        **definition_context(definition, found),
        "returns": returns,
        "missing": returns.missing or note_of_part(ToolsPart.name),
        "drawn": drawn_histogram(found, returns, asked),
        "causes": returns.causes,
        "players": [] if revision else in_environment(found, definition, returns.total, viewer),
        "own_query": asked.to_query(),
        "revision": revision,
        "pooled": pooled_in([scope_of(found)]),
        "tool_use": tool_figures(found),
        "tasks": _tasks(found, viewer),
        "has_rollouts": Rollout.objects.filter(environment_name=found.name).exists(),
        "url": request.build_absolute_uri(reverse("overview")).rstrip("/"),
        "origin": request.build_absolute_uri("/").rstrip("/"),
        "needs_key": conf.has_keys(),
    }
    return render(request, "episodes/environment.html", context)


def _about(found: Environment, viewer: Viewer) -> dict[str, Any]:
    """Return the template variables that describe the environment: its rows, and its class if it is
    hosted."""
    splits = list(found.splits.all())
    sealed = viewer.sealed_splits
    split = next((one for one in splits if one.is_served and one.pk not in sealed), None)
    first = (
        served(split).order_by("position").annotate(spec=Left("task__spec", MAX_READ_CHARACTERS))
        if split
        else None
    )
    task = first.values_list("spec", flat=True).first() if first is not None else None
    service = service_or_none()
    hosted = service.registry.find(found.name) if service else None
    schema = json.loads(found.task_schema) if found.task_schema else None
    tools = parts.tools(hosted.tools_json) if hosted and hosted.is_described else None
    return {
        "environment": found,
        "splits": splits,
        "split": split.name if split else "train",
        "has_sealed": found.pk in sealed.values(),
        "tools": tools,
        "call": example_call(tools, summary(task or "", hidden_fields=hidden_fields(found.name))),
        "card": rendered(found.card or found.description),
        "task_fields": fields_of(schema),
    }


def _with_splits() -> EnvironmentQuerySet:
    splits = (
        Split.objects.filter(is_served=True)
        .select_related("environment")
        .order_by("position", "name")
    )
    return Environment.objects.prefetch_related(Prefetch("splits", queryset=splits)).order_by(
        "-is_hosted", "position"
    )


def _tasks(found: Environment, viewer: Viewer) -> list[dict[str, Any]]:
    """Return the served tasks with the lowest success rates, with their names and figures."""
    all_rows = TaskStatistics.objects.filter(environment=found, by="all", attempts__gt=0).order_by(
        "rate", "task"
    )
    # PostgreSQL plans to read the whole table where served tasks alone are asked for; nearly all of
    # the lowest are
    rows = list(all_rows[: 2 * TASKS_SHOWN])
    seen = Task.objects.seen_by(viewer).filter(is_in_state("served"))
    heads = _heads(seen, rows)
    if len(heads) < TASKS_SHOWN and len(rows) == 2 * TASKS_SHOWN:
        rows = list(all_rows.filter(Exists(seen.filter(pk=OuterRef("task"))))[:TASKS_SHOWN])
        heads = _heads(seen, rows)
    convention, thresholds = definition_of(found).convention, conf.thresholds()
    shown = [row for row in rows if row.task_id in heads][:TASKS_SHOWN]
    field, unseen = summary_field(found.task_schema), hidden_fields(found.name)
    names = task_names([row.task_id for row in shown])
    return [
        {
            "pk": row.task_id,
            "name": names[row.task_id],
            "summary": summary(heads[row.task_id], field, unseen),
            "figures": result_of(row, thresholds, convention),
        }
        for row in shown
    ]


def _heads(tasks: QuerySet[Task], rows: Sequence[TaskStatistics]) -> dict[int, str]:
    """Return the start of the content of each of the tasks that has one of the rows, by its id."""
    found = tasks.filter(pk__in=[row.task_id for row in rows])
    return dict(found.values_list("pk", Left("spec", MAX_READ_CHARACTERS)))
