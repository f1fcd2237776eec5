"""The page of a task with its attempts."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments import conf
from environments.access.privacy import viewer_of
from environments.curation.flags import flags_of
from environments.display import parts
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import definition_in, given, whole
from environments.models import Task
from environments.scoring.definition import DEFINITION_PARAMETERS, Definition, definition_of
from environments.service import task_line
from environments.tasks.task_facts import history_of, task_facts_of
from episodes.dashboard.guards import row_or_404
from episodes.dashboard.view_parameters import definition_context, revision_in
from episodes.figures.curves.revision_marks import pooled_in
from episodes.figures.players import at_task
from episodes.figures.scopes import scope_of
from episodes.figures.tasks.task_figures import statistics_at
from episodes.models import Episode
from episodes.transcript.cards import message_cards
from episodes.visibility import TaskGuard, content_of

ATTEMPTS_PER_PAGE = 50
MAX_SHOWN_CHARACTERS = 20_000


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS, "revision", "before")
def task_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of a task. Raises: BadFilter, Http404."""
    task = task_or_404(pk)
    definition = definition_of(task.environment, definition_in(request.GET))
    before = given(request.GET, "before", whole)
    name, revisions = revision_in(request)
    viewer = viewer_of(request.user)
    statistics, coverage = None, None
    if revisions or definition != definition_of(task.environment):
        statistics, coverage = statistics_at(task, definition, conf.thresholds(), revisions)
    guard, history = TaskGuard(viewer), history_of(task)
    rows = Episode.objects.seen_by(viewer).filter(task=task)
    rows = rows if before is None else rows.filter(pk__lt=before)
    rows = rows.filter(revision__in=revisions) if revisions else rows
    rows = rows.select_related("environment", "split", "run", "play").order_by("-pk")
    attempts = list(rows[: ATTEMPTS_PER_PAGE + 1])
    page = attempts[:ATTEMPTS_PER_PAGE]
    prompt = next((episode.prompt for episode in page if episode.prompt), None)
    context = {
        **frame(task, definition),
        **content_of(parts.fields(task.spec), task.environment.name, guard),
        "facts": task_facts_of(task, statistics),
        "counted": coverage,
        "history": history if guard.reads_all else history.without_contents,
        "reads_all": guard.reads_all,
        "flags": flags_of(task).open,
        "prompt": message_cards(parts.prompt(prompt.text if prompt else ""), "prompt"),
        "players": [] if revisions else at_task(task, definition, viewer),
        "revision": name,
        "pooled": pooled_in([scope_of(task)]),
        "task_query": query_string(task=task.pk, revision=name),
        "agents_query": query_string(task=task.pk, revision=name, player="others"),
        "attempts": [(episode, episode.returns[definition.return_]) for episode in page],
        "older": page[-1].pk if len(attempts) > ATTEMPTS_PER_PAGE else None,
        "is_newest": before is None,
    }
    return render(request, "episodes/task.html", context)


def task_or_404(pk: int) -> Task:
    """Return the task with its environment. Raises: Http404."""
    return row_or_404(Task.objects.select_related("environment"), pk)


def frame(task: Task, definition: Definition) -> dict[str, Any]:
    """Return the template variables of every page about a task."""
    return {
        "task": task,
        "environment": task.environment,
        "summary": task_line(task.environment, task.spec),
        **definition_context(definition, task.environment),
    }
