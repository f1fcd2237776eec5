"""How recorded things are written on every page: endings, rewards, times. Used by templates and the admin's columns."""

from __future__ import annotations

from datetime import UTC, datetime

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.templatetags.figures import NONE, NOTHING, moment, reward, signed, success, unsigned, until
from episodes.filtering.people import person_of
from episodes.models import Episode, Play
from episodes.rendering.visible import visible

register = template.Library()

for shared in (reward, signed, unsigned, moment, until):
    register.filter(shared)
register.simple_tag(success)

ENDINGS = {
    "running": "◉",
    "finished": "✓",
    "abandoned": "◌",
    "expired": "◷",
    "setup_failed": "✕",
    "env_error": "▲",
    "interrupted": "■",
    "probe": "○",
    "continued": "↪",
}
"""Mark of each ending; the mark, not only its colour, tells them apart."""
_CAUSES = {"running": "running", "probe": "probe", "continued": "continued", **dict(Episode.CAUSES)}
PLAYERS = {"agent": "◆", "human": "☺", "script": "⚙"}


@register.filter
def ending(episode: Episode) -> SafeString:
    """How the episode ended as mark and label; in words on hover."""
    name = "running" if episode.status == "running" else episode.cause
    words = episode.detail or _CAUSES.get(name, name)
    if episode.is_probe:
        name, words = "probe", f"{_CAUSES.get(name, name)} without a tool call"
    return format_html(
        '<span class="ending" data-ending="{}" title="{}"><b aria-hidden="true">{}</b>{}</span>',
        name,
        words,
        ENDINGS.get(name, "?"),
        _CAUSES.get(name, name),
    )


@register.filter
def ending_named(name: str) -> SafeString:
    """An ending by its name (a cause, "probe" or "running") as mark and label."""
    return format_html(
        '<span class="ending" data-ending="{}"><b aria-hidden="true">{}</b>{}</span>',
        name,
        ENDINGS.get(name, "?"),
        _CAUSES.get(name, name),
    )


@register.filter
def player(episode: Episode) -> SafeString:
    """Who played, as mark and name: the person, else the model where one was told, else the client's User-Agent."""
    return format_html(
        '<span class="player" title="{}"><b aria-hidden="true">{}</b>{}</span>',
        f"{episode.player} · {episode.user_agent or 'no User-Agent'}",
        PLAYERS.get(episode.player, "?"),
        visible(person_of(episode)) or episode.model or episode.user_agent or episode.player,
    )


@register.filter
def continues(episode: Episode) -> SafeString:
    """What it plays on from, where that is another episode. `episode` has its play, if a person plays it."""
    play: Play | None = getattr(episode, "play", None) if episode.player == "human" else None
    if play is None or play.parent_step is None:
        return SafeString()
    title = "Continues another episode, so it isn't counted as an attempt in any figure"
    if play.parent_id is None:
        return format_html('<span class="hint" title="{}">continues a deleted episode</span>', title)
    where = f"{reverse('episode', args=[play.parent_id])}#step-{play.parent_step}"
    return format_html('<a class="hint" href="{}" title="{}">continues {}</a>', where, title, play.parent_id)


@register.filter
def player_named(kind: str) -> SafeString:
    """A kind of player ("agent", "human", "script") as mark and name of them all."""
    words = {"agent": "agents", "human": "people", "script": "scripted players"}
    return format_html(
        '<span class="player"><b aria-hidden="true">{}</b>{}</span>', PLAYERS.get(kind, "?"), words.get(kind, kind)
    )


@register.filter
def since(when: datetime | None, start: datetime) -> SafeString:
    """How long after `start`, with the exact time on hover."""
    if when is None:
        return NONE
    exact = f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    return format_html('<span title="{}">+{}</span>', exact, milliseconds((when - start).total_seconds() * 1000))


@register.filter
def clock(when: datetime | None) -> str:
    """Exact time of day, for reading steps against logs."""
    return f"{when.astimezone(UTC):%H:%M:%S.%f}"[:-3] if when else NOTHING


@register.filter
def milliseconds(value: float | None) -> str:
    """A duration in the largest fitting unit: 0.4 ms, 120 ms, 4.2 s, 3 min 12 s, 2 h 05 min."""
    if value is None:
        return NOTHING
    seconds = value / 1000
    if seconds < 1:
        return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


@register.filter
def seconds(value: float) -> str:
    """A duration in seconds as `milliseconds` writes it."""
    return milliseconds(value * 1000)


@register.filter
def acted(episode: Episode) -> str:
    """From ready to the last answer, by which episodes are sorted; nothing yet of one that runs."""
    return milliseconds(None if episode.duration_seconds is None else episode.duration_seconds * 1000)


@register.filter
def under_way(episode: Episode) -> str:
    """Of an episode that runs: from ready until now."""
    return milliseconds((timezone.now() - (episode.ready or episode.created)).total_seconds() * 1000)


@register.filter
def steps(episode: Episode) -> SafeString:
    """Steps that ran, and in brackets those that were refused; they are counted when it ends."""
    if episode.status == "running":
        return NONE
    refused = episode.refused_count
    beside = format_html(' <span class="refused" title="refused">({})</span>', refused) if refused else ""
    return format_html('<span class="number">{}{}</span>', episode.steps_count, beside)


@register.filter
def calls(episode: Episode) -> SafeString:
    """The calls of an episode in words: failed ones are among the steps, refused ones beside them."""
    if episode.status == "running":
        return SafeString()
    ran, failed, refused = episode.steps_count, episode.failed_count, episode.refused_count
    return format_html(
        '<span class="nowrap">{} step{}{}{}</span>',
        f"{ran:,}",
        "" if ran == 1 else "s",
        format_html('<span class="hint">, {} failed</span>', f"{failed:,}") if failed else "",
        format_html(' <span class="hint">+ {} refused</span>', f"{refused:,}") if refused else "",
    )


@register.filter
def task_name(episode: Episode) -> str:
    """`split #index` where the client named one, else the beginning of the task's hash."""
    if episode.split is not None and episode.task_index is not None:
        return f"{episode.split.name} #{episode.task_index}"
    return f"task {episode.task.content_hash[:8]}"


@register.filter
def own_return(episode: Episode) -> SafeString:
    """By its environment's definition, on the scale of rewards. `episode` has its environment."""
    environment = episode.environment
    return reward(episode.returns[environment.default_return], environment)
