"""Admin pages of removals: the list, and the page that deletes episodes. It shows what would go,
asks for a reason, and deletes, as a job if many go.

The episodes are those of a filter, as in the addresses of the Episodes page, or single ones by
number.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import DELETION
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse

from environments.access.privacy import viewer_of
from environments.admin.base import ReadOnlyAdmin, author_of, note
from environments.admin.job_page import job_url
from environments.database import background_jobs
from environments.database.storable import id_in
from environments.errors import OrsError
from environments.filtering.parameters import refuse_blanks
from environments.models import Viewer
from episodes.filtering.conditions import NamedRows, refuse_all
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode, Removal
from episodes.removal.batch import ids_of, new_removal, remove_all
from episodes.removal.pace import MAX_EPISODES
from episodes.removal.plan import RemovalPlan, count_of, plan_of


def removal_view(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """Return the page that deletes episodes; once it is confirmed, a redirect to the list, or to
    the page of the job.

    `context` is that of every admin page.
    """
    values = request.POST if request.method == "POST" else request.GET
    query, number = values.get("query", "").strip().removeprefix("?"), values.get("episode", "")
    plan, trouble = None, ""
    try:
        if query or number:
            episodes = _episodes(query, number, viewer_of(request.user))
            plan = plan_of(episodes)
            is_confirmed = values.get("confirm") == _mark(plan)
            if plan.episodes and request.method == "POST" and is_confirmed:
                return _remove(request, episodes, plan, query or f"episode {number}")
    except OrsError as refusal:
        trouble = str(refusal)
    context |= {
        "title": "Delete episodes",
        "query": query,
        "episode": number,
        "plan": plan,
        "trouble": trouble,
        "mark": _mark(plan) if plan else "",
        "reason": values.get("reason", ""),
    }
    status = 400 if trouble else 200
    return TemplateResponse(request, "episodes/admin_removal.html", context, status=status)


def _episodes(query: str, number: str, viewer: Viewer) -> QuerySet[Episode]:
    """Return the episodes of a filter, or the one with a number. Raises: OrsError."""
    if number and query:
        raise OrsError(f"episode={number[:40]!r} and a filter are given. Give one of the two.")
    if number:
        if (pk := id_in(number)) is None:
            raise OrsError(
                f"episode={number[:40]!r} cannot be used: it has to be the number of an episode."
            )
        return Episode.objects.seen_by(viewer).filter(pk=pk)
    values = QueryDict(query)
    refuse_blanks(values)
    filters = EpisodeFilter.parse(values, viewer=viewer)
    refuse_all(filters, f"The filter {query!r} would delete every episode.")
    filters.refuse_future()
    rows = NamedRows.of(filters)
    if rows.unknown:
        raise OrsError(rows.unknown)
    return rows.episodes(most_texts=None)


def _mark(plan: RemovalPlan) -> str:
    """Return what a confirmation has to contain: that of a plan which no longer holds shows the new
    plan instead."""
    return f"{plan.episodes}-{plan.first}-{plan.last}"


def _remove(
    request: HttpRequest, episodes: QuerySet[Episode], plan: RemovalPlan, query: str
) -> HttpResponse:
    author, reason = author_of(request), request.POST.get("reason", "").strip()
    removal = new_removal(author, reason, query)
    words = f"Deleted {count_of(plan.episodes)} ({query})."
    if reason:
        words += f" Reason: {reason}"
    note(request.user.pk, removal, words, DELETION)

    def work(progress: background_jobs.Progress) -> str:
        ids = ids_of(episodes)
        result = remove_all(removal, ids, lambda count: progress(count, plan.episodes))
        return f"{count_of(result.episodes)} deleted."

    back = reverse("admin:episodes_episode_changelist")
    if plan.episodes > MAX_EPISODES:
        job = background_jobs.start(f"Delete {count_of(plan.episodes)}", work, owner=author)
        return HttpResponseRedirect(job_url(job.id, back))
    messages.success(request, work(background_jobs.silent))
    return HttpResponseRedirect(back)


@admin.register(Removal)
class RemovalAdmin(ReadOnlyAdmin):
    is_about_all = True
    list_display = ("created", "count", "steps", "author", "query", "reason", "state")
    list_display_links = None
    empty = "No episode was removed."

    @admin.display(description="episodes")
    def count(self, row: Removal) -> str:
        return f"{row.episodes:,}"

    @admin.display(description="state")
    def state(self, row: Removal) -> str:
        return "done" if row.ended else "running or stopped"
