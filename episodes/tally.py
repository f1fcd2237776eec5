"""Tally: how many episodes a filter finds, counted only so far that a page does not wait for it."""

from __future__ import annotations

from dataclasses import dataclass

from episodes.conditions import conditions_of
from episodes.cursor import Order
from episodes.filters import EpisodeFilter
from episodes.named import Named
from episodes.reading import within
from episodes.scope import scope_of

MOST_BY_INDEX = 10_000
MOST_CHECKED = 1_000
"""Where each row has to be looked at."""


@dataclass(frozen=True, slots=True)
class Tally:
    count: int
    is_more: bool
    """There are more than `count`."""

    def __str__(self) -> str:
        return f"{'more than ' if self.is_more else ''}{self.count:,}"


def tally_of(asked: EpisodeFilter) -> Tally:
    """Some queries find names, one or two more count."""
    named = Named.of(asked)
    if named.unknown:
        return Tally(0, is_more=False)
    scope = scope_of(conditions_of(asked, named), Order("id"))
    most = MOST_BY_INDEX if not (scope.is_bounded or scope.is_heap) else MOST_CHECKED
    count, is_more = 0, False
    for rows, is_all in within(scope):
        found = rows[: most + 1].count()
        count, is_more = count + found, is_more or not is_all
    return Tally(min(count, most), is_more or count > most)
