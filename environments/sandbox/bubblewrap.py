"""Execution of an untrusted program under bubblewrap, which returns the program's output and exit
status.

Bundled environments (`builtin/code`, `builtin/shell`) call this from threads of the server's pool,
because it blocks. The program sees the read-only directories of `TREES` and nothing else of this
machine: no /etc, no /home, no /proc, no /usr/local, no network, no other process, no socket but
AF_UNIX, no debugger (`system_calls.py`). It writes to `/work` and `/tmp`, which are in memory,
limited in size and discarded at its end; all its processes end with the first one. It runs as
nobody when the server runs as root.

It is limited by the kernel (CPU, memory and open files of each process, number of processes), by a
check every 50 ms of the memory and files of all processes and of whether the program still runs, by
a wall clock, and by the size of the output that is read. When memory runs short, the kernel kills
sandboxes first.

Without bubblewrap there is no sandbox, and `unavailable` says why; a program never runs outside of
one.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from environments import processes
from environments.errors import OrsError
from environments.fair_turns import KEY, FairTurns, Place
from environments.sandbox import system_calls
from environments.sandbox.pipes import Pipes

TREES = ("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/share")
"""Directories that the program sees, if they exist. Not /usr/local and /usr/src, where containers
have applications."""
_ALTERNATIVES = ("awk", "which")
"""Programs in /usr/bin that are links to /etc/alternatives."""
_DEVICES = ("null", "zero", "full", "random", "urandom")
NOBODY = 65534
_CHECK_SECONDS = 0.05
"""Interval at which the clock and the memory of all processes are checked."""
_MAX_SUSPENDED = 20
"""Checks in a row, a second or more, that may find the program suspended. A program that watches
over others, such as `builtin/code/runner.py`, no longer does so then, and its slot would stay
occupied for the time of a whole run."""
_OPEN_FILES = 256
MAX_RUNNING = 2 + 2 * len(os.sched_getaffinity(0))
"""Most programs of all sessions that run at the same time; others wait, in turns by API key."""
MAX_COMPUTING = max(1, len(os.sched_getaffinity(0)) - 1)
"""Most programs that run and don't sleep; others wait, in turns by API key. One core is left to the
server: on two cores, calls of other agents took 2.8 times as long while six programs span, 2 to 3
times at any niceness, and 1.4 times while one did."""
_MAX_IDLE = 2
"""Checks in a row that may find a program asleep before another one gets its turn."""
_NICE = 12
"""Niceness: MAX_RUNNING fork bombs leave the server a fifth of a core, and a program still runs on
a busy machine."""
_places, _cores = FairTurns(MAX_RUNNING), FairTurns(MAX_COMPUTING)


class SandboxError(OrsError):
    """The sandbox itself failed: a fault of this machine, not of the program in it."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The resources that one program may use."""

    cpu_seconds: int = 5
    """CPU time of each process."""
    wall_seconds: float = 20.0
    memory_bytes: int = 256 * 1024 * 1024
    """Address space of each process, and resident memory of all processes together."""
    processes: int = 16
    disk_bytes: int = 16 * 1024 * 1024
    """Size of /work and of /tmp, each; both are in memory."""
    files: int = 20_000
    """Number of files in /work and in /tmp, each."""
    stdout_bytes: int = 1024 * 1024
    stderr_bytes: int = 64 * 1024
    """Bytes of each output that are kept. A program that writes more to stdout is stopped; more of
    stderr is discarded, up to 16 MB."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The output of a program and how it ended."""

    status: int
    """Exit status as in a shell: 0 to 255, 128 and more after a signal; -1 when the program was
    stopped."""
    stdout: bytes
    stderr: bytes
    stop_reason: str = ""
    """Why it was stopped, as the end of a sentence ("it used more than 256 MB of memory"), or
    empty."""
    is_cut: bool = False
    """Whether a part of stderr was discarded."""


