"""Uploaded conversations: the list with its filters, and the page of one, with its messages and the
steps of its episode."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.database.storable import storable
from environments.filtering.addresses import takes
from environments.models import Environment
from episodes.browsing.rollout_list import RolloutListQuery
from episodes.browsing.task_lines import name_tasks_of_rollouts
from episodes.dashboard.guards import refused_blind
from episodes.dashboard.replay import number
from episodes.filtering.names import models_of_rollouts, runs
from episodes.filtering.rollouts import JOINED, RolloutFilter
from episodes.models import Rollout
from episodes.search.snippets import snippets_of_rollouts
from episodes.transcript.first_load_budget import window_html
from episodes.transcript.timeline import items_of_messages, placed
from episodes.uploads.matching import EpisodeMatch, match_of
from episodes.uploads.rollout_figures import with_current_figures
from episodes.uploads.usage import Usage, usage_of_rollout
from episodes.visibility import blind_to, is_blind_to, sees_episode

PAGE_MESSAGES = 100
JOINED_LABELS = {
    "yes": "with an episode",
    "guess": "uncertain match",
    "no": "without an episode",
}


@require_safe
@never_cache
@takes(*RolloutFilter.parameters(), "after")
def rollouts(request: HttpRequest) -> HttpResponse:
    """Return the list, newest first. Raises: BadFilter."""
    viewer = viewer_of(request.user)
    query = RolloutListQuery.parse(request.GET, viewer)
    filters, page = query.filter, query.result(list(blind_to(request.user)))
    name_tasks_of_rollouts(page.rollouts)
    snippets = snippets_of_rollouts(page.rollouts, filters.text)
    context = {
        "filter": filters,
        "rollouts": [(row, snippets.get(row.pk)) for row in page.rollouts],
        "has_usage": any(
            figure is not None
            for row in page.rollouts
            for figure in (row.input_tokens, row.output_tokens, row.cost)
        ),
        "search_note": page.note,
        "is_first": query.after is None,
        "first": filters.to_query(),
        "next": filters.to_query(after=page.next) if page.next else "",
        "environments": list(Environment.objects.seen_by(viewer).values_list("name", flat=True)),
        "runs": runs(viewer),
        "models": models_of_rollouts(viewer),
        "joined": [(choice, JOINED_LABELS[choice]) for choice in JOINED],
    }
    return render(request, "episodes/rollouts.html", context)


@require_safe
@never_cache
@takes("from")
def rollout_page(request: HttpRequest, event_id: str) -> HttpResponse:
    """Show a page of messages of the conversation with this id, from message `from` on.

    If clients with several keys used the id, it is the newest.
    """
    rows = Rollout.objects.seen_by(viewer_of(request.user))
    rows = rows.select_related("run", "event_blob", "episode__split")
    rollout = rows.filter(event_id=storable(event_id)).order_by("-pk").first()
    match = match_of(rollout) if rollout else None
    if rollout is None or (match and not sees_episode(request.user, match.episode.pk)):
        raise Http404(
            f"There is no conversation {event_id[:200]}. Its client may still be uploading it."
        )
    if match is not None and is_blind_to(request.user, match.episode.pk):
        return refused_blind(request, match.episode.pk)
    context = _context(rollout, match, number(request, "from"))
    name = "rollout_messages" if request.headers.get("HX-Request") else "rollout"
    return render(request, f"episodes/{name}.html", context)


@require_safe
@takes()
def rollout_link(request: HttpRequest, event_id: str) -> HttpResponse:
    """Redirect from the address that the recorder prints to the page of the conversation."""
    return redirect("rollout", event_id)


def _context(rollout: Rollout, match: EpisodeMatch | None, first: int) -> dict[str, Any]:
    timeline = placed(rollout, match)
    count = len(timeline.order)
    first = min(first, max(0, count - 1)) // PAGE_MESSAGES * PAGE_MESSAGES
    following = first + PAGE_MESSAGES
    with_current_figures([rollout])
    name_tasks_of_rollouts([rollout])
    episode = match.episode if match else None
    definition = episode.environment.default_return if episode else "sum"
    items = items_of_messages(timeline, first, PAGE_MESSAGES)
    is_final = rollout.is_summarised and rollout.has_usage
    facts = dict[str, Any]()
    for name in ("metadata", "run_info"):
        if isinstance(part := rollout.event_object.get(name), dict):
            facts |= part
    return {
        "rollout": rollout,
        "timeline": timeline,
        "messages": window_html(items, {"episode": episode, "definition": definition}),
        "episode": episode,
        "match": match,
        "definition": definition,
        # stored figures, or those of the messages that have arrived so far
        "usage": rollout if is_final else usage_of_rollout(rollout) or Usage(),
        "facts": sorted((facts | rollout.info_object).items()),
        "first": first,
        "last": min(following, count) - 1,
        "count": count,
        "previous": max(0, first - PAGE_MESSAGES) if first else None,
        "next": following if following < count else None,
        "end": (count - 1) // PAGE_MESSAGES * PAGE_MESSAGES if count else 0,
    }
