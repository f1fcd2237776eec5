"""Finds the episode of a rollout, and the rollout of an episode.

Clients don't say which episode a rollout belongs to, unless its metadata, rollout_info or the
metadata of its first messages holds `session_id`, or a message has the task_id of a step as its
call id. Otherwise the episode is the one of the same key, environment, split, task index and run
around the same time whose tool calls are the rollout's. If that leaves several, or the calls
differ, the nearest is a guess, and says so. Episodes that another rollout names for certain are
left out, and among equal ones those that no other rollout has.

The follower stores the result once nothing more arrives (`episodes/rollups/rollouts.py`). Until
then it is computed here whenever it is needed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

from django.db import connection
from django.db.models import Q, QuerySet

from environments.display.parts import read_json
from environments.models import Environment
from episodes.models import Blob, Episode, Rollout, Step
from episodes.uploads.start_fields import session_in, shared_title

MAX_APART = timedelta(hours=1)
"""An episode starts at most this long before or after its rollout, by this server's clock."""
MAX_CANDIDATES = 50
MAX_COMPARED = 2_000
"""Calls of a rollout, and of each episode, that are compared."""
MAX_NAMING = 5
"""Messages with metadata that are searched for a session id."""
MAX_NEAR = 500
"""Rollouts under way whose session ids are compared with that of an episode."""
MAX_COMPARED_LIVE = 8
"""Rollouts under way without a session id that are compared with an episode, because each takes
several queries."""
CALL_KINDS = ("tool_call", "tool_result")
CERTAIN = ("session", "call", "calls")

NOTHING_JOINED: Mapping[int, str] = MappingProxyType({})
Certainty = Literal["session", "call", "calls", "guess"]
Call = tuple[str, str]
"""Name of the tool, and its arguments as JSON with sorted keys."""


@dataclass(frozen=True)
class EpisodeMatch:
    """The episode of a rollout."""

    episode: Episode
    by: Certainty

    @property
    def is_guess(self) -> bool:
        return self.by == "guess"


class FoundEpisode(NamedTuple):
    """The id of the episode of a rollout, and how it was found."""

    episode: int
    by: Certainty


class ReportedCall(NamedTuple):
    """A tool call or a result, as the client reported it."""

    kind: str
    name: str
    call_id: str
    text: str


class _MadeCall(NamedTuple):
    tool: str
    task_id: str
    text: str
    """The input as JSON."""


def match_of(rollout: Rollout) -> EpisodeMatch | None:
    """Return the episode of the rollout; None if there is none here."""
    if not rollout.is_summarised:
        return find_match(rollout)
    if rollout.episode_id is None:
        return None
    episode = _related().filter(pk=rollout.episode_id).first()
    return EpisodeMatch(episode, cast(Certainty, rollout.joined_by)) if episode else None


def find_match(rollout: Rollout) -> EpisodeMatch | None:
    """Look for the episode of the rollout, whatever is stored; None if there is none here."""
    found = find_episode(rollout, lambda: calls_of(rollout), session=_any_session(rollout))
    episode = _related().filter(pk=found.episode).first() if found else None
    return EpisodeMatch(episode, found.by) if found and episode else None


def find_episode(
    rollout: Rollout,
    calls: Callable[[], Sequence[ReportedCall]],
    joined: Mapping[int, str] = NOTHING_JOINED,
    session: str = "",
) -> FoundEpisode | None:
    """Look for the episode of the rollout; None if there is none here.

    `calls` returns the tool calls and results of the rollout, `session` is the session id that the
    client reported. `joined`: episodes of other rollouts that are not stored yet, with how they
    were found.
    """
    if session:
        own = Episode.objects.filter(key_label=rollout.key_label, session_id=session).order_by(
            "-pk"
        )
        if (episode := own.values_list("pk", flat=True).first()) is not None:
            return FoundEpisode(episode, "session")
    candidates = _candidates(rollout)
    if not candidates:
        return None
    reported = calls()
    steps = _steps_of(candidates)
    ids = {call.call_id for call in reported if call.call_id}
    for episode in candidates:
        if any(step.task_id in ids for step in steps[episode]):
            return FoundEpisode(episode, "call")
    free, taken = _free(rollout, candidates, joined)
    told = [call_key(one.name, one.text) for one in reported if one.kind == "tool_call"]
    return _nearest(rollout, sorted(free, key=lambda one: one in taken), steps, told)


def _related() -> QuerySet[Episode]:
    return Episode.objects.select_related("environment", "split")


def calls_of(rollout: Rollout) -> list[ReportedCall]:
    """Return the first MAX_COMPARED tool calls and results of the rollout."""
    messages = rollout.messages.filter(kind__in=CALL_KINDS).select_related("content_blob")
    rows = messages.order_by("index", "id")[:MAX_COMPARED]
    return [ReportedCall(row.kind, row.name, row.call_id, row.text) for row in rows]


