"""Filters and tags that write figures on every page: returns, success rates, buckets and times."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.models import Environment, TaskStatistics
from environments.scoring.buckets import interval

register = template.Library()

NOTHING = "\N{EN DASH}"
NONE = format_html('<span class="none">{}</span>', NOTHING)
BUCKETS = {"unseen": "○", "hopeless": "▽", "learnable": "◐", "saturated": "●"}
"""Mark of each bucket, so that buckets differ not only by colour."""
_BUCKET_WORDS = {
    "unseen": "no attempt yet",
    "hopeless": "enough attempts, almost no success: no signal to learn from",
    "learnable": "neither hopeless nor saturated, or too few attempts to say so",
    "saturated": "enough attempts, almost all succeed: nothing left to learn",
}
_REWARD_LEVELS = 3
_AGES = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


@register.filter
def reward(value: float | None, environment: Environment) -> SafeString:
    """A reward or return as a signed number, coloured on the diverging scale of the environment's declared rewards."""
    if value is None:
        return NONE
    return format_html(
        '<span class="reward" data-level="{}" title="{}">{}</span>',
        _level(value, environment.reward_low, environment.reward_high),
        repr(value),
        signed(value),
    )


@register.filter
def signed(value: float) -> str:
    """The number with two decimals and a sign; with significant digits where two decimals would hide the value."""
    return f"+{unsigned(value)}" if value > 0 else unsigned(value)


@register.filter
def unsigned(value: float) -> str:
    """The number without a plus sign, otherwise as `signed` writes it: for a standard error or an end of a range."""
    size = abs(value)
    if size == 0:
        return "0.00"
    text = f"{_rounded(size):,.2f}" if 0.005 <= size < 1e6 else f"{size:.2g}"
    return f"\N{MINUS SIGN}{text}" if value < 0 else text


def _rounded(size: float) -> Decimal:
    """Round to two decimals, a half up, by the shortest decimal text of the number: 0.075 gives 0.08."""
    return Decimal(repr(float(size))).quantize(Decimal("0.01"), ROUND_HALF_UP)


@register.filter
def rate(statistics: TaskStatistics | None) -> SafeString:
    """The success rate with its 95 % interval, in percent; the counts on hover."""
    return success(statistics.successes, statistics.attempts) if statistics else NONE


@register.simple_tag
def success(successes: int, attempts: int) -> SafeString:
    """The success rate of `attempts` with its 95 % interval, in percent; the counts on hover."""
    if not attempts:
        return NONE
    low, high = interval(successes, attempts)
    words = f"{successes:,} of {attempts:,} attempts; 95 % interval {low:.0%} to {high:.0%}"
    return format_html(
        '<span class="rate" title="{}">{} <span class="hint">{}</span></span>',
        words,
        f"{successes / attempts:.0%}",
        f"{low * 100:.0f}\N{EN DASH}{high * 100:.0f}",
    )


@register.filter
def bucket(name: str) -> SafeString:
    """The mark and the name of a bucket; its meaning on hover."""
    return format_html(
        '<span class="bucket" data-bucket="{}" title="{}"><b aria-hidden="true">{}</b>{}</span>',
        name,
        _BUCKET_WORDS.get(name, name),
        BUCKETS.get(name, "?"),
        name,
    )


@register.filter
def moment(when: datetime | None) -> SafeString:
    """How long ago `when` was; the exact time (UTC) on hover."""
    if when is None:
        return NONE
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        when.isoformat(),
        f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC",
        _age((timezone.now() - when).total_seconds()),
    )


@register.filter
def until(when: datetime) -> SafeString:
    """The time left until `when`, rounded up to a minute; the exact time (UTC) on hover."""
    age = _age((when - timezone.now()).total_seconds() + 60).removesuffix(" ago")
    exact = f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', when.isoformat(), exact, f"{age} left")


def _age(seconds: float) -> str:
    for unit, size in _AGES:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "now"


def _level(value: float, low: float, high: float) -> int:
    """A level from -3 to 3: sign and strength of `value` within the declared range; 0 for NaN."""
    if not value or math.isnan(value):
        return 0
    span = high if value > 0 else abs(low)
    span = span if span > 0 else max(abs(low), abs(high)) or 1.0
    # cut before it is multiplied: three times a huge value is infinite, and infinity has no ceiling
    share = min(1.0, abs(value) / span)
    return int(math.copysign(math.ceil(_REWARD_LEVELS * share - 1e-9), value))
