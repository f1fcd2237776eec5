"""One sandbox: an image's programs in namespaces of their own, with a disk that lasts until it is
closed.

bubblewrap starts a shell (`_KEEPER`) that stays and runs the commands: it reads their numbers, and
a command's number with its exit status comes back. What a command is and what it prints go through
a directory of this machine that the sandbox sees read-only, /run/sandbox: a file with the command,
and a named pipe. Programs that a command leaves in the background go on, as in a container.

A program in the sandbox can disturb the shell that started it, as root in a container can; it gains
nothing by that outside. A sandbox that no longer answers is closed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import posixpath
import shlex
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import processes
from environments.errors import OrsError
from environments.local_sandboxes.images import SandboxPlan
from environments.sandbox import bubblewrap

_READ_ONLY = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix")
"""Entries of an image's root that are mounted. All others are copied, so that commands can write
there."""
_LEFT_OUT = ("dev", "proc", "sys", "run", "tmp", "lost+found")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_FILES = 200_000
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Output of a command that is kept when the client names no limit."""
MAX_SECONDS = 3600.0
"""Longest time for a command, also when the client names none."""
CHECK_SECONDS = 0.1
"""Interval at which the memory of all processes is checked."""
START_SECONDS = 60.0
"""How long a sandbox may take to start, which is to copy a part of its image."""
STOP_SECONDS = 10.0
"""How long a sandbox may take to end a command."""
TIMED_OUT = 124
_SHM_BYTES = 64 * 1024 * 1024
_KEEPER = r"""
set -m
exec 9>&1 >/dev/null 2>&1
ulimit -c 0 -l 0 -n 4096 -u 128
for entry; do
    cp -dR --preserve=mode,timestamps -- "/run/image/$entry" / 2>&9 || exit 1
done
mkdir -p /etc /root /tmp
[ -e /etc/passwd ] || echo 'root:x:0:0:root:/root:/bin/bash' > /etc/passwd
[ -e /etc/group ] || echo 'root:x:0:' > /etc/group
cd /root
echo ready >&9
while IFS= read -r number; do
    case $number in
        -*)
            kill -KILL -- "-${jobs[${number#-}]}"
            echo "${number#-} 137" >&9
            ;;
        *)
            (
                /bin/bash -c "eval \"\$(</run/sandbox/$number.command)\"" \
                    </dev/null >"/run/sandbox/$number.output" 2>&1 9>&-
                echo "$number $?" >&9
            ) &
            jobs[$number]=$!
            ;;
    esac
done
kill -KILL -1
"""


class SandboxClosed(OrsError):
    """The sandbox has ended; the message says why."""


class CommandFailed(OrsError):
    """A command has no result to give back."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed, stdout and stderr together, and how it ended."""

    status: int
    output: bytes
    has_timed_out: bool = False

    def as_json(self) -> dict[str, Any]:
        output = base64.b64encode(self.output).decode()
        return {"return_code": self.status, "output": output, "timed_out": self.has_timed_out}


