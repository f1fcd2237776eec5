"""Logins are locked after too many wrong passwords, and few passwords are checked at once."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from orsweb.accounts import password_hashing
from orsweb.accounts.password_hashing import QueuedHasher
from tests.people import member

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("locking")]

LOGIN = "/accounts/login/"
PASSWORD = "correct horse"


@pytest.fixture
def locking(settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"lab": "0123456789"}
    settings.AXES_FAILURE_LIMIT = 3
    member("viewer", password=PASSWORD)


def attempt(
    password: str = "wrong", name: str = "ada", address: str = "192.0.2.7"
) -> tuple[int, str, str]:
    """Return the status, the page, and Retry-After of a login."""
    answer = Client().post(LOGIN, {"username": name, "password": password}, REMOTE_ADDR=address)
    return answer.status_code, answer.content.decode(), answer.headers.get("Retry-After", "")


def lock(**who: str) -> None:
    for _ in range(3):
        attempt(**who)


def test_after_too_many_wrong_passwords_no_password_is_checked() -> None:
    lock()
    status, page, wait = attempt(PASSWORD)
    assert status == 429 and 0 < int(wait) <= 900
    assert (
        "log in again in 15 minutes" in page
        and "axes_reset" in page
        and "Back to playing" not in page
        and 'class="rail"' not in page
    )


@pytest.mark.parametrize("who", [{"address": "192.0.2.8"}, {"name": "bob"}])
def test_it_locks_the_account_and_the_address(who: dict[str, str]) -> None:
    lock()
    assert attempt(PASSWORD, **who)[0] == 429


def test_others_log_in_from_elsewhere() -> None:
    lock()
    member("viewer", name="bob", password=PASSWORD)
    assert attempt(PASSWORD, "bob", "192.0.2.8")[0] == 302


def test_a_login_forgets_the_wrong_passwords_before_it() -> None:
    for password in ("wrong", "wrong", PASSWORD, "wrong", "wrong"):
        attempt(password)
    assert attempt(PASSWORD)[0] == 302


def test_the_operator_ends_a_lock() -> None:
    lock()
    call_command("axes_reset", verbosity=0)
    assert attempt(PASSWORD)[0] == 302


def test_a_lock_ends_by_itself(settings: Settings) -> None:
    lock()
    settings.AXES_COOLOFF_TIME = settings.AXES_COOLOFF_TIME * 0
    assert attempt(PASSWORD)[0] == 302


def test_behind_the_login_of_the_admin_is_the_same_lock() -> None:
    lock()
    answer = Client().post(
        "/admin/login/", {"username": "ada", "password": PASSWORD}, REMOTE_ADDR="192.0.2.7"
    )
    assert answer["Location"].startswith(LOGIN)


def test_when_too_many_passwords_are_checked_it_says_when_to_come_back(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["orsweb.accounts.password_hashing.QueuedHasher"]
    for _ in range(password_hashing.MAX_WAITING):
        password_hashing._places.acquire()
    try:
        status, page, wait = attempt(PASSWORD)
    finally:
        for _ in range(password_hashing.MAX_WAITING):
            password_hashing._places.release()
    assert (status, wait) == (503, "2") and "send it again in a moment" in page


def test_its_hashes_are_djangos() -> None:
    hasher = QueuedHasher()
    assert hasher.verify(PASSWORD, hasher.encode(PASSWORD, "salt", iterations=10))
    assert hasher.encode(PASSWORD, "salt", iterations=10).startswith("pbkdf2_sha256$10$salt$")
