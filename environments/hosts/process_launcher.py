"""Where worker processes run: on this machine, or on another one that a launcher knows of."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from typing import Protocol

from environments.hosts import interpreter
from environments.hosts.worker_messages import MessagePipe


class RunningProcess(Protocol):
    """A process of the program of worker processes."""

    pid: int
    machine: str
    """Address of the machine that it runs on; empty for this one."""
    output: asyncio.StreamReader
    """What it prints."""

    async def wait(self) -> str:
        """Return how it ended, as the end of a sentence about it, once it has."""

    def kill(self) -> bool:
        """End it with SIGKILL, and with it the programs that it has started. Return False if it has
        ended already."""


class Launcher(Protocol):
    """Starts worker processes. Used on one event loop."""

    async def open(self) -> None:
        """Prepare to start processes. Raises: Unhostable with one sentence that says what to
        change."""

    async def launch(
        self, python: str, resources: dict[str, float], pipe: MessagePipe
    ) -> RunningProcess:
        """Start the program with an interpreter, empty for this one, and connect it to `pipe`.

        Raises: OSError if that is not possible now; its text completes a sentence about the
        process.
        """

    async def close(self) -> None:
        """Free what was needed to start processes, after they have ended."""


class LocalLauncher:
    """Starts worker processes on this machine, which has what a class asks for or has not."""

    program = interpreter.PROGRAM

    async def open(self) -> None:
        """Nothing is needed."""

    async def launch(
        self, python: str, resources: dict[str, float], pipe: MessagePipe
    ) -> LocalProcess:
        ours, its = socket.socketpair()
        with its:
            await asyncio.get_running_loop().create_unix_connection(lambda: pipe, sock=ours)
            try:
                return LocalProcess(
                    await asyncio.create_subprocess_exec(
                        *interpreter.command(python, str(its.fileno()), program=self.program),
                        pass_fds=[its.fileno()],
                        env=interpreter.variables(python),
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=asyncio.subprocess.PIPE,
                        stderr=asyncio.subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
            except OSError:
                pipe.close()
                raise

    async def close(self) -> None:
        """Nothing is left of processes that have ended."""


class LocalProcess:
    """A worker process on this machine."""

    machine = ""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        self._process, self.pid, self.output = process, process.pid, process.stdout

    async def wait(self) -> str:
        status = await self._process.wait()
        self._kill_group()
        return how_it_ended(status)

    def kill(self) -> bool:
        is_running = self._process.returncode is None
        if is_running:
            self._kill_group()
        return is_running

    def _kill_group(self) -> None:
        """End the process with the programs that it has started, except for those in a session of
        their own."""
        with contextlib.suppress(ProcessLookupError):  # there are none
            os.killpg(self.pid, signal.SIGKILL)


def how_it_ended(status: int) -> str:
    """Return what the exit status of a process says, as the end of a sentence about it."""
    if status >= 0:
        return f"exited with status {status}"
    name = signal.Signals(-status).name
    reasons = {
        "SIGKILL": ", perhaps because memory ran out",
        "SIGXCPU": ", because it took more CPU time than ORSWEB_WORKER_CPU_SECONDS allows",
    }
    return f"was ended by signal {-status} ({name}{reasons.get(name, '')})"
