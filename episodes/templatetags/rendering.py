"""Filters for texts that somebody else wrote: what hides in them made visible, bars of reward components."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from episodes.blocks import block_html
from episodes.models import Episode
from episodes.rendering.visible import visible

register = template.Library()


@register.filter(name="visible")
def visible_text(value: object) -> str:
    """Any value as text in which nothing hides."""
    return visible(str(value))


@register.filter
def component_bar(value: float, widest: float) -> SafeString:
    """A bar to the right or left of nothing, within -10 … 10, where `widest` is 10."""
    share = max(-1.0, min(1.0, value / widest)) if value == value else 0.0
    return format_html(
        '<rect class="{}" x="{}" y="0" width="{}" height="4"/>',
        "minus" if share < 0 else "plus",
        round(min(0.0, share * 10), 2),
        round(abs(share) * 10, 2),
    )


register.simple_tag(block_html, name="said_block")


@register.simple_tag
def step_address(episode: Episode, index: int, base: str = "") -> str:
    """Of a step, without the slash at its end; `base` is its episode's page, by default the replay."""
    return f"{base or reverse('episode', args=[episode.pk])}steps/{index}"


@register.filter
def page_of_step(address: str) -> str:
    """The page of the episode whose step has that `address`."""
    return address.rpartition("steps/")[0]
