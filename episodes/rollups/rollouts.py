"""Summarises uploaded rollouts: finds their episodes, counts what their messages report, and
indexes their texts.

This happens some time after the commit, so requests that upload pay nothing for it. A rollout is
summarised when no message of it has arrived for QUIET_SECONDS, and again after anything more has
arrived. New messages are found by their ids, which rise in the order of their commits because one
thread writes them; RolloutScan says how far that has got.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, Max
from django.utils import timezone

from environments.database.bulk_writer import BulkWriter, Values
from episodes.models import Blob, Episode, Rollout, RolloutMessage, RolloutScan
from episodes.rollups.names_of_rollouts import RolloutNames, give_names
from episodes.search import index
from episodes.search import rollouts as rollout_index
from episodes.search.documents import documents_of
from episodes.uploads.matching import (
    CALL_KINDS,
    MAX_COMPARED,
    FoundEpisode,
    ReportedCall,
    find_episode,
    session_in_extra,
    session_of,
)
from episodes.uploads.start_fields import UNDECIDED, model_named, shared_title
from episodes.uploads.usage import USAGE_FIELDS, UsageSum

QUIET_SECONDS = 2.0
"""Time without a message after which a rollout is summarised."""
MAX_SCANNED = 20_000
"""Maximum number of messages that are scanned at once."""
MAX_ROLLOUTS = 20
"""Maximum number of rollouts that one transaction summarises."""
MAX_MESSAGES = 2_000
"""Messages of all rollouts of a transaction together, unless a single one has more."""
MAX_WAITING = 1_000
"""Rollouts that are checked for whether they are quiet; those that are not don't keep further ones
waiting."""


_MESSAGE_COLUMNS = (
    *("rollout_id", "index", "kind", "name", "call_id", "content", "content_blob_id"),
    *("extra", "extra_blob_id", "reward", "is_finished"),
)
SUMMARY_COLUMNS = (
    "episode_id",
    "joined_by",
    "messages_count",
    "reward",
    "is_finished",
    *USAGE_FIELDS,
)


@dataclass(frozen=True)
class RolloutSummary:
    """What one rollout's columns will say, and what it was computed from."""

    rollout: Rollout
    match: FoundEpisode | None
    values: dict[str, Any]

    @property
    def certain_episode(self) -> int | None:
        return self.match.episode if self.match and self.match.by != "guess" else None


