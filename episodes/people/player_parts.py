"""Parts that the player's page requests after it has loaded: steps, texts shown as another kind,
images, JSON.

Only the person who plays gets them. While a blind play runs, they contain no rewards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_safe

from environments.display import parts
from environments.filtering.addresses import takes
from episodes.models import Step
from episodes.people.play_facts import PlayFacts, facts_of
from episodes.people.play_steps import cards, step_context
from episodes.people.player_identity import PlayerSeat, seated
from episodes.transcript.cards import NoSuchPart, UnknownKind, image_response, message_card_at
from episodes.transcript.step_html import step_html
from episodes.transcript.steps import MAX_WHOLE_BYTES, MAX_WHOLE_CHARACTERS, TranscriptView, line_of
from episodes.transcript.steps import step_json as json_of_step


def play_or_404(pk: int, seat: PlayerSeat) -> PlayFacts:
    """Return the facts of the play of episode `pk`. Raises: Http404 if `seat` does not play it."""
    facts = facts_of(pk, seat)
    if facts is None:
        raise Http404(
            f"You haven't played an episode {pk}. The Play page lists the episodes that "
            "you've played."
        )
    return facts


@require_safe
@never_cache
@seated
@takes("part", "as")
def step(request: HttpRequest, seat: PlayerSeat, pk: int, index: int) -> HttpResponse:
    """Return one step with long texts; with `part` and `as`, one of its texts shown as another
    kind."""
    facts = play_or_404(pk, seat)
    view = TranscriptView(
        1, facts.definition, MAX_WHOLE_CHARACTERS, MAX_WHOLE_BYTES, MAX_WHOLE_BYTES
    )
    line = line_of(facts.episode, index, view)
    if line is None:
        raise Http404(f"Episode {pk} has no step {index}.")
    if "part" in request.GET:
        return _part(request, {"input": line.input, "output": line.output})
    card = cards(facts, [line])[0]
    if "HX-Request" in request.headers:
        return HttpResponse(step_html(card, {**step_context(facts), "is_open": True}))
    context = {**step_context(facts), "card": card, "seat": seat, "is_alone": True}
    return render(request, "people/step.html", context)


@require_safe
@never_cache
@seated
@takes("part", "as")
def prompt(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    """Return one text of the prompt, `part`, shown as the kind `as`."""
    return _part(
        request, {"prompt": parts.prompt(_prompt_text(play_or_404(pk, seat)), MAX_WHOLE_CHARACTERS)}
    )


@require_safe
@cache_control(private=True, max_age=3600)
@seated
@takes()
def prompt_image(request: HttpRequest, seat: PlayerSeat, pk: int, number: int) -> HttpResponse:
    return image_response(parts.prompt(_prompt_text(play_or_404(pk, seat))), number)


@require_safe
@cache_control(private=True, max_age=3600)
@seated
@takes()
def image(request: HttpRequest, seat: PlayerSeat, pk: int, index: int, number: int) -> HttpResponse:
    """Return the image in block `number` of a step's output. Browsers may cache it, because steps
    never change."""
    output = parts.read_json(_row(play_or_404(pk, seat), index).output_json or "{}")
    blocks = output.get("blocks") if isinstance(output, dict) else None
    return image_response(parts.blocks(blocks or []), number)


@require_safe
@never_cache
@seated
@takes()
def step_json(request: HttpRequest, seat: PlayerSeat, pk: int, index: int) -> HttpResponse:
    """Return everything that is recorded of a step. A blind play has to end first."""
    facts = play_or_404(pk, seat)
    if facts.is_plain:
        raise Http404("Guests don't see the record of a step.")
    if facts.is_blind:
        raise Http404(
            "Rewards and the record of a step are hidden until this blind play has ended."
        )
    return HttpResponse(json_of_step(_row(facts, index)), content_type="application/json")


def _row(facts: PlayFacts, index: int) -> Step:
    steps = Step.objects.select_related("input_blob", "output_blob")
    step = steps.filter(episode=facts.episode, index=index).first()
    if step is None:
        raise Http404(f"Episode {facts.episode.pk} has no step {index}.")
    return step


def _prompt_text(facts: PlayFacts) -> str:
    return facts.episode.prompt.text if facts.episode.prompt else ""


def _part(request: HttpRequest, sides: Mapping[str, Sequence[parts.Part]]) -> HttpResponse:
    try:
        card = message_card_at(sides, request.GET.get("part", ""), request.GET.get("as", ""))
    except UnknownKind as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain; charset=utf-8")
    except NoSuchPart as error:
        raise Http404(str(error)) from None
    context: dict[str, Any] = {"one": card, "source": request.path, "is_open": True}
    return render(request, "episodes/content_block.html", context)
