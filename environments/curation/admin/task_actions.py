"""Changes of one task from its page: state, tags, flags, undo. Used by
`environments.curation.admin.task_page`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404

from environments.access.privacy import viewer_of
from environments.admin.base import author_of
from environments.curation.actions.tags import AddTags
from environments.curation.admin.confirmation import Confirmation, applied, confirmation
from environments.curation.admin.review_walk import review_of, task_url
from environments.curation.selection import Selection
from environments.curation.task_action import TASK_ACTIONS, ReasonForm, TaskAction
from environments.curation.undo import UndoInTask
from environments.database.storable import id_in
from environments.display.line_diff import diff
from environments.models import Task, TaskRevision, TaskTag
from environments.models.viewer import visible_tasks
from environments.tasks.flags import settle

Frame = Callable[[], dict[str, Any]]
MAX_REASON_CHARACTERS = 2000
ACCEPTED = "accepted"
"""Tag of a task that somebody looked at and found right."""


def change_view(request: HttpRequest, task: Task, frame: Frame) -> HttpResponse:
    """Apply the `action` of a POST. Redirects to the task's page, which shows the outcome.

    In a review, what settles a task goes on to the next one.
    """
    review, action = review_of(request), request.POST.get("action", "")
    query = review.query if review else ""
    if request.method != "POST":
        return HttpResponseRedirect(task_url(task.pk, query))
    is_applied = (
        _accept(request, task)
        if action == "accept"
        else applied(request, _action(request, task).apply) is not None
    )
    if review and review.next and is_applied and action in ("accept", "quarantine"):
        return HttpResponseRedirect(review.next)
    return HttpResponseRedirect(task_url(task.pk, query))


def _accept(request: HttpRequest, task: Task) -> bool:
    """Tag the task as accepted, and resolve its flags: somebody looked at it and found it right."""
    is_tagged = TaskTag.objects.filter(task=task, name=ACCEPTED).exists()
    selection = Selection(ids=(task.pk,), viewer=viewer_of(request.user))
    if not is_tagged and applied(request, AddTags(selection, (ACCEPTED,)).apply) is None:
        return False
    if count := settle(task, author_of(request)):
        messages.success(request, f"Resolved {count} flag{'' if count == 1 else 's'}.")
    return True


def settle_view(request: HttpRequest, task: Task, frame: Frame) -> HttpResponse:
    """Settle the `flag` of a POST, or all open ones. Redirects to the task's page, which shows the
    outcome."""
    number = request.POST.get("flag", "")
    pk = id_in(number)
    if request.method == "POST" and (not number or pk is not None):
        count = settle(task, author_of(request), pk)
        if count:
            messages.success(request, f"Resolved {count} flag{'' if count == 1 else 's'}.")
        else:
            messages.error(
                request, "Nothing was resolved: someone else has already resolved this flag."
            )
    review = review_of(request)
    return HttpResponseRedirect(task_url(task.pk, review.query if review else ""))


def undo_view(request: HttpRequest, task: Task, frame: Frame, revision: int) -> HttpResponse:
    """Preview the undo of a change of the task's history; a POST does it. `task`: the task whose
    page links here."""
    revisions = TaskRevision.objects.filter(visible_tasks(viewer_of(request.user), "task__"))
    row = get_object_or_404(revisions.select_related("task"), pk=revision)
    if task.pk not in (row.task_id, row.successor_id):
        raise Http404(f"Revision {revision} does not belong to task {task.pk}.")
    page = Confirmation(
        title="Undo a change",
        action=UndoInTask(row.pk, _reason(request)),
        submit="Undo",
        back=(task_url(task.pk), "Back to the task"),
        form=ReasonForm(),
        done=lambda outcome: task_url(outcome.task or task.pk),
        is_whole=True,
        template="curation/task_undo.html",
        context={"revision": row, "lines": diff(row.after, row.before)},
    )
    return confirmation(request, page, frame(), is_confirmed=request.method == "POST")


def _action(request: HttpRequest, task: Task) -> TaskAction:
    selection = Selection(ids=(task.pk,), viewer=viewer_of(request.user))
    name = request.POST.get("action")
    if name in ("quarantine", "release"):
        return TASK_ACTIONS[name].of(selection, {"reason": _reason(request)})
    if name in ("tag", "untag"):
        tags = request.POST.get("tags", "").split(",")
        return TASK_ACTIONS[name].of(selection, {"tags": tags, "reason": _reason(request)})
    raise Http404(f"There is no action {name!r}. Use accept, quarantine, release, tag or untag.")


def _reason(request: HttpRequest) -> str:
    return request.POST.get("reason", "").strip()[:MAX_REASON_CHARACTERS]