class RolloutFollowing:
    """Summarises rollouts batch by batch; see `part_runner.Following`, whose interface it has."""

    name = "rollouts"

    def __init__(self, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._quiet = timedelta(seconds=quiet_seconds)
        self._scanned = -1  # RolloutScan as it was read last

    def advance(self) -> bool:
        """Look through new messages or summarise a batch; return whether there was something to do.

        Raises: django.db.Error; then nothing of the batch is written.
        """
        newest, is_any_waiting = _waiting()
        return (newest > self._scanned and self._scan(newest)) or (
            is_any_waiting and self._summarise()
        )

    def _scan(self, newest: int) -> bool:
        """Mark the rollouts of new messages, and return whether there were any."""
        scan = RolloutScan.objects.get_or_create(pk=1)[0]
        self._scanned = scan.message
        if newest <= scan.message:
            return False
        to = min(newest, scan.message + MAX_SCANNED)
        messages = RolloutMessage.objects.filter(pk__gt=scan.message, pk__lte=to)
        rollouts = list(messages.order_by().values_list("rollout", flat=True).distinct())
        with transaction.atomic():
            Rollout.objects.filter(pk__in=rollouts, is_summarised=True).update(is_summarised=False)
            RolloutScan.objects.filter(pk=1).update(message=to)
        return True

    def _summarise(self) -> bool:
        batch = _batch(timezone.now() - self._quiet)
        if not batch:
            return False
        summaries = _summaries(batch)
        episodes = _ended_episodes(summaries)
        alone = [summary.rollout.pk for summary in summaries if summary.match is None]
        documents = rollout_index.documents_of_rollouts(alone)
        with transaction.atomic():
            # before rollouts are locked, as a removal does
            give_names(
                RolloutNames(
                    episode, summary.rollout.run_id, model_named(summary.rollout.event_object)
                )
                for summary in summaries
                if (episode := summary.certain_episode) is not None
            )
            _write(summaries)
            rollout_index.write(documents, without=[summary.rollout.pk for summary in summaries])
            if ended_documents := documents_of(sorted(episodes)):
                index.write(ended_documents)
        return True


def _waiting() -> tuple[int, bool]:
    """Return the id of the newest message, and whether any rollout is not summarised. An idle
    server asks each second.

    The statement is written by hand, because Django takes longer to compile it than a database to
    answer it.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT MAX(id) FROM episodes_rolloutmessage),"
            " EXISTS (SELECT 1 FROM episodes_rollout WHERE NOT is_summarised)"
        )
        newest, is_any = cursor.fetchone()
    return newest or 0, bool(is_any)


def start_over() -> None:
    """Make all rollouts be summarised again."""
    Rollout.objects.filter(is_summarised=True).update(is_summarised=False)


def _batch(quiet_since: Any) -> list[Rollout]:
    """Return rollouts that are not summarised and have been quiet since then, the oldest first."""
    waiting = list(
        Rollout.objects.filter(is_summarised=False)
        .order_by("pk")
        .values_list("pk", "received")[:MAX_WAITING]
    )
    counts = (
        RolloutMessage.objects.filter(rollout__in=[pk for pk, _ in waiting])
        .order_by()
        .values_list("rollout")
    )
    sizes = {
        pk: (count, last)
        for pk, count, last in counts.annotate(n=Count("pk"), last=Max("received"))
    }
    pks, total = list[int](), 0
    for pk, moment in waiting:
        count, last = sizes.get(pk, (0, moment))
        if last > quiet_since:
            continue
        total += count
        if pks and (total > MAX_MESSAGES or len(pks) == MAX_ROLLOUTS):
            break
        pks.append(pk)
    return list(Rollout.objects.filter(pk__in=pks).select_related("event_blob").order_by("pk"))


@dataclass(slots=True)
class _MessageSums:
    """What is read of the messages of one rollout."""

    count: int = 0
    reward: float | None = None
    is_finished: bool = False
    usage: UsageSum = field(default_factory=UsageSum)
    calls: list[ReportedCall] = field(default_factory=list)
    session: str = ""
    """The session id in the metadata of a message."""


def _summaries(rollouts: Sequence[Rollout]) -> list[RolloutSummary]:
    """Return the summaries, first of the rollouts that name their session, because their episodes
    are certain."""
    readings = _readings([row.pk for row in rollouts])
    runs, summaries = dict[int, str](), list[RolloutSummary]()
    for rollout in rollouts:
        readings[rollout.pk].session = session_of(rollout) or readings[rollout.pk].session
    for rollout in sorted(rollouts, key=lambda each: not readings[each.pk].session):
        summaries.append(summary := _summary(rollout, readings[rollout.pk], runs))
        if summary.match:
            runs.setdefault(summary.match.episode, summary.match.by)
    return summaries


def _readings(rollouts: Sequence[int]) -> dict[int, _MessageSums]:
    """Read the messages of all rollouts in one query, which costs a tenth of several for each
    rollout."""
    readings = {pk: _MessageSums() for pk in rollouts}
    rows = RolloutMessage.objects.filter(rollout__in=rollouts).order_by("rollout_id", "index", "id")
    for row in rows.values_list(*_MESSAGE_COLUMNS).iterator(chunk_size=500):
        pk, position, kind, name, call_id, content, content_blob, extra, extra_blob, *end = row
        reading, (reward, is_finished) = readings[pk], end
        reading.count += 1
        reading.reward = reading.reward if reward is None else reward
        reading.is_finished |= is_finished
        reading.usage.add(position, metadata := _text(extra, extra_blob))
        if metadata and not reading.session:
            reading.session = session_in_extra(metadata)
        if kind in CALL_KINDS and len(reading.calls) < MAX_COMPARED:
            reading.calls.append(ReportedCall(kind, name, call_id, _text(content, content_blob)))
    return readings


def _text(text: str, digest: str | None) -> str:
    return Blob.objects.get(pk=digest).text if digest else text


def _summary(rollout: Rollout, reading: _MessageSums, runs: Mapping[int, str]) -> RolloutSummary:
    match = find_episode(rollout, lambda: reading.calls, runs, reading.session)
    values = {
        "episode_id": match.episode if match else None,
        "joined_by": match.by if match else "",
        "messages_count": reading.count,
        "reward": reading.reward,
        "is_finished": reading.is_finished,
        **asdict(reading.usage.total(rollout)),
    }
    return RolloutSummary(rollout, match, values)


def _ended_episodes(summaries: Sequence[RolloutSummary]) -> set[int]:
    """Return the ended episodes that the rollouts belong to or belonged to, whose documents
    change."""
    episodes = {summary.match.episode for summary in summaries if summary.match}
    episodes |= {pk for row in summaries if (pk := row.rollout.episode_id) is not None}
    return set(Episode.objects.ended().filter(pk__in=episodes).values_list("pk", flat=True))


def _write(summaries: Sequence[RolloutSummary]) -> None:
    """Store the summaries. Those whose rows the recorder has changed since they were read stay
    unsummarised."""
    rollouts = Rollout.objects.select_for_update(no_key=True).order_by("pk")
    locked_rows = rollouts.filter(pk__in=[summary.rollout.pk for summary in summaries])
    states = {pk: state for pk, *state in locked_rows.values_list("pk", "info", "is_announced")}
    rows, current = list[Values](), list[RolloutSummary]()
    for summary in summaries:
        rollout = summary.rollout
        is_unchanged = states.get(rollout.pk) == [rollout.info, rollout.is_announced]
        current += [summary] if is_unchanged else []
        values = (summary.values[name] for name in SUMMARY_COLUMNS)
        rows.append((*values, is_unchanged, rollout.pk))
    BulkWriter(connection).update(Rollout, (*SUMMARY_COLUMNS, "is_summarised"), rows)
    certain = [
        (summary.rollout, summary.certain_episode)
        for summary in current
        if summary.certain_episode is not None
    ]
    episodes = Episode.objects.filter(pk__in=[episode for _, episode in certain]).order_by()
    columns = ("pk", "model", "run", "run__title")
    facts = {pk: row for pk, *row in episodes.values_list(*columns)}
    for rollout, episode in certain:
        model, run, title = facts.get(episode, ("", None, ""))
        # the list of rollouts finds those whose client names no model by that of their episode
        if model and model != rollout.model and not model_named(rollout.event_object):
            Rollout.objects.filter(pk=rollout.pk).update(model=model)
        # those whose client says a title are of the run of that title that recorded the episode
        if run not in (None, rollout.run_id) and title == shared_title(rollout.event_object):
            problems = rollout.problem.split("; ")
            names = [problem for problem in problems if not problem.startswith(UNDECIDED)]
            Rollout.objects.filter(pk=rollout.pk).update(run=run, problem="; ".join(names))
