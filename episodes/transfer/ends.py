"""Ends: the `end_number` of each imported episode. Used inside the importer's transactions.

Curves and other roll-ups go through the endings of a database by these numbers and never look back. So the numbers of
a file are kept only where nothing has gone by yet, which is where an empty database is restored; elsewhere the endings
come after all that are there, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence

from episodes.endings import last_end
from episodes.models import Episode, Progress
from episodes.transfer.line import HIGHEST_ID, EpisodeLine


def can_be_kept() -> bool:
    """Whether nothing has followed an ending of this database. One query."""
    return not Progress.objects.filter(end_number__gt=0).exists()


def end_numbers(lines: Sequence[EpisodeLine], *, are_kept: bool) -> list[int]:
    """Of each line, one that no other ending has: its own if that is free and numbers are kept, else the next."""
    found = _own(lines) if are_kept else [None] * len(lines)
    last = max([last_end(), *(number for number in found if number is not None)])
    numbers = list[int]()
    for number in found:
        last += number is None
        numbers.append(last if number is None else number)
    return numbers


def _own(lines: Sequence[EpisodeLine]) -> list[int | None]:
    """None where the line has no number, one that no database gives, or one that another ending has."""
    wanted = {line.end_number for line in lines if _is_possible(line.end_number)}
    taken = set(Episode.objects.filter(status="ended", end_number__in=wanted).values_list("end_number", flat=True))
    found = list[int | None]()
    for line in lines:
        is_free = _is_possible(line.end_number) and line.end_number not in taken
        found.append(line.end_number if is_free else None)
        taken.add(line.end_number)
    return found


def _is_possible(number: int | None) -> bool:
    return number is not None and 1 <= number <= HIGHEST_ID
