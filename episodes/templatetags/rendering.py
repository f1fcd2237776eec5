"""Template tags for steps and untrusted texts: invisible characters made visible, reward components, step cards."""

from __future__ import annotations

from django import template
from django.template import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString

from episodes.rendering.visible import visible
from episodes.transcript.cards import Card
from episodes.transcript.step_html import step_html

register = template.Library()


@register.filter(name="visible")
def visible_text(value: object) -> str:
    """`value` as text whose invisible characters are shown."""
    return visible(str(value))


@register.filter
def component_bar(value: float, widest: float) -> SafeString:
    """Return a bar to the right or left of zero, within -10 … 10, where `widest` is 10."""
    share = max(-1.0, min(1.0, value / widest)) if value == value else 0.0
    return format_html(
        '<rect class="{}" x="{}" y="0" width="{}" height="4"/>',
        "minus" if share < 0 else "plus",
        round(min(0.0, share * 10), 2),
        round(abs(share) * 10, 2),
    )


@register.simple_tag(takes_context=True)
def step_card(context: Context, card: Card, **options: object) -> SafeString:
    """Return one step as HTML. `options` and the context are its `step_html.DisplayOptions`."""
    with context.push(**options):
        return step_html(card, context)
