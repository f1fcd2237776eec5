"""Starts the servers that are measured, as processes, each with a new database and a log of its
own."""

from __future__ import annotations

import http.client
import os
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
START_SECONDS, STOP_SECONDS = 120.0, 35.0
ENV = "benchmarks.echo:Echo"
MEMORY = Path("/dev/shm")  # nosec B108 # a folder of our own is made in it


class Served(NamedTuple):
    """A server and what it hosts."""

    environment: str = ENV
    server: Literal["ours", "ors", "openreward"] = "ours"
    on_postgresql: bool = False
    settings: Mapping[str, str] = {}


Subject = str
SUBJECTS: dict[Subject, Served] = {
    "reference": Served("benchmarks.echo_ors:Echo", "ors"),
    "reference, no logs": Served("benchmarks.echo_ors:Echo", "ors"),
    "reference, plain": Served("benchmarks.echo_ors:PlainEcho", "ors"),
    "reference, plain, paced": Served("benchmarks.echo_ors:PlainEcho", "ors"),
    "openreward, plain": Served("benchmarks.echo_openreward:PlainEcho", "openreward"),
    "ours": Served(),
    "ours, ors class": Served("benchmarks.echo_ors:Echo"),
    "ours, quiet": Served(),
    "ours, worker": Served(settings={"ORSWEB_WORKERS": "1"}),
    "ours, PostgreSQL": Served(on_postgresql=True),
    "ours, plain": Served("benchmarks.echo:PlainEcho"),
    "ours, plain, PG": Served("benchmarks.echo:PlainEcho", on_postgresql=True),
    "ours, plain, by index": Served("benchmarks.echo:PlainEcho"),
    "ours, plain, paced": Served("benchmarks.echo:PlainEcho"),
    "ours, ors plain": Served("benchmarks.echo_ors:PlainEcho"),
    "ours, ors built": Served("benchmarks.echo_ors:BuiltEcho"),
    "ours, openreward": Served("benchmarks.echo_openreward:PlainEcho"),
}


class Workshop:
    """Starts servers. They write into one temporary directory, which is removed at the end of the
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
        """Start a subject; yields its port and its processes (name -> pid)."""
        service = SUBJECTS[subject]
        if service.server != "ours":
            port, program = free_port(), [sys.executable, "-m", "benchmarks.reference"]
            # it logs to its standard output, and a file is the cheapest way to keep that
            log = Path(os.devnull) if subject == "reference, no logs" else self._next_log()
            with _running([*program, str(port), service.environment], port, log) as pid:
                yield port, {"server": pid}
            return
        settings, processes = dict(service.settings), dict[str, int]()
        if service.on_postgresql:
            postgres = self.postgres()
            settings["DATABASE_URL"] = postgres.fresh()
            processes |= {"PostgreSQL": postgres.pid} if postgres.pid else {}
        with self.serving([f"echo={service.environment}"], settings=settings) as (port, _, pid):
            # pages are loaded after the start, which is no cost of an episode: `restart` has it
            _answers(port, "/")
            yield port, {"server": pid, **processes}

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
        port, log, directory = free_port(), self._next_log(), directory or self._data_directory()
        command = [sys.executable, "manage.py", "serve", *environments, "--port", str(port)]
        variables = {"ORSWEB_DATA_DIR": str(directory), **(settings or {})}
        with _running(command, port, log, variables, is_awaited=is_awaited) as pid:
            yield port, directory, pid

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

    def _next_log(self) -> Path:
        self._starts += 1
        return self._directory / f"{self._starts}.log"

    def _data_directory(self) -> Path:
        """Return a new data directory with an empty SQLite database, copied from one that is
        migrated only once."""
        if not self._migrated:
            self._migrated = self._directory / "migrated"
            _migrate({"ORSWEB_DATA_DIR": str(self._migrated)})
        return shutil.copytree(self._migrated, self._directory / f"data-{self._starts}")


@contextmanager
def _running(
    command: Sequence[str],
    port: int,
    log: Path,
    variables: Mapping[str, str] | None = None,
    *,
    is_awaited: bool = True,
) -> Iterator[int]:
    """Run a server, by default from when it answers `/health`; yields its process."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**_bare_environment(), **(variables or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while is_awaited and not _answers(port, "/health"):
            if server.poll() is not None or time.monotonic() > deadline:
                ending = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"The server did not start: {' '.join(command)}\n{ending}")
            time.sleep(0.05)
        yield server.pid
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _migrate(settings: Mapping[str, str]) -> None:
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env={**_bare_environment(), **settings}, check=True)


def _bare_environment() -> dict[str, str]:
    """Return the environment variables of this process without our settings, so that the defaults
    are measured."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ORSWEB_", "ORS_", "DATABASE_URL"))
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
