"""The steps of a play as HTML, in the order of the record, and their count, return and end. For
player and socket.

A short step is rendered on the event loop right after it was recorded (`PlaySteps.with_step`, under
a millisecond). Everything else is read from the record, which blocks, so callers run it on
`reader_threads`.

In blind mode no template gets anything about rewards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from django.template.loader import render_to_string

from environments.display.visible import visible_html
from environments.runtime.records import StepTaken
from episodes.attempts.return_so_far import ReturnSoFar
from episodes.models import Episode, Play
from episodes.people.play_facts import PlayFacts, content_of, is_plain, outcome_of
from episodes.recording.batch import step_of
from episodes.transcript.cards import Card, cards_of
from episodes.transcript.step_html import step_html
from episodes.transcript.steps import StepLine, TranscriptView, line_after, lines_after, lines_at

MAX_STEPS = 200
"""Maximum number of steps on a page: the newest ones."""
MAX_SHOWN_CHARACTERS = 4_000
"""Characters of one text that are shown; a click loads the rest."""
MAX_QUICK_CHARACTERS = 2_000
"""Input and output of a step that is rendered on the event loop. Syntax colours of more would block
it too long."""


@dataclass(frozen=True, slots=True)
class PlayStep:
    """A step as it is sent to the tabs."""

    index: int
    task_id: str
    html: str
    """The step as HTML; empty when no tab is open."""


@dataclass(frozen=True, slots=True)
class PlaySteps:
    """The steps that the tabs of a play have received so far. Immutable; methods return the next
    state."""

    last: int = -1
    """Index of the last step that was sent; -1 before the first."""
    count: int = 0
    """Number of steps that ran; refused ones are not counted."""
    is_finished: bool = False
    so_far: ReturnSoFar = field(default_factory=ReturnSoFar)

    def with_recorded(self, facts: PlayFacts, is_watched: bool) -> tuple[PlaySteps, list[PlayStep]]:
        """Return the state after the steps that were recorded since, and these steps. Reads the
        record."""
        so_far = self._so_far(facts)
        lines = lines_after(facts.episode, self.last, so_far, view_of(facts))
        return self._with(facts, lines, so_far, is_watched)

    def is_next(self, row: StepTaken) -> bool:
        """Return whether `with_step` can render `row`: no step is missing before it, and rendering
        it is quick."""
        return (
            row.index == self.last + 1
            and len(row.input_json) + len(row.output_json or row.error) <= MAX_QUICK_CHARACTERS
        )

    def with_step(self, facts: PlayFacts, row: StepTaken) -> tuple[PlaySteps, PlayStep]:
        """Return the state after a step that was just recorded, and this step. Makes no query."""
        so_far = self._so_far(facts)
        after, steps = self._with(
            facts, [line_after(step_of(row), so_far, view_of(facts))], so_far, True
        )
        return after, steps[0]

    def _so_far(self, facts: PlayFacts) -> ReturnSoFar:
        """Return a copy of the return so far, to which rewards can be added."""
        return self.so_far.copy() if self.last >= 0 else ReturnSoFar(facts.definition)

    def _with(
        self, facts: PlayFacts, lines: Sequence[StepLine], so_far: ReturnSoFar, is_watched: bool
    ) -> tuple[PlaySteps, list[PlayStep]]:
        if not lines:
            return self, []
        steps = [
            PlayStep(
                line.step.index,
                line.step.task_id,
                card_html(facts, cards(facts, [line])[0]) if is_watched else "",
            )
            for line in lines
        ]
        count = self.count + sum(line.step.status != "refused" for line in lines)
        is_finished = self.is_finished or any(line.step.finished for line in lines)
        return PlaySteps(steps[-1].index, count, is_finished, so_far), steps


def view_of(facts: PlayFacts) -> TranscriptView:
    return TranscriptView(MAX_STEPS, facts.definition, MAX_SHOWN_CHARACTERS)


def steps_between(facts: PlayFacts, after: int, last: int) -> dict[str, Any]:
    """Return the steps after index `after` up to `last`, at most the newest MAX_STEPS of them, as
    members of a message: their `html`, and the task_ids of their `calls`.
    """
    first = max(after + 1, last + 1 - MAX_STEPS)
    lines = lines_at(facts.episode, first, last + 1, view_of(facts)) if first <= last else []
    calls = [line.step.task_id for line in lines]
    return {"html": "".join(card_html(facts, card) for card in cards(facts, lines)), "calls": calls}


def cards(facts: PlayFacts, lines: Iterable[StepLine]) -> list[Card]:
    """Return the steps as cards, without their rewards while they have to be hidden."""
    if facts.is_blind:
        lines = list(lines)
        for line in lines:
            line.step.reward = None
        lines = [replace(line, metadata="", components=[], raw="", running=None) for line in lines]
    return cards_of(lines)


def card_html(facts: PlayFacts, card: Card) -> str:
    return step_html(card, step_context(facts))


def step_context(facts: PlayFacts) -> dict[str, Any]:
    """Return the `DisplayOptions` with which the player's page shows steps."""
    return {
        "episode": facts.episode,
        "definition": facts.definition,
        "base": facts.base,
        "is_blind": facts.is_blind,
        "may_note": not facts.is_plain,
        "is_plain": facts.is_plain,
    }


def ending_of(pk: int) -> dict[str, Any]:
    """Return the message about how the play ended, with the task's fields, which players see only
    then."""
    relations = ("environment", "split", "task", "play")
    episode = Episode.objects.select_related(*relations).get(pk=pk)
    html, content = render_to_string("people/outcome.html", outcome_of(episode)), ""
    if not is_plain(episode.play):
        content = render_to_string("people/task_content.html", content_of(episode))
    return {"type": "ended", "html": visible_html(html), "content": visible_html(content)}


def save_pause(
    pk: int, field: Literal["paused_seconds", "paused_since"], value: float | datetime | None
) -> None:
    """Note for how long the player of an episode was away before its latest call, or since when
    they are away."""
    Play.objects.filter(pk=pk).update(**{field: value})
