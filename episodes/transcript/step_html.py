"""Steps and their content blocks as HTML, for pages that show hundreds of them: replay, comparison
and player.

A template needs longer for the conditions of `episodes/step_card.html` and
`episodes/content_block.html` than a short step needs for everything else. So each template is
rendered once for every shape that its subject can have, with marks where the texts go (a frame),
and the texts are filled in for every step.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from html import escape
from typing import Any, Protocol

from django.template.defaultfilters import truncatechars
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.display.formats import NOTHING, clock, in_words, milliseconds, moment, reward
from environments.display.numbers import signed
from environments.display.visible import visible
from episodes.models import Episode
from episodes.rendering.kinds import Kind
from episodes.transcript.cards import Card, MessageCard

MAX_FRAMES = 1024
"""Maximum number of frames of each template that are cached."""
MAX_ERROR_CHARACTERS = 8_000
_NONE = SafeString('<p class="none">none</p>')
_MARK = secrets.token_hex(16)
"""Part of every mark. It is random, so no recorded text can contain it."""
_MARKED = re.compile(rf"{_MARK}-(\w+)-")

Frame = list[str]
"""Pieces of HTML, and between them the names of the texts that are filled in."""
Texts = dict[str, str]
"""Name -> HTML, or text that is escaped when it is filled in; empty for a text that the step does
not have."""


class DisplayOptions(Protocol):
    """Options of how a page shows steps: a mapping or a template's context with these names.

    `episode` (with its environment), `definition` (of return), `base` (address below which the
    step's parts are, by default /episodes/<id>/), and booleans: `is_alone` (the step has a page of
    its own), `is_open` (long texts are unfolded), `is_bare` (nothing of the step can be requested
    from the server), `is_blind` (no rewards), `is_later` (the page loads the step again when the
    reader comes to it), `may_note`, `may_continue` (people can continue the episode from its
    steps), `may_redact` (the reader may redact texts), `is_plain` (for lay people: what was done
    and what came of it, without metadata, raw JSON and figures of the trade). See
    `episodes/step_card.html`.
    """

    def get(self, key: str, default: Any = None, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class _CardShape:
    """Everything that the HTML of a step depends on, except its texts."""

    definition: str
    is_ok: bool
    is_finished: bool
    has_waited: bool
    is_whole: bool
    is_alone: bool
    is_bare: bool
    is_blind: bool
    is_later: bool
    may_note: bool
    is_plain: bool
    there: tuple[str, ...]
    """Names of the texts that are not empty."""


def step_html(card: Card, options: DisplayOptions) -> SafeString:
    """Return one step as `episodes/step_card.html` renders it, a plain one as
    `people/plain_step.html`."""
    step = card.step
    texts = _texts(card, options)
    shape = _CardShape(
        definition=options.get("definition", ""),
        is_ok=step.status == "ok",
        is_finished=step.finished,
        has_waited=step.waited_ms >= 1,
        is_whole=card.is_whole,
        is_alone=bool(options.get("is_alone")),
        is_bare=bool(options.get("is_bare")),
        is_blind=bool(options.get("is_blind")),
        is_later=bool(options.get("is_later")),
        may_note=bool(options.get("may_note")),
        is_plain=bool(options.get("is_plain")),
        there=tuple(name for name, text in texts.items() if text),
    )
    return _fill(_card_frame(shape), texts)


@lru_cache(MAX_FRAMES)
def _card_frame(shape: _CardShape) -> Frame:
    template = "people/plain_step.html" if shape.is_plain else "episodes/step_card.html"
    return _frame(template, {**asdict(shape), **{name: _mark(name) for name in shape.there}})


def _texts(card: Card, options: DisplayOptions) -> Texts:
    step, episode, is_alone = card.step, options.get("episode"), bool(options.get("is_alone"))
    base = options.get("base") or reverse("episode", args=[episode.pk])
    at = f"{base}steps/{step.index}"
    texts: Texts = {
        "index": str(step.index),
        "page": f"{base}?step={step.index}" if is_alone else "",
        "tool": card.tool,
        "status": step.status,
        "reason": step.reason,
        "duration": milliseconds(step.duration_ms),
        "wait": milliseconds(step.waited_ms),
        "error": truncatechars(card.error, MAX_ERROR_CHARACTERS),
        "input": _blocks(card.input, "input", at, options) or (_NONE if card.is_whole else ""),
        "output": _blocks(card.output, "output", at, options),
        "own": f"{at}/",
        "json": f"{at}.json",
    }
    if options.get("is_plain"):
        score = card.step.reward if not options.get("is_blind") else None
        return texts | {
            "title": in_words(card.tool),
            "json": "",
            "reward": reward(score, episode.environment) if score else "",
        }
    if not options.get("is_blind"):
        texts |= _rewards(card, episode)
    if not options.get("is_bare"):
        texts |= _folds(card, episode, may_continue=bool(options.get("may_continue")))
        texts["redact"] = _redact_url(step.index, episode) if options.get("may_redact") else ""
    return texts


def _rewards(card: Card, episode: Episode) -> Texts:
    environment = episode.environment
    components = {"card": card, "environment": environment}
    return {
        "reward": reward(card.step.reward, environment),
        "running": NOTHING if card.running is None else signed(card.running),
        "components": render_to_string("episodes/reward_components.html", components)
        if card.components
        else "",
    }


def _redact_url(index: int, episode: Episode) -> str:
    return f"{reverse('admin:episodes_redaction_add')}?episode={episode.pk}&step={index}"


def _folds(card: Card, episode: Episode, *, may_continue: bool) -> Texts:
    step = card.step
    goes_on = may_continue and not step.finished
    return {
        "metadata": card.metadata,
        "started": format_html(
            '{} UTC <span class="hint">{}</span>', clock(step.started), moment(step.started)
        ),
        "task_id": visible(step.task_id),
        "continue": f"{reverse('continue', args=[episode.pk])}?step={step.index}"
        if goes_on
        else "",
    }


def _blocks(messages: list[MessageCard], side: str, at: str, options: DisplayOptions) -> SafeString:
    return SafeString("".join([_block(message, side, at, options) for message in messages]))


def _block(one: MessageCard, side: str, at: str, options: DisplayOptions) -> SafeString:
    is_open, is_alone, own = bool(options.get("is_open")), bool(options.get("is_alone")), f"{at}/"
    if options.get("is_plain"):
        one = replace(one, label=in_words(one.label) if side == "input" else "", kinds=())
    if options.get("is_bare"):
        return block_html(one, is_open=is_open, is_alone=is_alone)
    if side == "output" and one.kind == "image":
        # an address of its own, so that browsers cache the image
        context = {"is_open": is_open, "is_alone": is_alone, "image": f"{at}/images/{one.number}"}
        return render_to_string("episodes/content_block.html", {"one": one, **context})
    return block_html(one, own, own, "closest .step", is_open=is_open, is_alone=is_alone)


# --- one text or image of a step ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _BlockShape:
    """Everything that the HTML of a block depends on, except its text and its addresses."""

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
    """Return one text or image as `episodes/content_block.html`, which describes the arguments,
    renders it.

    An image keeps its data: address.
    """
    if one.kind == "image":
        addresses = {"source": source, "whole": whole, "swap": swap}
        return render_to_string(
            "episodes/content_block.html",
            {"one": one, "is_open": is_open, "is_alone": is_alone, **addresses},
        )
    shape = _BlockShape(
        *(
            one.place,
            one.label,
            one.kind,
            one.kinds,
            one.omitted,
            one.is_short,
            one.is_long,
            not one.html,
        ),
        *(bool(source), bool(whole), swap, is_open, is_alone),
    )
    return _fill(_block_frame(shape), {"html": one.html, "source": source, "whole": whole})


@lru_cache(MAX_FRAMES)
def _block_frame(shape: _BlockShape) -> Frame:
    one = MessageCard(
        place=shape.place,
        label=shape.label,
        kind=shape.kind,
        html=SafeString() if shape.is_empty else _mark("html"),
        kinds=shape.kinds,
        omitted=shape.omitted,
        is_short=shape.is_short,
        is_long=shape.is_long,
        number=0,
    )
    options = {"swap": shape.swap, "is_open": shape.is_open, "is_alone": shape.is_alone}
    source, whole = (
        _mark("source") if shape.has_source else "",
        _mark("whole") if shape.has_whole else "",
    )
    return _frame(
        "episodes/content_block.html", {"one": one, "source": source, "whole": whole, **options}
    )


# --- frames ---------------------------------------------------------------------------------------


def _mark(name: str) -> SafeString:
    """Return the placeholder for the text `name`, a value for the context of a template."""
    return SafeString(f"{_MARK}-{name}-")


def _frame(template: str, context: Mapping[str, Any]) -> Frame:
    return _MARKED.split(render_to_string(template, dict(context)))


def _fill(frame: Frame, texts: Mapping[str, str]) -> SafeString:
    """Return the HTML of the frame with its texts, which are escaped unless they are HTML."""
    pieces = frame.copy()
    pieces[1::2] = [
        text if isinstance(text := texts[name], SafeString) else escape(text)
        for name in frame[1::2]
    ]
    return SafeString("".join(pieces))
