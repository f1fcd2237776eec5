"""Keeps what the follower has derived true when episodes change that it may have followed, or are
removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db.models import F, QuerySet

from episodes.attempts.endings import Ending, endings_of
from episodes.models import Episode, Progress
from episodes.rollups.rollup_part import RollupPart


@contextmanager
def counted_anew(
    episodes: QuerySet[Episode], parts: Sequence[RollupPart]
) -> Iterator[Sequence[Ending]]:
    """Take the ended ones among the episodes out of the rows of `parts`, and give them, as they are
    after the block,
    to the parts again. Yield their endings.

    Call it first in a transaction, with a query that finds the same episodes after the block.
    Raises: django.db.Error.
    """
    # locks the follower out, which then reads again
    Progress.objects.update(removals=F("removals") + 1)
    places = dict(Progress.objects.values_list("name", "end_number"))
    before = endings_of(episodes)
    for part in parts:
        if endings := [ending for ending in before if ending.number <= places.get(part.name, 0)]:
            part.remove(endings)
    yield before
    after = endings_of(episodes)
    for part in parts:
        if endings := [ending for ending in after if ending.number <= places.get(part.name, 0)]:
            part.write(part.gather(endings))
