"""Sandbox: runs a program that nobody trusts, under bubblewrap, and tells what it wrote and how it ended.

Driven by bundled environments (`builtin/code.py`, `builtin/shell.py`) from threads of the server's pool: everything
here blocks. Of this machine the program sees the read-only directories of `TREES` and nothing else: no /etc, no /home,
no /proc, no /usr/local, no network, no other process. It writes to `/work` and `/tmp`, which are in memory, of limited
size, and gone when it ends; with its first process end all others. It runs as nobody when the server runs as root.

What holds it back: limits of the kernel on each process (CPU, memory, open files) and on their number, a look every
50 ms at their memory and files together and at whether the program goes on at all, a wall clock, and a cap on what is
read of its output. Where memory runs short, the kernel ends sandboxes first.

Without bubblewrap there is no sandbox, and `unavailable` says why; nothing ever runs outside of one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from environments.errors import OrsError
from environments.sandbox.pipes import Pipes

TREES = ("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32", "/usr/share")
"""Visible, those that exist. Not all of /usr: /usr/local and /usr/src are where containers keep applications."""
_ALTERNATIVES = ("awk", "which")
"""Programs whose names in /usr/bin lead through /etc/alternatives."""
_DEVICES = ("null", "zero", "full", "random", "urandom")
_NOBODY = 65534
_LOOK_SECONDS = 0.05
"""Between two looks at the clock and at the memory of all processes."""
_SUSPENDED = "it suspended the process that runs it"
_MAX_SUSPENDED = 20
"""Looks, a second or more. A program that watches over others, as `builtin/code_runner.py`, then watches no more, and
its turn would be held for as long as a whole run may take."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_OPEN_FILES = 256
AT_ONCE = 2 + 2 * (os.cpu_count() or 1)
"""Runs at the same time, all sessions together; more wait for their turn."""
_NICE = 12
"""Niceness: AT_ONCE fork bombs leave the server a fifth of a core, and a program still runs where others are busy."""
_turns = threading.BoundedSemaphore(AT_ONCE)


class SandboxError(OrsError):
    """The sandbox itself did not work: a fault of this machine, not of the program in it."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one run may take."""

    cpu_seconds: int = 5
    """CPU time of each process."""
    wall_seconds: float = 20.0
    memory_bytes: int = 256 * 1024 * 1024
    """Address space of each process, and resident memory of all together."""
    processes: int = 16
    disk_bytes: int = 16 * 1024 * 1024
    """Size of /work, and of /tmp again; they are in memory."""
    files: int = 20_000
    """Files in /work, and as many in /tmp."""
    stdout_bytes: int = 1024 * 1024
    stderr_bytes: int = 64 * 1024
    """Kept of either. A program that writes more to stdout is stopped; of stderr the rest is dropped, up to 16 MB."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended."""

    status: int
    """As a shell tells it: 0 to 255, 128 and more after a signal; -1 when it was stopped."""
    stdout: bytes
    stderr: bytes
    stopped: str = ""
    """Why it was stopped, as the end of a sentence: "it used more than 256 MB of memory"; empty: it ended itself."""
    is_cut: bool = False
    """Whether stderr was longer than what was kept."""


