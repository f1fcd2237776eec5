"""Starts the servers that are measured, as processes, each with a new database and a log of its own."""

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from benchmarks.postgres import Postgres

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60.0
STOP_SECONDS = 35.0

Subject = Literal["reference", "reference, no logs", "ours", "ours, ors class", "ours, PostgreSQL"]


class Workshop:
    """Starts subjects. They write into one temporary directory, which is removed at the end of the `with` block."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="orsweb-benchmark-"))
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
        """Start a server and wait until it answers `/health`; yields its port and watched processes (name -> pid)."""
        self._starts += 1
        port, log = free_port(), self._directory / f"{self._starts}.log"
        processes: dict[str, int] = {}
        command, environment = self._command(subject, port, processes)
        # the reference logs to its standard output, and a file is the cheapest way to keep that
        with (Path(os.devnull) if subject == "reference, no logs" else log).open("wb") as output:
            server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_until_healthy(server, port, log)
            yield port, {"server": server.pid, **processes}
        finally:
            _stop(server)

    @contextmanager
    def serving(self, environments: Sequence[str]) -> Iterator[tuple[int, Path]]:
        """Serve `environments`, or the bundled ones without any; yields the port and the data directory."""
        self._starts += 1
        port, log, directory = free_port(), self._directory / f"{self._starts}.log", self.data_directory()
        command = [sys.executable, "manage.py", "serve", *environments, "--port", str(port)]
        with log.open("wb") as output:
            server = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**_bare_environment(), "ORSWEB_DATA_DIR": str(directory)},
                stdout=output,
                stderr=output,
            )
        try:
            _wait_until_healthy(server, port, log)
            yield port, directory
        finally:
            _stop(server)

    def _command(self, subject: Subject, port: int, processes: dict[str, int]) -> tuple[list[str], dict[str, str]]:
        environment = _bare_environment()
        if subject.startswith("reference"):
            return [sys.executable, "-m", "benchmarks.reference", str(port)], environment
        environment["ORSWEB_DATA_DIR"] = str(self.data_directory())
        if subject == "ours, PostgreSQL":
            postgres = self.postgres()
            environment["DATABASE_URL"] = postgres.fresh()
            if postgres.pid:
                processes["PostgreSQL"] = postgres.pid
        target = "benchmarks.echo_ors:Echo" if subject == "ours, ors class" else "benchmarks.echo:Echo"
        return [sys.executable, "manage.py", "serve", target, "--port", str(port)], environment

    def data_directory(self) -> Path:
        """Return a new data directory with an empty SQLite database, copied from one that is migrated only once."""
        if not self._migrated:
            self._migrated = self._directory / "migrated"
            _migrate({"ORSWEB_DATA_DIR": str(self._migrated)})
        fresh = self._directory / f"data-{self._starts}"
        shutil.copytree(self._migrated, fresh)
        return fresh

    def postgres(self) -> Postgres:
        """Return the PostgreSQL server, started at the first call."""
        if not self._postgres:
            with warnings.catch_warnings(action="ignore"):  # it warns about a directory that it does not use
                from benchmarks.postgres import Postgres
            scratch = str(self._directory / "migration")
            self._postgres = Postgres(
                self._directory / "postgres", lambda url: _migrate({"ORSWEB_DATA_DIR": scratch, "DATABASE_URL": url})
            )
        return self._postgres


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _bare_environment() -> dict[str, str]:
    """Return the environment variables of this process without our settings, so that the defaults are measured."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("ORSWEB_", "ORS_", "DATABASE_URL"))
    }


def _migrate(settings: dict[str, str]) -> None:
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env={**_bare_environment(), **settings}, check=True)


def _wait_until_healthy(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _is_healthy(port):
        if server.poll() is not None or time.monotonic() > deadline:
            ending = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise RuntimeError(f"The server did not start: {' '.join(map(str, server.args))}\n{ending}")  # type: ignore[arg-type]
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
