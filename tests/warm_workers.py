"""Worker processes of servers, forked from the warm interpreter: a start takes a sixth of the CPU
time, and the 25 tests of `test_worker_host.py` 10 seconds of it instead of 27.

Importing this changes what `LocalLauncher` does in this process, and in those that are forked from
it. A class with an interpreter of its own is still played by that, and so is every class where
COLD_WORKERS is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import psutil

from environments.hosts import interpreter
from environments.hosts.process_launcher import LocalLauncher, LocalProcess
from environments.hosts.worker_messages import MessagePipe
from tests import programs

COLD_WORKERS = "TESTS_COLD_WORKERS"
"""Variable of a server whose workers are new interpreters, which end with it whatever they do."""
SERVER = "TESTS_SERVER"
"""Variable of a worker with the process id of its server."""
PROGRAM = str(Path(__file__).with_name("session_worker.py"))
_executable = sys.executable
_launch_cold = LocalLauncher.launch


def workers_of(server: int) -> list[psutil.Process]:
    """Return the worker processes of a server that were forked; they are no children of it."""
    name = name_of_workers(server)
    return [process for process in psutil.process_iter(["name"]) if process.name() == name]


def name_of_workers(server: int | str) -> str:
    return f"worker-{server}"


class _Forked:
    """What `asyncio.subprocess.Process` says of a process, for one that was forked."""

    def __init__(self, program: programs.Program, stdout: asyncio.StreamReader) -> None:
        self.pid, self.stdout, self._program = program.pid, stdout, program
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._loop.add_reader(program.fileno(), self._note_end)

    @property
    def returncode(self) -> int | None:
        return self._program.returncode

    async def wait(self) -> int:
        await asyncio.shield(self._ended)
        return self._program.wait()

    def _note_end(self) -> None:
        self._loop.remove_reader(self._program.fileno())
        self._program.wait()
        self._ended.set_result(None)


async def _launch(
    launcher: LocalLauncher, python: str, resources: dict[str, float], pipe: MessagePipe
) -> LocalProcess:
    if python or COLD_WORKERS in os.environ or sys.executable != _executable:
        return await _launch_cold(launcher, python, resources, pipe)
    loop = asyncio.get_running_loop()
    ours, its = socket.socketpair()
    printed, output = os.pipe()
    with its, os.fdopen(output, "wb") as out:
        await loop.create_unix_connection(lambda: pipe, sock=ours)
        variables = interpreter.variables(python) | {SERVER: str(os.getpid())}
        program = programs.fork([PROGRAM, launcher.program], variables, Path.cwd(), (its, out, out))
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        while os.getsid(program.pid) != program.pid:  # noqa: ASYNC110 # until then, it cannot be killed as a group
            await asyncio.sleep(0.001)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(printed, "rb", buffering=0)
    )
    process: Any = _Forked(program, reader)
    return LocalProcess(process)


LocalLauncher.launch = _launch  # type: ignore[method-assign]
