"""The editor of a task's content, which checks, tries and saves it. What was typed is never lost.

If two people edit the same task, the second sees the difference when saving, and continues to edit
the first one's version with their own text. Used by `environments.curation.admin.task_page`, which checks
permissions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from environments.admin.base import author_of
from environments.curation.action import ActionProblem, InvalidSpec, Plan, Replaced
from environments.curation.admin.review_walk import review_of, task_url
from environments.curation.edit import Edit, last_revision
from environments.curation.edited_spec import checked_spec
from environments.database.storable import id_in
from environments.display.line_diff import diff
from environments.display.parts import Part, indented, prompt, read_json
from environments.display.schema_fields import fields_of
from environments.errors import OrsError
from environments.models import Task
from environments.runtime.task_trial import Trial
from environments.service import try_out_spec


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking the spec in the editor."""

    problems: tuple[ActionProblem, ...] = ()
    """Problems of the text; empty if it satisfies the schema."""
    plan: Plan | None = None
    """Effects of saving; None if they were not computed."""
    trial: Trial | None = None
    """Start of an episode with the spec; None if it was not tried."""
    refusal: str = ""
    """Sentence about why the text could not be checked; empty if it could."""

    @property
    def prompt(self) -> list[Part]:
        return prompt(self.trial.prompt_json) if self.trial else []


def checked(edit: Edit) -> Verdict:
    """Return whether the edit could be saved, and what that would touch. Raises: Replaced."""
    try:
        return Verdict(plan=edit.plan())
    except InvalidSpec as refused:
        return Verdict(problems=refused.problems)


def tried(task: Task, text: str | None = None) -> Verdict:
    """Start an episode with `text` as the task's content, and return the result. None uses the
    stored content."""
    try:
        spec = task.spec if text is None else checked_spec(task.environment, text)
        return Verdict(trial=try_out_spec(task.environment.name, spec))
    except InvalidSpec as refused:
        return Verdict(problems=refused.problems)
    except OrsError as refused:
        return Verdict(refusal=str(refused))


Frame = Callable[[], dict[str, Any]]
"""Returns the context of every page about the task."""


def edit_view(request: HttpRequest, task: Task, frame: Frame) -> HttpResponse:
    """Return the editor. A POST with `action` check, try or save answers with what was typed and
    what was found."""
    if request.method != "POST":
        return _page(
            request, task, frame, _typed(task, indented(read_json(task.spec)), last_revision(task))
        )
    edit = Edit(
        task.pk,
        request.POST.get("spec", ""),
        id_in(request.POST.get("seen", "")) or 0,
        request.POST.get("reason", "").strip(),
    )
    form = _typed(task, edit.spec, edit.seen, edit.reason)
    try:
        if request.POST.get("action") == "save":
            outcome = edit.apply(author_of(request))
            messages.success(request, outcome.sentence)
            query = review.query if (review := review_of(request)) else ""
            return HttpResponseRedirect(task_url(outcome.task or task.pk, query))
        verdict = tried(task, edit.spec) if request.POST.get("action") == "try" else checked(edit)
        status = 200
    except InvalidSpec as refused:
        verdict, status = Verdict(problems=refused.problems), 400
    except Replaced as replaced:
        # the form with the typed text for the current task, and the difference
        now = replaced.revision.successor or replaced.revision.task
        form = _typed(now, edit.spec, last_revision(now), edit.reason)
        form |= {"conflict": replaced.revision, "lines": diff(now.spec, edit.spec)}
        return _page(request, task, frame, form, status=409)
    except OrsError as refused:
        verdict, status = Verdict(refusal=str(refused)), 400
    return _page(request, task, frame, {**form, "verdict": verdict}, status=status)


def _typed(task: Task, spec: str, revision: int, reason: str = "") -> dict[str, Any]:
    """Return the context of the form: what it holds, and the task that it changes."""
    return {"target": task, "spec": spec, "seen": revision, "reason": reason}


def _page(
    request: HttpRequest, task: Task, frame: Frame, context: dict[str, Any], *, status: int = 200
) -> TemplateResponse:
    schema = read_json(task.environment.task_schema) if task.environment.task_schema else None
    variables = {
        "schema": indented(schema) if schema is not None else "",
        "fields": fields_of(schema),
    }
    variables = {**frame(), "title": "Edit a task", **variables, **context}
    return TemplateResponse(request, "curation/task_edit.html", variables, status=status)
