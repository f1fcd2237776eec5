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
from dataclasses import replace
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
from episodes.transcript.cards import Card, MessageCard

MAX_FRAMES = 2048
"""Maximum number of frames that are cached."""
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
    step's parts are, by default /episodes/<id>/), `repeats` (index of the step whose call and
    result this one has too; its own are folded), and booleans: `is_alone` (the step has a page of
    its own), `is_open` (long texts are unfolded), `is_bare` (nothing of the step can be requested
    from the server), `is_blind` (no rewards), `is_later` (the page loads the step again when the
    reader comes to it), `may_note`, `may_continue` (people can continue the episode from its
    steps), `may_redact` (the reader may redact texts), `is_plain` (for lay people: what was done
    and what came of it, without metadata, raw JSON and figures of the trade). See
    `episodes/step_card.html`.
    """

    def get(self, key: str, default: Any = None, /) -> Any: ...


_OPTIONS = ("is_alone", "is_bare", "is_blind", "is_later", "may_note", "is_plain")
"""Options of the page that the HTML of a step depends on, besides its texts."""


def step_html(card: Card, options: DisplayOptions) -> SafeString:
    """Return one step as `episodes/step_card.html` renders it, a plain one as
    `people/plain_step.html`."""
    step = card.step
    texts = _texts(card, options)
    shape = {
        "definition": options.get("definition", ""),
        "is_ok": step.status == "ok",
        "is_finished": step.finished,
        "has_waited": step.waited_ms >= 1,
        "is_whole": card.is_whole,
        **{name: bool(options.get(name)) for name in _OPTIONS},
        **{name: _MARKS[name] for name, text in texts.items() if text},
    }
    template = "people/plain_step.html" if shape["is_plain"] else "episodes/step_card.html"
    return _fill(_frame(template, tuple(shape.items())), texts)


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
        "repeats": options.get("repeats", ""),
    }
    if options.get("is_plain"):
        score = card.step.reward if not options.get("is_blind") else None
        return texts | {
            "title": in_words(card.tool),
            "json": "",
            "reward": reward(score, episode.environment) if score else "",
        }
    if not options.get("is_blind"):
        environment = episode.environment
        texts["reward"] = reward(step.reward, environment)
        texts["running"] = NOTHING if card.running is None else signed(card.running)
        if card.components:
            context = {"card": card, "environment": environment}
            texts["components"] = render_to_string("episodes/reward_components.html", context)
    if not options.get("is_bare"):
        hint = '{} UTC <span class="hint">{}</span>'
        texts["metadata"] = card.metadata
        texts["started"] = format_html(hint, clock(step.started), moment(step.started))
        texts["task_id"] = visible(step.task_id)
        if options.get("may_continue") and not step.finished:
            texts["continue"] = f"{reverse('continue', args=[episode.pk])}?step={step.index}"
        if options.get("may_redact"):
            form = reverse("admin:episodes_redaction_add")
            texts["redact"] = f"{form}?episode={episode.pk}&step={step.index}"
    return texts


def _blocks(cards: list[MessageCard], side: str, at: str, options: DisplayOptions) -> SafeString:
    is_open, is_alone, own = bool(options.get("is_open")), bool(options.get("is_alone")), f"{at}/"
    pieces = []
    for card in cards:
        if options.get("is_plain"):
            card = replace(card, label=in_words(card.label) if side == "input" else "", kinds=())
        if options.get("is_bare"):
            html = block_html(card, is_open=is_open, is_alone=is_alone)
        elif side == "output" and card.kind == "image":
            # an address of its own, so that browsers cache the image
            context = {"one": card, "is_open": is_open, "is_alone": is_alone}
            context["image"] = f"{at}/images/{card.number}"
            html = render_to_string("episodes/content_block.html", context)
        else:
            html = block_html(card, own, own, "closest .step", is_open=is_open, is_alone=is_alone)
        pieces.append(html)
    return SafeString("".join(pieces))


def block_html(
    card: MessageCard,
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
    context = {"one": card, "source": source, "whole": whole, "swap": swap}
    context |= {"is_open": is_open, "is_alone": is_alone}
    if card.kind == "image":
        return render_to_string("episodes/content_block.html", context)
    texts: Texts = {"html": card.html, "source": source, "whole": whole}
    marks = {name: _MARKS[name] if text else SafeString() for name, text in texts.items()}
    context |= {
        "one": replace(card, html=marks["html"]),
        "source": marks["source"],
        "whole": marks["whole"],
    }
    return _fill(_frame("episodes/content_block.html", tuple(context.items())), texts)


# --- frames ---------------------------------------------------------------------------------------


class _Marks(dict[str, SafeString]):
    """Placeholders for texts by their names, values for the context of a template."""

    def __missing__(self, name: str) -> SafeString:
        mark = self[name] = SafeString(f"{_MARK}-{name}-")
        return mark


_MARKS = _Marks()


@lru_cache(MAX_FRAMES)
def _frame(template: str, context: tuple[tuple[str, Any], ...]) -> Frame:
    return _MARKED.split(render_to_string(template, dict(context)))


def _fill(frame: Frame, texts: Mapping[str, str]) -> SafeString:
    """Return the HTML of the frame with its texts, which are escaped unless they are HTML."""
    pieces = frame.copy()
    pieces[1::2] = [
        text if isinstance(text := texts[name], SafeString) else escape(text)
        for name in frame[1::2]
    ]
    return SafeString("".join(pieces))
