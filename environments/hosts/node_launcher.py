"""Starts a worker process on another machine, connected to the server. Everything here runs on that
machine.

The two connections go from there to the server: one carries messages, the other what the process
prints. The first line of each names its purpose, with a token that the server has made for this
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from typing import Literal

from environments.hosts import interpreter

CONNECT_SECONDS = 10.0
LOST_AFTER_SECONDS = 20
"""How long a machine may be unreachable before both ends give a connection up."""
Purpose = Literal["messages", "output"]


class NodeLauncher:
    """One worker process on this machine. Ray makes an actor of it; its methods run on one event
    loop."""

    async def start(
        self, address: tuple[str, int], token: str, python: str, hash_seed: str
    ) -> tuple[str, int]:
        """Start the process, connected to the server at `address`. Return this machine's address
        and the pid.

        `hash_seed`: the server's, which Ray does not pass on. Raises: OSError.
        """
        with (
            _connected(address, token, "messages") as messages,
            _connected(address, token, "output") as output,
        ):
            self._process = await asyncio.create_subprocess_exec(
                *interpreter.command(python, str(messages.fileno())),
                pass_fds=[messages.fileno()],
                env=interpreter.variables(python) | {interpreter.HASH_SEED: hash_seed},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output.fileno(),
                stderr=output.fileno(),
                start_new_session=True,
            )
            return messages.getsockname()[0], self._process.pid

    async def wait(self) -> int:
        """Return the exit status of the process, once it has ended; the programs that it has
        started end with it."""
        status = await self._process.wait()
        self.kill()
        return status

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.killpg(self._process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _connected(address: tuple[str, int], token: str, purpose: Purpose) -> Iterator[socket.socket]:
    """Yield a connection to the server, closed afterwards in this process. Raises: OSError."""
    with socket.create_connection(address, timeout=CONNECT_SECONDS) as connection:
        notice_loss(connection)
        connection.settimeout(None)
        connection.sendall(f"{purpose} {token}\n".encode())
        yield connection


def notice_loss(connection: socket.socket) -> None:
    """Let a connection end when the other machine has been unreachable for some time."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (
        ("TCP_KEEPIDLE", LOST_AFTER_SECONDS // 4),
        ("TCP_KEEPINTVL", LOST_AFTER_SECONDS // 4),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", LOST_AFTER_SECONDS * 1000),
    ):
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
