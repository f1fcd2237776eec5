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
from itertools import takewhile
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
    match = find_episode(rollout, lambda: calls_of(rollout), session=_any_session(rollout))
    episode = _related().filter(pk=match.episode).first() if match else None
    return EpisodeMatch(episode, match.by) if match and episode else None


def find_episode(
    rollout: Rollout,
    calls: Callable[[], Sequence[ReportedCall]],
    joins: Mapping[int, str] = NOTHING_JOINED,
    session: str = "",
) -> FoundEpisode | None:
    """Look for the episode of the rollout; None if there is none here.

    `calls` returns the tool calls and results of the rollout, `session` is the session id that the
    client reported. `joins`: episodes of other rollouts that are not stored yet, with how they
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
    messages = calls()
    steps = _steps_of(candidates)
    ids = {message.call_id for message in messages if message.call_id}
    for episode in candidates:
        if any(step.task_id in ids for step in steps[episode]):
            return FoundEpisode(episode, "call")
    free, others = _free(rollout, candidates, joins)
    keys = [
        call_key(message.name, message.text) for message in messages if message.kind == "tool_call"
    ]
    return _nearest(rollout, sorted(free, key=lambda episode: episode in others), steps, keys)


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
    sessions = (
        session_in(values) for values in (event.get("metadata"), rollout.info_object, event)
    )
    return next(filter(None, sessions), "")


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
    names = Environment.objects.filter(name=rollout.environment_name)
    environment = names.values_list("pk", flat=True).first() if rollout.environment_name else None
    if environment is None:
        return []
    time = connection.ops.adapt_datetimefield_value
    index, run = rollout.task_index, rollout.run_id
    values: list[Any] = [
        environment,
        rollout.key_label,
        time(rollout.received - MAX_APART),
        time(rollout.received + MAX_APART),
        index is None,
        index or 0,
        run is None,
        run or 0,
        shared_title(rollout.event_object),
        not rollout.split,
        rollout.split,
        time(rollout.received),
        MAX_CANDIDATES,
    ]
    distances: dict[int, timedelta] = {}
    with connection.cursor() as cursor:
        for side, order in (("<=", "DESC"), (">", "ASC")):
            cursor.execute(_NEAR.format(side=side, order=order), values)
            for pk, moment_text in cursor.fetchall():
                # SQLite's driver returns texts in UTC
                moment = (
                    datetime.fromisoformat(moment_text)
                    if isinstance(moment_text, str)
                    else moment_text
                )
                moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                distances[pk] = abs(moment - rollout.received)
    return sorted(distances, key=lambda pk: distances[pk])


_NEAR = """
    SELECT e.id, e.created FROM episodes_episode e LEFT JOIN environments_split s ON s.id = e.split_id
    WHERE e.environment_id = %s AND e.key_label = %s AND e.created BETWEEN %s AND %s
        AND (%s OR e.task_index IS NULL OR e.task_index = %s)
        AND (%s OR e.run_id IS NULL OR e.run_id = %s
            OR e.run_id IN (SELECT id FROM episodes_run WHERE title = %s))
        AND (%s OR s.name IS NULL OR s.name = %s) AND e.created {side} %s
    ORDER BY e.created {order}, e.id {order} LIMIT %s
