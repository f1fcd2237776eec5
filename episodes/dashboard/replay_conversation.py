"""Parts of the replay that concern the model's messages: the rest of a long gap, and how many have
arrived."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.filtering.addresses import takes
from episodes.dashboard.replay import find, number
from episodes.models import Episode
from episodes.transcript.first_load_budget import window_html
from episodes.transcript.timeline import TAIL, Timeline, hidden_items, timeline_of
from episodes.uploads.matching import rollout_of


@require_safe
@never_cache
@takes("step", "skip")
def messages(request: HttpRequest, pk: int) -> HttpResponse:
    """Return messages of a long gap before the step `step`, or after the last one, from the message
    `skip` on."""
    episode = find(pk)
    timeline = _timeline(episode)
    step = TAIL if request.GET.get("step") == str(TAIL) else number(request, "step")
    skip = number(request, "skip")
    window = window_html(hidden_items(timeline, step, skip), {"episode": episode})
    if "HX-Request" in request.headers:
        return HttpResponse(window)
    return render(request, "episodes/replay_messages.html", {"episode": episode, "window": window})


@require_safe
@never_cache
@takes()
def message_count(request: HttpRequest, pk: int) -> HttpResponse:
    """Return how many messages have arrived, as JSON: {"rollout": id or null, "messages":
    number}."""
    if (match := rollout_of(find(pk))) is None:
        return JsonResponse({"rollout": None, "messages": 0})
    rollout = match[0]
    return JsonResponse({"rollout": rollout.event_id, "messages": rollout.messages.count()})


@require_safe
@never_cache
@takes()
def rollout_line(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the line about the rollout, for a page that follows an episode."""
    episode = find(pk)
    context = {"episode": episode, "timeline": timeline_of(episode)}
    return render(request, "episodes/replay_rollout.html", context)


@require_safe
@never_cache
@takes()
def message(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """Redirect to the place of the uploaded message with this id: before a step, or after the last
    one."""
    timeline = _timeline(find(pk))
    if number not in timeline.order:
        raise Http404(f"Episode {pk} has no message {number}. The replay shows those it has.")
    step = next((step for step, gap in timeline.gaps.items() if number in gap), TAIL)
    step = max(timeline.steps.values(), default=0) if step == TAIL else step
    return redirect(f"{reverse('episode', args=[pk])}?step={step}#message-{number}")


@require_safe
@never_cache
@takes()
def conversation(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect from an episode to the rollout that its client uploaded."""
    return redirect("rollout", _timeline(find(pk)).rollout.event_id)


def _timeline(episode: Episode) -> Timeline:
    timeline = timeline_of(episode)
    if timeline is None:
        sentence = f"No client has uploaded the conversation of episode {episode.pk}."
        raise Http404(f"{sentence} docs/uploads.md explains how to upload one.")
    return timeline
