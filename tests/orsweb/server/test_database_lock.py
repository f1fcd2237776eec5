"""Tests of the lock that allows one server per database, on the database of the test run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from pytest_django import Settings

from orsweb.server import database_lock
from orsweb.server.database_lock import AdvisoryLock, DatabaseInUse, FileLock, Lock
from tests.conformance.agent import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def held() -> Iterator[Lock]:
    with taken_again() as taken:  # the test before has just released it
        yield taken


def taken_again() -> Lock:
    """Take the lock after its release, of which PostgreSQL learns a moment later, as the connection
    is closed."""
    found: list[Lock] = []

    def take() -> bool:
        with suppress(DatabaseInUse):
            found.append(database_lock.acquire())
        return bool(found)

    eventually(take)
    return found[0]


def test_it_is_refused_while_another_holds_it(held: Lock) -> None:
    with pytest.raises(DatabaseInUse):
        database_lock.acquire()


def test_it_names_the_holder(held: Lock) -> None:
    with pytest.raises(
        DatabaseInUse, match=f"pid {os.getpid()} .*{settings.ORSWEB_HOST}:{settings.ORSWEB_PORT}"
    ):
        database_lock.acquire()


def test_it_can_be_taken_again_after_its_release(held: Lock) -> None:
    held.release()
    with taken_again(), pytest.raises(DatabaseInUse):
        database_lock.acquire()


def test_a_second_release_leaves_it_to_the_next_holder(held: Lock) -> None:
    held.release()
    with taken_again():
        held.release()
        with pytest.raises(DatabaseInUse):
            database_lock.acquire()


def test_it_stays_held_when_renewed(held: Lock) -> None:
    held.renew()
    with pytest.raises(DatabaseInUse):
        database_lock.acquire()


def test_it_names_a_holder_that_has_not_written_itself_down_yet(tmp_path: Path) -> None:
    path = tmp_path / "orsweb.lock"
    with FileLock(path):
        path.write_text("")
        with pytest.raises(DatabaseInUse, match="one that is just starting"):
            FileLock(path)


if connection.vendor == "sqlite":

    @pytest.fixture
    def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """A directory in which `one.sqlite3` has a server."""
        monkeypatch.setitem(connection.settings_dict, "NAME", tmp_path / "one.sqlite3")
        with database_lock.acquire():
            yield tmp_path

    def test_it_says_what_several_servers_need(beside: Path) -> None:
        with pytest.raises(
            DatabaseInUse, match="several servers can share a database only on PostgreSQL"
        ):
            database_lock.acquire()

    def test_several_servers_are_refused(settings: Settings) -> None:
        settings.ORSWEB_CLUSTER = "127.0.0.1:9000"
        with pytest.raises(DatabaseInUse, match="only on PostgreSQL; set DATABASE_URL"):
            database_lock.acquire_to_serve()

    def test_another_file_in_the_same_directory_has_its_own(
        beside: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(connection.settings_dict, "NAME", beside / "two.sqlite3")
        with database_lock.acquire(), pytest.raises(DatabaseInUse):
            database_lock.acquire()

    def test_another_name_of_the_same_file_has_the_same(
        beside: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (beside / "link.sqlite3").symlink_to(beside / "one.sqlite3")
        monkeypatch.setitem(connection.settings_dict, "NAME", beside / "link.sqlite3")
        with pytest.raises(DatabaseInUse):
            database_lock.acquire()


if connection.vendor == "postgresql":

    def end_session_of_the_lock() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name LIKE 'orsweb pid %%' AND datname = current_database()"
            )

    @pytest.fixture
    def shared(settings: Settings) -> Iterator[Lock]:
        settings.ORSWEB_CLUSTER = "127.0.0.1:9000"
        with database_lock.acquire_to_serve() as taken:
            yield taken

    def test_several_servers_share_it(shared: Lock) -> None:
        with database_lock.acquire_to_serve() as other:
            shared.renew()
            assert shared.membership and other.membership
            assert list(shared.membership.peers) == [other.membership.id]
            assert (shared.membership.is_leader, other.membership.is_leader) == (True, False)

    def test_a_server_that_wants_it_alone_is_refused(shared: Lock) -> None:
        with pytest.raises(DatabaseInUse, match="With ORSWEB_CLUSTER, servers share it"):
            database_lock.acquire()

    def test_several_servers_are_refused_while_one_has_it_alone(
        held: Lock, settings: Settings
    ) -> None:
        settings.ORSWEB_CLUSTER = "127.0.0.1:9000"
        with pytest.raises(DatabaseInUse, match=f"pid {os.getpid()}"):
            database_lock.acquire_to_serve()

    def test_it_is_taken_again_after_its_session_was_lost(held: Lock) -> None:
        end_session_of_the_lock()
        held.renew()
        with pytest.raises(DatabaseInUse):
            database_lock.acquire()

    def test_it_is_lost_to_another_that_took_it_meanwhile(held: Lock) -> None:
        end_session_of_the_lock()
        with AdvisoryLock(), pytest.raises(DatabaseInUse):
            held.renew()
