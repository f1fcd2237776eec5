"""Shown: the steps of a play as HTML, in the order of the record, and what they amount to.

A short step that was just recorded is shown as it comes (`with_step`, under a millisecond, on the event loop). All else
is read from the record, which blocks and so runs on `threads`.

In blind mode nothing that tells of a reward is handed to a template.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.template.loader import render_to_string

from environments.runtime.records import StepTaken
from episodes.attempts.return_so_far import ReturnSoFar
from episodes.models import Episode
from episodes.playtest.play_facts import PlayFacts, content_of, outcome_of
from episodes.recording.batch import step_of
from episodes.transcript.cards import Card, cards_of
from episodes.transcript.step_html import step_html
from episodes.transcript.steps import StepLine, TranscriptView, line_after, lines_after, lines_at

MAX_STEPS = 200
"""The newest, on a page."""
SHOWN_CHARACTERS = 4_000
"""Of one text; all of it is one click away."""
SHORT_CHARACTERS = 2_000
"""Of a step's input and output together: of more the colours alone may take longer than the loop can spare."""


@dataclass(frozen=True, slots=True)
class ToldStep:
    index: int
    task_id: str
    html: str
    """Empty where nobody looks on."""


@dataclass(frozen=True, slots=True)
class ToldSteps:
    """How far the tabs have been told."""

    last: int = -1
    """Index of the last step."""
    counted: int = 0
    """Steps that ran; refused ones are not counted."""
    is_finished: bool = False
    so_far: ReturnSoFar = field(default_factory=ReturnSoFar)

    def grown(self, facts: PlayFacts, is_seen: bool) -> tuple[ToldSteps, list[ToldStep]]:
        """With the steps that were recorded since, and these."""
        so_far = self._so_far(facts)
        lines = lines_after(facts.episode, self.last, so_far, view_of(facts))
        return self._with(facts, lines, so_far, is_seen)

    def is_next(self, row: StepTaken) -> bool:
        """Whether `with_step` may be asked: nothing came between, and it does not take long to show."""
        return (
            row.index == self.last + 1 and len(row.input_json) + len(row.output_json or row.error) <= SHORT_CHARACTERS
        )

    def with_step(self, facts: PlayFacts, row: StepTaken) -> tuple[ToldSteps, ToldStep]:
        """With a step that was just recorded, and this. Asks no database."""
        so_far = self._so_far(facts)
        shown, told = self._with(facts, [line_after(step_of(row), so_far, view_of(facts))], so_far, True)
        return shown, told[0]

    def _so_far(self, facts: PlayFacts) -> ReturnSoFar:
        """The return so far, to be added to."""
        return self.so_far.copy() if self.last >= 0 else ReturnSoFar(facts.definition)

    def _with(
        self, facts: PlayFacts, lines: Sequence[StepLine], so_far: ReturnSoFar, is_seen: bool
    ) -> tuple[ToldSteps, list[ToldStep]]:
        if not lines:
            return self, []
        told = [_told(facts, line, is_seen) for line in lines]
        counted = self.counted + sum(line.step.status != "refused" for line in lines)
        is_finished = self.is_finished or any(line.step.finished for line in lines)
        return ToldSteps(told[-1].index, counted, is_finished, so_far), told


def view_of(facts: PlayFacts) -> TranscriptView:
    return TranscriptView(MAX_STEPS, facts.definition, SHOWN_CHARACTERS)


def steps_html(facts: PlayFacts, after: int, last: int) -> str:
    """Steps after index `after` up to `last`; of many the newest."""
    first = max(after + 1, last + 1 - MAX_STEPS)
    if first > last:
        return ""
    return "".join(
        card_html(facts, card) for card in cards(facts, lines_at(facts.episode, first, last + 1, view_of(facts)))
    )


def cards(facts: PlayFacts, lines: Iterable[StepLine]) -> list[Card]:
    return cards_of(_blinded(line) if facts.is_blind else line for line in lines)


def card_html(facts: PlayFacts, card: Card) -> str:
    return step_html(card, step_context(facts))


def step_context(facts: PlayFacts) -> dict[str, Any]:
    """How the page shows steps; see `step_cards.Ways`."""
    return {
        "episode": facts.episode,
        "definition": facts.definition,
        "base": facts.base,
        "is_blind": facts.is_blind,
        "may_note": True,
    }


def ending_of(pk: int) -> dict[str, Any]:
    """The message that tells a tab how the play ended, with the task's fields, which it was not told before."""
    related = ("environment", "split", "task", "play")
    episode = Episode.objects.select_related(*related).get(pk=pk)
    html = render_to_string("playtest/outcome.html", outcome_of(episode))
    return {"type": "ended", "html": html, "content": render_to_string("playtest/task_content.html", content_of(episode))}


def _told(facts: PlayFacts, line: StepLine, is_seen: bool) -> ToldStep:
    html = card_html(facts, cards(facts, [line])[0]) if is_seen else ""
    return ToldStep(line.step.index, line.step.task_id, html)


def _blinded(line: StepLine) -> StepLine:
    line.step.reward = None
    return replace(line, metadata="", components=[], raw="", running=None)