"""


def _free(
    rollout: Rollout, candidates: Sequence[int], joins: Mapping[int, str]
) -> tuple[list[int], set[int]]:
    """Return the candidates that no other rollout names for certain, and the ids of those that
    another one has."""
    others = Rollout.objects.filter(episode__in=candidates).exclude(pk=rollout.pk).order_by()
    matches = [*others.values_list("episode_id", "joined_by"), *joins.items()]
    certain = {episode for episode, by in matches if by in CERTAIN}
    return (
        [candidate for candidate in candidates if candidate not in certain],
        {episode for episode, _ in matches if episode},
    )


def _steps_of(episodes: Sequence[int]) -> dict[int, list[_MadeCall]]:
    steps = defaultdict[int, list[_MadeCall]](list)
    rows = Step.objects.filter(episode__in=episodes).order_by("episode_id", "index")
    large = dict[str, list[tuple[int, int]]]()
    for episode, tool, task, text, blob in rows.values_list(
        "episode_id", "tool", "task_id", "input", "input_blob_id"
    )[: MAX_CANDIDATES * MAX_COMPARED]:
        if blob:
            large.setdefault(blob, []).append((episode, len(steps[episode])))
        steps[episode].append(_MadeCall(tool, task, text))
    for digest, places in large.items():
        text = Blob.objects.get(pk=digest).text
        for episode, place in places:
            steps[episode][place] = steps[episode][place]._replace(text=text)
    return steps


def _nearest(
    rollout: Rollout,
    candidates: Sequence[int],
    steps: Mapping[int, Sequence[_MadeCall]],
    calls: Sequence[Call],
) -> FoundEpisode | None:
    keys_of = {
        candidate: [call_key(step.tool, step.text) for step in steps[candidate]]
        for candidate in candidates
    }
    equal = [candidate for candidate in candidates if calls and keys_of[candidate] == calls]
    if len(equal) > 1:
        equal = _of_task(rollout, equal) or equal
    if equal:
        return FoundEpisode(equal[0], "calls" if len(equal) == 1 else "guess")
    shares = [_shared_start(keys_of[candidate], calls) for candidate in candidates]
    most = max(shares, default=0)
    if most or (len(candidates) == 1 and not calls and not steps[candidates[0]]):
        return FoundEpisode(candidates[shares.index(most)], "guess")
    return None


def _of_task(rollout: Rollout, episodes: Sequence[int]) -> list[int]:
    """Return the episodes whose task has all fields of the `task_spec` that the client reported, in
    their order.

    The client may report fewer fields: it does not get the hidden ones.
    """
    spec = rollout.event_object.get("task_spec")
    if not isinstance(spec, dict) or not spec:
        return []
    rows = Episode.objects.filter(pk__in=episodes).values_list("pk", "task__spec")
    specs = {pk: read_json(text) for pk, text in rows}
    return [
        pk for pk in episodes if isinstance(specs[pk], dict) and {**specs[pk], **spec} == specs[pk]
    ]


def _shared_start(calls: Sequence[Call], others: Sequence[Call]) -> int:
    """Return the number of calls at the start of both."""
    pairs = zip(calls, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


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
    if episode.run is not None:
        near = near.filter(Q(run__title=episode.run.title) | Q(run__isnull=True))
    return near


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
    guess = None
    for rollout in _rollouts(list(ids), "run"):
        match = EpisodeMatch(episode, cast(Certainty, rollout.joined_by))
        if not match.is_guess:
            return rollout, match
        guess = guess or (rollout, match)
    return _uploading(episode, guess)


def _rollouts(ids: Sequence[int], *relations: str) -> Iterable[Rollout]:
    """Return the rollouts by id. No query for most episodes, which have none; Django would compile
    all columns."""
    rows = Rollout.objects.filter(pk__in=ids).select_related(*relations).order_by("id")
    return rows if ids else ()


def _uploading(
    episode: Episode, guess: tuple[Rollout, EpisodeMatch] | None
) -> tuple[Rollout, EpisodeMatch] | None:
    """Return the rollout of the episode among those that are still being uploaded; `guess` if there
    is no better."""
    ids = list(rollouts_near(episode).values_list("pk", flat=True)[:MAX_NEAR])
    near: list[Any] = sorted(
        _rollouts(ids, "run", "event_blob"),
        key=lambda rollout: abs(rollout.received - episode.created),
    )
    sessions = {rollout.pk: session_of(rollout) for rollout in near}
    for rollout in near:
        if sessions[rollout.pk] == episode.session_id:
            return rollout, EpisodeMatch(episode, "session")
    for rollout in [row for row in near if not sessions[row.pk]][:MAX_COMPARED_LIVE]:
        match = find_match(rollout)
        if match is not None and match.episode.pk == episode.pk:
            if not match.is_guess:
                return rollout, match
            guess = guess or (rollout, match)
    return guess


def rollouts_of_episodes(episodes: Iterable[int]) -> dict[int, Rollout]:
    """Return the rollout of each episode that has one whose join is stored and no guess. One
    query."""
    rows = Rollout.objects.filter(episode__in=list(episodes), is_summarised=True)
    rows = rows.exclude(joined_by="guess").select_related("run").order_by("-id")
    return {row.episode_id: row for row in rows if row.episode_id is not None}
