"""Starts the servers that are measured, as processes, each with a new database and a log of its
own."""

from __future__ import annotations

import http.client
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from benchmarks.postgres import Postgres

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 300.0
"""The first start with a million tasks takes minutes on a busy machine."""
STOP_SECONDS = 35.0

ENV = "benchmarks.echo:Echo"


class Served(NamedTuple):
    """A server and what it hosts."""

    environment: str = ENV
    server: Literal["ours", "ors", "openreward"] = "ours"
    on_postgresql: bool = False
    descriptors: int = 0
    """Limit of open files; 0: that of this process."""
    workers: int = 0
    """Number of worker processes; 0: sessions are played in the server's process."""


Subject = str
SUBJECTS: dict[Subject, Served] = {
    "reference": Served("benchmarks.echo_ors:Echo", "ors"),
    "reference, no logs": Served("benchmarks.echo_ors:Echo", "ors"),
    "reference, plain": Served("benchmarks.echo_ors:PlainEcho", "ors"),
    "openreward, plain": Served("benchmarks.echo_openreward:PlainEcho", "openreward"),
    "ours": Served(),
    "ours, ors class": Served("benchmarks.echo_ors:Echo"),
    "ours, quiet": Served(),
    "ours, worker": Served(workers=1),
    "ours, PostgreSQL": Served(on_postgresql=True),
    "ours, plain": Served("benchmarks.echo:PlainEcho"),
    "ours, plain, PG": Served("benchmarks.echo:PlainEcho", on_postgresql=True),
    "ours, ors plain": Served("benchmarks.echo_ors:PlainEcho"),
    "ours, ors built": Served("benchmarks.echo_ors:BuiltEcho"),
    "ours, ors built, 4096": Served("benchmarks.echo_ors:BuiltEcho", descriptors=4096),
    "ours, openreward": Served("benchmarks.echo_openreward:PlainEcho"),
}
MEMORY = Path("/dev/shm")  # nosec B108 # a folder of our own is made in it


class Workshop:
    """Starts subjects. They write into one temporary directory, which is removed at the end of the
    `with` block."""

    def __init__(self, directory: Path | None = None) -> None:
        """Write into `directory`, by default in memory: on a shared disk, other programs' writes
        decide the p99."""
        if directory:
            directory.mkdir(parents=True, exist_ok=True)
        parent = directory or (MEMORY if MEMORY.is_dir() else None)
        self._directory = Path(tempfile.mkdtemp(prefix="orsweb-benchmark-", dir=parent))
        self._starts = 0
        self._postgres: Postgres | None = None
        self._migrated: Path | None = None

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        if self._postgres:
            self._postgres.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    @contextmanager
    def started(self, subject: Subject) -> Iterator[tuple[int, dict[str, int]]]:
        """Start a server and wait until it answers `/health`; yields its port and watched processes
        (name -> pid)."""
        self._starts += 1
        port, log = free_port(), self._directory / f"{self._starts}.log"
        processes: dict[str, int] = {}
        command, environment = self._command(subject, port, processes)
        # the reference logs to its standard output, and a file is the cheapest way to keep that
        with (Path(os.devnull) if subject == "reference, no logs" else log).open("wb") as output:
            server = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        if limit := SUBJECTS[subject].descriptors:
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
        try:
            _wait_until_healthy(server, port, log)
            yield port, {"server": server.pid, **processes}
        finally:
            _stop(server)

    @contextmanager
    def serving(
        self,
        environments: Sequence[str],
        directory: Path | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        is_awaited: bool = True,
    ) -> Iterator[tuple[int, Path, int]]:
        """Serve `environments`, or the bundled ones without any, from a data directory, by default
        a new one.

        `settings`: further environment variables; `is_awaited`: not before it answers `/health`.
        Yields the port, the data directory and the process.
        """
        self._starts += 1
        port, log, directory = (
            free_port(),
            self._directory / f"{self._starts}.log",
            directory or self.data_directory(),
        )
        command = [sys.executable, "manage.py", "serve", *environments, "--port", str(port)]
        with log.open("wb") as output:
            server = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**_bare_environment(), "ORSWEB_DATA_DIR": str(directory), **(settings or {})},
                stdout=output,
                stderr=output,
            )
        try:
            if is_awaited:
                _wait_until_healthy(server, port, log)
            yield port, directory, server.pid
        finally:
            _stop(server)

    def _command(
        self, subject: Subject, port: int, processes: dict[str, int]
    ) -> tuple[list[str], dict[str, str]]:
        environment, served = _bare_environment(), SUBJECTS[subject]
        if served.server != "ours":
            return [
                sys.executable,
                "-m",
                "benchmarks.reference",
                str(port),
                served.environment,
            ], environment
        environment["ORSWEB_DATA_DIR"] = str(self.data_directory())
        if served.descriptors:
            # more than are idle, because agents play beside them
            environment["ORSWEB_MAX_SESSIONS"] = "20000"
        if served.workers:
            environment["ORSWEB_WORKERS"] = str(served.workers)
        if served.on_postgresql:
            postgres = self.postgres()
            environment["DATABASE_URL"] = postgres.fresh()
            if postgres.pid:
                processes["PostgreSQL"] = postgres.pid
        target = f"echo={served.environment}"
        return [sys.executable, "manage.py", "serve", target, "--port", str(port)], environment

    def data_directory(self) -> Path:
        """Return a new data directory with an empty SQLite database, copied from one that is
        migrated only once."""
        if not self._migrated:
            self._migrated = self._directory / "migrated"
            _migrate({"ORSWEB_DATA_DIR": str(self._migrated)})
        fresh = self._directory / f"data-{self._starts}"
        shutil.copytree(self._migrated, fresh)
        return fresh

    def copy_of(self, directory: Path) -> Path:
        """Return a copy of a data directory, which is removed with everything else."""
        return shutil.copytree(directory, self._directory / f"copy-of-{directory.name}")

    def postgres(self) -> Postgres:
        """Return the PostgreSQL server, started at the first call."""
        if not self._postgres:
            # it warns about a directory that it does not use
            with warnings.catch_warnings(action="ignore"):
                from benchmarks.postgres import Postgres
            scratch = str(self._directory / "migration")
            self._postgres = Postgres(
                self._directory / "postgres",
                lambda url: _migrate({"ORSWEB_DATA_DIR": scratch, "DATABASE_URL": url}),
            )
        return self._postgres


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _bare_environment() -> dict[str, str]:
    """Return the environment variables of this process without our settings, so that the defaults
    are measured."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ORSWEB_", "ORS_", "DATABASE_URL"))
    }


def _migrate(settings: dict[str, str]) -> None:
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env={**_bare_environment(), **settings}, check=True)


def _wait_until_healthy(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _is_healthy(port):
        if server.poll() is not None or time.monotonic() > deadline:
            ending = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise RuntimeError(
                f"The server did not start: {' '.join(map(str, server.args))}\n{ending}"  # type: ignore[arg-type]
            )
        time.sleep(0.05)


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
