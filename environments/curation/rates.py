"""Rates: the ways along the index of success rates to the tasks of a bucket. Under every selection by bucket.

*hopeless* and *saturated* are each one stretch of the index. *learnable* is what lies between them, and after that
those tasks within the two with too few attempts to be called either. *unseen* tasks have no rate. The index is kept
by environment, so without one chosen the environments come one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db.models import Q

from environments import conf
from environments.curation.candidates import Candidates, Chain
from environments.models import TaskStatistics


def by_rate(bucket: str, environments: Sequence[int]) -> Chain:
    """Every task of the bucket and some more, by falling rate within each stretch, newest first at the same rate."""
    return Chain(
        tuple(
            Candidates(TaskStatistics.objects.filter(part, environment=one, by="all"), ("rate", "task_id"), "task_id")
            for part in _stretches(bucket)
            for one in environments
        )
    )


def _stretches(bucket: str) -> Iterator[Q]:
    thresholds = conf.thresholds()
    hopeless, saturated = Q(rate__lte=thresholds.hopeless), Q(rate__gte=thresholds.saturated)
    if bucket == "learnable":
        yield Q(rate__gt=thresholds.hopeless, rate__lt=thresholds.saturated)
    if bucket in ("learnable", "hopeless"):
        yield hopeless
    if bucket in ("learnable", "saturated"):
        yield saturated
