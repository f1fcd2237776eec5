"""Template filters for suites."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.display.formats import NONE
from environments.display.numbers import unsigned
from environments.scoring.success_interval import Interval

register = template.Library()


@register.filter
def suite_score(value: float | None, score: str) -> SafeString:
    """Return a score as people read it, a success rate in percent; the exact value is shown on
    hover."""
    if value is None:
        return NONE
    return format_html(
        '<span class="number" title="{}">{}</span>', repr(value), _figure(value, score)
    )


@register.filter
def suite_interval(interval: Interval | None, score: str) -> SafeString:
    """Return the ends of a 95 % interval; nothing without one."""
    if interval is None:
        return SafeString()
    low, high = (_figure(end, score).removesuffix("%") for end in interval)
    return format_html('<span class="hint nowrap" title="95% interval">{} to {}</span>', low, high)


def _figure(value: float, score: str) -> str:
    return f"{value:.1%}" if score == "success" else unsigned(value)
