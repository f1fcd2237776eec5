"""The page of a task with its attempts, and the page of a group: all attempts at a task in one
training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments import conf
from environments.access.privacy import viewer_of
from environments.curation.flags import flags_of
from environments.display import parts
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import BadFilter, definition_in, given, whole
from environments.models import Task, Viewer
from environments.scoring.definition import DEFINITION_PARAMETERS, Definition, definition_of
from environments.service import task_line
from environments.tasks.task_facts import history_of, task_facts_of
from episodes.analytics.groups import EPSILON, GroupLine, group_of, groups_of
from episodes.analytics.players import at_task
from episodes.analytics.revision_marks import pooled_in
from episodes.analytics.scopes import scope_of
from episodes.analytics.task import statistics_at
from episodes.dashboard.guards import refused
from episodes.dashboard.view_parameters import (
    definition_context,
    revision_asked,
)
from episodes.models import Episode, Run
from episodes.transcript.cards import MessageCard, message_cards
from episodes.visibility import TaskGuard, content_of

ATTEMPTS_PER_PAGE = 50
MAX_SHOWN_CHARACTERS = 20_000


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS, "revision", "before")
def task(request: HttpRequest, pk: int) -> HttpResponse:
    found = _find(pk)
    try:
        definition = definition_of(found.environment, definition_in(request.GET))
        before = given(request.GET, "before", whole)
        name, revisions = revision_asked(request)
    except BadFilter as error:
        return refused(
            request, "This address cannot be used", str(error), [(request.path, "The task")]
        )
    statistics, counted = None, None
    if revisions or definition != definition_of(found.environment):
        statistics, counted = statistics_at(found, definition, conf.thresholds(), revisions)
    guard = TaskGuard(viewer_of(request.user))
    attempts = list(
        _attempts(found, before, revisions, viewer_of(request.user))[: ATTEMPTS_PER_PAGE + 1]
    )
    shown = attempts[:ATTEMPTS_PER_PAGE]
    context = {
        **frame(found, definition),
        **content_of(parts.fields(found.spec), found.environment.name, guard),
        "facts": task_facts_of(found, statistics),
        "counted": counted,
        "history": history_of(found) if guard.reads_all else history_of(found).without_contents,
        "reads_all": guard.reads_all,
        "flags": flags_of(found).open,
        "prompt": _prompt(shown),
        "players": [] if revisions else at_task(found, definition, viewer_of(request.user)),
        "revision": name,
        "pooled": pooled_in([scope_of(found)]),
        "task_query": query_string(task=found.pk, revision=name),
        "agents_query": query_string(task=found.pk, revision=name, player="others"),
        "attempts": [(episode, episode.returns[definition.return_]) for episode in shown],
        "older": shown[-1].pk if len(attempts) > ATTEMPTS_PER_PAGE else None,
        "is_newest": before is None,
    }
    return render(request, "episodes/task.html", context)


@require_safe
@never_cache
@takes("run", "step", "revision", *DEFINITION_PARAMETERS)
def group(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of the group of `run` (id) and `step` (training step; absent if the agent
    named none)."""
    found = _find(pk)
    try:
        definition = definition_of(found.environment, definition_in(request.GET))
        run_id = given(request.GET, "run", whole)
        step = given(request.GET, "step", whole)
        name, revisions = revision_asked(request)
        if run_id is None:
            raise BadFilter("run", "", "give the id of a run; the Runs page lists them")
    except BadFilter as error:
        return refused(
            request,
            "No group at this address",
            str(error),
            [(reverse("task", args=[pk]), "The task")],
        )
    run = Run.objects.seen_by(viewer_of(request.user)).filter(pk=run_id).first()
    if run is None:
        raise Http404(f"There is no run {run_id}. The Runs page lists all that exist.")
    (lines, missing), members = (
        groups_of(run, step, definition),
        group_of(found, run, step, definition, revisions),
    )
    context = {
        **frame(found, definition),
        "run": run,
        "step": step,
        "group": members,
        "revision": name,
        "pooled": members.pooled,
        "epsilon": EPSILON,
        "group_query": query_string(task=found.pk, run=run.name, step=step, revision=name),
        "place": _place(lines, found.pk),
        "flat": sum(line.spread.is_flat for line in lines),
        "groups": len(lines),
        "missing": missing,
    }
    return render(request, "episodes/group.html", context)


def frame(found: Task, definition: Definition) -> dict[str, Any]:
    return {
        "task": found,
        "environment": found.environment,
        "summary": task_line(found.environment, found.spec),
        **definition_context(definition, found.environment),
    }


def _find(pk: int) -> Task:
    """Return the task with its environment. Raises: Http404."""
    found = Task.objects.select_related("environment").filter(pk=pk).first()
    if found is None:
        raise Http404(f"There is no task {pk}. The page of an environment leads to its tasks.")
    return found


def _attempts(found: Task, before: int | None, revisions: Sequence[int], viewer: Viewer) -> Any:
    rows = Episode.objects.seen_by(viewer).filter(task=found)
    rows = rows if before is None else rows.filter(pk__lt=before)
    rows = rows.filter(revision__in=revisions) if revisions else rows
    return rows.select_related("environment", "split", "run", "play").order_by("-pk")


def _prompt(episodes: list[Episode]) -> list[MessageCard]:
    """Return the prompt of the newest of `episodes` that has one; empty if none has."""
    with_prompt = next((episode for episode in episodes if episode.prompt_id), None)
    text = with_prompt.prompt.text if with_prompt and with_prompt.prompt else ""
    return message_cards(parts.prompt(text), "prompt")


def _place(lines: Sequence[GroupLine], task: int) -> dict[str, int | None]:
    """Return the position of the group among those of its step, and the tasks of its neighbours."""
    tasks = [line.task for line in lines]
    at = tasks.index(task) if task in tasks else -1
    return {
        "number": at + 1,
        "previous": tasks[at - 1] if at > 0 else None,
        "next": tasks[at + 1] if 0 <= at < len(tasks) - 1 else None,
    }
