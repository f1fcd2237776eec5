"""How many event streams, downloads and sockets are open for each key, person and address.

They are those of the API, of live pages, of MCP and of players. A stream holds memory, a file and
a share of the event loop for hours, and a download also a thread and a connection to the database,
so there are limits. Each server counts its own.
"""

from __future__ import annotations

import threading
from collections import Counter

from environments import conf
from environments.errors import OverQuota

RETRY_SECONDS = 5.0
STREAMS_PER_DOWNLOAD = 50
"""A download counts as so many streams, or a client with a key could take all connections that
PostgreSQL allows."""


class OpenStream:
    """One stream in the counts, as a context that ends with it.

    A request may end before its response begins, and then nothing enters or leaves the context.
    Therefore a stream also leaves the counts when nothing refers to it any more.
    """

    def __init__(self, streams: OpenStreams, owner: str, network: str, size: int) -> None:
        self._streams, self._owner, self._network, self._size = streams, owner, network, size
        self._is_counted = True

    def __enter__(self) -> OpenStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._streams.release(self._owner, self._network, self._size)

    __del__ = leave


class OpenStreams:
    """The counts. Any thread may use them."""

    def __init__(self) -> None:
        # Both counts change together. A stream may be collected, and leave, within `enter`.
        self._lock = threading.RLock()
        self._of_owner: Counter[str] = Counter()
        self._of_network: Counter[str] = Counter()

    def enter(self, owner: str, address: str, size: int = 1) -> OpenStream:
        """Count a stream of `owner`: the label of a key, empty without one, or a person's name
        after an @.

        `address`: the client's; empty if it has none, as on a Unix socket. `size`: as how many
        streams it counts; what counts as more than the limit may be the only one. Raises:
        OverQuota.
        """
        network = conf.network_of(address)
        most_of_owner, most_of_address = conf.max_streams()
        with self._lock:
            if self._of_owner[owner] + min(size, most_of_owner) > most_of_owner:
                raise _over(_named(owner), most_of_owner, "KEY")
            if network and self._of_network[network] + min(size, most_of_address) > most_of_address:
                raise _over(f"The address {address}", most_of_address, "ADDRESS")
            self._of_owner[owner] += size
            self._of_network[network] += size
        return OpenStream(self, owner, network, size)

    def release(self, owner: str, network: str, size: int) -> None:
        with self._lock:
            for counts, name in ((self._of_owner, owner), (self._of_network, network)):
                counts[name] -= size
                if not counts[name]:
                    del counts[name]


def _named(owner: str) -> str:
    if owner.startswith("@"):
        return owner.removeprefix("@")
    return f"The API key {owner!r}" if owner else "All clients without an API key"


def _over(whose: str, most: int, limit: str) -> OverQuota:
    return OverQuota(
        f"{whose}: no more event streams, sockets and downloads may be open, as "
        f"ORSWEB_MAX_STREAMS_PER_{limit} "
        f"is {most:,} and a download counts as {STREAMS_PER_DOWNLOAD}; close some of them",
        RETRY_SECONDS,
    )


open_streams = OpenStreams()
"""The counts of this process."""
