"""Numbers of episodes for one of several servers: in blocks, so that a number costs no question to
the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import structlog
from django.db import Error, connection, transaction

from environments.cluster.membership import LOCKS, NUMBERING
from environments.errors import NumbersAway

BLOCK = 1_000
AHEAD = 500
"""How many numbers are left of a block when the next one is taken."""

_TAKE = """
    UPDATE environments_clusterserver SET last_episode = %s + GREATEST(
        (SELECT MAX(last_episode) FROM environments_clusterserver), (SELECT MAX(id) FROM episodes_episode),
        (SELECT MAX(last_episode) FROM episodes_removal), 0
    ) WHERE id = %s RETURNING last_episode
"""

log = structlog.get_logger(__name__)


class NumberBlocks(Iterator[int]):
    """Numbers that no other server of the database gives out. Used on the event loop."""

    def __init__(self, first: range, take_block: Callable[[], Awaitable[range]]) -> None:
        self._block, self._next, self._take_block = first, range(0), take_block
        self._used = 0
        self._taking: asyncio.Task[None] | None = None

    def __next__(self) -> int:
        """Return the next number. Raises: NumbersAway."""
        if self._used >= len(self._block):
            self._block, self._next, self._used = self._next, range(0), 0
        if self._used >= len(self._block) - AHEAD and not self._next and self._taking is None:
            self._taking = asyncio.get_running_loop().create_task(self._take())
        if not self._block:
            raise NumbersAway
        self._used += 1
        return self._block[self._used - 1]

    async def _take(self) -> None:
        try:
            self._next = await self._take_block()
        except Error as error:  # the database is away; the next episode asks again
            log.debug("no_numbers", error=type(error).__name__)
        finally:
            self._taking = None


def next_block(server: int) -> range:
    """Return numbers of episodes that belong to the server from now on. Blocks."""
    with transaction.atomic(), connection.cursor() as cursor:
        # in a statement of its own, because the next one must see what earlier holders have written
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCKS, NUMBERING])
        cursor.execute(_TAKE, [BLOCK, server])
        last = cursor.fetchone()[0]
    return range(last - BLOCK + 1, last + 1)
