"""The page on which a person plays: the transcript so far and a composer for calls. The socket adds
what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.display import parts
from environments.filtering.addresses import takes
from environments.service import hand_controls
from episodes.browsing.task_lines import name_tasks
from episodes.people.agent_view import agent_view_of
from episodes.people.continuing.pages import continued_elsewhere, progress_of
from episodes.people.notes_and_flags import visible_flags
from episodes.people.play_facts import PlayFacts, content_of, deck_of_play, outcome_of
from episodes.people.play_steps import MAX_STEPS, cards, step_context, view_of
from episodes.people.player_identity import PlayerSeat, seated
from episodes.people.player_parts import play_or_404
from episodes.people.tools import forms_of, offered_tools
from episodes.transcript.cards import message_cards
from episodes.transcript.notes import notes_of
from episodes.transcript.steps import lines_at


@require_safe
@never_cache
@seated
@takes()
def player(request: HttpRequest, seat: PlayerSeat, pk: int) -> HttpResponse:
    facts = play_or_404(pk, seat)
    if (elsewhere := continued_elsewhere(request, facts)) is not None:
        return elsewhere
    episode = facts.episode
    progress = progress_of(facts)
    if progress is not None and progress.state != "done":
        return redirect("play_again", pk)
    if seat.guest is None:
        name_tasks([episode])
    tools = episode.tools.text if episode.tools else ""
    tools_offered, is_over = offered_tools(tools), episode.status != "running"
    by_hand, names = hand_controls(episode.environment.name), {tool.name for tool in tools_offered}
    context = {
        "seat": seat,
        "controls": [control.model_dump() for control in by_hand.controls if control.tool in names],
        "drawing": by_hand.drawing,
        "marks": [
            mark.model_dump() for mark in by_hand.marks if mark.tool in names and not is_over
        ],
        "play": facts.play,
        "again": progress,
        "is_over": is_over,
        **step_context(facts),
        **_transcript(facts),
        **content_of(episode),
        **_prompt(facts),
        "tools": [tool.to_message() for tool in tools_offered],
        "forms": [] if is_over else forms_of(tools, is_plain=facts.is_plain),
        "tool_parts": [] if facts.is_plain else parts.tools(tools),
        "agent_view": agent_view_of(episode.prompt.text, tools)
        if episode.prompt and not facts.is_plain
        else None,
        "notes": notes_of(episode, seat.author if seat.guest else None),
        "author": seat.author,
        "flags": visible_flags(seat, episode.task),
        **(outcome_of(episode) if is_over else {"deck": deck_of_play(facts.play)}),
    }
    return render(request, "people/player.html", context)


def _transcript(facts: PlayFacts) -> dict[str, Any]:
    """Return the context of the transcript: the newest steps."""
    last = facts.episode.steps.order_by("-index").values_list("index", flat=True).first()
    stop = 0 if last is None else last + 1
    first = max(0, stop - MAX_STEPS)
    lines = lines_at(facts.episode, first, stop, view_of(facts)) if stop else []
    return {"cards": cards(facts, lines), "earlier": first, "last": stop - 1}


def _prompt(facts: PlayFacts) -> dict[str, Any]:
    """Return the context of the prompt, which is None while the session starts and if it failed to
    start."""
    if facts.episode.prompt is None:
        return {"prompt": None, "is_prompt_long": False}
    prompt_cards = message_cards(parts.prompt(facts.episode.prompt.text), "prompt")
    if facts.is_plain:
        prompt_cards = [replace(card, label="", kinds=()) for card in prompt_cards]
    return {
        "prompt": prompt_cards,
        "is_prompt_long": any(card.is_long or card.html.count("\n") > 24 for card in prompt_cards),
    }
