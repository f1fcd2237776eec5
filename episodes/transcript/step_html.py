"""StepCards: a step as `templates/episodes/step_card.html` shows it, for pages that show hundreds of them.

As with `blocks.py`, the template is asked once for each shape that a step can have, and the texts are put into its
answer: its conditions take longer than all else of a short step.

Frames: HTML as a template makes it once for each shape that a thing can have, with places into which texts go.

For what stands on a page hundreds of times: a template takes longer for its conditions than for all else.

Blocks: one thing that was said, as `templates/episodes/content_block.html` shows it, for pages that show many of them.

Most of a block's HTML is the same for every block of its shape, so the template is asked once for each shape, and only
what differs is put in. A template takes longer for a block's conditions than all else that a short step needs.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from html import escape
from typing import Any, Protocol

from django.template.defaultfilters import truncatechars
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.templatetags.figures import NOTHING, moment, reward, signed
from episodes.models import Episode
from episodes.rendering.kinds import Kind
from episodes.rendering.visible import visible
from episodes.templatetags.record import clock, milliseconds
from episodes.transcript.cards import Card, MessageCard

MAX_SHAPES = 1024
"""Of one kind of thing, whose frames are kept."""
_MARK = secrets.token_hex(16)
"""In each place; nobody can have said it."""
_PLACE = re.compile(rf"{_MARK}-(\w+)-")

Frame = list[str]
"""HTML, and the name of the text that goes there, in turn."""


def place(name: str) -> SafeString:
    """Stands for the text `name` in the context of a template."""
    return SafeString(f"{_MARK}-{name}-")


def framed(template: str, context: Mapping[str, Any]) -> Frame:
    return _PLACE.split(render_to_string(template, dict(context)))


def filled(frame: Frame, texts: Mapping[str, str]) -> SafeString:
    """The texts in their places, escaped unless they are HTML."""
    pieces = frame.copy()
    pieces[1::2] = [text if isinstance(text := texts[name], SafeString) else escape(text) for name in frame[1::2]]
    return SafeString("".join(pieces))


@dataclass(frozen=True, slots=True)
class _BlockShape:
    """All that a block's HTML depends on, but for the text and the addresses themselves."""

    place: str
    label: str
    kind: Kind
    kinds: tuple[Kind, ...]
    omitted: int
    is_short: bool
    is_long: bool
    is_empty: bool
    has_source: bool
    has_whole: bool
    swap: str
    is_open: bool
    is_alone: bool


def block_html(
    one: MessageCard,
    source: str = "",
    whole: str = "",
    swap: str = "",
    *,
    is_open: bool = False,
    is_alone: bool = False,
) -> SafeString:
    """The arguments are those that the template describes. An image keeps its data: address."""
    if one.kind == "image":
        addresses = {"source": source, "whole": whole, "swap": swap}
        return render_to_string(
            "episodes/content_block.html", {"one": one, "is_open": is_open, "is_alone": is_alone, **addresses}
        )
    shape = _BlockShape(
        *(one.place, one.label, one.kind, one.kinds, one.omitted, one.is_short, one.is_long, not one.html),
        *(bool(source), bool(whole), swap, is_open, is_alone),
    )
    return filled(_block_frame(shape), {"html": one.html, "source": source, "whole": whole})


@lru_cache(maxsize=MAX_SHAPES)
def _block_frame(shape: _BlockShape) -> Frame:
    one = MessageCard(
        place=shape.place,
        label=shape.label,
        kind=shape.kind,
        html=SafeString() if shape.is_empty else place("html"),
        kinds=shape.kinds,
        omitted=shape.omitted,
        is_short=shape.is_short,
        is_long=shape.is_long,
        number=0,
    )
    ways = {"swap": shape.swap, "is_open": shape.is_open, "is_alone": shape.is_alone}
    source, whole = place("source") if shape.has_source else "", place("whole") if shape.has_whole else ""
    return framed("episodes/content_block.html", {"one": one, "source": source, "whole": whole, **ways})


MAX_ERROR = 8_000
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
class _CardShape:
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
    shape = _CardShape(
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
    return filled(_card_frame(shape), texts)


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
        "error": truncatechars(card.error, MAX_ERROR),
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
        "components": render_to_string("episodes/reward_components.html", components) if card.components else "",
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


def _blocks(said: list[MessageCard], side: str, at: str, ways: Ways) -> SafeString:
    return SafeString("".join([_block(one, side, at, ways) for one in said]))


def _block(one: MessageCard, side: str, at: str, ways: Ways) -> SafeString:
    is_open, is_alone, own = bool(ways.get("is_open")), bool(ways.get("is_alone")), f"{at}/"
    if ways.get("is_bare"):
        return block_html(one, is_open=is_open, is_alone=is_alone)
    if side == "output" and one.kind == "image":  # it has an address of its own, from which a browser keeps it
        look = {"is_open": is_open, "is_alone": is_alone, "image": f"{at}/images/{one.number}"}
        return render_to_string("episodes/content_block.html", {"one": one, **look})
    return block_html(one, own, own, "closest .step", is_open=is_open, is_alone=is_alone)


@lru_cache(MAX_SHAPES)
def _card_frame(shape: _CardShape) -> Frame:
    return framed("episodes/step_card.html", {**asdict(shape), **{name: place(name) for name in shape.there}})
