"""Bulk actions of the task list: each shows what it will touch, then runs at once, or as a job when it is long.

What was chosen travels in the forms as the values of a `Selection`, so a million tasks are a few words. Used by
`environments.admin.task`, whose permissions hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html

from environments.admin import forms as ask
from environments.admin.base import author_of
from environments.admin.jobs import job_url
from environments.curation.action import Action, ActionOutcome
from environments.curation.membership import CopyToSplit, MoveToSplit, RemoveFromSplit, SaveAsSplit
from environments.curation.quarantine import Quarantine, Release
from environments.curation.selection import Selection
from environments.curation.tags import AddTags, RemoveTags
from environments.database import jobs
from environments.errors import OrsError
from environments.models import Environment, Split, Task

AT_ONCE_TASKS = 2000
"""More are changed by a job, whose progress is shown."""
MAX_QUERY_CHARACTERS = 6000
"""Of an address that every browser and proxy takes; a page about more stands under none of its own."""
_OF_A_POST = ("csrfmiddlewaretoken", "confirm", "inputs", "task", "ids")

Make = Callable[[Selection, Mapping[str, Any]], Action]


@dataclass(frozen=True, slots=True)
class Bulk:
    """One action as the list offers it."""

    name: str
    label: str
    """On its button; the page's title."""
    form: type[forms.Form]
    make: Make
    """The change, from the selection and the form's cleaned values."""
    permission: str = "environments.change_task"
    needs_split: bool = False
    """Offered only where a split is listed."""
    one_environment: bool = False


def _remove(chosen: Selection, said: Mapping[str, Any]) -> Action:
    return RemoveFromSplit(chosen, chosen.split or 0, said["reason"])


BULKS: dict[str, Bulk] = {
    bulk.name: bulk
    for bulk in (
        Bulk("quarantine", "Quarantine", ask.QuarantineForm, lambda chosen, said: Quarantine(chosen, said["reason"])),
        Bulk("release", "Release", ask.ReasonForm, lambda chosen, said: Release(chosen, said["reason"])),
        Bulk("tag", "Add tags", ask.TagsForm, lambda chosen, said: AddTags(chosen, said["tags"], said["reason"])),
        Bulk(
            "untag", "Remove tags", ask.TagsForm, lambda chosen, said: RemoveTags(chosen, said["tags"], said["reason"])
        ),
        Bulk(
            "copy",
            "Copy to split",
            ask.SplitForm,
            lambda chosen, said: CopyToSplit(chosen, said["into"].pk, said["reason"]),
            "environments.change_split",
            one_environment=True,
        ),
        Bulk(
            "move",
            "Move to split",
            ask.MoveForm,
            lambda chosen, said: MoveToSplit(chosen, said["out_of"].pk, said["into"].pk, said["reason"]),
            "environments.change_split",
            one_environment=True,
        ),
        Bulk(
            "remove", "Remove from this split", ask.ReasonForm, _remove, "environments.change_split", needs_split=True
        ),
        Bulk(
            "save",
            "Save as new split",
            ask.NewSplitForm,
            lambda chosen, said: SaveAsSplit(chosen, said["name"], said["type"], said["reason"]),
            "environments.add_split",
            one_environment=True,
        ),
    )
}


def offered(request: HttpRequest, selection: Selection) -> list[Bulk]:
    """What this person may do with tasks of this list."""
    found = [bulk for bulk in BULKS.values() if request.user.has_perm(bulk.permission)]
    return [bulk for bulk in found if selection.split is not None or not bulk.needs_split]


def bulk_view(request: HttpRequest, bulk: Bulk, context: dict[str, Any]) -> HttpResponse:
    """The action's page, or after its confirmation what came of it. `context`: of every page of the admin.

    What a POST only asks about is shown under an address of its own, so that the browser can go back to it.
    """
    if not request.user.has_perm(bulk.permission):
        raise PermissionDenied
    said = request.POST if request.method == "POST" else request.GET
    if request.method == "POST" and not _is_confirmed(said) and len(asked := _address(said)) <= MAX_QUERY_CHARACTERS:
        return HttpResponseRedirect(f"{request.path}?{asked}")
    chosen = chosen_tasks(said, said.getlist("task"))
    form = _form(bulk, chosen, said if "ask" in said else None)  # else the form was not shown before
    plan, trouble = None, _trouble(bulk, chosen)
    if not trouble and (not form.is_bound or form.is_valid()):
        try:
            action = _action(bulk, chosen, form)
            if action and request.method == "POST" and _is_confirmed(said):
                return _run(request, bulk, action)
            plan = action.plan() if action else None
        except OrsError as refusal:
            trouble = str(refusal)
    shown = {
        **{"title": bulk.label, "bulk": bulk, "chosen": chosen.values(), "form": form, "plan": plan},
        **{"trouble": trouble, "back": _back(said), "back_query": said.get("back", ""), "inputs": _inputs(said)},
    }
    return TemplateResponse(request, "environments/bulk.html", {**context, **shown}, status=400 if trouble else 200)


