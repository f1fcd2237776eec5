"""Template filters for what is recorded: endings, players, rewards, times. The admin's columns call
them too."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django import template
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.access.privacy import viewer_of
from environments.display.formats import (
    NONE,
    attempts_head,
    attempts_meaning,
    clock,
    coverage,
    grouped,
    in_words,
    milliseconds,
    moment,
    percent,
    return_by_success,
    reward,
    seconds,
    success,
    success_range,
    until,
)
from environments.display.numbers import digits_of, plain, signed, threshold_text, unsigned
from environments.display.visible import visible
from environments.filtering.parameters import definition_in
from environments.models import Environment
from environments.scoring.definition import NO_OVERRIDES, DefinitionOverrides, definition_of
from environments.wire import NO_NUMBER
from episodes.attempts.rule import kind_of
from episodes.attempts.success import success_of
from episodes.figures.scope_figures import ScopeFigures
from episodes.figures.tasks.environment_failures import FailureCluster, clusters_of
from episodes.filtering.filters import PLAYERS
from episodes.models import Episode, Play
from episodes.rendering.line_colours import colour_of_run

register = template.Library()


@register.simple_tag(takes_context=True)
def newest_failure(context: dict[str, Any], task: int) -> FailureCluster | None:
    """Return the most frequent exception among the newest episodes of the task; None without a
    failure of the environment."""
    episodes = Episode.objects.seen_by(viewer_of(context["request"].user)).filter(task=task)
    return next(iter(clusters_of(episodes)), None)


for format_ in (
    grouped,
    percent,
    success_range,
    reward,
    return_by_success,
    signed,
    unsigned,
    moment,
    until,
    clock,
    seconds,
    milliseconds,
    in_words,
):
    register.filter(format_)
register.filter("figure", plain)
register.filter("threshold", threshold_text)
register.filter("digits", digits_of)
register.simple_tag(success)
register.simple_tag(coverage)
register.simple_tag(attempts_head)
register.simple_tag(attempts_meaning)

ERRORS = {
    "returns": "Standard error of the mean; every return is one observation",
    "tasks": "Standard error of the mean; every task is one observation, because attempts at one "
    "task are alike",
    "difference": "95% interval of the difference; every shared task is one observation",
}
"""What the number after ± means, by what it is about."""


@register.simple_tag
def plus_minus(value: float | str | None, of: str = "returns") -> SafeString:
    """Return ± with an error of the kind `of`, and its meaning as a title; nothing without a
    number."""
    if not isinstance(value, float):  # Django passes an empty text where a variable is missing
        return SafeString()
    return format_html('<span title="{}">± {}</span>', ERRORS[of], unsigned(value))


@register.simple_tag
def mean_return(figures: ScopeFigures, environment: Environment | None) -> SafeString:
    """Return the mean return with its error. `environment`: that of all episodes, whose range of
    rewards colours it."""
    if figures.mean is None:
        return NONE
    mean = reward(figures.mean, environment) if environment else signed(figures.mean)
    return format_html('{} <span class="hint">{}</span>', mean, plus_minus(figures.error))


ENDINGS = {
    "running": "◉",
    "finished": "●",
    "abandoned": "◌",
    "expired": "◷",
    "setup_failed": "✕",
    "env_error": "▲",
    "interrupted": "■",
    "no_call": "∅",
    "failure": "▲",
    "probe": "○",
    "continued": "↪",
}
"""Mark of each ending. The shape tells endings apart, not only the colour."""
SUCCESSES = {True: ("yes", "✓", "success"), False: ("no", "✗", "no success")}
"""Mark of an attempt that is a success, and of another."""
PLAYER_MARKS = {"agent": "◆", "human": "☺", "script": "⚙"}
"""Mark of each kind of player."""
_LABELS = {
    **dict(Episode.CAUSES),
    "failure": "infrastructure failure",
    "probe": "not played",
    "continued": "continued, repeated or left",
}
"""Label of each ending, where it is not its name."""


@register.simple_tag
def run_swatch(run: int, colours: Mapping[int, int] | None = None) -> SafeString:
    """Return a dot in the colour of the run with this id. `colours`: those of the page's charts, by
    run, in which no two have the same."""
    return format_html(
        '<span class="swatch line-{}" aria-hidden="true"></span>',
        (colours or {}).get(run, colour_of_run(run)),
    )


@register.filter
def cost(value: float) -> str:
    """Return a cost with as many digits as it takes to see it: 1,234.50, 0.0021."""
    if value >= 1 or value == 0:
        return f"{value:,.2f}"
    return f"{value:.2g}" if value < 1e-4 else f"{value:.4f}"


@register.filter
def ending(episode: Episode) -> SafeString:
    """Return the ending of an episode as mark and label, and its details on hover."""
    name = "running" if episode.status == "running" else episode.cause
    label = _LABELS.get(name, name)
    words = episode.detail or label
    if episode.is_probe:
        why = "without a reward" if episode.steps_count else "without a tool call"
        name, words = "probe", f"{label} {why}: no figure counts it"
        label = "no reward" if episode.steps_count else _LABELS["probe"]
    return format_html(
        '<span class="ending" data-ending="{}" title="{}"><b aria-hidden="true">{}</b>{}</span>',
        name,
        words,
        ENDINGS.get(name, "?"),
        f"{label}, {NO_NUMBER}" if NO_NUMBER in episode.detail else label,
    )


@register.filter
def ending_words(name: str) -> str:
    """Return the label of the ending with that name."""
    return _LABELS.get(name, name)


@register.filter
def ending_named(name: str) -> SafeString:
    """Return the ending with that name (a cause, "probe", "continued" or "running") as mark and
    label."""
    return format_html(
        '<span class="ending" data-ending="{}"><b aria-hidden="true">{}</b>{}</span>',
        name,
        ENDINGS.get(name, "?"),
        ending_words(name),
    )


@register.filter
def success_mark(is_success: bool | None) -> SafeString:
    """Return the mark of an attempt; a dash for None, as no figure counts the episode."""
    if is_success is None:
        return NONE
    name, mark, label = SUCCESSES[is_success]
    return format_html(
        '<span class="success-mark" data-success="{}" title="{}"><b aria-hidden="true">{}</b>'
        '<span class="visually-hidden">{}</span></span>',
        name,
        label,
        mark,
        label,
    )


@register.simple_tag(takes_context=True)
def episode_return(context: Mapping[str, Any], episode: Episode, value: float | None) -> SafeString:
    """Return the mark of success of an episode and its return `value`. The definition in force is
    that of its environment, with the parts that the address gives.

    `episode` has its environment and, of people, its play.
    """
    return marked_return(episode, value, definition_in(context["request"].GET))


def marked_return(
    episode: Episode, value: float | None, overrides: DefinitionOverrides = NO_OVERRIDES
) -> SafeString:
    """Return the mark of success of an episode and its return `value`."""
    is_success = success_of(episode, definition_of(episode.environment, overrides))
    mark = "" if is_success is None else success_mark(is_success)
    shown_return = return_by_success(value, is_success)
    return format_html('<span class="marked-return">{} {}</span>', mark, shown_return)


@register.filter
def player(episode: Episode) -> SafeString:
    """Return the mark and name of an episode's player.

    That is the person, else the model that the client named, else its User-Agent.
    """
    kind = "person" if episode.player == "human" else episode.player
    return format_html(
        '<span class="player" title="{}"><b aria-hidden="true">{}</b>{}</span>',
        f"{kind} · {episode.user_agent or 'no User-Agent'}",
        PLAYER_MARKS.get(episode.player, "?"),
        visible(episode.person) or episode.model or episode.user_agent or kind,
    )


@register.filter
def continues(episode: Episode) -> SafeString:
    """Return a link to the episode that this one continues, or why else no figure counts it; else
    empty.

    Reads `episode.play` of people.
    """
    play: Play | None = getattr(episode, "play", None) if episode.player == "human" else None
    if play is None:
        return SafeString()
    if play.is_excluded:
        label, reason = "excluded", "The player was excluded from their study"
    elif play.parent_step is not None:
        reason = "Continues another episode"
        label = "continues a deleted episode"
        if play.parent_id is not None:
            where = f"{reverse('episode', args=[play.parent_id])}#step-{play.parent_step}"
            return format_html(
                '<a class="hint" href="{}" title="{}{}">continues {}</a>',
                where,
                reason,
                _UNCOUNTED,
                play.parent_id,
            )
    elif play.is_repeat:
        label, reason = "further attempt", "The player had played or seen this task before"
    elif kind_of(episode) == "continued":
        title = "The player left it, and its study doesn't count it as an attempt in any figure"
        return format_html('<span class="hint" title="{}">left, not counted</span>', title)
    else:
        return SafeString()
    return format_html('<span class="hint" title="{}{}">{}</span>', reason, _UNCOUNTED, label)


_UNCOUNTED = ", so it isn't counted as an attempt in any figure"


@register.filter
def player_named(kind: str) -> SafeString:
    """Return the mark and plural name of a kind of player: "agent", "human" or "script"."""
    mark, label = PLAYER_MARKS.get(kind, "?"), PLAYERS.get(kind, kind)
    return format_html('<span class="player"><b aria-hidden="true">{}</b>{}</span>', mark, label)


@register.filter
def players(kind: str) -> str:
    """Return the plural name of a kind of player."""
    return PLAYERS.get(kind, kind)


@register.filter
def since(when: datetime | None, start: datetime) -> SafeString:
    """Return the time from `start` to `when`, and the exact time (UTC) on hover."""
    if when is None:
        return NONE
    exact = f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    return format_html(
        '<span title="{}">+{}</span>', exact, seconds((when - start).total_seconds())
    )


@register.filter
def under_way(episode: Episode) -> str:
    """Return the duration of a running episode, from ready until now."""
    return seconds((timezone.now() - (episode.ready or episode.created)).total_seconds())


@register.filter
def steps(episode: Episode) -> SafeString:
    """Return the number of steps that ran, and in brackets of refused ones.

    It is empty until the episode ends and they are counted.
    """
    if episode.status == "running":
        return NONE
    count = episode.refused_count
    suffix = (
        format_html(' <span class="refused" title="refused">({})</span>', count) if count else ""
    )
    return format_html('<span class="number">{}{}</span>', episode.steps_count, suffix)


@register.filter
def calls(episode: Episode) -> SafeString:
    """Return an ended episode's calls in words. Failed calls are among the steps; refused ones are
    counted apart."""
    if episode.status == "running":
        return SafeString()
    html = format_html("{} step{}", f"{episode.steps_count:,}", pluralize(episode.steps_count))
    if count := episode.failed_count:
        html += format_html('<span class="hint">, {} failed</span>', f"{count:,}")
    if count := episode.refused_count:
        html += format_html(' <span class="hint">+ {} refused</span>', f"{count:,}")
    return format_html('<span class="nowrap">{}</span>', html)


@register.filter
def own_return(episode: Episode) -> SafeString:
    """Return the mark of success and the return by the environment's own definition; none where the
    set-up failed, before any step.

    `episode` has its environment and, of people, its play.
    """
    if episode.cause == "setup_failed":
        return NONE
    return marked_return(episode, episode.returns[episode.environment.default_return])


_KEY_SIGNS = {
    "ArrowUp": "↑",
    "ArrowDown": "↓",
    "ArrowLeft": "←",
    "ArrowRight": "→",
    " ": "Space",
    "Shift": "⇧",
}


@register.filter
def key_sign(key: str) -> str:
    """Return a key of `hand_controls` as people know it, such as ⇧ ↑ for "Shift+ArrowUp"."""
    return " ".join(_KEY_SIGNS.get(part, part) for part in key.split("+") if part)
