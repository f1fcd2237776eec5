"""Which server has which session, as rows of SessionLease. One thread asks the database for all
that wait, together.

A lease is made before its session is opened and deleted after the end of its episode is recorded,
so a session that plays always has one. It is named by a digest, because an id that a client chose
may contain a secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError, connection

from environments.database.bulk_writer import connect, execute_prepared
from environments.database.storable import digest_of, storable

MAX_BATCH = 500
RETRY_SECONDS = 0.2
MAX_CLOSE_SECONDS = 2.0
MAX_RELEASE_SECONDS = 0.2
"""How long a lease that is given up waits for a question, in whose transaction it is deleted."""

Owners = Mapping[str, Any]
"""Ids of servers by the digests of sessions; or what opens the sessions, for the question about
that."""

_RELEASE = (
    "DELETE FROM environments_sessionlease WHERE server_id = %s AND session = ANY(%s::text[])"
)
_CLAIM = (
    "INSERT INTO environments_sessionlease AS l (server_id, session) SELECT %s, unnest(%s::text[]) "
    "ON CONFLICT (session) DO UPDATE SET server_id = l.server_id RETURNING session, server_id"
)
_OPEN = (
    "INSERT INTO environments_sessionlease AS l (server_id, session, opening) "
    "SELECT %s, unnest(%s::text[]), unnest(%s::text[]) ON CONFLICT (session) DO UPDATE SET opening "
    "= CASE "
    "WHEN l.server_id = excluded.server_id THEN coalesce(l.opening, excluded.opening) ELSE "
    "l.opening END "
    "RETURNING session, server_id"
)
_OPENINGS = (
    "SELECT session, opening FROM environments_sessionlease WHERE session = ANY(%s::text[]) AND "
    "opening IS NOT NULL"
)
_FIND = "SELECT session, server_id FROM environments_sessionlease WHERE session = ANY(%s::text[])"
_ENDED = "SELECT id FROM environments_clusterserver WHERE ended IS NOT NULL"
_TAKE = (
    "UPDATE environments_sessionlease SET server_id = %s WHERE session = ANY(%s::text[]) "
    f"AND server_id IN ({_ENDED}) RETURNING session, server_id"  # nosec B608 # only our own words
)
_FIND_LEFT = (
    "SELECT server_id, count(*) FROM environments_sessionlease "
    f"WHERE server_id IN ({_ENDED}) GROUP BY server_id"  # nosec B608 # only our own words
)
_DROP = (
    "DELETE FROM environments_sessionlease WHERE server_id = ANY(%s::bigint[]) AND (opening IS "
    "NULL "
    f"OR server_id IN ({_ENDED} AND ended < now() - interval '1 hour'))"  # nosec B608 # only our own words
)
_TAKE_OR_MAKE = (
    "INSERT INTO environments_sessionlease AS l (server_id, session) SELECT %s, one FROM "
    "unnest(%s::text[]) AS one "
    "WHERE NOT EXISTS (SELECT 1 FROM environments_sessionlease AS lease WHERE lease.session = one "
    f"AND lease.server_id NOT IN ({_ENDED})) "  # nosec B608 # only our own words
    "ON CONFLICT (session) DO UPDATE SET server_id = excluded.server_id WHERE l.server_id IN "
    f"({_ENDED}) "  # nosec B608 # only our own words
    "RETURNING session, server_id"
)
"""Leases of servers that live are left out before the conflict, which would lock each of them."""


class _Question(NamedTuple):
    kind: str
    digests: Collection[Any]
    """Digests of sessions; pairs of them and what opens the sessions; or ids of servers."""
    answer: asyncio.Future[Owners] | None


class Leases(threading.Thread):
    """The thread and its questions, which are asked on the event loop. Start it, and `close` it at
    the end."""

    def __init__(
        self, server: int, rest: Callable[[int, float], float] = lambda _asked, _spent: 0.0
    ) -> None:
        """`rest(batch_size, seconds)`: pause after a transaction, in seconds."""
        super().__init__(name="leases", daemon=True)
        self._server, self._rest = server, rest
        self._queue: SimpleQueue[_Question | None] = SimpleQueue()
        self._given_up = threading.Event()

    async def claim(self, digest: str) -> int:
        """Return which server has the session: the one that had it before, or else this one from
        now on."""
        # none: this server ends
        return int((await self._ask("claim", [digest])).get(digest, self._server))

    async def open(self, digest: str, opening: str) -> int:
        """Claim a session and keep what opens it again. Return which server has it, as `claim`
        does."""
        return int((await self._ask("open", [(digest, opening)])).get(digest, self._server))

    async def openings(self, digests: Collection[str]) -> Mapping[str, str]:
        """Return what opens those of the sessions again for which that was kept."""
        return await self._ask("openings", digests)

    async def find(self, digest: str) -> int | None:
        """Return which server has the session; None if none has."""
        return (await self._ask("find", [digest])).get(digest)

    async def take(self, digest: str) -> bool:
        """Take the session from a server that has ended; return whether it was this server that
        took it."""
        return digest in await self._ask("take", [digest])

    async def left_by(self) -> Collection[int]:
        """Return which servers that have ended had sessions that nobody has taken over."""
        return [int(server) for server in await self._ask("left", ())]

    def drop(self, servers: Collection[int]) -> None:
        """Delete, soon, the leases of servers that have ended and whose running sessions are taken
        over.

        Those without an environment stay for an hour, in which their clients may go on with them.
        """
        self._queue.put(_Question("drop", servers, None))

    async def take_left(self, digests: Collection[str]) -> Collection[str]:
        """Take those sessions that a server that has ended had, or that no server has. Returns
        which they are."""
        return (await self._ask("take or make", digests)).keys()

    def release(self, digest: str) -> None:
        """Give the session up, soon. It may be claimed again at once."""
        self._queue.put(_Question("release", [digest], None))

    def close(self) -> None:
        """Release what has to be released, and end. Blocks."""
        self._queue.put(None)
        self.join(MAX_CLOSE_SECONDS)
        self._given_up.set()

    async def _ask(self, kind: str, digests: Collection[Any]) -> Owners:
        answer: asyncio.Future[Owners] = asyncio.get_running_loop().create_future()
        self._queue.put(_Question(kind, digests, answer))
        return await answer

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        is_open = True
        while is_open:
            questions = self._gather()
            is_open = None not in questions
            began = time.monotonic()
            self._answer([one for one in questions if one is not None])
            self._given_up.wait(self._rest(len(questions), time.monotonic() - began))
        connection.close()

    def _gather(self) -> list[_Question | None]:
        """Take all questions, at least one. Leases that are given up wait a little for others."""
        questions = list[_Question | None]()
        question, until, is_patient = (
            self._queue.get(),
            time.monotonic() + MAX_RELEASE_SECONDS,
            True,
        )
        with contextlib.suppress(Empty):
            while True:
                questions.append(question)
                if question is None or len(questions) == MAX_BATCH:
                    break
                is_patient = is_patient and question.kind == "release"
                seconds = max(0.0, until - time.monotonic()) if is_patient else 0.0
                question = self._queue.get(timeout=seconds) if seconds else self._queue.get_nowait()
        return questions

    def _answer(self, questions: list[_Question]) -> None:
        asked = {
            kind: sorted(
                {digest for one in questions if one.kind == kind for digest in one.digests}
            )
            for kind in _STATEMENTS
            if any(one.kind == kind for one in questions)
        }
        owners = self._until_there(asked)
        waiting = [
            (one.answer, owners.get(one.kind, {})) for one in questions if one.answer is not None
        ]
        if waiting:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits any more
                waiting[0][0].get_loop().call_soon_threadsafe(_settle, waiting)

    def _until_there(self, asked: Mapping[str, list[Any]]) -> Mapping[str, Owners]:
        """Ask the database as soon as it is there. Asking twice changes nothing."""
        while asked:
            try:
                return self._execute(asked)
            except (DatabaseError, InterfaceError):
                with contextlib.suppress(DatabaseError, InterfaceError):
                    connection.close()
            if self._given_up.wait(RETRY_SECONDS):
                break
        return {}

    def _execute(self, asked: Mapping[str, list[Any]]) -> Mapping[str, Owners]:
        """Execute the statements of all kinds that are asked for, in one transaction and one round
        trip."""
        connect(connection)
        raw = connection.connection
        with connection.wrap_database_errors:
            with raw.pipeline() if len(asked) > 1 else contextlib.nullcontext():
                cursors = {kind: self._begun(kind, digests) for kind, digests in asked.items()}
            return {
                kind: dict(cursor.fetchall()) if cursor.description else {}
                for kind, cursor in cursors.items()
            }

    def _begun(self, kind: str, digests: list[Any]) -> Any:
        sql, *values = _STATEMENTS[kind](self._server, digests)
        return execute_prepared(connection.connection, sql, values)


# first those that give sessions up, which the same client may have opened again already
_STATEMENTS: Mapping[str, Callable[[int, list[Any]], tuple[Any, ...]]] = {
    "release": lambda server, digests: (_RELEASE, server, digests),
    "find": lambda server, digests: (_FIND, digests),
    "claim": lambda server, digests: (_CLAIM, server, digests),
    "open": lambda server, pairs: (_OPEN, server, [*dict(pairs)], [*dict(pairs).values()]),
    "openings": lambda server, digests: (_OPENINGS, digests),
    "take": lambda server, digests: (_TAKE, server, digests),
    "left": lambda server, digests: (_FIND_LEFT,),
    "drop": lambda server, servers: (_DROP, servers),
    "take or make": lambda server, digests: (_TAKE_OR_MAKE, server, digests),
}


def _settle(waiting: Iterable[tuple[asyncio.Future[Owners], Owners]]) -> None:
    for answer, owners in waiting:
        if not answer.done():
            answer.set_result(owners)


def lease_of(sid: str) -> str:
    """Return the digest under which a session's lease is stored."""
    return digest_of(storable(sid).encode())
