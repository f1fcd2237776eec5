"""Shown: the steps of a play as HTML, in the order of the record, and what they amount to. Blocking: run on `threads`.

In blind mode nothing that tells of a reward is handed to a template.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from django.template.loader import render_to_string

from episodes.cards import Card, cards_of
from episodes.models import Episode
from episodes.playtest.facts import Facts
from episodes.playtest.outcome import outcome_of
from episodes.running import Running
from episodes.transcript import Line, View, lines_after, lines_at

MOST_STEPS = 200
"""The newest, on a page."""
SHOWN_CHARACTERS = 4_000
"""Of one text; all of it is one click away."""


@dataclass(frozen=True, slots=True)
class ToldStep:
    index: int
    task_id: str
    html: str
    """Empty where nobody looks on."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How far the tabs have been told."""

    last: int = -1
    """Index of the last step."""
    counted: int = 0
    """Steps that ran; refused ones are not counted."""
    is_finished: bool = False
    running: Running = field(default_factory=Running)

    def grown(self, facts: Facts, is_seen: bool) -> tuple[Shown, list[ToldStep]]:
        """With the steps that were recorded since, and these."""
        running = self.running.copy() if self.last >= 0 else Running(facts.definition)
        lines = lines_after(facts.episode, self.last, running, view_of(facts))
        if not lines:
            return self, []
        told = [_told(facts, line, is_seen) for line in lines]
        counted = self.counted + sum(line.step.status != "refused" for line in lines)
        is_finished = self.is_finished or any(line.step.finished for line in lines)
        return Shown(told[-1].index, counted, is_finished, running), told


def view_of(facts: Facts) -> View:
    return View(MOST_STEPS, facts.definition, SHOWN_CHARACTERS)


def steps_html(facts: Facts, after: int, last: int) -> str:
    """Steps after index `after` up to `last`; of many the newest."""
    first = max(after + 1, last + 1 - MOST_STEPS)
    if first > last:
        return ""
    return "".join(
        card_html(facts, card) for card in cards(facts, lines_at(facts.episode, first, last + 1, view_of(facts)))
    )


def cards(facts: Facts, lines: Iterable[Line]) -> list[Card]:
    return cards_of(_blinded(line) if facts.is_blind else line for line in lines)


def card_html(facts: Facts, card: Card) -> str:
    return render_to_string("episodes/step_card.html", {"card": card, **step_context(facts)})


def step_context(facts: Facts) -> dict[str, Any]:
    """What the partials of a step need beside the step."""
    return {
        "episode": facts.episode,
        "definition": facts.definition,
        "base": facts.base,
        "is_blind": facts.is_blind,
        "may_note": True,
    }


def ending_html(pk: int) -> str:
    related = ("environment", "split", "task", "play")
    episode = Episode.objects.select_related(*related).get(pk=pk)
    return render_to_string("playtest/outcome.html", outcome_of(episode))


def _told(facts: Facts, line: Line, is_seen: bool) -> ToldStep:
    html = card_html(facts, cards(facts, [line])[0]) if is_seen else ""
    return ToldStep(line.step.index, line.step.task_id, html)


def _blinded(line: Line) -> Line:
    line.step.reward = None
    return replace(line, metadata="", components=[], raw="", running=None)
