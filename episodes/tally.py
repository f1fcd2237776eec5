"""Tally: how many episodes a filter finds, counted only so far that a page does not wait for it."""

from __future__ import annotations

from dataclasses import dataclass

from episodes.conditions import conditions_of
from episodes.cursor import Order
from episodes.filters import EpisodeFilter
from episodes.named import Named
from episodes.reading import within
from episodes.scope import scope_of

MOST_COUNTED = 10_000
"""Along an index."""
LOOKED_AT = 10_000
"""Episodes, where each has to be looked at: the page has looked at more, and is not to take twice as long."""


@dataclass(frozen=True, slots=True)
class Tally:
    count: int
    is_more: bool = False
    """There are more than `count`."""
    is_least: bool = False
    """Not every episode was looked at, so there may be more than `count`."""

    def __str__(self) -> str:
        words = "more than " if self.is_more else "at least " if self.is_least else ""
        return f"{words}{self.count:,}"


def tally_of(asked: EpisodeFilter, seen: int = 0) -> Tally:
    """`seen`: so many are known of already. Some queries find names, one or two more count."""
    named = Named.of(asked)
    if named.unknown:
        return Tally(0)
    scope = scope_of(conditions_of(asked, named), Order("id"))
    count, is_least = 0, False
    for rows, is_all in within(scope, LOOKED_AT):
        count, is_least = count + rows[: MOST_COUNTED + 1 - count].count(), is_least or not is_all
        if count > MOST_COUNTED:
            return Tally(MOST_COUNTED, is_more=True)
    return Tally(max(count, seen), is_least=is_least)