def session_of(rollout: Rollout) -> str:
    """Return the session id that the client reported; empty if it reported none."""
    event = rollout.event_object
    found = (session_in(values) for values in (event.get("metadata"), rollout.info_object, event))
    return next(filter(None, found), "")


def session_in_extra(extra: str) -> str:
    """Return the session id in the metadata of a message, given its column `extra`; empty if there
    is none."""
    return session_in(json.loads(extra).get("metadata")) if "session" in extra else ""


def _any_session(rollout: Rollout) -> str:
    """Return the session id that the client reported for the rollout or in its first messages;
    empty if in neither."""
    if session := session_of(rollout):
        return session
    first = (
        rollout.messages.exclude(extra="").order_by("index", "id").values_list("extra", flat=True)
    )
    return next(filter(None, map(session_in_extra, first[:MAX_NAMING])), "")


def _candidates(rollout: Rollout) -> list[int]:
    """Return the ids of the episodes that may be the rollout's, those that started nearest to it
    first.

    The statement is written by hand, because Django takes ten times as long to compile it as a
    database to answer it.
    """
    environment = _environment(rollout.environment_name)
    if environment is None:
        return []
    time = connection.ops.adapt_datetimefield_value
    index, run = rollout.task_index, rollout.run_id
    near = [
        *(
            environment,
            rollout.key_label,
            time(rollout.received - MAX_APART),
            time(rollout.received + MAX_APART),
        ),
        *(index is None, index or 0, run is None, run or 0, shared_title(rollout.event_object)),
        *(not rollout.split, rollout.split),
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            _NEAR.format(side="<=", order="DESC"), [*near, time(rollout.received), MAX_CANDIDATES]
        )
        before = cursor.fetchall()
        cursor.execute(
            _NEAR.format(side=">", order="ASC"), [*near, time(rollout.received), MAX_CANDIDATES]
        )
        rows = [*before, *cursor.fetchall()]
    starts = {pk: _moment(created) for pk, created in rows}
    return sorted(starts, key=lambda pk: abs(starts[pk] - rollout.received))


_NEAR = """
    SELECT e.id, e.created FROM episodes_episode e LEFT JOIN environments_split s ON s.id = e.split_id
    WHERE e.environment_id = %s AND e.key_label = %s AND e.created BETWEEN %s AND %s
        AND (%s OR e.task_index IS NULL OR e.task_index = %s)
        AND (%s OR e.run_id IS NULL OR e.run_id = %s
            OR e.run_id IN (SELECT id FROM episodes_run WHERE title = %s))
        AND (%s OR s.name IS NULL OR s.name = %s) AND e.created {side} %s
    ORDER BY e.created {order}, e.id {order} LIMIT %s
"""


def _moment(value: Any) -> datetime:
    """Return a time as the driver returns it: SQLite's are texts in UTC."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _environment(name: str) -> int | None:
    return (
        Environment.objects.filter(name=name).values_list("pk", flat=True).first() if name else None
    )


def _free(
    rollout: Rollout, candidates: Sequence[int], unstored: Mapping[int, str]
) -> tuple[list[int], set[int]]:
    """Return the candidates that no other rollout names for certain, and the ids of those that
    another one has."""
    others = Rollout.objects.filter(episode__in=candidates).exclude(pk=rollout.pk).order_by()
    joined = [*others.values_list("episode_id", "joined_by"), *unstored.items()]
    certain = {episode for episode, by in joined if by in CERTAIN}
    return [candidate for candidate in candidates if candidate not in certain], {
        episode for episode, _ in joined if episode
    }


def _steps_of(episodes: Sequence[int]) -> dict[int, list[_MadeCall]]:
    found = defaultdict[int, list[_MadeCall]](list)
    rows = Step.objects.filter(episode__in=episodes).order_by("episode_id", "index")
    large = dict[str, list[tuple[int, int]]]()
    for episode, tool, task, text, blob in rows.values_list(
        "episode_id", "tool", "task_id", "input", "input_blob_id"
    )[: MAX_CANDIDATES * MAX_COMPARED]:
        if blob:
            large.setdefault(blob, []).append((episode, len(found[episode])))
        found[episode].append(_MadeCall(tool, task, text))
    for digest, places in large.items():
        text = Blob.objects.get(pk=digest).text
        for episode, place in places:
            found[episode][place] = found[episode][place]._replace(text=text)
    return found


def _nearest(
    rollout: Rollout,
    candidates: Sequence[int],
    steps: Mapping[int, Sequence[_MadeCall]],
    calls: Sequence[Call],
) -> FoundEpisode | None:
    made = {
        candidate: [call_key(step.tool, step.text) for step in steps[candidate]]
        for candidate in candidates
    }
    equal = [candidate for candidate in candidates if calls and made[candidate] == calls]
    if len(equal) > 1:
        equal = _of_task(rollout, equal) or equal
    if equal:
        return FoundEpisode(equal[0], "calls" if len(equal) == 1 else "guess")
    shares = [(_shared(made[candidate], calls), candidate) for candidate in candidates]
    most = max((share for share, _ in shares), default=0)
    if most or (len(candidates) == 1 and not calls and not steps[candidates[0]]):
        return FoundEpisode(next(one for share, one in shares if share == most), "guess")
    return None


def _of_task(rollout: Rollout, episodes: Sequence[int]) -> list[int]:
    """Return the episodes whose task has all fields of the `task_spec` that the client reported, in
    their order.

    The client may report fewer fields: it does not get the hidden ones.
    """
    reported = rollout.event_object.get("task_spec")
    if not isinstance(reported, dict) or not reported:
        return []
    rows = Episode.objects.filter(pk__in=episodes).values_list("pk", "task__spec")
    specs = {pk: read_json(text) for pk, text in rows}
    return [
        pk
        for pk in episodes
        if isinstance(specs[pk], dict) and {**specs[pk], **reported} == specs[pk]
    ]


def _shared(first: Sequence[Call], second: Sequence[Call]) -> int:
    """Return the number of calls at the start of both."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def call_key(name: str, arguments: str) -> Call:
    """Return a call such that equal ones compare as equal, however their arguments are written."""
    try:
        return name, json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return name, arguments