@dataclass(slots=True)
class Sandbox:
    """Runs programs for one session, several at a time if need be. `close` ends them all."""

    limits: SandboxLimits = field(default_factory=SandboxLimits)
    _is_closed: bool = False
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Invariant: a process is in `_running`, or ended, or was started before `_is_closed` was set and is killed."""

    def run(self, argv: Sequence[str], stdin: bytes = b"") -> Ran:
        """Run a program of /usr/bin in an empty /work, once it is its turn.

        Raises: SandboxError; ValueError when an argument contains a NUL character, which no program can be given.
        """
        if any("\0" in word for word in argv):
            raise ValueError("An argument contains a NUL character.")
        self._await_turn()
        try:
            return self._run(argv, stdin)
        finally:
            _turns.release()

    def close(self) -> None:
        """Kill what runs; what waits for its turn, and any later run, raises SandboxError."""
        with self._lock:
            self._is_closed = True
            for process in self._running:
                process.kill()

    def _await_turn(self) -> None:
        while not _turns.acquire(timeout=0.25):
            if self._is_closed:
                raise SandboxError("The session has ended.")

    def _run(self, argv: Sequence[str], stdin: bytes) -> Ran:
        status_read, status_write = os.pipe()
        try:
            with self._lock:
                if self._is_closed:
                    raise SandboxError("The session has ended.")
                process = _start([*_command(self.limits, status_write), *argv], status_write)
                self._running.add(process)
        except BaseException:
            os.close(status_read)
            raise
        finally:
            os.close(status_write)
        with os.fdopen(status_read, "rb") as status, process:
            try:
                return self._watch(process, stdin, status.fileno())
            finally:
                process.kill()
                with self._lock:
                    self._running.discard(process)

    def _watch(self, process: subprocess.Popen[bytes], stdin: bytes, status_fd: int) -> Ran:
        """Feed and read the process until it has ended or must be stopped."""
        limits = self.limits
        pipes = Pipes(process, stdin, (limits.stdout_bytes, limits.stderr_bytes))
        next_look, stopped, suspended = time.monotonic() + _LOOK_SECONDS, "", 0
        deadline = time.monotonic() + limits.wall_seconds
        while not stopped and not pipes.pass_on(_LOOK_SECONDS):
            now = time.monotonic()
            if now > deadline:
                stopped = f"it took longer than {limits.wall_seconds:g} s"
            elif pipes.has_too_much:
                stopped = "it wrote too much"
            elif now > next_look:
                inside, next_look = _with_descendants(process.pid), now + _LOOK_SECONDS
                suspended = suspended + 1 if _is_suspended(inside) else 0
                stopped = _SUSPENDED if suspended > _MAX_SUSPENDED else _excess(limits, inside)
        if stopped:
            process.kill()
        stdout, stderr = pipes.close()
        process.wait()
        is_cut = len(stderr) > limits.stderr_bytes
        status = -1 if stopped else self._status(status_fd, stderr)
        return Ran(status, stdout, stderr[: limits.stderr_bytes], stopped, is_cut)

    def _status(self, status_fd: int, stderr: bytes) -> int:
        """The program's exit status, which bubblewrap reports only when it could start it.

        The program has no access to this pipe: it cannot make its own failure look like the machine's.
        """
        os.set_blocking(status_fd, False)
        with suppress(BlockingIOError):
            for line in os.read(status_fd, 4096).decode().splitlines():
                if "exit-code" in (report := json.loads(line)):
                    return int(report["exit-code"])
        if self._is_closed:
            raise SandboxError("The session has ended.")
        raise SandboxError(f"The sandbox did not start: {_first_line(stderr) or 'it was killed'}")


def _start(command: list[str], status_fd: int) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=[status_fd], env={}, start_new_session=True
        )
    except OSError as error:
        raise SandboxError(f"The sandbox did not start: {error}") from error


def _command(limits: SandboxLimits, status_fd: int) -> list[str]:
    """Everything before the program's own arguments.

    The number of processes is limited inside, where the kernel counts those of the sandbox only.
    """
    within = {
        "as": limits.memory_bytes,
        "core": 0,
        "cpu": limits.cpu_seconds,
        "fsize": limits.disk_bytes,
        "memlock": 0,
        "nofile": _OPEN_FILES,
        "nproc": limits.processes,
    }
    sizes = ["--size", str(limits.disk_bytes), "--tmpfs", "/work", "--size", str(limits.disk_bytes), "--tmpfs", "/tmp"]
    prlimit = [f"--{name}={value}:{value}" for name, value in within.items()]
    bwrap = [*_bwrap(), *sizes, "--chdir", "/work", "--remount-ro", "/", "--json-status-fd", str(status_fd)]
    return [*_outside(), *bwrap, "--", "/usr/bin/prlimit", *prlimit, "--"]


def _outside() -> list[str]:
    """What is done before there is a sandbox: last for the CPU, first to go for memory, and never root."""
    nobody = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    return ["choom", "-n", "1000", "--", "nice", "-n", str(_NICE), *nobody]


@cache
def _bwrap() -> list[str]:
    trees = [tree for tree in TREES if Path(tree).is_dir()]
    words = [_path_of_bwrap(), "--unshare-all", "--unshare-user", "--disable-userns"]
    words += ["--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    words += [word for tree in trees for word in ("--ro-bind", tree, tree)]
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        words += ["--symlink", "usr/bin" if name == "sbin" else f"usr/{name}", f"/{name}"]
    for name in _ALTERNATIVES:
        words += ["--symlink", os.path.realpath(f"/usr/bin/{name}"), f"/etc/alternatives/{name}"]
    for name in _DEVICES:
        words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    package = Path(__file__).resolve().parent.parent
    if any(package.is_relative_to(tree) for tree in trees):  # it knows answers
        words += ["--tmpfs", str(package)]
    variables = {"PATH": "/usr/bin", "HOME": "/work", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    return words + [word for name, value in variables.items() for word in ("--setenv", name, value)]


def _path_of_bwrap() -> str:
    return shutil.which("bwrap") or ""


def _excess(limits: SandboxLimits, inside: list[int]) -> str:
    """What all processes of the sandbox together have too much of, as the end of a sentence; empty: nothing."""
    if sum(map(_resident_bytes, inside)) > limits.memory_bytes:
        return f"it used more than {limits.memory_bytes >> 20} MB of memory"
    if any(_count_files(inside[-1], folder) > limits.files for folder in ("work", "tmp")):
        return f"it made more than {limits.files} files"
    return ""


def _is_suspended(inside: list[int]) -> bool:
    """Whether the program itself, which comes after bubblewrap's two processes, was stopped by a signal."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{inside[2]}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def _with_descendants(pid: int) -> list[int]:
    """`pid` and the processes that stem from it, the children after their parents."""
    found = [pid]
    for one in found:
        with suppress(OSError, ValueError):  # it has ended meanwhile
            for children in Path(f"/proc/{one}/task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found


def _resident_bytes(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def _count_files(pid: int, folder: str) -> int:
    """Files on the file system that `pid` sees as /work or /tmp. An empty one takes 1 KB of the kernel's memory.

    0 as long as bubblewrap is at work, which sees this machine's own.
    """
    with suppress(OSError):
        if not Path(f"/proc/{pid}/root").samefile("/"):
            known = os.statvfs(f"/proc/{pid}/root/{folder}")
            return known.f_files - known.f_ffree
    return 0


def _first_line(stderr: bytes) -> str:
    return stderr.decode(errors="replace").strip().partition("\n")[0]


# --- whether there can be one ----------------------------------------------------------------------------------------


def unavailable(programs: Mapping[str, str]) -> str:
    """Why nothing can be run here, as one sentence with what to install; empty: it can.

    `programs`: name in /usr/bin -> Debian package, of what the caller wants to run.
    """
    if reason := _why_no_sandbox():
        return reason
    missing = {name: package for name, package in programs.items() if not Path("/usr/bin", name).exists()}
    if not missing:
        return ""
    paths, packages = (", ".join(f"/usr/bin/{name}" for name in missing), " ".join(sorted(set(missing.values()))))
    return f"{paths} is missing, which its sandbox needs; install it (on Debian: apt-get install {packages})."


@cache
def _why_no_sandbox() -> str:
    """Found out once by running a trivial program."""
    if not _path_of_bwrap():
        return "It needs a sandbox, and bubblewrap is missing; install it (on Debian: apt-get install bubblewrap)."
    try:
        ran = Sandbox().run(["sh", "-c", "true & wait"])
    except SandboxError as error:
        return (
            f"It needs a sandbox, and bubblewrap cannot make one here. {str(error).rstrip('.')}. Allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1; in a container, its security profile), or install "
            "bubblewrap 0.8 or newer (on Debian: apt-get install bubblewrap)."
        )
    if ran.status != 0:
        return f"It needs a sandbox, and a trivial program failed in it: {_first_line(ran.stderr) or ran.stopped}."
    return ""
