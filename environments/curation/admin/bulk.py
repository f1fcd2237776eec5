"""Bulk actions of the task list. Each shows what it will touch, then runs at once, or as a job if
it takes long.

The forms carry the chosen tasks as the values of a `Selection`, so a million tasks are a few words.
Used by `environments.curation.admin.task`, which checks permissions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse

from environments.access.privacy import viewer_of
from environments.curation import actions
from environments.curation.action import Action, ActionOutcome
from environments.curation.actions.membership import SplitForm
from environments.curation.actions.quarantine import MAX_NAMED
from environments.curation.admin.confirmation import Confirmation, confirmation
from environments.curation.selection import Selection
from environments.curation.task_action import TASK_ACTIONS, TaskAction
from environments.database.storable import id_in
from environments.filtering.addresses import refuse_doubles
from environments.filtering.parameters import BadFilter, refuse_blanks
from environments.models import Environment, Split, Task, TaskRevision
from environments.models.viewer import visible_environments
from environments.service import task_line
from environments.tasks.task_facts import task_names
from environments.tasks.task_states import LABELS, with_states

MAX_QUERY_CHARACTERS = 6000
"""Longest query string that every browser and proxy takes; a page about more tasks has no address
of its own."""
MAX_LISTED = 500
"""Most tasks that have a list of their own after an action."""
LIST_PARAMETERS = ("after", "before", "field", "is", "value")
"""Parameters of the list of tasks that select nothing: its page, and a test of a field, which goes
into the search."""
SCOPES = ("checked", "all")
"""Whether an action is for the checked tasks of a list, or for all that its filters match."""
_OF_FORMS = ("csrfmiddlewaretoken", "confirm", "inputs", "ask", "back", "scope", "task")
_POST_ONLY = ("csrfmiddlewaretoken", "confirm", "inputs", "task", "ids")

for module in iter_modules(actions.__path__):
    import_module(f"{actions.__name__}.{module.name}")
BULKS = dict(sorted(TASK_ACTIONS.items(), key=lambda item: item[1].order))
"""The actions by name, in the order of their buttons."""
FIELDS = {name for action in BULKS.values() for name in action.form.base_fields}


def offered(request: HttpRequest, selection: Selection) -> list[type[TaskAction]]:
    """Bulk actions that this person may apply to tasks of this list."""
    bulks = [bulk for bulk in BULKS.values() if request.user.has_perm(bulk.permission)]
    return [
        bulk
        for bulk in bulks
        if (selection.split is not None or not bulk.needs_split)
        and (selection.ids or selection.state not in bulk.idle_states)
    ]


def bulk_view(
    request: HttpRequest, bulk: type[TaskAction], context: dict[str, Any]
) -> HttpResponse:
    """Return the page of a bulk action; once it is confirmed, a redirect to the outcome.

    `context` is that of every admin page. A POST that is not confirmed yet is redirected to an
    address of its own, so that the browser can go back to it.
    """
    if not request.user.has_perm(bulk.permission):
        raise PermissionDenied
    values = request.POST if request.method == "POST" else request.GET
    if (
        request.method == "POST"
        and not _is_confirmed(bulk, values)
        and len(query := _address(request, values)) <= MAX_QUERY_CHARACTERS
    ):
        return HttpResponseRedirect(f"{request.path}?{query}")
    selection = chosen_tasks(request, values)
    # without it the form was not shown before
    form = _form(bulk, selection, values if "ask" in values else None)
    trouble = _trouble(bulk, selection)
    is_filled = not trouble and (not form.is_bound or form.is_valid())
    form_state = {"back": values.get("back", ""), "ask": "1", "inputs": _inputs(bulk, values)}
    page = Confirmation(
        title=bulk.label,
        done=changed_tasks if bulk.changes_state else lambda outcome: None,
        leads_back=bulk.changes_state,
        context=_not_served(selection),
        action=_action(bulk, selection, form) if is_filled else None,
        submit=bulk.label,
        back=(back_to_list(values), "Back to the list"),
        trouble=trouble,
        form=form,
        hidden={**selection.values(), **({} if selection.ids else {"scope": "all"}), **form_state},
    )
    is_confirmed = request.method == "POST" and _is_confirmed(bulk, values)
    return confirmation(request, page, context, is_confirmed=is_confirmed)


def _address(request: HttpRequest, values: QueryDict) -> str:
    """Return the chosen tasks and the form's values as a query string; the checked tasks are one
    value."""
    parameters = {name: value for name, value in values.items() if name not in _POST_ONLY}
    ids = chosen_tasks(request, values).values().get("ids")
    return urlencode(parameters | ({"ids": ids} if ids else {}))


def selection_of(
    request: HttpRequest,
    values: Mapping[str, str],
    *,
    also: Collection[str],
    may_be_blank: bool = True,
) -> Selection:
    """Return the selection in the parameters of an address or a form.

    `also`: names of others that it may have. `may_be_blank`: whether blank filters count as absent;
    where much is changed or taken they may not. Raises: BadRequest.
    """
    refuse_doubles(request)
    if not may_be_blank:
        refuse_blanks(values, Selection.parameters())
    return Selection.parse(values, viewer_of(request.user), also=also)


def chosen_tasks(request: HttpRequest, values: QueryDict) -> Selection:
    """Return the tasks that the list sent: the checked ones, or with `scope` "all" all that its
    filters match.

    Raises: BadRequest.
    """
    selection = selection_of(request, values, also={*_OF_FORMS, *FIELDS}, may_be_blank=False)
    if (scope := values.get("scope", SCOPES[0])) not in SCOPES:
        raise BadFilter("scope", scope, f"allowed are {', '.join(SCOPES)}")
    if selection.ids or scope == "all":
        return selection
    ids = tuple(pk for text in values.getlist("task") if (pk := id_in(text)) is not None)
    # no task has the id 0, so nothing is chosen
    places = selection.environment, selection.split
    return Selection(*places, ids=ids or (0,), viewer=selection.viewer)


def _trouble(bulk: type[TaskAction], selection: Selection) -> str:
    """Return why the action cannot be applied to these tasks; empty if it can."""
    if selection.ids == (0,):
        return "No task is chosen. Check some in the list, or choose all that match."
    if bulk.needs_split and selection.split is None:
        return f"“{bulk.label}” works on the tasks of one split: choose one above the list."
    if bulk.one_environment and _environment(selection) is None:
        return (
            "The chosen tasks belong to several environments, and a split belongs to one: choose "
            "one above the list."
        )
    return ""


def _environment(selection: Selection) -> int | None:
    """Return the environment that all chosen tasks belong to; None: there are several."""
    if selection.environment is not None:
        return selection.environment
    if selection.split is not None:
        splits = Split.objects.seen_by(selection.viewer).filter(pk=selection.split)
        return splits.values_list("environment", flat=True).first()
    column = "environment" if selection.ids else "pk"
    all_rows = (
        Task.objects.filter(pk__in=selection.ids) if selection.ids else Environment.objects.all()
    )
    all_rows = all_rows.filter(visible_environments(selection.viewer, column))
    environments = list(all_rows.order_by().values_list(column, flat=True).distinct()[:2])
    return environments[0] if len(environments) == 1 else None


def _form(
    bulk: type[TaskAction], selection: Selection, values: Mapping[str, str] | None
) -> forms.Form:
    if not issubclass(bulk.form, SplitForm):
        return bulk.form(values)
    return bulk.form(
        values,
        environment=_environment(selection),
        viewer=selection.viewer,
        initial={"out_of": selection.split},
    )


def _action(bulk: type[TaskAction], selection: Selection, form: forms.Form) -> Action | None:
    """Return the action, or None if it cannot be made before the form is filled in."""
    if bulk.one_environment:
        selection = replace(selection, environment=_environment(selection))
    if form.is_bound:
        return bulk.of(selection, form.cleaned_data)
    return bulk.of(selection, {"reason": ""}) if form.fields.keys() == {"reason"} else None


def _inputs(bulk: type[TaskAction], values: Mapping[str, str]) -> str:
    """Return the form's values that change a plan, to detect that they differ from those whose plan
    was shown."""
    names = [name for name in bulk.form.base_fields if name != "reason"]
    return "|".join(values.get(name, "").strip() for name in names)


def _is_confirmed(bulk: type[TaskAction], values: Mapping[str, str]) -> bool:
    return "confirm" in values and values.get("inputs", "") == _inputs(bulk, values)


def changed_tasks(outcome: ActionOutcome) -> str | None:
    """Return the address of the list of the tasks that an action changed; None if they are too many
    for one."""
    rows = TaskRevision.objects.filter(change=outcome.change).order_by("task")
    ids = list(rows.values_list("task", flat=True)[: MAX_LISTED + 1])
    if not ids or len(ids) > MAX_LISTED:
        return None
    return f"{reverse('admin:environments_task_changelist')}?ids={','.join(map(str, ids))}"


def _not_served(selection: Selection) -> dict[str, Any]:
    """Return the first tasks that the selection leaves out as they are not served, with their
    names, lines and states, and the address of all tasks that match."""
    if not selection.is_of_served:
        return {}
    matching = replace(selection, state="")
    others = Task.objects.filter(matching.condition()).exclude(selection.condition())
    rows = list(with_states(others).select_related("environment").order_by("pk")[:MAX_NAMED])
    names = task_names([row.pk for row in rows])
    listing = reverse("admin:environments_task_changelist")
    return {
        "not_served": [
            (row, names[row.pk], task_line(row.environment, row.spec), LABELS[row.standing])
            for row in rows
        ],
        "matching": f"{listing}?{urlencode(matching.values())}",
    }


def back_to_list(values: Mapping[str, str]) -> str:
    """Return the address of the list that led here. Its path is fixed: the request gives only its
    query string."""
    listing = reverse("admin:environments_task_changelist")
    query = values.get("back", "").lstrip("?")
    return f"{listing}?{query}" if query else listing
