"""Going through the tasks of a list one after the other, on the page of each, with the filters of
the list kept.

The address of a task's page has the list's query string in `list`, and in `at` where the task is in
it. Both stay in all addresses below the page, so that an action comes back to the same place, or
goes on to the next task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from environments.curation.admin.bulk import LIST_PARAMETERS, selection_of
from environments.curation.admin.tasks_by_figure import batch_of, check_cursor
from environments.curation.selection import Count
from environments.filtering.parameters import BadFilter

MAX_SECONDS = 0.1
"""Longest search for the next tasks; after that the list says more."""
MAX_FOLLOWING = 1000
"""Following tasks that are counted."""


@dataclass(frozen=True, slots=True)
class ReviewStep:
    """Where a task is in the list that its page was opened from."""

    query: str
    """Query string that keeps the list and the place in it."""
    listing: str
    """Address of the list."""
    previous: str
    """Address of the page of the task before; empty: there is none."""
    next: str
    following: Count
    """Tasks after this one."""


def review_of(request: HttpRequest) -> ReviewStep | None:
    """Return the step of a review that the address names; None: the page was not opened from a
    list.

    Raises: BadRequest.
    """
    at, query = request.GET.get("at", ""), request.GET.get("list", "")
    if not at and query:
        raise BadFilter("list", query, "the address has no at, the place of the task in that list")
    if not at:
        return None
    selection = selection_of(request, QueryDict(query).dict(), also=LIST_PARAMETERS)
    check_cursor(selection, "at", at)
    listing = reverse("admin:environments_task_changelist")
    before = batch_of(selection, at, 1, backward=True, seconds=MAX_SECONDS)
    after = batch_of(selection, at, MAX_FOLLOWING, backward=False, seconds=MAX_SECONDS)
    return ReviewStep(
        query=urlencode({"list": query, "at": at}),
        listing=f"{listing}?{query}" if query else listing,
        # the other end of a batch is where the search stopped
        previous=_step(query, before.ids, before.last),
        next=_step(query, after.ids, after.first),
        following=Count(len(after.ids), after.is_last),
    )


def task_url(task: int, query: str = "") -> str:
    """Return the address of a task's page. `query`: that of a review."""
    path = reverse("admin:environments_task_change", args=[task])
    return f"{path}?{query}" if query else path


def _step(query: str, ids: Sequence[int], at: str) -> str:
    return task_url(ids[0], urlencode({"list": query, "at": at})) if ids else ""
