"""What a span of training steps holds in one place, and queries of spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from environments.tasks.task_places import batched
from episodes.attempts.group_states import GroupTally
from episodes.models import StepSpan
from episodes.rollups.scopes import Edges, Place
from episodes.rollups.summaries import RollupSummary
from episodes.rollups.summaries import merged as merged_summaries

MAX_CONDITIONS = 100
"""Conditions in one query: databases limit the length of a statement."""
SCOPE_CONDITION = "scope = %s AND scope_id = %s"

Span = tuple[int, Place]
"""Number of a span, and one of its places."""


class SpanContent(NamedTuple):
    """The lowest and highest training step of a span, and a summary of its endings."""

    low: int
    high: int
    summary: RollupSummary

    def with_groups(self, groups: GroupTally) -> SpanContent:
        """Return the content with these groups, where it has none yet."""
        return self._replace(
            summary=self.summary._replace(summary=self.summary.summary._replace(groups=groups))
        )


def merged(contents: Sequence[SpanContent], edges: Edges) -> SpanContent:
    """Merge one content or more; the sketches are small."""
    return SpanContent(
        min(content.low for content in contents),
        max(content.high for content in contents),
        merged_summaries([content.summary for content in contents]).compressed(edges),
    )


def span_queries(
    conditions: Sequence[tuple[str, Sequence[Any]]],
) -> Iterator[QuerySet[StepSpan]]:
    """Yield queries of the spans that meet any of the conditions, which are SQL with values."""
    for some in batched(conditions, MAX_CONDITIONS):
        sql = " OR ".join(f"({condition})" for condition, _ in some)
        values = [value for _, each in some for value in each]
        yield StepSpan.objects.filter(RawSQL(sql, values, BooleanField()))  # nosec B611 # the values are parameters