def _address(said: QueryDict) -> str:
    """What was chosen and filled in, as a query string; the checked tasks as one value."""
    kept = {name: value for name, value in said.items() if name not in _OF_A_POST}
    ids = chosen_tasks(said, said.getlist("task")).values().get("ids")
    return urlencode(kept | ({"ids": ids} if ids else {}))


def chosen_tasks(values: Mapping[str, str], checked: list[str]) -> Selection:
    """What the list sent: the checked tasks, or with `scope` "all" everything that its filters match."""
    selection = Selection.parse(values)
    if selection.ids or values.get("scope") == "all":
        return selection
    ids = tuple(int(pk) for pk in checked if pk.isdecimal() and len(pk) < 19)
    kept = Selection(environment=selection.environment, split=selection.split)
    return replace(kept, ids=ids) if ids else replace(kept, ids=(0,))


def _trouble(bulk: Bulk, chosen: Selection) -> str:
    """Why the action cannot be offered; empty: it can."""
    if chosen.ids == (0,):
        return "No task is chosen. Check some in the list, or choose all that match."
    if bulk.needs_split and chosen.split is None:
        return f"“{bulk.label}” works on the tasks of one split: choose one above the list."
    if bulk.one_environment and _environment(chosen) is None:
        return "The chosen tasks belong to several environments, and a split belongs to one: choose one above the list."
    return ""


def _environment(chosen: Selection) -> int | None:
    """The one environment that the tasks belong to; None: there are several."""
    if chosen.environment is not None:
        return chosen.environment
    if chosen.split is not None:
        return Split.objects.filter(pk=chosen.split).values_list("environment", flat=True).first()
    all_rows = Task.objects.filter(pk__in=chosen.ids) if chosen.ids else Environment.objects.all()
    column = "environment" if chosen.ids else "pk"
    found = list(all_rows.order_by().values_list(column, flat=True).distinct()[:2])
    return found[0] if len(found) == 1 else None


def _form(bulk: Bulk, chosen: Selection, said: Mapping[str, str] | None) -> forms.Form:
    if not issubclass(bulk.form, ask.SplitForm):
        return bulk.form(said)
    initial = {"out_of": chosen.split} if bulk.form is ask.MoveForm else {}
    return bulk.form(said, environment=_environment(chosen), initial=initial)


def _action(bulk: Bulk, chosen: Selection, form: forms.Form) -> Action | None:
    """The change as far as it is known: before the form is filled in, only what needs nothing of it."""
    if bulk.one_environment:
        chosen = replace(chosen, environment=_environment(chosen))
    if form.is_bound:
        return bulk.make(chosen, form.cleaned_data)
    if bulk.form is ask.ReasonForm:
        return bulk.make(chosen, {"reason": ""})
    return bulk.make(chosen, {"reason": "to be said"}) if bulk.form is ask.QuarantineForm else None


def _inputs(said: Mapping[str, str]) -> str:
    """What was asked for, to be told apart from what it was when its plan was shown; the reason changes no plan."""
    names = ("tags", "into", "out_of", "name", "type")
    return "|".join(said.get(name, "").strip() for name in names)


def _is_confirmed(said: Mapping[str, str]) -> bool:
    return "confirm" in said and said.get("inputs", "") == _inputs(said)


def _run(request: HttpRequest, bulk: Bulk, action: Action) -> HttpResponse:
    plan, author = action.plan(), author_of(request)
    if plan.changing > AT_ONCE_TASKS:
        job = jobs.start(plan.title, lambda progress: action.apply(author, progress), owner=author)
        return HttpResponseRedirect(job_url(job.id, _back(request.POST)))
    messages.success(request, told(action.apply(author)))
    return HttpResponseRedirect(_back(request.POST))


def told(outcome: ActionOutcome) -> str:
    """What an action did, with a link to what came of it."""
    if (link := outcome_url(outcome)) is None:
        return outcome.sentence
    return format_html('{} <a class="underline" href="{}">{}</a>', outcome.sentence, *link)


def outcome_url(outcome: ActionOutcome) -> tuple[str, str] | None:
    """Where what came of an action is seen, and what the link says; None: nowhere in particular."""
    if outcome.split is None:
        return None
    return reverse("admin:environments_split_change", args=[outcome.split]), "Open the split"


def _back(said: Mapping[str, str]) -> str:
    """The list it began at. Only a query string is taken from the request, so it leads nowhere else."""
    listing = reverse("admin:environments_task_changelist")
    query = said.get("back", "").lstrip("?")
    return f"{listing}?{query}" if query else listing
