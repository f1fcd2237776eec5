"""What a removal would remove: how many episodes and steps, of which environments, and how large
they are.

The size of an episode is that of the texts of its steps, whichever form they are stored in, and 500
bytes for each row. It is an estimate of the space that its removal makes free, and the same on
every database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import Count, Max, Min, QuerySet, Sum

from episodes.models import Episode
from episodes.removal.batch import ids_of

ROW_BYTES = 500
"""Size of a row without its texts, indexes included."""
_RANGE = 5_000
"""Ids of episodes that are measured by one query."""
_SIZES = f"""
    SELECT s.episode_id, SUM({ROW_BYTES} + LENGTH(s.input) + LENGTH(s.output) + LENGTH(s.error)
        + COALESCE(LENGTH(i.data), 0) + COALESCE(LENGTH(o.data), 0))
    FROM episodes_step AS s
    LEFT JOIN episodes_blob AS i ON i.digest = s.input_blob_id
    LEFT JOIN episodes_blob AS o ON o.digest = s.output_blob_id
    WHERE s.episode_id > %s AND s.episode_id <= %s GROUP BY s.episode_id
"""  # nosec B608 # only our own names


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    episodes: int
    """Ended episodes that would be removed."""
    steps: int
    running: int
    """Running episodes that match, which stay."""
    environments: Sequence[tuple[str, int]]
    """Names of environments with the number of their episodes, those with most first."""
    first: int | None
    """Lowest number of an episode; None if there are none."""
    last: int | None

    @property
    def sentences(self) -> list[str]:
        """Return what would happen, for people to read."""
        if not self.episodes:
            return ["No ended episode matches."]
        steps = f"{self.steps:,} step{'' if self.steps == 1 else 's'}"
        environments = ", ".join(f"{name} ({count:,})" for name, count in self.environments)
        sentences = [f"{count_of(self.episodes)} with {steps} would be removed: {environments}."]
        if self.episodes > 1:
            sentences.append(f"The first is episode {self.first}, the last is episode {self.last}.")
        if self.running:
            is_one = self.running == 1
            verb = "is still running and stays" if is_one else "are still running and stay"
            sentences.append(f"{count_of(self.running)} {verb}.")
        sentences.append(
            "Their notes, uploaded conversations and places in figures go with them. This "
            "cannot be undone."
        )
        return sentences


def count_of(episodes: int) -> str:
    return f"{episodes:,} episode{'' if episodes == 1 else 's'}"


def plan_of(episodes: QuerySet[Episode]) -> RemovalPlan:
    """Return what removing these episodes would remove. Three queries."""
    rows = episodes.filter(status="ended").order_by()
    totals = rows.aggregate(
        n=Count("pk"),
        steps=Sum("steps_count"),
        refused=Sum("refused_count"),
        first=Min("pk"),
        last=Max("pk"),
    )
    counts = rows.values_list("environment__name").annotate(n=Count("pk"))
    counts = counts.order_by("-n", "environment__name")
    steps = (totals["steps"] or 0) + (totals["refused"] or 0)
    running = episodes.filter(status="running").count()
    return RemovalPlan(totals["n"], steps, running, list(counts), totals["first"], totals["last"])


def oldest_beyond(episodes: QuerySet[Episode], keep_bytes: int) -> list[int]:
    """Return the ids of the oldest of the ended `episodes` without which the whole record has
    `keep_bytes` at most.

    Reads the sizes of all steps, which takes about a second for 500,000 of them.
    """
    sizes = _sizes()
    excess = sum(sizes.values()) - keep_bytes
    oldest = list[int]()
    for pk in ids_of(episodes):
        if excess <= 0:
            break
        excess -= sizes.get(pk, ROW_BYTES)
        oldest.append(pk)
    return oldest


def _sizes() -> dict[int, int]:
    """Return the size in bytes of each episode by its id."""
    sizes = dict[int, int]()
    last: int = Episode.objects.aggregate(last=Max("pk"))["last"] or 0
    with connection.cursor() as cursor:
        for low in range(0, last, _RANGE):
            ids = Episode.objects.filter(pk__gt=low, pk__lte=low + _RANGE)
            sizes |= dict.fromkeys(ids.values_list("pk", flat=True), ROW_BYTES)
            cursor.execute(_SIZES, [low, low + _RANGE])
            sizes |= {pk: ROW_BYTES + int(size) for pk, size in cursor.fetchall()}
    return sizes
