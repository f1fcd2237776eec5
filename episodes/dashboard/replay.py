"""The replay of one episode. The page shows a window of its steps and fetches the others as the
reader scrolls."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from environments.access.permissions import PLAY, WRITE_NOTES, may_open_admin
from environments.access.privacy import viewer_of
from environments.display import parts
from environments.features import url_of_page
from environments.filtering.addresses import takes
from environments.filtering.parameters import count_in, definition_in, given
from environments.runtime.records import mistaken_labels
from environments.scoring.definition import DEFINITION_PARAMETERS, definition_of
from episodes.browsing.task_lines import name_tasks
from episodes.dashboard.guards import row_or_404
from episodes.dashboard.replay_side import MAX_SHOWN_CHARACTERS, prompt_of, side_of
from episodes.dashboard.view_parameters import definition_context, return_in
from episodes.models import Episode, Play
from episodes.transcript.cards import NoSuchPart, UnknownKind, card_of, message_card_at
from episodes.transcript.find_text import MAX_FOUND, steps_with
from episodes.transcript.first_load_budget import PageBudget, window_html
from episodes.transcript.peers import peers_of, with_neighbours
from episodes.transcript.step_html import step_html
from episodes.transcript.steps import (
    MAX_WHOLE_BYTES,
    MAX_WHOLE_CHARACTERS,
    Transcript,
    TranscriptView,
    line_of,
    return_so_far,
    step_columns,
    transcript_of,
)
from episodes.transcript.timeline import Item, items_of, steps_near, timeline_of

WINDOW_STEPS = 20
"""Steps that a page is sent with, as far as they fit."""
PAGE_BYTES, MIN_WINDOW_BYTES = 135_000, 40_000
"""Size of what an episode adds to the page that is sent at first, and of that what steps get at
least. The frame, the heads of 20 steps, styles and scripts add up to 110 KB, so that every first
load takes less than 250 KB.
"""
MAX_STEPS = 10**9
"""Larger step numbers in an address are reduced to this; no episode has so many steps."""

_RELATED = ("split", "task", "run", "play", "revision")
MAX_CONTINUATIONS = 20


@require_safe
@never_cache
@takes("step", *DEFINITION_PARAMETERS)
def replay(request: HttpRequest, pk: int) -> HttpResponse:
    rows = Episode.objects.select_related(*_RELATED, "prompt", "tools")
    episode = find(pk, with_neighbours(rows, viewer_of(request.user)))
    name_tasks([episode])
    definition = return_in(request, episode.environment)
    transcript = transcript_of(episode, number(request, "step"), window(definition))
    budget = PageBudget(PAGE_BYTES)
    context = {
        **_peers(request, episode),
        **facts(episode, definition),
        "transcript": transcript,
        "selected_step": number(request, "step") if request.GET.get("step") else None,
        **prompt_of(episode, budget),
        "continuations": Play.objects.filter(parent=episode)
        .select_related("episode")
        .order_by("-pk")[:MAX_CONTINUATIONS],
        "mistaken": mistaken_labels_of(episode),
        "author": request.user.get_username(),
        **side_of(request, episode, definition, budget),
    }
    context |= _window(request, episode, transcript, max(budget.left, MIN_WINDOW_BYTES))
    return render(request, "episodes/replay.html", context)


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS)
def headline(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the current headline, for a page that follows a running episode."""
    episode = find(
        pk, Episode.objects.select_related(*_RELATED).defer("task__spec", "task__folded")
    )
    definition = return_in(request, episode.environment)
    return render(request, "episodes/replay_headline.html", facts(episode, definition))


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS)
def peers(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the box about other episodes of the task, for a page that followed the episode to its
    end."""
    episode = find(pk)
    context = {"episode": episode, **_peers(request, episode)}
    return render(request, "episodes/replay_peers.html", context)


@require_safe
@never_cache
@takes()
def about(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the facts about the whole episode, for a page that follows it."""
    episode = find(
        pk, Episode.objects.select_related(*_RELATED).defer("task__spec", "task__folded")
    )
    name_tasks([episode])
    context = {"episode": episode, "labels": episode.labels_object.items()}
    return render(request, "episodes/replay_facts.html", context)


@require_safe
@never_cache
@takes("first", "return")
def steps(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the window of steps that holds step `first`."""
    episode = find(pk, Episode.objects.select_related("prompt"))
    definition = return_in(request, episode.environment)
    transcript = transcript_of(episode, number(request, "first"), window(definition))
    return HttpResponse(_window(request, episode, transcript)["window"])


@require_safe
@never_cache
@takes("part", "as", "return")
def step(request: HttpRequest, pk: int, index: int) -> HttpResponse:
    """Return one step, each text up to MAX_WHOLE_CHARACTERS; with `part` and `as`, one text shown
    as another kind."""
    episode = find(pk)
    definition = return_in(request, episode.environment)
    view = TranscriptView(1, definition, MAX_WHOLE_CHARACTERS, MAX_WHOLE_BYTES, MAX_WHOLE_BYTES)
    line = line_of(episode, index, view)
    if line is None:
        raise Http404(f"Episode {pk} has no step {index}. The replay shows the steps it has.")
    card = card_of(line)
    context: dict[str, Any] = {"episode": episode, "definition": definition, "card": card}
    if "part" in request.GET:
        sides = {"input": line.input, "output": line.output}
        return _part(request, sides, context | {"index": index})
    if "HX-Request" in request.headers:
        context |= {**_allowed_actions(request, episode), "is_open": True}
        return HttpResponse(step_html(card, context))
    return render(request, "episodes/replay_step.html", context | {"is_alone": True})


@require_safe
@never_cache
@takes("part", "as")
def prompt(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the text of the prompt that `part` and `as` select; without them the whole prompt."""
    episode = find(pk, Episode.objects.select_related("prompt"))
    if "part" not in request.GET:
        context = {"episode": episode, **prompt_of(episode)}
        return render(request, "episodes/replay_prompt.html", context)
    text = episode.prompt.text if episode.prompt else ""
    sides = {"prompt": parts.prompt(text, MAX_WHOLE_CHARACTERS)}
    return _part(request, sides, {"episode": episode})


@require_safe
@never_cache
@gzip_page  # nothing of the request is in it, so its size betrays nothing
@takes("first")
def rail(request: HttpRequest, pk: int) -> HttpResponse:
    return JsonResponse(step_columns(find(pk), number(request, "first")))


@require_safe
@never_cache
@takes("text")
def find_text(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the steps that contain `text`, also in the messages before them, as JSON: {"steps": …,
    "is_all": bool}."""
    text = request.GET.get("text", "").replace("\0", "")[:200]
    if not text:
        return JsonResponse({"steps": [], "is_all": True})
    episode = find(pk)
    result, timeline = steps_with(episode, text), timeline_of(episode)
    in_messages = steps_near(timeline, text, MAX_FOUND) if timeline else ()
    steps = sorted({*result.steps, *in_messages})[:MAX_FOUND]
    return JsonResponse({"steps": steps, "is_all": result.is_all})


# --- what the views share -------------------------------------------------------------------------


def find(pk: int, episodes: QuerySet[Episode] | None = None) -> Episode:
    """Return the episode with its environment. Raises: Http404."""
    rows = Episode.objects.all() if episodes is None else episodes
    return row_or_404(rows.select_related("environment"), pk)


def number(request: HttpRequest, name: str) -> int:
    """Return a parameter that is a number of steps, up to MAX_STEPS; 0 if it is absent. Raises:
    BadRequest."""
    return min(given(request.GET, name, count_in) or 0, MAX_STEPS)


def window(definition: str) -> TranscriptView:
    return TranscriptView(WINDOW_STEPS, definition, MAX_SHOWN_CHARACTERS)


def _window(
    request: HttpRequest, episode: Episode, transcript: Transcript, most: int | None = None
) -> dict[str, Any]:
    """Return the steps with the messages between them as `window`, and the `timeline`, None without
    any.

    `most`: bytes of HTML after which the rest is left out.
    """
    timeline, items = timeline_of(episode), list[Item](transcript.lines)
    if timeline is not None:
        prompt = (
            parts.prompt(episode.prompt.text) if episode.prompt and not transcript.first else []
        )
        text = "\n".join(part.text for part in prompt if part.kind != "image")
        is_end = transcript.next is None
        items = items_of(timeline, transcript.lines, has_tail=is_end, prompt=text)
    options = {
        "episode": episode,
        "definition": return_in(request, episode.environment),
        **_allowed_actions(request, episode),
    }
    return {"window": window_html(items, options, most), "timeline": timeline}


def facts(episode: Episode, definition: str) -> dict[str, Any]:
    """Return the template variables of the headline and the frame."""
    is_running = episode.status == "running"
    return {
        "episode": episode,
        "definition": definition,
        "own_definition": episode.environment.default_return,
        "value": return_so_far(episode, definition) if is_running else episode.returns[definition],
        "window_steps": WINDOW_STEPS,
    }


def mistaken_labels_of(episode: Episode) -> dict[str, str]:
    """Return the labels that look like a fact of the run that the episode lacks, each with that
    field of the run."""
    facts = {"run": episode.run_id, "step": episode.run_step, "model": episode.model or None}
    missing = [field for field, value in facts.items() if value is None]
    return mistaken_labels(episode.labels_object, missing)


def _peers(request: HttpRequest, episode: Episode) -> dict[str, Any]:
    """Return the template variables of the other attempts, and of the menu of definitions. Raises:
    BadFilter."""
    definition = definition_of(episode.environment, definition_in(request.GET))
    peers = peers_of(episode, definition, viewer_of(request.user))
    return {"peers": peers, **definition_context(definition, episode.environment)}


def _part(
    request: HttpRequest, sides: dict[str, list[parts.Part]], context: dict[str, Any]
) -> HttpResponse:
    """Return the text of a step or prompt that the address selects. Raises: Http404."""
    try:
        card = message_card_at(sides, request.GET.get("part", ""), request.GET.get("as", ""))
    except UnknownKind as error:
        raise BadRequest(str(error)) from None
    except NoSuchPart as error:
        raise Http404(str(error)) from None
    context |= {"one": card, "source": request.path}
    if "HX-Request" in request.headers:
        return render(request, "episodes/content_block.html", context | {"is_open": True})
    return render(request, "episodes/replay_part.html", context | {"is_alone": True})


def _allowed_actions(request: HttpRequest, episode: Episode) -> dict[str, bool]:
    """Return what the reader can do at a step, as template variables."""
    may_redact = may_open_admin(request.user) and request.user.has_perm("episodes.add_redaction")
    can_continue = episode.status == "ended" and episode.environment.is_hosted

    def may_open(page: str, permission: str) -> bool:
        return bool(url_of_page(page, episode.pk)) and request.user.has_perm(permission)

    return {
        "may_note": may_open("notes", WRITE_NOTES),
        "may_continue": can_continue and may_open("continue", PLAY),
        "may_redact": may_redact,
    }
