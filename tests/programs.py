"""`manage.py` in processes of their own, started as `python manage.py` is but from an interpreter
that is warm already.

    program = programs.start("serve", "--port", "9000", env=variables)
    done = programs.run("check", env=variables)

A shell runs them with `python tests/programs.py manage.py ARGUMENTS`, once a test of this process
has started one; so do `serve`, when it checks the code before a reload, and pytest-xdist, whose
workers are another program. What measures a start, or what a start imports, needs `subprocess` and
a new interpreter.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
MANAGE = str(ROOT / "manage.py")
SHARED_DIR = "TESTS_SHARED_DIR"
"""Variable with a directory that the workers of one test run share; `conftest.py` sets it."""


class Program:
    """A running `manage.py`, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.pid = int(status.recv(32))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raises: subprocess.TimeoutExpired after `timeout` seconds."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = int(self._status.recv(32))
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("manage.py", timeout or 0) from None
            self._status.close()
        return self.returncode

    def fileno(self) -> int:
        """Return the descriptor that can be read when the program has ended, until `wait` has
        returned."""
        return self._status.fileno()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Running = Program | subprocess.Popen[bytes]


def start(
    *args: str, env: Mapping[str, str] = os.environ, cwd: Path = ROOT, out: IO[Any]
) -> Running:
    """Start `manage.py` with `args`; it reads nothing, and writes everything to `out`."""
    with Path(os.devnull).open("rb") as nothing:
        return _start(args, env, cwd, (nothing, out, out))


def run(
    *args: str,
    env: Mapping[str, str] = os.environ,
    cwd: Path = ROOT,
    input: str = "",
    timeout: float = 120,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Return what `manage.py` with `args` printed, and its status.

    Raises: subprocess.TimeoutExpired; AssertionError if `check` is true and the status is not 0.
    """
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(input.encode())
        given.seek(0)
        program = _start(args, env, cwd, (given, out, err))
        try:
            status = program.wait(timeout)
        finally:
            program.kill()
        out.seek(0)
        err.seek(0)
        done = subprocess.CompletedProcess(args, status, out.read().decode(), err.read().decode())
    assert not (check and status), done
    return done


def _start(
    args: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    files: Sequence[IO[Any]],
    program: str = MANAGE,
) -> Running:
    if any(
        name.startswith(("PYTHON", "LD_")) and os.environ.get(name) != value
        for name, value in env.items()
    ):
        # what only a new interpreter reads
        given, out, err = files
        command = [sys.executable, program, *args]
        return subprocess.Popen(command, env=env, cwd=cwd, stdin=given, stdout=out, stderr=err)
    return fork([program, *args], env, cwd, files)


def fork(argv: Sequence[str], env: Mapping[str, str], cwd: Path, files: Sequence[Any]) -> Program:
    """Start a program of Python from the warm interpreter; `files`: its stdin, stdout and
    stderr."""
    # its two numbers stay apart
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    message = {"argv": argv, "env": dict(env), "cwd": str(cwd)}
    with its:
        descriptors = [*(file.fileno() for file in files), its.fileno()]
        socket.send_fds(warm_interpreter(), [json.dumps(message).encode()], descriptors)
    return Program(ours)


@cache
def warm_interpreter() -> socket.socket:
    """Return a connection to the warm interpreter of this test run, which ends with the last of its
    connections."""
    address = Path(os.environ[SHARED_DIR]) / "interpreter"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with alone("interpreter"):
        try:
            connection.connect(str(address))
        except (
            FileNotFoundError,
            ConnectionRefusedError,
        ):  # the first that needs it, or all others have ended
            address.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(str(address))
                listener.listen()
                command = [
                    sys.executable,
                    str(Path(__file__).with_name("warm_interpreter.py")),
                    str(listener.fileno()),
                ]
                subprocess.Popen(command, cwd=ROOT, pass_fds=[listener.fileno()])
                connection.connect(str(address))
    return connection


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Let one worker at a time run blocks of this name; the others wait."""
    with (Path(os.environ[SHARED_DIR]) / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    # the successor in a reload, which goes on in the process of its predecessor
    if "ORSWEB_INHERITED" in os.environ:
        sys.argv, sys.path[0] = sys.argv[1:], str(ROOT)
        runpy.run_path(MANAGE, run_name="__main__")
        sys.exit()
    # Ctrl-C reaches the program too, which ends this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = str(ROOT / sys.argv[1])
    sys.exit(
        _start(
            sys.argv[2:], os.environ, Path.cwd(), (sys.stdin, sys.stdout, sys.stderr), program
        ).wait()
    )
