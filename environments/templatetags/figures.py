"""Template filters and tags for every page: rewards, success rates, buckets, times, and the mark of
what is private."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments import conf
from environments.access.private_tag import private_tag
from environments.display.card import plain as plain_card
from environments.display.formats import (
    NONE,
    attempts_head,
    bucket,
    code_spans,
    coverage,
    grouped,
    moment,
    percent,
    reward,
    success,
    success_range,
    until,
)
from environments.display.numbers import plain, signed, threshold_text, unsigned
from environments.models import TaskStatistics
from environments.scoring.task_statistics import TaskResult

register = template.Library()

for written in (
    grouped,
    percent,
    success_range,
    reward,
    signed,
    unsigned,
    bucket,
    moment,
    until,
    code_spans,
):
    register.filter(written)
register.filter("plain_card", plain_card)
register.filter("figure", plain)
register.filter("threshold", threshold_text)
register.simple_tag(success)
register.simple_tag(coverage)
register.simple_tag(attempts_head)
register.simple_tag(private_tag)


@register.filter
def bucket_of(result: TaskResult) -> SafeString:
    """Return the mark of a task's bucket; "n too small" while its attempts decide nothing."""
    if result.bucket != "learnable" or result.attempts >= conf.thresholds().attempts:
        return bucket(result.bucket)
    sentence = f"fewer than {conf.thresholds().attempts} attempts say nothing about its difficulty"
    return format_html('<span class="bucket hint" title="{}">n too small</span>', sentence)


@register.filter
def rate(statistics: TaskStatistics | None) -> SafeString:
    """Return the success rate of a task's attempts with the ends of its 95 % interval, in
    percent."""
    return success(statistics.successes, statistics.attempts) if statistics else NONE
