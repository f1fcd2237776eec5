"""catch_up: follow to the end in this process, after imports and seeding, in benchmarks and tests. A server may run.

`start_over` makes all parts begin anew; whoever follows next, a server included, deletes their rows first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from django.db import transaction

from environments.turns import give_way
from episodes.follower.following import EMPTYING, Following, Overtaken
from episodes.follower.parts import make_parts
from episodes.models import Progress


def catch_up(progress: Callable[[str, int], None] | None = None) -> int:
    """Follow all endings there are; returns how many batches that took.

    `progress` hears after each batch: the part's name and the `end_number` up to which it has followed.
    Raises: django.db.Error.
    """
    return sum(_catch_up(Following(part), progress) for part in make_parts())


def start_over() -> None:
    """Raises: django.db.Error."""
    with transaction.atomic():
        for part in make_parts():
            Progress.objects.update_or_create(name=part.name, defaults={"end_number": EMPTYING})


def _catch_up(following: Following, progress: Callable[[str, int], None] | None) -> int:
    batches, has_more = 0, True
    while has_more:
        with contextlib.suppress(Overtaken):
            has_more = following.advance()
            batches += has_more
            if has_more and progress:
                progress(following.part.name, following.place)
        give_way()
    return batches
