"""Takes the server's sockets, lock and signals away from the processes that hosted code forks.

A forked process has every descriptor of the server, whatever their flags, and may outlive it, as
those of `multiprocessing` do. With the listening socket it would take clients that nobody answers;
with the lock file no other server could start; with a database connection it would hold or end the
server's transactions. A signal to it, as from `Pool.terminate()`, would stop the server, because
both event loops share the pipe for signals. Processes that are started by `exec` have none of that.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from django.db.backends.signals import connection_created

from environments.runtime.crash_notes import CURRENT

PREFIX = "of "
"""Before the name of an environment in the names of processes that its code has forked."""
_PR_SET_NAME = 15
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


Address = int | str
"""A port, or the path of a Unix socket; empty for a socket without a name."""


class Descriptor(Protocol):
    """A file, or a connection of psycopg."""

    def fileno(self) -> int: ...


_descriptors: WeakSet[Descriptor] = WeakSet()
_addresses = set[Address]()
_masks = threading.local()
"""Signals that each thread held back before it forked."""


def name_of(environment: str) -> str:
    """Return the name of processes that code of an environment has forked; the kernel keeps 15
    bytes of it."""
    return f"{PREFIX}{environment}".encode()[:15].decode("utf-8", "ignore")


def keep(descriptor: Descriptor) -> None:
    """Have processes that are forked from now on lose a file of this server."""
    _descriptors.add(descriptor)


def keep_all(addresses: Iterable[Address]) -> None:
    """Have processes that are forked from now on lose everything that is the server's, which
    listens at `addresses`."""
    _addresses.update(addresses)
    libc = ctypes.CDLL(None)  # not loaded after a fork
    connection_created.connect(_keep_connection)
    os.register_at_fork(
        before=_hold_signals,
        after_in_parent=_take_signals,
        after_in_child=lambda: _leave_server(libc),
    )


def _hold_signals() -> None:
    """Block signals. One that reached the new process while it still has the server's handlers
    would be lost, and `Pool.terminate()` would wait for ever."""
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_SIGNALS, signal.SIGINT))


def _take_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _keep_connection(connection: Any, **_: Any) -> None:
    if connection.vendor == "postgresql":
        keep(connection.connection)


def _leave_server(libc: ctypes.CDLL) -> None:
    """Become a process of its own. The descriptors stay open, to nothing: the copied objects close
    them when they are freed."""
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _take_signals()
    nothing = os.open(os.devnull, os.O_RDWR)
    file_numbers = _sockets_of_server()
    for descriptor in list(_descriptors):
        with contextlib.suppress(Exception):  # it is closed
            file_numbers.append(descriptor.fileno())
    for file_number in file_numbers:
        os.dup2(nothing, file_number, inheritable=False)
    os.close(nothing)
    note = CURRENT.get()
    if call := note and note.read():
        libc.prctl(_PR_SET_NAME, name_of(call.environment).encode())


def _sockets_of_server() -> list[int]:
    """Return the listening sockets, and those of the clients that have connected to them."""
    numbers = list[int]()
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        with contextlib.suppress(OSError):  # the directory's own
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                descriptor_socket = socket.socket(fileno=number)
                if address_of(descriptor_socket) in _addresses:
                    numbers.append(number)
                descriptor_socket.detach()
    return numbers


def address_of(listener: socket.socket) -> Address:
    """Return where a socket listens; of a connection to a client, where its listener did. Raises:
    OSError."""
    name: Any = listener.getsockname()
    return int(name[1]) if listener.family in (socket.AF_INET, socket.AF_INET6) else str(name)
