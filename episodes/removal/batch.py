"""Removes ended episodes in batches, each in one short transaction, beside agents that play.

A batch takes everything that belongs to its episodes: steps, notes, plays, uploaded rollouts, and
what was derived from them, so that every figure counts the episodes that there are. Statistics of
tasks are counted again afterwards: their environments are marked (`Environment.counted`), in the
same transaction, and the next recount finds them. Blobs may have other references, so they are only
noted as LooseBlob; `loose_blobs.py` deletes those that nothing needs.

The follower may have read the episodes and not yet written what it derives from them, so each batch
makes it read again (`rollups/changed_episodes.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Max, QuerySet
from django.db.models.functions import Greatest
from django.utils import timezone

from environments import security_log
from environments.database.json_rows import ID_LISTS
from environments.models import Environment
from episodes.models import Episode, Removal, RolloutText
from episodes.removal.pace import RemovalPace
from episodes.rollups.changed_episodes import counted_anew
from episodes.rollups.follower import make_parts

MAX_BATCH_STEPS = 5_000
"""Steps removed in one transaction, unless a single episode has more."""
_LISTED = 10_000
"""Ids of episodes that are read at once."""

_OF_EPISODES = "episode_id IN ({ids})"
_OF_ROLLOUTS = "rollout_id IN (SELECT id FROM episodes_rollout WHERE episode_id IN ({ids}))"
_BLOBS = (
    ("episodes_step", "input_blob_id", _OF_EPISODES),
    ("episodes_step", "output_blob_id", _OF_EPISODES),
    ("episodes_episode", "prompt_id", "id IN ({ids})"),
    ("episodes_episode", "tools_id", "id IN ({ids})"),
    ("episodes_rollout", "event_blob_id", _OF_EPISODES),
    ("episodes_rolloutmessage", "content_blob_id", _OF_ROLLOUTS),
    ("episodes_rolloutmessage", "summary_blob_id", _OF_ROLLOUTS),
    ("episodes_rolloutmessage", "extra_blob_id", _OF_ROLLOUTS),
)
"""Columns that refer to blobs, each with the condition for rows of some episodes."""
_DELETIONS = (
    ("episodes_rolloutmessage", _OF_ROLLOUTS),
    ("episodes_rollout", _OF_EPISODES),
    ("episodes_note", _OF_EPISODES),
    ("episodes_redactedepisode", _OF_EPISODES),
    ("episodes_play", _OF_EPISODES),
    ("episodes_step", _OF_EPISODES),
    # its traceback may quote the episode
    ("episodes_incident", "kind = 'code' AND episode IN ({ids})"),
    ("episodes_episode", "id IN ({ids})"),
)


@dataclass(slots=True)
class RemovedCount:
    episodes: int = 0
    steps: int = 0
    seconds: float = 0.0
    """How long the transaction of a batch took, without the wait for its lock."""


def new_removal(
    author: str, reason: str, query: str = "", *, end: datetime | None = None
) -> Removal:
    """Return a stored removal that has removed nothing yet, and tell the security log of it."""
    what = f"episodes: {query or 'all'}" if end is None else "episodes"
    security_log.note("deleted", what, who=author, detail=reason)
    return Removal.objects.create(author=author, reason=reason, query=query, ended=end)


def remove_all(
    removal: Removal, episodes: Iterable[int], progress: Callable[[int], None] | None = None
) -> RemovedCount:
    """Remove the ended ones among the episodes with these ids, and return what was removed.

    `progress` is called after each batch with the number of episodes removed so far; what it raises
    stops the work. Raises: django.db.Error.
    """
    total, ids, pace = RemovedCount(), iter(episodes), RemovalPace(connection.vendor)
    while page := list(islice(ids, _LISTED)):
        for batch in _batches(page, pace):
            count = remove_batch(removal, batch)
            total.episodes += count.episodes
            total.steps += count.steps
            if progress:
                progress(total.episodes)
            pace.note(count.seconds)
            if not connection.in_atomic_block:
                time.sleep(pace.pause_seconds)
    Removal.objects.filter(pk=removal.pk).update(ended=timezone.now())
    return total


def remove_batch(removal: Removal, episodes: Sequence[int]) -> RemovedCount:
    """Remove the ended ones among these episodes in one transaction, and add them to the row of the
    removal."""
    with transaction.atomic():
        began = time.monotonic()
        with counted_anew(Episode.objects.filter(pk__in=episodes), make_parts()) as endings:
            ids = json.dumps([ending.episode for ending in endings])
            for table, column, condition in _BLOBS:
                blobs = f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"  # nosec B608 # only our own names
                _execute(f"INSERT INTO episodes_looseblob (digest) {blobs} AND {condition}", ids)
            steps = _delete(ids)
        environments = {ending.environment for ending in endings}
        Environment.objects.filter(pk__in=environments).update(counted="")
        last = max((ending.episode for ending in endings), default=0)
        Removal.objects.filter(pk=removal.pk).update(
            episodes=F("episodes") + len(endings),
            steps=F("steps") + steps,
            last_episode=Greatest("last_episode", last),
            updated=timezone.now(),
        )
    return RemovedCount(len(endings), steps, time.monotonic() - began)


def last_removed() -> int:
    """Return the highest id of an episode that was removed; 0 if none was. Ids are not used
    again."""
    return Removal.objects.aggregate(last=Max("last_episode"))["last"] or 0


def ids_of(episodes: QuerySet[Episode]) -> Iterator[int]:
    """Yield the ids of the ended episodes among these, oldest first, without keeping a query open
    in between."""
    last = 0
    episodes_by_id = episodes.filter(status="ended").order_by("pk")
    while page := list(episodes_by_id.filter(pk__gt=last).values_list("pk", flat=True)[:_LISTED]):
        yield from page
        last = page[-1]


def _batches(ids: Sequence[int], pace: RemovalPace) -> Iterator[list[int]]:
    """Divide the episodes into batches that fit one transaction each, as large as `pace` says by
    then."""
    sizes = Episode.objects.filter(pk__in=ids).values_list("pk", "steps_count", "refused_count")
    steps_of = {pk: steps_count + refused_count for pk, steps_count, refused_count in sizes}
    batch, steps = list[int](), 0
    for pk in ids:
        steps += steps_of.get(pk, 0)
        if batch and (len(batch) >= pace.episodes or steps > MAX_BATCH_STEPS):
            yield batch
            batch, steps = [], steps_of.get(pk, 0)
        batch.append(pk)
    if batch:
        yield batch


def _delete(ids: str) -> int:
    """Delete the rows of the episodes, and return how many steps they had."""
    rollouts = f"SELECT id FROM episodes_rollout WHERE {_OF_EPISODES}"  # nosec B608 # only our own names
    _execute(f"DELETE FROM {RolloutText._meta.db_table} WHERE rollout_id IN ({rollouts})", ids)  # nosec B608 # only our own names
    _execute("UPDATE episodes_play SET parent_id = NULL WHERE parent_id IN ({ids})", ids)
    counts = {
        table: _execute(f"DELETE FROM {table} WHERE {condition}", ids)  # nosec B608 # only our own
        for table, condition in _DELETIONS
    }
    return counts["episodes_step"]


def _execute(statement: str, ids: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement.format(ids=ID_LISTS[connection.vendor]), [ids])
        return int(cursor.rowcount)
