"""What the security log writes: floods become few entries, nothing gets lost unnoticed, and old
entries go."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from environments import security_log
from environments.models import SecurityEvent
from environments.security_log.event import Event
from environments.security_log.failure_bursts import MANY, MAX_BURSTS, Bursts
from environments.security_log.log import MAX_QUEUED, SecurityLog

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def failure(address: str = "192.0.2.1", seconds: float = 0, **more: str) -> Event:
    return Event("key_refused", NOW + timedelta(seconds=seconds), address=address, **more)


@pytest.fixture
def running() -> Iterator[SecurityLog]:
    """A log whose thread writes, as that of a server does."""
    log = SecurityLog()
    log.start(lambda text: text.replace("swordfish", "********"))
    yield log
    log.stop()


def test_the_first_failure_is_written_at_once_and_the_others_as_one() -> None:
    bursts = Bursts()
    assert bursts.take(failure()) == failure()
    assert [
        bursts.take(failure(seconds=second, what=f"try {second % 7}")) for second in range(1, 50)
    ] == [None] * 49
    assert list(bursts.ended(NOW + timedelta(seconds=59))) == []
    (whole,) = bursts.ended(NOW + timedelta(seconds=60))
    assert (whole.count, whole.at, whole.until) == (
        49,
        NOW + timedelta(seconds=1),
        NOW + timedelta(seconds=49),
    )
    assert whole.what == "try 1, try 2, try 3, try 4, try 5"
    assert bursts.take(failure(seconds=61)) is not None


def test_failures_of_very_many_addresses_make_few_entries() -> None:
    bursts = Bursts()
    written = [
        event
        for number in range(50_000)
        if (event := bursts.take(failure(f"2001:db8::{number:x}")))
    ]
    assert len(written) == MAX_BURSTS
    (others,) = bursts.ended(None)
    assert (others.address, others.count) == (MANY, 50_000 - MAX_BURSTS)


def test_other_events_are_never_counted_together() -> None:
    bursts = Bursts()
    assert all(bursts.take(Event("exported", NOW, who="ada")) for _ in range(100))


@pytest.mark.django_db(transaction=True)
def test_a_flood_of_failures_displaces_nothing_else(running: SecurityLog) -> None:
    for _ in range(3 * MAX_QUEUED):
        running.take(failure())
    running.take(Event("exported", NOW, who="ada"))
    running.stop()
    counts = dict(
        SecurityEvent.objects.filter(kind__in=("exported", "events_lost")).values_list(
            "kind", "count"
        )
    )
    assert counts["exported"] == 1
    refused = sum(SecurityEvent.objects.filter(kind="key_refused").values_list("count", flat=True))
    assert refused + counts["events_lost"] == 3 * MAX_QUEUED


@pytest.mark.django_db(transaction=True)
def test_secrets_and_line_breaks_are_not_written(
    running: SecurityLog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orsweb.security")
    running.take(Event("host_refused", NOW, what="evil\r\nfake line swordfish\0", detail="x" * 900))
    running.stop()
    row = SecurityEvent.objects.get()
    assert row.what == "evil  fake line ********\ufffd" and len(row.detail) == 500
    assert "swordfish" not in caplog.text and "evil\r" not in caplog.text


@pytest.mark.django_db
def test_a_command_writes_at_once_and_under_the_name_of_the_systems_user() -> None:
    security_log.note("exported", "episodes as jsonl")
    assert SecurityEvent.objects.get().who.endswith("(shell)")


@pytest.mark.django_db
def test_whoever_acts_is_noted_with_the_address() -> None:
    with security_log.acting("ada", "192.0.2.7"):
        security_log.note("exported")
    row = SecurityEvent.objects.get()
    assert (row.who, row.address) == ("ada", "192.0.2.7")


@pytest.mark.django_db(transaction=True)
def test_rows_wait_for_a_database_that_is_away(
    running: SecurityLog, caplog: pytest.LogCaptureFixture
) -> None:
    table = connection.ops.quote_name(SecurityEvent._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO away")
        running.take(Event("login", NOW, who="ada"))
        deadline = time.monotonic() + 60
        while "waits for the database" not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        cursor.execute(f"ALTER TABLE away RENAME TO {table}")
    running.stop()
    assert SecurityEvent.objects.get().who == "ada"


@pytest.mark.django_db
def test_old_entries_are_removed() -> None:
    for days in (0, 89, 91):
        SecurityEvent.objects.create(kind="login", at=datetime.now(UTC) - timedelta(days=days))
    assert security_log.remove_old(0) == 0
    assert security_log.remove_old(90) == 1
    assert SecurityEvent.objects.count() == 2
