"""The list of environments, and the page of one: its description, the figures of its attempts and
how to connect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
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
from environments.display.card import rendered
from environments.display.schema_fields import fields_of
from environments.display.task_line import MAX_READ_CHARACTERS, summary, summary_field
from environments.filtering.addresses import takes
from environments.filtering.parameters import any_text, definition_in, given
from environments.models import Environment, Split, Task, TaskStatistics, Viewer
from environments.scoring.definition import DEFINITION_PARAMETERS, definition_of
from environments.scoring.task_statistics import result_of
from environments.service import hidden_fields
from environments.tasks.split_indexes import served
from environments.tasks.task_facts import task_names
from environments.tasks.task_states import is_in_state
from episodes.dashboard.guards import environment_named
from episodes.dashboard.view_parameters import (
    definition_context,
    overrides_context,
)
from episodes.figures.curves.revision_marks import pooled_in
from episodes.figures.environments.client_examples import example_call, tools_of
from episodes.figures.environments.environment_figures import environment_figures
from episodes.figures.environments.failing_tasks import failing_tasks
from episodes.figures.environments.histogram import histogram
from episodes.figures.environments.histogram_drawing import drawn_histogram
from episodes.figures.environments.split_figures import default_splits, names_in
from episodes.figures.environments.tool_figures import tool_figures
from episodes.figures.players import in_environment
from episodes.figures.revision_choice import RevisionChoice
from episodes.figures.run_splits import SplitChoice, are_together_in, split_named
from episodes.figures.scopes import scope_of, scope_of_filter
from episodes.figures.summary_cover import note_of_part
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Rollout
from episodes.rollups.tools import ToolsPart

MAX_TASKS = 12


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS)
def environments(request: HttpRequest) -> HttpResponse:
    """Return the list of environments. Raises: BadRequest."""
    overrides, viewer = definition_in(request.GET), viewer_of(request.user)
    splits = Split.objects.filter(is_served=True).select_related("environment")
    rows = Environment.objects.seen_by(viewer).prefetch_related(
        Prefetch("splits", queryset=splits.order_by("position", "name"))
    )
    rows = rows.order_by("-is_hosted", "position")
    environments = list(rows)
    split_by_environment = default_splits([environment.pk for environment in environments])
    figures = environment_figures(environments, viewer, overrides, split_by_environment)
    context = {"rows": figures, **overrides_context(overrides)}
    page = "environments_list" if "HX-Request" in request.headers else "environments"
    return render(request, f"figures/{page}.html", context)


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS, *SplitChoice.PARAMETERS, "revision")
def environment_page(request: HttpRequest, name: str) -> HttpResponse:
    """Return the page of one environment, with the figures of one of its splits unless the address
    asks for all. Raises: BadFilter, Http404."""
    splits = Split.objects.existing().order_by("position", "name")
    rows = Environment.objects.prefetch_related(Prefetch("splits", queryset=splits))
    environment, viewer = environment_named(request, name, rows), viewer_of(request.user)
    definition = definition_of(environment, definition_in(request.GET))
    revision = RevisionChoice.parse(request.GET, viewer).name
    are_together = are_together_in(request.GET)
    split = split_named(environment, given(request.GET, "split", any_text))
    if split is None and not are_together:
        default = default_splits([environment.pk]).get(environment.pk)
        split = split_named(environment, default.name if default else None)  # as it was read
    place = EpisodeFilter(
        environment=environment.name, split=split.name if split else None, viewer=viewer
    )
    filters = replace(place, revision=revision or None, player="others")
    own_scope = scope_of(split or environment)
    scope = scope_of_filter(filters, NamedRows.of(filters)) if revision else own_scope
    returns = histogram(scope, definition)
    context = {
        **_about(environment, viewer),
        **definition_context(definition, environment),
        "returns": returns,
        "missing": returns.missing or note_of_part(ToolsPart.name),
        "drawn": drawn_histogram(environment, returns, filters),
        "causes": returns.causes,
        "players": []
        if revision
        else in_environment(environment, definition, returns.total, viewer, split),
        "scope_names": names_in(scope, viewer),
        "scope_split": split,
        "place_query": place.to_query(),
        "own_query": filters.to_query(),
        "revision": revision,
        "pooled": pooled_in([own_scope]),
        "tool_use": tool_figures(environment),
        "tasks": _tasks(environment, viewer, split),
        "failing": failing_tasks(viewer, environment),
        "has_rollouts": Rollout.objects.filter(environment_name=environment.name).exists(),
        "url": request.build_absolute_uri(reverse("overview")).rstrip("/"),
        "origin": request.build_absolute_uri("/").rstrip("/"),
        "needs_key": conf.has_keys(),
    }
    return render(request, "figures/environment.html", context)


def _about(environment: Environment, viewer: Viewer) -> dict[str, Any]:
    """Return the template variables that describe the environment: its rows, and its class if it is
    hosted."""
    splits, seals = list(environment.splits.all()), viewer.sealed_splits
    split = next((split for split in splits if split.is_served and split.pk not in seals), None)
    spec = None
    if split is not None:
        first = (
            served(split)
            .order_by("position")
            .values_list(Left("task__spec", MAX_READ_CHARACTERS), flat=True)
        )
        spec = first.first()
    line = summary(spec or "", hidden_fields=hidden_fields(environment.name))
    tools = tools_of(environment)
    return {
        "environment": environment,
        "splits": splits,
        "split": split.name if split else "train",
        "has_sealed": environment.pk in seals.values(),
        "tools": tools,
        "call": example_call(tools, line),
        "card": rendered(environment.card or environment.description),
        "task_fields": fields_of(json.loads(environment.task_schema or "null")),
    }


def _tasks(environment: Environment, viewer: Viewer, split: Split | None) -> list[dict[str, Any]]:
    """Return the served tasks with the lowest success rates, of the split or of all, with their
    names and figures."""
    all_rows = TaskStatistics.objects.filter(
        environment=environment, by="all", attempts__gt=0
    ).order_by("rate", "task")
    if split is not None and not split.is_generated:
        all_rows = all_rows.filter(task__in=served(split).values("task"))
    # PostgreSQL plans to read the whole table where served tasks alone are asked for; nearly all of
    # the lowest are
    rows = list(all_rows[: 2 * MAX_TASKS])
    tasks = Task.objects.seen_by(viewer).filter(is_in_state("served"))
    heads = _heads(tasks, rows)
    if len(heads) < MAX_TASKS and len(rows) == 2 * MAX_TASKS:
        rows = list(all_rows.filter(Exists(tasks.filter(pk=OuterRef("task"))))[:MAX_TASKS])
        heads = _heads(tasks, rows)
    convention, thresholds = definition_of(environment).convention, conf.thresholds()
    rows = [row for row in rows if row.task_id in heads][:MAX_TASKS]
    field, unseen = summary_field(environment.task_schema), hidden_fields(environment.name)
    names = task_names([row.task_id for row in rows])
    return [
        {
            "pk": row.task_id,
            "name": names[row.task_id],
            "summary": summary(heads[row.task_id], field, unseen),
            "figures": result_of(row, thresholds, convention),
        }
        for row in rows
    ]


def _heads(tasks: QuerySet[Task], rows: Sequence[TaskStatistics]) -> dict[int, str]:
    """Return the start of the content of each of the tasks that has one of the rows, by its id."""
    tasks = tasks.filter(pk__in=[row.task_id for row in rows])
    return dict(tasks.values_list("pk", Left("spec", MAX_READ_CHARACTERS)))
