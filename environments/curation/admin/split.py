"""Admin of splits: their tasks, freezing and deleting, and how they differ from what the class
lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.contrib import admin
from django.contrib.admin.models import CHANGE, DELETION
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.access.permissions import SEE_HIDDEN
from environments.access.privacy import viewer_of
from environments.admin.base import EnvironmentFilter, ReadOnlyAdmin, note
from environments.curation.action import Action, ActionOutcome
from environments.curation.admin.confirmation import Confirmation, confirmation
from environments.curation.leaks import (
    MAX_READ_BY_PAGE,
    MAX_READ_ON_REQUEST,
    LeakReport,
    SplitWarning,
    leaks_of_split,
    opposite_splits,
)
from environments.curation.split_warnings import changed_since_frozen
from environments.curation.splits import (
    DeleteSplit,
    FreezeSplit,
    SealSplit,
    UnfreezeSplit,
    seal_of,
)
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.filtering.addresses import flag_asked
from environments.models import Split, SplitRemoval, Task
from environments.service import hidden_fields, task_line
from environments.tasks.task_facts import names_in_splits
from environments.tasks.task_places import batched, places_of

MAX_COMPARED = 20_000
"""Larger splits are compared with the class's list only on demand."""
MAX_DIFFERENCES_SHOWN = 50
BATCH_HASHES = 900

ACTIONS: dict[str, tuple[str, str, Callable[[int], Action]]] = {
    "freeze": ("Freeze", "Freeze {}", FreezeSplit),
    "unfreeze": ("Unfreeze", "Unfreeze {}", UnfreezeSplit),
    "seal": ("Seal for keys", "Seal {} for keys", SealSplit),
    "seal_for_people": ("Seal for people", "Seal {} for people", partial(SealSplit, seal="people")),
    "unseal_for_people": (
        "Unseal for people",
        "Unseal {} for people",
        partial(SealSplit, is_opening=True),
    ),
    "unseal": ("Unseal", "Unseal {}", partial(SealSplit, seal="nobody", is_opening=True)),
    "delete": ("Delete", "Delete {}", DeleteSplit),
}
"""Name in the address -> (text of the button, title of the page, action)."""
SEALS = ("seal", "seal_for_people", "unseal_for_people", "unseal")
"""Actions for people who may read what they seal."""
SEALED = {"nobody": "", "keys": "sealed for keys", "people": "sealed for people"}


@admin.register(Split)
class SplitAdmin(ReadOnlyAdmin):
    page_template = "curation/split.html"
    page_parameters = ("compare", "review")
    list_display = ("name", "environment", "type", "tasks", "maker")
    list_filter = (EnvironmentFilter,)
    ordering = ("environment__position", "position", "name")
    empty = (
        "No splits yet. Classes declare them, and you can create one by saving selected tasks or "
        "importing a file."
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Split]:
        return Split.objects.existing().seen_by(viewer_of(request.user))

    def page(self, request: HttpRequest, row: Split) -> dict[str, Any]:
        is_reviewed = flag_asked(request, "review")
        is_compared = (
            flag_asked(request, "compare") or row.size <= MAX_COMPARED
        ) and row.source_hash
        return {
            "title": str(row),
            "hidden": places_of(row).filter(is_hidden=True)[:1001].count(),
            "differences": differences(row) if is_compared else None,
            "review": None if row.is_generated else _review(row, is_on_request=is_reviewed),
            "is_reviewed": is_reviewed,
            "may_change": request.user.has_perm("environments.change_split"),
            "may_seal": request.user.has_perm("environments.change_split")
            and request.user.has_perm(SEE_HIDDEN),
            "seal": seal_of(row),
            "may_delete": request.user.has_perm("environments.delete_split") and row.is_curated,
        }

    def get_urls(self) -> list[URLPattern]:
        act = self.admin_site.admin_view(self.act)
        own = [
            path(f"<id:pk>/{name}/", act, {"name": name}, name=f"environments_split_{name}")
            for name in ACTIONS
        ]
        return [*own, *super().get_urls()]

    def act(self, request: HttpRequest, pk: int, name: str) -> HttpResponse:
        """Preview freezing, sealing, deleting a split and so on; a POST does it."""
        split = get_object_or_404(self.get_queryset(request), pk=pk)
        permission = "delete" if name == "delete" else "change"
        if not request.user.has_perm(f"environments.{permission}_split"):
            raise PermissionDenied
        if name in SEALS and not request.user.has_perm(SEE_HIDDEN):
            raise PermissionDenied
        label, title, change = ACTIONS[name]
        user, is_deletion = request.user.pk, name == "delete"

        def done(outcome: ActionOutcome) -> str | None:
            note(user, split, outcome.sentence, DELETION if is_deletion else CHANGE)
            if not is_deletion:
                return None
            return reverse("admin:environments_environment_change", args=[split.environment_id])

        page = Confirmation(
            title=title.format(split),
            action=change(pk),
            submit=label,
            back=(reverse("admin:environments_split_change", args=[pk]), "Back to the split"),
            is_whole=True,
            is_danger=is_deletion,
            done=done,
        )
        return confirmation(
            request, page, self.page_context(request), is_confirmed=request.method == "POST"
        )

    @admin.display(description="tasks")
    def tasks(self, split: Split) -> SafeString:
        size = "generated" if split.is_generated else f"{split.size:,}"
        return format_html('<span class="number">{}</span>', size)

    @admin.display(description="created by")
    def maker(self, split: Split) -> str:
        """Return who created the split, and whether it is frozen, sealed or not served."""
        marks = {
            "frozen ❄": split.frozen,
            SEALED[seal_of(split)]: split.is_sealed,
            "not served": not split.is_served,
        }
        return ", ".join(
            [
                "people" if split.is_curated else "the class",
                *(mark for mark in marks if marks[mark]),
            ]
        )