class Machine:
    """One sandbox. Used on one event loop."""

    def __init__(self, plan: SandboxPlan) -> None:
        self.used = time.monotonic()
        """When the client was last heard."""
        self.end = ""
        """Why it was closed; empty while it is open."""
        self._plan = plan
        self._numbers = itertools.count(1)
        self._statuses: dict[int, asyncio.Future[int]] = {}
        """Of the commands that run."""
        self._directory = Path(tempfile.mkdtemp(prefix="orsweb-sandbox-"))
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start it. Raises: SandboxClosed with the reason, if that is not possible."""
        pipe = asyncio.subprocess.PIPE
        if os.geteuid() == 0:
            os.chown(self._directory, bubblewrap.NOBODY, bubblewrap.NOBODY)
        with (
            bubblewrap.system_call_filter(has_debuggers=True) as system_calls,
            os.fdopen(os.memfd_create("arguments"), "w+b") as file,
        ):
            for word in self._arguments(system_calls):
                file.write(os.fsencode(word) + b"\0")
            file.seek(0)
            command = [*bubblewrap.outside(), *bubblewrap.namespaces(), "--args"]
            command += [str(file.fileno()), "--", "/bin/bash", "--norc", "-c", _KEEPER, "sandbox"]
            # entries of the image's root that are copied into the sandbox
            names = {path.name for path in self._plan.image.iterdir()}
            command += sorted(names - {*_READ_ONLY, *_LEFT_OUT})
            process = self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                pass_fds=[system_calls, file.fileno()],
                env={},
                start_new_session=True,
            )
        assert process.stdout is not None and process.stderr is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
        if line.strip() != b"ready":
            self.close("it did not start")
            output = (line + await process.stderr.read()).decode(errors="replace").strip()
            why = output.partition("\n")[0] or "it was not ready in time"
            raise SandboxClosed(f"The sandbox did not start: {why.rstrip('.')}.")
        self._tasks = [
            asyncio.create_task(self._read_statuses()),
            asyncio.create_task(self._watch()),
        ]

    def close(self, reason: str) -> None:
        """End it with all its processes and files. Commands that run raise SandboxClosed."""
        if self.end:
            return
        self.end = reason
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        for task in self._tasks:
            task.cancel()
        for status in self._statuses.values():
            if not status.done():
                status.set_exception(SandboxClosed(f"The sandbox has ended: {reason}."))
        shutil.rmtree(self._directory, ignore_errors=True)

    def check(self) -> None:
        """Raises: SandboxClosed."""
        if self.end:
            raise SandboxClosed(f"The sandbox has ended: {self.end}.")

    def _arguments(self, system_calls: int) -> list[str]:
        """Return words for bubblewrap to read from a file: its command line would show secrets."""
        plan, image = self._plan, self._plan.image
        words = ["--uid", "0", "--gid", "0"]
        words += ["--size", str(plan.memory_bytes), "--perms", "0755", "--tmpfs", "/"]
        if not (image / "usr").exists():
            words += bubblewrap.programs()
        for name in _READ_ONLY:
            entry = image / name
            if entry.is_symlink():
                words += ["--symlink", str(entry.readlink()), f"/{name}"]
            elif entry.exists():
                words += ["--ro-bind", str(entry), f"/{name}"]
        words += ["--dev", "/dev"]
        words += ["--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm"]  # nosec B108 # its own
        words += ["--remount-ro", "/dev", "--proc", "/proc"]
        words += ["--perms", "1777", "--dir", "/tmp"]  # nosec B108 # its own
        words += ["--perms", "0755", "--dir", "/run"]
        words += ["--ro-bind", str(self._directory), "/run/sandbox"]
        words += ["--ro-bind", str(image), "/run/image"]
        if plan.files is not None:
            words += ["--ro-bind", str(plan.files), plan.mount_path]
        variables = {"PATH": _PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", **plan.variables}
        for name, value in variables.items():
            words += ["--setenv", name, value]
        return [*words, "--seccomp", str(system_calls)]

    # --- commands ---------------------------------------------------------------------------------

    async def run(
        self, command: str, seconds: float | None = None, max_bytes: int | None = None
    ) -> CommandResult:
        """Run a command line of bash. Raises: SandboxClosed, CommandFailed."""
        self.check()
        number = next(self._numbers)
        limit = MAX_OUTPUT_BYTES if max_bytes is None else max_bytes
        file = self._put(f"{number}.command", command.encode())
        pipe = self._directory / f"{number}.output"
        os.mkfifo(pipe)
        pipe.chmod(0o666)
        output = _Output(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), limit)
        status = self._statuses[number] = asyncio.get_running_loop().create_future()
        timeout = min(seconds or MAX_SECONDS, MAX_SECONDS)
        try:
            self._tell(number)
            await asyncio.wait([status], timeout=timeout)
            has_timed_out = not status.done()
            if has_timed_out:
                await self._stop(number, status)
            output.read()
            if max_bytes is None and output.is_cut and not has_timed_out:
                raise CommandFailed(f"The command wrote more than {MAX_OUTPUT_BYTES >> 20} MB.")
            code = TIMED_OUT if has_timed_out else status.result()
            return CommandResult(code, bytes(output.content), has_timed_out)
        finally:
            del self._statuses[number]
            output.close()
            file.unlink(missing_ok=True)
            pipe.unlink(missing_ok=True)
            if not status.done():  # nobody waits for it any longer
                self._tell(-number)

    async def _stop(self, number: int, status: asyncio.Future[int]) -> None:
        self._tell(-number)
        await asyncio.wait([status], timeout=STOP_SECONDS)
        if not status.done():
            self.close("it did not stop a command")
        status.exception()  # it was looked at

    def _put(self, name: str, content: bytes) -> Path:
        """Write a file that the sandbox sees in /run/sandbox. Only its user can enter the
        directory."""
        path = self._directory / name
        path.write_bytes(content)
        path.chmod(0o644)
        return path

    def _tell(self, number: int) -> None:
        if not self.end and self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(b"%d\n" % number)

    async def _read_statuses(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        with contextlib.suppress(ValueError):  # a program in the sandbox wrote there
            while line := await self._process.stdout.readline():
                number, status = map(int, line.split())
                future = self._statuses.get(number)
                if future is not None and not future.done():
                    future.set_result(status)
        self.close("its first process has ended")

    async def _watch(self) -> None:
        """End what takes more than it may."""
        assert self._process is not None
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            inside = processes.with_descendants(self._process.pid)
            processes.be_nice(inside)
            sizes = {pid: processes.resident_bytes(pid) for pid in inside}
            excess = sum(sizes.values()) - self._plan.memory_bytes
            # bubblewrap and the shell stay
            for pid in sorted(inside[3:], key=sizes.__getitem__, reverse=True):
                if excess <= 0:
                    break
                excess -= sizes[pid]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if processes.count_files(inside[-1], "") > MAX_FILES:
                self.close(f"it made more than {MAX_FILES} files")

    # --- files ------------------------------------------------------------------------------------

    async def stat(self, path: str, *, has_sum: bool) -> dict[str, Any]:
        """Return the size of a file, and its SHA-256 on request. Raises: SandboxClosed,
        CommandFailed."""
        word = shlex.quote(path)
        shell = f"stat -c %s -- {word}" + (f"; sha256sum < {word}" if has_sum else "")
        size, _, digest = (await self._file(path, shell)).decode().partition("\n")
        values: dict[str, Any] = {"size": int(size)}
        if has_sum:
            values["sha256"] = digest.split()[0]
        return values

    async def read(self, path: str, offset: int, length: int) -> tuple[int, bytes]:
        """Return the size of a file and a part of it. Raises: SandboxClosed, CommandFailed."""
        word = shlex.quote(path)
        shell = f"stat -c %s -- {word}; tail -c +{offset + 1} -- {word} | head -c {length}"
        size, _, data = (await self._file(path, shell, length + 100)).partition(b"\n")
        return int(size), data

    async def write(self, path: str, offset: int, data: bytes, *, makes_directories: bool) -> None:
        """Write a part of a file beside it, until `commit`. Raises: SandboxClosed,
        CommandFailed."""
        name = f"{next(self._numbers)}.data"
        file = self._put(name, data)
        part = shlex.quote(f"{path}.part")
        make = ""
        if makes_directories:
            make = f"mkdir -p -- {shlex.quote(posixpath.dirname(path))} && "
        start = "" if offset else f"rm -f -- {part}; "
        copy = (
            f"dd if=/run/sandbox/{name} of={part} oflag=seek_bytes seek={offset} conv=notrunc "
            "bs=1M status=none"
        )
        try:
            await self._succeed(f"{make}{{ {start}{copy}; }}", path)
        finally:
            file.unlink(missing_ok=True)

    async def commit(self, path: str, size: int) -> str:
        """Put a written file in its place and return its SHA-256. Raises: SandboxClosed,
        CommandFailed."""
        part, word = shlex.quote(f"{path}.part"), shlex.quote(path)
        shell = (
            f'[ "$(stat -c %s -- {part})" = {size} ] || {{ echo "it has another size"; exit 1; }}; '
        )
        shell += f"mv -fT -- {part} {word} && sha256sum < {word}"
        return (await self._succeed(shell, path)).decode().split()[0]

    async def _file(self, path: str, shell: str, max_bytes: int = 4096) -> bytes:
        """Run `shell` on a regular file."""
        word = shlex.quote(path)
        tests = (
            f"[ -L {word} ] && {{ echo 'it is a symlink'; exit 1; }}; "
            f"[ -e {word} ] || {{ echo 'no such file'; exit 1; }}; "
            f"[ -f {word} ] || {{ echo 'it is not a regular file'; exit 1; }}; "
        )
        return await self._succeed(tests + shell, path, max_bytes)

    async def _succeed(self, shell: str, path: str, max_bytes: int = 4096) -> bytes:
        result = await self.run(shell, max_bytes=max_bytes)
        if result.status:
            raise CommandFailed(f"{path}: {result.output.decode(errors='replace').strip()[:200]}")
        return result.output


class _Output:
    """The beginning of what a command prints. The rest is read and dropped, so that it can go on."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.content = bytearray()
        self.is_cut = False
        self._descriptor, self._limit = descriptor, limit
        asyncio.get_running_loop().add_reader(descriptor, self.read, 1)

    def read(self, chunks: int = 16) -> None:
        """Read what there is, up to `chunks` times 64 KB; a pipe holds 1 MB at most."""
        for _ in range(chunks):
            try:
                data = os.read(self._descriptor, 65536)
            except BlockingIOError:
                return
            if not data:  # nobody has it open for writing
                asyncio.get_running_loop().remove_reader(self._descriptor)
                return
            room = self._limit - len(self.content)
            self.content += data[:room]
            self.is_cut = self.is_cut or len(data) > room

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
