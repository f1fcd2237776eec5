"""Which server has which session, as rows of SessionLease. One thread sends all waiting questions
to the database together.

A lease is made before its session is opened and deleted after the end of its episode is recorded,
so a session that plays always has one. It is stored under a digest, because an id that a client
chose may contain a secret.
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
"""How long a released lease waits for a question, to be deleted in its transaction."""

Owners = Mapping[str, Any]
"""Ids of servers by the digests of sessions; for `openings`, what opens the sessions."""

_RELEASE = (
    "DELETE FROM environments_sessionlease WHERE server_id = %s AND session = ANY(%s::text[])"
)
_CLAIM = (
    "INSERT INTO environments_sessionlease AS l (server_id, session, opening) "
    "SELECT %s, unnest(%s::text[]), unnest(%s::text[]) ON CONFLICT (session) DO UPDATE SET opening "
    "= CASE WHEN l.server_id = excluded.server_id THEN coalesce(l.opening, excluded.opening) "
    "ELSE l.opening END RETURNING session, server_id"
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
    """Digests of sessions; pairs of a digest and what opens the session; or ids of servers."""
    answer: asyncio.Future[Owners] | None


class Leases(threading.Thread):
    """The thread and its questions, which are asked on the event loop. Start it, and `close` it at
    the end."""

    def __init__(
        self, server: int, rest: Callable[[int, float], float] = lambda batch_size, seconds: 0.0
    ) -> None:
        """`rest(batch_size, seconds)`: pause after a transaction, in seconds."""
        super().__init__(name="leases", daemon=True)
        self._server, self._rest = server, rest
        self._queue: SimpleQueue[_Question | None] = SimpleQueue()
        self._given_up = threading.Event()

    async def claim(self, sid: str, opening: str = "") -> int:
        """Return which server has the session: the one that had it, or else this one from now on.

        `opening` is kept, to open the session again.
        """
        digest = lease_of(sid)
        owners = await self._ask("claim", [(digest, opening)])
        return int(owners.get(digest, self._server))  # no answer: this server ends

    async def openings(self, sids: Collection[str]) -> Mapping[str, str]:
        """Return what opens the sessions again, of those for which it is known."""
        openings = await self._ask("openings", [*map(lease_of, sids)])
        return {sid: openings[lease] for sid in sids if (lease := lease_of(sid)) in openings}

    async def find(self, sid: str) -> int | None:
        """Return which server has the session; None if none has."""
        digest = lease_of(sid)
        return (await self._ask("find", [digest])).get(digest)

    async def take(self, sid: str) -> bool:
        """Take the session from a server that has ended; return whether this server got it."""
        return bool(await self._ask("take", [lease_of(sid)]))

    async def left_by(self) -> Collection[int]:
        """Return the ended servers whose sessions nobody has taken over."""
        return [int(server) for server in await self._ask("left", ())]

    def drop(self, servers: Collection[int]) -> None:
        """Soon delete the leases of ended servers whose running sessions are taken over.

        Those without an environment stay for an hour, in which their clients may go on with them.
        """
        self._queue.put(_Question("drop", servers, None))

    async def take_left(self, sids: Collection[str]) -> list[str]:
        """Take the sessions that ended servers have left, or that have no lease; return their
        ids."""
        by_lease = {lease_of(sid): sid for sid in sids}
        return [by_lease[lease] for lease in await self._ask("take or make", by_lease)]

    def release(self, sid: str) -> None:
        """Give the session up soon. It may be claimed again at once."""
        self._queue.put(_Question("release", [lease_of(sid)], None))

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
            self._answer([question for question in questions if question is not None])
            self._given_up.wait(self._rest(len(questions), time.monotonic() - began))
        connection.close()

    def _gather(self) -> list[_Question | None]:
        """Take all questions, at least one. Leases that are given up wait a little for others."""
        questions = list[_Question | None]()
        question = self._queue.get()
        until = time.monotonic() + MAX_RELEASE_SECONDS
        is_patient = True
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
        digests = {
            kind: sorted(
                {
                    each
                    for question in questions
                    if question.kind == kind
                    for each in question.digests
                }
            )
            for kind in _STATEMENTS
            if any(question.kind == kind for question in questions)
        }
        owners: Mapping[str, Owners] = {}
        while digests:  # until the database is there; asking twice changes nothing
            try:
                owners = self._execute(digests)
                break
            except (DatabaseError, InterfaceError):
                with contextlib.suppress(DatabaseError, InterfaceError):
                    connection.close()
            if self._given_up.wait(RETRY_SECONDS):
                break
        answers = [
            (question.answer, owners.get(question.kind, {}))
            for question in questions
            if question.answer is not None
        ]
        if answers:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits any more
                answers[0][0].get_loop().call_soon_threadsafe(_settle, answers)

    def _execute(self, digests: Mapping[str, list[Any]]) -> Mapping[str, Owners]:
        """Execute the statements of all kinds in `digests`, in one transaction and round trip."""
        connect(connection)
        raw = connection.connection
        cursors: dict[str, Any] = {}
        with connection.wrap_database_errors:
            with raw.pipeline() if len(digests) > 1 else contextlib.nullcontext():
                for kind, values in digests.items():
                    sql, *parameters = _STATEMENTS[kind](self._server, values)
                    cursors[kind] = execute_prepared(raw, sql, parameters)
            return {
                kind: dict(cursor.fetchall()) if cursor.description else {}
                for kind, cursor in cursors.items()
            }


# first those that give sessions up, which the same client may have opened again already
_STATEMENTS: Mapping[str, Callable[[int, list[Any]], tuple[Any, ...]]] = {
    "release": lambda server, digests: (_RELEASE, server, digests),
    "find": lambda server, digests: (_FIND, digests),
    "claim": lambda server, pairs: (
        _CLAIM,
        server,
        [*dict(pairs)],
        [opening or None for opening in dict(pairs).values()],
    ),
    "openings": lambda server, digests: (_OPENINGS, digests),
    "take": lambda server, digests: (_TAKE, server, digests),
    "left": lambda server, digests: (_FIND_LEFT,),
    "drop": lambda server, servers: (_DROP, servers),
    "take or make": lambda server, digests: (_TAKE_OR_MAKE, server, digests),
}


def _settle(answers: Iterable[tuple[asyncio.Future[Owners], Owners]]) -> None:
    for answer, owners in answers:
        if not answer.done():
            answer.set_result(owners)


def lease_of(sid: str) -> str:
    """Return the digest under which a session's lease is stored."""
    return digest_of(storable(sid).encode())
