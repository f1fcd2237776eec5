"""The listening sockets of the servers: on a port, which several share, and at paths, for servers
of this machine."""

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
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[list[socket.socket]] = [[] for _ in range(servers)]
    for family, _, _, _, address in found:
        alone = _bound(family, (address[0], port, *address[2:]))  # nobody else listens there
        port = alone.getsockname()[1]
        if servers == 1:
            listeners[0].append(_listening(alone))
            continue
        alone.close()
        for own in listeners:
            own.append(_listening(_bound(family, (address[0], port, *address[2:]), is_shared=True)))
    return listeners


def _bound(
    family: int, address: tuple[str | int, ...], *, is_shared: bool = False
) -> socket.socket:
    """Return a socket at `address`, which others of this user may share. Raises: OSError."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    bound.bind(address)
    return bound


def _listening(bound: socket.socket) -> socket.socket:
    bound.listen(BACKLOG)
    bound.setblocking(False)  # for the server and its supervisor
    return bound


def listen_again(closed: Sequence[tuple[int, Any]]) -> list[socket.socket]:
    """Return sockets on a port that others share, at the addresses of some that were closed: family
    and name of each.

    Raises: OSError.
    """
    return [_listening(_bound(family, address, is_shared=True)) for family, address in closed]


@contextmanager
def listen_at(path: Path) -> Iterator[socket.socket]:
    """Listen on a Unix socket that only this user reaches, in place of one that is there. Raises:
    OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        yield listener
