"""Rewards, success rates, buckets, times and durations as pages show them: templates, the admin and
step cards.

Rewards and times are HTML that shows the exact value on hover.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Protocol

from django.template.defaultfilters import floatformat
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from environments.display.numbers import shown, signed
from environments.scoring.attempt_figures import AttemptCounts
from environments.scoring.convention import Coverage
from environments.scoring.returns import MAX_RETURN
from environments.scoring.success_interval import interval
from environments.scoring.task_buckets import LABELS

NOTHING = "\N{EN DASH}"
"""Text in the place of a value that does not exist."""
NONE = format_html('<span class="none">{}</span>', NOTHING)
"""The mark NOTHING as HTML."""
BUCKETS = {"failing": "✕", "unseen": "○", "hopeless": "▽", "learnable": "◐", "saturated": "●"}
"""Mark of each bucket. Its shape differs, not only its colour."""

_BUCKET_WORDS = {
    "failing": "the environment failed in all episodes, or in at least as many as count",
    "unseen": "no attempt that counts yet",
    "hopeless": "enough attempts, no success or almost none: no signal to learn from",
    "learnable": "some succeed and some do not, or there are too few attempts to say so",
    "saturated": "enough attempts, almost all succeed: nothing left to learn",
}
MIN_HUGE = 1e280
"""A mean beyond it may be one of bounded returns."""
_BOUNDED = f"; figures count returns beyond {MAX_RETURN:g} as that"
_REWARD_LEVELS = 3
_AGES = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


class RewardRange(Protocol):
    """The range in which an environment's rewards lie, as its author declares it. A row of
    environments has one."""

    reward_low: float
    reward_high: float


def in_words(name: str) -> str:
    """Return a name of code as people read it: "Pick up" for "pick_up"."""
    text = name.replace("_", " ").strip()
    return text[:1].upper() + text[1:] or name


def reward(value: float | None, environment: RewardRange) -> SafeString:
    """Return a reward or return with its sign, coloured by its place in the environment's declared
    range of rewards.

    The exact value is shown on hover, unless it is what rounding leaves of 0; so is that figures
    count less of a huge one.
    """
    low, high = environment.reward_low, environment.reward_high
    return NONE if value is None else _coloured(value, _level(shown(value), low, high))


def return_by_success(value: float | None, is_success: bool | None) -> SafeString:
    """Return an episode's return as `reward` does, but coloured by its success, not by its place in
    a range. None: no figure counts the episode, and its return has no colour."""
    level = 0 if is_success is None else _REWARD_LEVELS if is_success else -_REWARD_LEVELS
    return NONE if value is None else _coloured(value, level)


def _coloured(value: float, level: int) -> SafeString:
    value = shown(value)
    words = f"{value!r}{_BOUNDED if abs(value) > MIN_HUGE else ''}"
    return format_html(
        '<span class="reward" data-level="{}" title="{}">{}</span>', level, words, signed(value)
    )


def success(successes: int, attempts: int) -> SafeString:
    """Return the success rate with the ends of its 95 % interval, in percent, and the counts on
    hover."""
    if not attempts:
        return NONE
    low, high = interval(successes, attempts)
    counts = f"{successes:,} of {attempts:,} attempt{'' if attempts == 1 else 's'}"
    words = f"{counts}; 95 % interval {low:.0%} to {high:.0%}"
    return format_html(
        '<span class="rate" title="{}">{} <span class="hint">{}</span></span>',
        words,
        f"{successes / attempts:.0%}",
        f"{low * 100:.0f}\N{EN DASH}{high * 100:.0f}",
    )


def success_range(figures: AttemptCounts | None) -> SafeString:
    """Return the success rate of the attempts with the ends of its 95 % interval, in percent, as
    tables show it."""
    if not figures or not figures.n:
        return NONE
    low, high = figures.interval
    words = f"{percent(low)}\N{EN DASH}{percent(high)}"
    return format_html(
        '{}% <span class="hint nowrap">{}</span>', percent(figures.successes / figures.n), words
    )


def percent(share: float) -> str:
    """Return a share, 0 to 1, in whole percent without the sign."""
    return str(round(share * 100))


def grouped(count: float | str | None) -> str:
    """Return a number without decimals, with its digits in groups of three: 1,234.

    `floatformat` with "0g" writes the same in ten times the time.
    """
    return f"{count:,}" if type(count) is int else floatformat(count, "0g")


_NO_ROLLOUTS = {"probe": "not played", "continued": "continued, repeated or left"}
"""Words for the kinds of endings in `Coverage.others`."""
ATTEMPTS = (
    "Episodes that count in the figures. “Excluded” are the others, such as failures of the "
    "environment; click it to list them."
)


def attempts_meaning() -> str:
    """Return what the head of a column whose cells have `coverage` says on hover."""
    return ATTEMPTS


def attempts_head() -> SafeString:
    """Return the head of a column whose cells have `coverage`, with its meaning on hover."""
    return format_html('<abbr title="{}">Attempts</abbr>', ATTEMPTS)


def coverage(
    figures: Coverage | None,
    query: str = "",
    *,
    is_mixed: bool = False,
    is_rest: bool = False,
    is_linked: bool = True,
) -> SafeString:
    """Return how many attempts a figure counts and, if there are others, how many of them, as
    `228 · 8 excluded`: on hover the sentence, and opened with links to the episodes.

    `query`: query string of the filter that finds all of its episodes; empty for all episodes.
    `is_mixed`: whether conventions of several environments hold, so that no list has the rollouts
    of one part alone. `is_rest`: whether the number of attempts stands before it already.
    `is_linked`: False where the reader has no list of the episodes.
    """
    if not figures or not (figures.rollouts or figures.others):
        return SafeString("") if is_rest else NONE
    number = format_html('<span class="number">{}</span>', f"{figures.counted:,}")
    if not figures.brief:
        return SafeString("") if is_rest else number
    if not is_linked:
        return format_html(
            '{} <span class="hint coverage" title="{}">· {}</span>',
            SafeString("") if is_rest else number,
            figures.text,
            figures.brief,
        )
    start = format_html(
        "{}?{}{}ending=", reverse("episodes"), query, SafeString("&amp;" if query else "")
    )
    link = '<a href="{0}{1}" data-ending="{1}">{2}</a>'
    texts = [
        (part.text if is_mixed else format_html(link, start, part.ending, part.text),)
        for part in figures.parts
    ]
    texts += [(figures.numberless_text,)] if figures.numberless else []
    others = format_html_join(
        ", ",
        '<a href="{}{}">{} {}</a>',
        ((start, kind, f"{count:,}", _NO_ROLLOUTS[kind]) for kind, count in figures.others.items()),
    )
    return format_html(
        '<details class="coverage"><summary title="{}">{}{}</summary>{}{}</details>',
        figures.text,
        SafeString("") if is_rest else format_html("{} · ", number),
        figures.brief,
        format_html_join(", ", "{}", texts),
        format_html(" + {}, not counted", others) if others else "",
    )


def bucket(name: str) -> SafeString:
    """Return the mark and name of a bucket of difficulty, and its meaning on hover."""
    return format_html(
        '<span class="bucket" data-bucket="{}" title="{}"><b aria-hidden="true">{}</b>{}</span>',
        name,
        _BUCKET_WORDS.get(name, name),
        BUCKETS.get(name, "?"),
        LABELS.get(name, name),
    )


def moment(when: datetime | None) -> SafeString:
    """Return the time since `when`, such as "5 min ago", and the exact time (UTC) on hover."""
    if when is None:
        return NONE
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        when.isoformat(),
        f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC",
        _age((timezone.now() - when).total_seconds()),
    )


def until(when: datetime) -> SafeString:
    """Return the time left until `when`, rounded up to the next minute, and the exact time (UTC) on
    hover."""
    age = _age((when - timezone.now()).total_seconds() + 60).removesuffix(" ago")
    exact = f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', when.isoformat(), exact, f"{age} left"
    )


def clock(when: datetime | None) -> str:
    """Return the time of day (UTC) with milliseconds, for comparing steps with logs."""
    return f"{when.astimezone(UTC):%H:%M:%S.%f}"[:-3] if when else NOTHING


def seconds(value: float | None) -> str:
    """Return a duration given in seconds, in the unit that `milliseconds` chooses."""
    return milliseconds(None if value is None else value * 1000)


def milliseconds(value: float | None) -> str:
    """Return a duration in the largest unit that fits: 0.4 ms, 120 ms, 4.2 s, 3 min 12 s, 2 h 05
    min."""
    if value is None:
        return NOTHING
    size = value / 1000
    if size < 1:
        return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"
    if size < 60:
        return f"{size:.1f} s"
    minutes, rest = divmod(round(size), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _age(seconds: float) -> str:
    for unit, size in _AGES:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "now"


def _level(value: float, low: float, high: float) -> int:
    """Sign and strength of `value` in the declared range, from -3 to 3; 0 for NaN."""
    if not value or math.isnan(value):
        return 0
    span = high if value > 0 else abs(low)
    span = span if span > 0 else max(abs(low), abs(high)) or 1.0
    # capped before the multiplication: three times a huge value is infinite, and infinity has no
    # ceiling
    share = min(1.0, abs(value) / span)
    return int(math.copysign(math.ceil(_REWARD_LEVELS * share - 1e-9), value))


_CODE_SPAN = re.compile("`([^`]+)`")


def code_spans(text: str) -> SafeString:
    """Return a plain text as HTML in which the words between backticks are code. A single backtick
    is left out."""
    parts: list[str] = _CODE_SPAN.split(text)
    for at, part in enumerate(parts):
        parts[at] = format_html("<code>{}</code>", part) if at % 2 else part.replace("`", "")
    return format_html_join("", "{}", ((part,) for part in parts))
