"""The page on which people confirm an action: what it will do, and then what it did.

An action on many tasks runs as a job, whose page shows its progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html

from environments.admin.base import author_of
from environments.admin.job_page import job_url, split_link
from environments.curation.action import Action, ActionOutcome, Plan
from environments.curation.split_warnings import warnings_of_plan
from environments.database import background_jobs
from environments.database.background_jobs import Progress, silent
from environments.errors import OrsError
from environments.models import CurationAction, Task
from environments.scoring.task_statistics import TaskResult
from environments.service import task_line
from environments.tasks.task_facts import figures_by_task, task_names

MAX_CHANGED_AT_ONCE = 2000
"""An action that changes more tasks is a job."""
MAX_READ_AT_ONCE = 20_000
"""An action that reads more tasks is a job, such as freezing a split."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmation:
    """What the page is about."""

    title: str
    action: Action | None
    """None: it cannot be made before the form is filled in."""
    submit: str
    """Text of the button."""
    back: tuple[str, str]
    """Address and text of the way back."""
    trouble: str = ""
    """Why the action cannot be applied; empty if it can."""
    form: forms.Form | None = None
    hidden: Mapping[str, Any] = field(default_factory=dict)
    """Further fields that the form sends, by name."""
    is_whole: bool = False
    """Whether the action is about a split or another action, and not about some tasks."""
    is_danger: bool = False
    done: Callable[[ActionOutcome], str | None] = lambda outcome: None
    """Is called with the outcome. Returns the address to go to; None: the way back."""
    leads_back: bool = False
    """Whether the message about the outcome has a link back, as `done` leads elsewhere."""
    template: str = "curation/confirmation.html"
    context: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the template that are shown beside the plan."""


def confirmation(
    request: HttpRequest, page: Confirmation, context: Mapping[str, Any], *, is_confirmed: bool
) -> HttpResponse:
    """Return the page; once the action is confirmed, apply it and redirect to its outcome.

    `context`: that of every page of the admin.
    """
    plan, trouble = None, page.trouble
    if page.action is not None and not trouble:
        try:
            plan = page.action.plan()
            if is_confirmed:
                return _apply(request, page, page.action, plan)
        except OrsError as refusal:
            plan, trouble = None, str(refusal)
    variables = {
        **context,
        **page.context,
        "title": page.title,
        "page": page,
        "plan": plan,
        "trouble": trouble,
        "warnings": warnings_of_plan(plan),
        "tasks": _named(plan.named) if plan else [],
        "is_whole": page.is_whole,
        "form": page.form if plan or not page.is_whole else None,
    }
    return TemplateResponse(request, page.template, variables, status=400 if trouble else 200)


def applied(request: HttpRequest, change: Callable[[str], ActionOutcome]) -> ActionOutcome | None:
    """Make a change that needs no confirmation, in the name of the person, and show its outcome.
    Returns it, or None if the change was refused."""
    try:
        outcome = change(author_of(request))
    except OrsError as refusal:
        messages.error(request, str(refusal))
        return None
    messages.success(request, outcome.sentence)
    return outcome


def _named(ids: Sequence[int]) -> list[tuple[Task, str, str, TaskResult]]:
    """Return the tasks with their names, their lines in lists and the figures of their attempts."""
    tasks = Task.objects.select_related("environment").in_bulk(ids)
    names, figures = task_names(list(tasks)), figures_by_task(tasks)
    return [
        (tasks[pk], names[pk], task_line(tasks[pk].environment, tasks[pk].spec), figures[pk])
        for pk in ids
        if pk in tasks
    ]


def _apply(
    request: HttpRequest, page: Confirmation, action: Action, plan: Plan
) -> HttpResponseRedirect:
    author, (back, _) = author_of(request), page.back

    def work(progress: Progress) -> ActionOutcome:
        outcome = action.apply(author, progress)
        page.done(outcome)
        return outcome

    if plan.changing > MAX_CHANGED_AT_ONCE or plan.selected > MAX_READ_AT_ONCE:
        return HttpResponseRedirect(
            job_url(background_jobs.start(plan.title, work, owner=author).id, back)
        )
    outcome = action.apply(author, silent)
    message = outcome.sentence
    if (link := split_link(outcome)) is not None:
        message = format_html('{} <a class="underline" href="{}">{}</a>', message, *link)
    elif row := CurationAction.objects.filter(token=outcome.change).only("pk").first():
        url = reverse("admin:environments_curationaction_change", args=[row.pk])
        words = '{} <a class="underline" href="{}">See the change, or undo it</a>.'
        message = format_html(words, message, url)
    address = page.done(outcome) or back
    if page.leads_back and address != back:
        message = format_html('{} <a class="underline" href="{}">{}</a>.', message, *page.back)
    messages.success(request, message)
    return HttpResponseRedirect(address)
