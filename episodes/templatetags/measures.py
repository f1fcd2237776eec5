"""Template filters for the measures by which runs are compared."""

from __future__ import annotations

from django import template

from episodes.figures.comparison.measures import Measure

register = template.Library()


@register.filter
def measure_text(value: float, measure: Measure) -> str:
    """Return a mean with its unit."""
    return measure.text(value)


@register.filter
def measure_change(value: float, measure: Measure) -> str:
    """Return a difference of two means with its sign and unit."""
    return measure.change_text(value)


@register.filter
def measure_size(value: float, measure: Measure) -> str:
    """Return the reach of an interval with its unit."""
    return measure.change_text(value).removeprefix("+")
