"""StepCards: a step as `templates/episodes/step_card.html` shows it, for pages that show hundreds of them.

As with `blocks.py`, the template is asked once for each shape that a step can have, and the texts are put into its
answer: its conditions take longer than all else of a short step.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Protocol

from django.template.defaultfilters import truncatechars
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.templatetags.figures import NOTHING, moment, reward, signed
from episodes.blocks import block_html
from episodes.cards import Card, Said
from episodes.frames import MOST_SHAPES, Frame, filled, framed, place
from episodes.models import Episode
from episodes.rendering.visible import visible
from episodes.templatetags.record import clock, milliseconds

MOST_ERROR = 8_000
"""Characters."""
_NONE = SafeString('<p class="none">none</p>')

Texts = dict[str, str]
"""Name -> HTML, or text that has to be escaped; empty: not there."""


class Ways(Protocol):
    """How the page shows steps: a mapping or a template's context.

    Of `episode` (with its environment), `definition`, `base` (address below which its parts are, as /episodes/<id>/ is
    by default), `is_alone`, `is_open` (long texts are unfolded), `is_bare`, `is_blind`, `may_note` and `may_continue`
    (one can play on from its steps); see the template.
    """

    def get(self, key: str, default: Any = None, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class _Shape:
    """All that the HTML of a step depends on, but for the texts themselves."""

    definition: str
    is_ok: bool
    is_finished: bool
    has_waited: bool
    is_whole: bool
    is_alone: bool
    is_bare: bool
    is_blind: bool
    may_note: bool
    there: tuple[str, ...]
    """Names of the texts that are not empty."""


def step_html(card: Card, ways: Ways) -> SafeString:
    step = card.step
    texts = _texts(card, ways)
    shape = _Shape(
        definition=ways.get("definition", ""),
        is_ok=step.status == "ok",
        is_finished=step.finished,
        has_waited=step.waited_ms >= 1,
        is_whole=card.is_whole,
        is_alone=bool(ways.get("is_alone")),
        is_bare=bool(ways.get("is_bare")),
        is_blind=bool(ways.get("is_blind")),
        may_note=bool(ways.get("may_note")),
        there=tuple(name for name, text in texts.items() if text),
    )
    return filled(_frame(shape), texts)


def _texts(card: Card, ways: Ways) -> Texts:
    step, episode, is_alone = card.step, ways.get("episode"), bool(ways.get("is_alone"))
    base = ways.get("base") or reverse("episode", args=[episode.pk])
    at = f"{base}steps/{step.index}"
    texts: Texts = {
        "index": str(step.index),
        "page": f"{base}?step={step.index}" if is_alone else "",
        "tool": card.tool,
        "status": step.status,
        "reason": step.reason,
        "duration": milliseconds(step.duration_ms),
        "wait": milliseconds(step.waited_ms),
        "error": truncatechars(card.error, MOST_ERROR),
        "input": _blocks(card.input, "input", at, ways) or (_NONE if card.is_whole else ""),
        "output": _blocks(card.output, "output", at, ways),
        "own": f"{at}/",
        "json": f"{at}.json",
    }
    if not ways.get("is_blind"):
        texts |= _rewards(card, episode)
    if not ways.get("is_bare"):
        texts |= _folds(card, episode, may_continue=bool(ways.get("may_continue")))
    return texts


def _rewards(card: Card, episode: Episode) -> Texts:
    environment = episode.environment
    components = {"card": card, "environment": environment}
    return {
        "reward": reward(card.step.reward, environment),
        "running": NOTHING if card.running is None else signed(card.running),
        "components": render_to_string("episodes/components.html", components) if card.components else "",
    }


def _folds(card: Card, episode: Episode, *, may_continue: bool) -> Texts:
    step = card.step
    goes_on = may_continue and not step.finished
    return {
        "metadata": card.metadata,
        "started": format_html('{} UTC <span class="hint">{}</span>', clock(step.started), moment(step.started)),
        "task_id": visible(step.task_id),
        "continue": f"{reverse('continue', args=[episode.pk])}?step={step.index}" if goes_on else "",
    }


def _blocks(said: list[Said], side: str, at: str, ways: Ways) -> SafeString:
    return SafeString("".join([_block(one, side, at, ways) for one in said]))


def _block(one: Said, side: str, at: str, ways: Ways) -> SafeString:
    is_open, is_alone, own = bool(ways.get("is_open")), bool(ways.get("is_alone")), f"{at}/"
    if ways.get("is_bare"):
        return block_html(one, is_open=is_open, is_alone=is_alone)
    if side == "output" and one.kind == "image":  # it has an address of its own, from which a browser keeps it
        look = {"is_open": is_open, "is_alone": is_alone, "image": f"{at}/images/{one.number}"}
        return render_to_string("episodes/said.html", {"one": one, **look})
    return block_html(one, own, own, "closest .step", is_open=is_open, is_alone=is_alone)


@lru_cache(MOST_SHAPES)
def _frame(shape: _Shape) -> Frame:
    return framed("episodes/step_card.html", {**asdict(shape), **{name: place(name) for name in shape.there}})