# --- the rollout of an episode --------------------------------------------------------------------


def rollouts_near(episode: Episode) -> QuerySet[Rollout]:
    """Return the rollouts that may be those of the episode and are not summarised yet, in no
    order."""
    span = (episode.created - MAX_APART, episode.created + MAX_APART)
    near = Rollout.objects.filter(environment_name=episode.environment.name, received__range=span)
    near = near.filter(key_label=episode.key_label, is_summarised=False)
    if episode.split:
        near = near.filter(split__in=["", episode.split.name])
    if episode.task_index is not None:
        near = near.filter(Q(task_index=episode.task_index) | Q(task_index__isnull=True))
    return (
        near
        if episode.run is None
        else near.filter(Q(run__title=episode.run.title) | Q(run__isnull=True))
    )


def rollout_of(episode: Episode) -> tuple[Rollout, EpisodeMatch] | None:
    """Return the rollout whose episode this is; None if no client uploaded one.

    Of several, the first that is no guess is returned. For most rollouts the episode is stored;
    those that are still being uploaded are compared with it.
    """
    ids = (
        episode.rollouts.filter(is_summarised=True)
        .order_by("id")
        .values_list("pk", flat=True)[:MAX_CANDIDATES]
    )
    stored = _rollouts(list(ids), "run")
    matches = [(one, EpisodeMatch(episode, cast(Certainty, one.joined_by))) for one in stored]
    certain = next((one for one in matches if not one[1].is_guess), None)
    return certain or _uploading(episode, next(iter(matches), None))


def _rollouts(ids: Sequence[int], *related: str) -> list[Rollout]:
    """Return the rollouts by id. No query for most episodes, which have none; Django would compile
    all columns."""
    return (
        list(Rollout.objects.filter(pk__in=ids).select_related(*related).order_by("id"))
        if ids
        else []
    )


def _uploading(
    episode: Episode, guess: tuple[Rollout, EpisodeMatch] | None
) -> tuple[Rollout, EpisodeMatch] | None:
    """Return the rollout of the episode among those that are still being uploaded; `guess` if there
    is no better."""
    ids = list(rollouts_near(episode).values_list("pk", flat=True)[:MAX_NEAR])
    near: list[Any] = sorted(
        _rollouts(ids, "run", "event_blob"), key=lambda one: abs(one.received - episode.created)
    )
    sessions = {rollout.pk: session_of(rollout) for rollout in near}
    for rollout in near:
        if sessions[rollout.pk] == episode.session_id:
            return rollout, EpisodeMatch(episode, "session")
    for rollout in [one for one in near if not sessions[one.pk]][:MAX_COMPARED_LIVE]:
        match = find_match(rollout)
        if match is not None and match.episode.pk == episode.pk:
            if not match.is_guess:
                return rollout, match
            guess = guess or (rollout, match)
    return guess


def rollouts_of_episodes(episodes: Iterable[int]) -> dict[int, Rollout]:
    """Return the rollout of each episode that has one whose join is stored and no guess. One
    query."""
    rows = Rollout.objects.filter(episode__in=list(episodes), is_summarised=True).exclude(
        joined_by="guess"
    )
    return {
        one.episode_id: one
        for one in rows.select_related("run").order_by("-id")
        if one.episode_id is not None
    }
