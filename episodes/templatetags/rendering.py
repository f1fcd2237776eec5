"""Template tags for steps: reward components, step cards; and Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django import template
from django.template import Context
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from environments.display.numbers import shown
from episodes.rendering.markdown import markdown
from episodes.transcript.cards import Card
from episodes.transcript.step_html import step_html

register = template.Library()
register.filter(markdown)


_QUOTED = re.compile("`([^`<>\\n]+)`")
"""A name between backticks, in HTML."""


@register.filter
def without_backticks(text: str) -> SafeString:
    """Return a text, or HTML, with bold type for what is between backticks, which only people who
    program know."""
    return mark_safe(_QUOTED.sub(r"<b>\1</b>", conditional_escape(text)))  # nosec B308 # escaped, or HTML already


@register.filter
def component_bar(value: float, widest: float) -> SafeString:
    """Return a bar to the right or left of zero, within -10 … 10, where `widest` is 10."""
    share = max(-1.0, min(1.0, shown(value) / widest)) if value == value else 0.0
    return format_html(
        '<rect class="{}" x="{}" y="0" width="{}" height="4"/>',
        "minus" if share < 0 else "plus",
        round(min(0.0, share * 10), 2),
        round(abs(share) * 10, 2),
    )


STACK_HUES = 8
"""Colours of the components of a stacked bar, which repeat."""


@register.filter
def component_stack(components: Sequence[tuple[str, float]]) -> SafeString:
    """Return the components as one bar, within 0 … 100: negative ones to the left of zero, positive
    ones to the right.

    Its size is the sum of their absolute values. Components that are 0 have no part.
    """
    components = [(name, shown(value)) for name, value in components]
    whole = sum(abs(value) for _, value in components) or 1.0
    negative = sum(-value for _, value in components if value < 0) / whole * 100
    ends = {True: negative, False: negative}  # of the bar so far, by whether it grows to the left
    parts = []
    for place, (name, value) in enumerate(components):
        width, is_minus = abs(value) / whole * 100, value < 0
        start = ends[is_minus] - width if is_minus else ends[is_minus]
        ends[is_minus] = start if is_minus else start + width
        parts.append((place % STACK_HUES, round(start, 2), round(width, 2), name, value))
    rects = format_html_join(
        "",
        '<rect class="part-{}" x="{}" y="0" width="{}" height="8"><title>{} {}</title></rect>',
        parts,
    )
    zero = format_html('<line class="zero" x1="{0}" x2="{0}" y1="0" y2="8"/>', round(negative, 2))
    return rects + zero


@register.simple_tag(takes_context=True)
def step_card(context: Context, card: Card, **options: object) -> SafeString:
    """Return one step as HTML. `options` and the context are its `step_html.DisplayOptions`."""
    with context.push(**options):
        return step_html(card, context)