@dataclass(slots=True)
class Sandbox:
    """Runs programs for one session, also several at the same time. `close` ends them all."""

    limits: SandboxLimits = field(default_factory=SandboxLimits)
    _is_closed: bool = False
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Invariant: a process is in `_running`, or ended, or was started before `_is_closed` was set
    and is killed."""

    def run(self, argv: Sequence[str], stdin: bytes = b"") -> Ran:
        """Run a program of /usr/bin in an empty /work; wait first while too many run or compute.

        Raises: SandboxError; ValueError for a NUL character, which no argument can contain.
        """
        if any("\0" in word for word in argv):
            raise ValueError("An argument contains a NUL character.")
        with self._turn_at(_cores) as core, self._turn_at(_places):
            return self._run(argv, stdin, core)

    def close(self) -> None:
        """Kill running programs; runs that still wait, and any later ones, raise SandboxError."""
        with self._lock:
            self._is_closed = True
            for process in self._running:
                process.kill()

    @contextmanager
    def _turn_at(self, turns: FairTurns) -> Iterator[Place]:
        """Wait for a place, which is given back at the end of the block if not before."""
        if not turns.acquire(KEY.get(), lambda: self._is_closed):
            raise SandboxError("The session has ended.")
        place = Place(turns)
        try:
            yield place
        finally:
            place.give_back()

    def _run(self, argv: Sequence[str], stdin: bytes, core: Place) -> Ran:
        status_read, status_write = os.pipe()
        with os.fdopen(status_read, "rb") as status:
            with os.fdopen(status_write, "wb"), self._lock, system_call_filter() as filter_fd:
                if self._is_closed:
                    raise SandboxError("The session has ended.")
                pipe = subprocess.PIPE
                try:
                    process = subprocess.Popen(  # nosec B603 # the sandbox itself
                        [*_command(self.limits, status_write, filter_fd), *argv],
                        stdin=pipe,
                        stdout=pipe,
                        stderr=pipe,
                        pass_fds=(status_write, filter_fd),
                        env={},
                        start_new_session=True,
                    )
                except OSError as error:
                    raise SandboxError(f"The sandbox did not start: {error}") from error
                self._running.add(process)
            with process:
                try:
                    return self._watch(process, stdin, status.fileno(), core)
                finally:
                    process.kill()
                    with self._lock:
                        self._running.discard(process)

    def _watch(
        self, process: subprocess.Popen[bytes], stdin: bytes, status_fd: int, core: Place
    ) -> Ran:
        """Pass input and output until the process ends or has to be stopped. While it sleeps,
        another may compute."""
        limits = self.limits
        pipes = Pipes(process, stdin, (limits.stdout_bytes, limits.stderr_bytes))
        reason = ""  # why the program has to be stopped
        idle_checks = suspended_checks = 0
        next_check = time.monotonic() + _CHECK_SECONDS
        deadline = time.monotonic() + limits.wall_seconds
        while not reason and not pipes.pass_on(_CHECK_SECONDS):
            now = time.monotonic()
            if now > deadline:
                reason = f"it took longer than {limits.wall_seconds:g} s"
            elif pipes.has_too_much:
                reason = "it wrote too much"
            elif now > next_check:
                next_check = now + _CHECK_SECONDS
                inside = processes.with_descendants(process.pid)
                processes.be_nice(inside)
                idle_checks = 0 if processes.is_computing(inside) else idle_checks + 1
                if idle_checks >= _MAX_IDLE:
                    core.give_back()
                suspended_checks = suspended_checks + 1 if processes.is_suspended(inside) else 0
                if suspended_checks > _MAX_SUSPENDED:
                    reason = "it suspended the process that runs it"
                else:
                    reason = _excess(limits, inside)
        if reason:
            process.kill()
        stdout, stderr = pipes.close()
        process.wait()
        is_cut = len(stderr) > limits.stderr_bytes
        status = -1 if reason else self._status(status_fd, stderr)
        return Ran(status, stdout, stderr[: limits.stderr_bytes], reason, is_cut)

    def _status(self, status_fd: int, stderr: bytes) -> int:
        """Return the program's exit status, which bubblewrap reports only if it could start the
        program.

        The program has no access to this pipe: it cannot make its own failure look like one of the
        machine.
        """
        os.set_blocking(status_fd, False)
        with suppress(BlockingIOError):
            for line in os.read(status_fd, 4096).decode().splitlines():
                if "exit-code" in (report := json.loads(line)):
                    return int(report["exit-code"])
        if self._is_closed:
            raise SandboxError("The session has ended.")
        raise SandboxError(f"The sandbox did not start: {_first_line(stderr) or 'it was killed'}")


def _command(limits: SandboxLimits, status_fd: int, filter_fd: int) -> list[str]:
    """Return the command line without the program's own arguments.

    The number of processes is limited inside the sandbox, where the kernel counts only its own.
    """
    resources = {
        "as": limits.memory_bytes,
        "core": 0,
        "cpu": limits.cpu_seconds,
        "fsize": limits.disk_bytes,
        "memlock": 0,
        "nofile": _OPEN_FILES,
        "nproc": limits.processes,
    }
    words = [*outside(), *_bwrap()]
    for directory in ("/work", "/tmp"):  # nosec B108 # the sandbox's own
        words += ["--size", str(limits.disk_bytes), "--tmpfs", directory]
    words += ["--chdir", "/work", "--remount-ro", "/"]
    words += ["--json-status-fd", str(status_fd), "--seccomp", str(filter_fd)]
    words += ["--", "/usr/bin/prlimit"]
    words += [f"--{name}={value}:{value}" for name, value in resources.items()]
    return [*words, "--"]


@contextmanager
def system_call_filter(*, has_debuggers: bool = False) -> Iterator[int]:
    """Return a descriptor with the filter of system calls, for `--seccomp` of bubblewrap."""
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        file.write(system_calls.filter_of(platform.machine(), has_debuggers=has_debuggers))
        file.seek(0)
        yield file.fileno()


def outside() -> list[str]:
    """Return the commands before bubblewrap: low priority, first to be killed when memory is short,
    never root."""
    words = ["choom", "-n", "1000", "--", "nice", "-n", str(_NICE)]
    if os.geteuid() == 0:
        words += ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return words


@cache
def _bwrap() -> list[str]:
    words = [*namespaces(), *programs()]
    for name in _DEVICES:
        words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    variables = {
        "PATH": "/usr/bin",
        "HOME": "/work",
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name, value in variables.items():
        words += ["--setenv", name, value]
    return words


def namespaces() -> list[str]:
    """Return bubblewrap's command up to the namespaces, which have no network, and no other process
    of this machine."""
    words = [_path_of_bwrap(), "--unshare-all", "--unshare-user", "--disable-userns"]
    return [*words, "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]


def programs() -> list[str]:
    """Return bubblewrap's words for this machine's programs, read-only."""
    trees = [tree for tree in TREES if Path(tree).is_dir()]
    words = []
    for tree in trees:
        words += ["--ro-bind", tree, tree]
    for name in ("bin", "sbin", "lib", "lib64"):
        words += ["--symlink", "usr/bin" if name == "sbin" else f"usr/{name}", f"/{name}"]
    for name in _ALTERNATIVES:
        words += ["--symlink", os.path.realpath(f"/usr/bin/{name}"), f"/etc/alternatives/{name}"]
    package = Path(__file__).resolve().parent.parent
    if any(package.is_relative_to(tree) for tree in trees):  # it contains answers
        words += ["--tmpfs", str(package)]
    return words


def _path_of_bwrap() -> str:
    return shutil.which("bwrap") or ""


def _excess(limits: SandboxLimits, inside: list[int]) -> str:
    """Return what the sandbox uses too much of, as the end of a sentence; empty if nothing."""
    if sum(map(processes.resident_bytes, inside)) > limits.memory_bytes:
        return f"it used more than {limits.memory_bytes >> 20} MB of memory"
    if any(processes.count_files(inside[-1], folder) > limits.files for folder in ("work", "tmp")):
        return f"it made more than {limits.files} files"
    return ""


def _first_line(stderr: bytes) -> str:
    return stderr.decode(errors="replace").strip().partition("\n")[0]


# --- availability ---------------------------------------------------------------------------------


def unavailable(programs: Mapping[str, str]) -> str:
    """Return why programs cannot run here and what to install, as a sentence; empty if they can.

    `programs` maps the names in /usr/bin of what the caller needs to Debian packages.
    """
    if reason := _why_no_sandbox():
        return reason
    missing = {
        name: package for name, package in programs.items() if not Path("/usr/bin", name).exists()
    }
    if not missing:
        return ""
    paths = ", ".join(f"/usr/bin/{name}" for name in missing)
    packages = " ".join(sorted(set(missing.values())))
    return (
        f"{paths} is missing, which its sandbox needs; install it (on Debian: apt-get install "
        f"{packages})."
    )


@cache
def _why_no_sandbox() -> str:
    """Return why there is no sandbox; empty if there is one, as one trivial program has shown."""
    if not _path_of_bwrap():
        return (
            "It needs a sandbox, and bubblewrap is missing; install it (on Debian: apt-get install "
            "bubblewrap)."
        )
    if (machine := platform.machine()) not in system_calls.MACHINES:
        machines = " and ".join(system_calls.MACHINES)
        return (
            f"It needs a sandbox, which there is on {machines} only; this machine is {machine!r}."
        )
    try:
        ran = Sandbox().run(["sh", "-c", "true & wait"])
    except SandboxError as error:
        return (
            f"It needs a sandbox, and bubblewrap cannot make one here. {str(error).rstrip('.')}. "
            "Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; in a container, its "
            "security profile), or install bubblewrap 0.8 or newer (on Debian: apt-get install "
            "bubblewrap)."
        )
    if ran.status != 0:
        return (
            "It needs a sandbox, and a trivial program failed in it: "
            f"{_first_line(ran.stderr) or ran.stop_reason}."
        )
    return ""
