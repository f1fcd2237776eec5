"""MatchCount: how many episodes a filter finds, counted only so far that a page does not wait for it."""

from __future__ import annotations

from dataclasses import dataclass

from episodes.conditions import conditions_of
from episodes.cursor import Order
from episodes.filters import EpisodeFilter
from episodes.named import Named
from episodes.query_plan import plan_of
from episodes.reading import within

MOST_COUNTED = 10_000
"""Along an index."""
LOOKED_AT_FOR_COUNT = 10_000
"""Episodes, where each has to be looked at: the page has looked at more, and is not to take twice as long."""


@dataclass(frozen=True, slots=True)
class MatchCount:
    count: int
    is_more: bool = False
    """There are more than `count`."""
    is_least: bool = False
    """Not every episode was looked at, so there may be more than `count`."""

    def __str__(self) -> str:
        words = "more than " if self.is_more else "at least " if self.is_least else ""
        return f"{words}{self.count:,}"


def match_count_of(asked: EpisodeFilter, seen: int = 0) -> MatchCount:
    """`seen`: so many are known of already. Some queries find names, one or two more count."""
    named = Named.of(asked)
    if named.unknown:
        return MatchCount(0)
    plan = plan_of(conditions_of(asked, named), Order("id"))
    count, is_least = 0, False
    for rows, is_all in within(plan, LOOKED_AT_FOR_COUNT):
        count, is_least = count + rows[: MOST_COUNTED + 1 - count].count(), is_least or not is_all
        if count > MOST_COUNTED:
            return MatchCount(MOST_COUNTED, is_more=True)
    return MatchCount(max(count, seen), is_least=is_least)