def _review(split: Split, *, is_on_request: bool) -> LeakReport:
    others = opposite_splits(split.environment_id, split.type).exclude(pk=split.pk)
    total = split.size + sum(others.values_list("size", flat=True))
    if total > MAX_READ_ON_REQUEST and not is_on_request:  # a million take seconds
        return LeakReport(
            (), f"Nothing was compared: this split and those of other types have {total:,} tasks."
        )
    most = MAX_READ_ON_REQUEST if is_on_request else MAX_READ_BY_PAGE
    report = leaks_of_split(
        split, hidden_fields=hidden_fields(split.environment.name) or (), most=most
    )
    if not (sentence := changed_since_frozen(split)):
        return report
    return replace(report, warnings=(SplitWarning(sentence), *report.warnings))


@dataclass(frozen=True, slots=True)
class SplitDifference:
    """One task in which a split differs from the list of its class."""

    task: int
    name: str
    """`train #12`, or of another split if it was taken out of this; empty: it is in none."""
    summary: str
    how: str
    instead: int | None = None
    """The listed task in whose place it is."""


def differences(split: Split) -> dict[str, Any]:
    """Return how the split differs from its class, row by row: what people edited, added, took out
    and moved. Reads all its places."""
    places = places_of(split).exclude(source_hash=F("task__content_hash"))
    others = list(places.values_list("task_id", "source_hash").iterator(2000))
    removals = list(SplitRemoval.objects.filter(split=split).values_list("source_hash", flat=True))
    hashes = [*(content for _, content in others if content), *removals]
    ids = dict[str, int]()  # of the tasks with these hashes that the class lists now
    for batch in batched(hashes, BATCH_HASHES):
        tasks_of_class = Task.objects.filter(
            environment=split.environment_id, content_hash__in=batch, dropped=None
        )
        ids.update(tasks_of_class.values_list("content_hash", "pk"))
    originals = {task: ids[content] for task, content in others if content in ids}
    removed_ids = {ids[content] for content in removals if content in ids}
    own = {task for task, content in others if content not in ids}
    without_place = removed_ids - own
    tasks = [*sorted(own | originals.keys()), *sorted(without_place)][: MAX_DIFFERENCES_SHOWN + 1]
    is_more = len(tasks) > MAX_DIFFERENCES_SHOWN
    tasks = tasks[:MAX_DIFFERENCES_SHOWN]
    names = names_in_splits([(task, split.pk) for task in tasks])
    heads = Task.objects.filter(pk__in=tasks).annotate(head=Left("spec", MAX_READ_CHARACTERS))
    texts = dict(heads.values_list("pk", "head"))
    rows = list[SplitDifference]()
    for task in tasks:
        how = "taken out here"
        if task in originals:
            how = "edited here"
        elif task in own:
            how = "moved to another place here" if task in removed_ids else "added here"
        line = task_line(split.environment, texts[task])
        name = names[task, split.pk]
        rows.append(SplitDifference(task, name, line, how, originals.get(task)))
    return {"rows": rows, "is_more": is_more, "removed": len(without_place)}
