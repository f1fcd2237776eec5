"""The listening sockets of the servers: on a port, which several may share, and at paths, for
servers of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BACKLOG = 2048


def listen(host: str, port: int, servers: int = 1) -> list[list[socket.socket]]:
    """Return sockets for each of the servers, which listen on every address of `host` and always on
    the same port.

    Clients that connect from now on wait until a server accepts them. The kernel spreads them over
    several servers. Port 0 chooses a free one. Raises: OSError.
    """
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[list[socket.socket]] = [[] for _ in range(servers)]
    for family, _, _, _, address in results:
        listener = _bind(family, (address[0], port, *address[2:]))  # nobody else listens there
        port = listener.getsockname()[1]
        if servers == 1:
            listeners[0].append(_listen(listener))
            continue
        listener.close()
        for own in listeners:
            listener = _bind(family, (address[0], port, *address[2:]), is_shared=True)
            own.append(_listen(listener))
    return listeners


def _bind(family: int, address: tuple[str | int, ...], *, is_shared: bool = False) -> socket.socket:
    """Return a socket at `address`, which others of this user may share. Raises: OSError."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind(address)
    return listener


def _listen(listener: socket.socket) -> socket.socket:
    listener.listen(BACKLOG)
    listener.setblocking(False)  # for the server and its supervisor
    return listener


def listen_again(addresses: Sequence[tuple[int, Any]]) -> list[socket.socket]:
    """Return sockets on a port that others share, at addresses of closed ones: family and name of
    each. Raises: OSError."""
    return [_listen(_bind(family, address, is_shared=True)) for family, address in addresses]


@contextmanager
def listen_at(path: Path) -> Iterator[socket.socket]:
    """Listen on a Unix socket that only this user reaches, which replaces an old one. Raises:
    OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        yield listener
