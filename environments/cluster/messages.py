"""Short messages between the servers of a database, through LISTEN and NOTIFY of PostgreSQL.

A message has a topic and a text, and reaches all other servers that listen at that moment. Nothing
is stored: after a lost connection, listeners are told that they may have missed something.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from django.db import connection, connections

MAX_BYTES = 7_900
"""Of a text. PostgreSQL allows 8,000 bytes with the topic."""
CHECK_SECONDS = 0.5
"""Interval of the checks whether to end."""
RETRY_SECONDS = 0.5
MAX_OPEN_SECONDS = 5.0
_CHANNEL = "orsweb"
_SEND = "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"
_KEEPALIVES = {
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "connect_timeout": 5,
}
"""With these a connection ends within 5 s when the machine of the database is gone."""

log = structlog.get_logger(__name__)


class ServerMessages(threading.Thread):
    """The thread that listens, from `open` to `close`, and `send`, which any thread may call."""

    def __init__(self, server: int) -> None:
        """`server`: the id of this one, which does not hear its own messages."""
        super().__init__(name="messages", daemon=True)
        self.server = server
        self._listeners: dict[str, Callable[[str], None]] = {}
        self._on_miss = list[Callable[[], None]]()
        self._is_connected = threading.Event()
        self._closed = threading.Event()

    def open(self) -> None:
        """Start the thread, and wait until it listens, but not long: the database may be away."""
        self.start()
        self._is_connected.wait(MAX_OPEN_SECONDS)

    def listen(
        self, topic: str, hear: Callable[[str], None], miss: Callable[[], None] = lambda: None
    ) -> None:
        """Call `hear` on the thread with the text of each message, and `miss` when some may have
        been lost."""
        self._listeners[topic] = hear
        self._on_miss.append(miss)

    def send(self, topic: str, *texts: str) -> None:
        """Send messages of at most `MAX_BYTES` each, in one statement of the calling thread's
        connection.

        Raises: django.db.Error.
        """
        with connection.cursor() as cursor:
            cursor.execute(_SEND, [_CHANNEL, [f"{self.server} {topic} {text}" for text in texts]])

    def close(self) -> None:
        """Stop listening. Does not wait for the thread."""
        self._closed.set()

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        from psycopg import Error, connect  # takes 60 ms of a start, which SQLite does without

        parameters = connections["default"].get_connection_params() | _KEEPALIVES
        while not self._closed.is_set():
            try:
                with connect(**parameters, autocommit=True) as listening:
                    listening.execute(f"LISTEN {_CHANNEL}")
                    self._is_connected.set()
                    for miss in self._on_miss:
                        miss()
                    while not self._closed.is_set():
                        for notify in listening.notifies(timeout=CHECK_SECONDS):
                            self._hear(notify.payload)
            except Error as error:
                log.debug("not_listening", error=type(error).__name__)
            self._closed.wait(RETRY_SECONDS)

    def _hear(self, payload: str) -> None:
        server, _, message = payload.partition(" ")
        topic, _, text = message.partition(" ")
        if server == str(self.server) or topic not in self._listeners:
            return
        try:
            self._listeners[topic](text)
        except Exception:  # such as a text of a newer version; the next message must be heard
            log.exception("a message of another server was not understood", topic=topic)
