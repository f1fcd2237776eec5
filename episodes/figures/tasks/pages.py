"""The page of a task with its attempts."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.display import parts
from environments.filtering.addresses import takes
from environments.models import Task
from environments.scoring.definition import Definition
from environments.service import task_line
from environments.tasks.flags import flags_of
from environments.tasks.task_facts import history_of, task_facts_of
from episodes.dashboard.guards import row_or_404
from episodes.dashboard.view_parameters import definition_context
from episodes.figures.curves.revision_marks import pooled_in
from episodes.figures.players import at_task
from episodes.figures.scopes import scope_of
from episodes.figures.tasks.environment_failures import clusters_of
from episodes.figures.tasks.task_figures import TaskQuery
from episodes.transcript.cards import message_cards
from episodes.visibility import TaskGuard, content_of


@require_safe
@never_cache
@takes(*TaskQuery.PARAMETERS)
def task_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of a task. Raises: BadFilter, Http404."""
    task, viewer = task_or_404(pk), viewer_of(request.user)
    query = TaskQuery.parse(request.GET, task, viewer)
    definition, of_task, page = query.definition, query.to_query(), query.episodes()
    statistics, newest_count = query.statistics()
    guard, history = TaskGuard(viewer), history_of(task)
    prompt = next((episode.prompt for episode in page.episodes if episode.prompt), None)
    context = {
        **frame(task, definition),
        **content_of(parts.fields(task.spec), task.environment.name, guard),
        "facts": task_facts_of(task, statistics),
        "counted": newest_count,
        "clusters": clusters_of(query.all_episodes())
        if statistics.overall.coverage.failures
        else [],
        "history": history if guard.reads_all else history.without_contents,
        "reads_all": guard.reads_all,
        "flags": flags_of(task).open,
        "prompt": message_cards(parts.prompt(prompt.text if prompt else ""), "prompt"),
        "players": [] if query.revision.ids else at_task(task, definition, viewer),
        "revision": query.revision.name,
        "pooled": pooled_in([scope_of(task)]),
        "task_query": of_task,
        "agents_query": f"{of_task}&player=others",
        "attempts": [(episode, episode.returns[definition.return_]) for episode in page.episodes],
        "has_groups": any(episode.run_step is not None for episode in page.episodes),
        "older": page.older,
        "is_newest": query.before is None,
    }
    return render(request, "figures/task.html", context)


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
