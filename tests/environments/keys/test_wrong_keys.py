"""Addresses that try keys are told to wait, and their correct keys go on working."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from environments.errors import KeyRefused
from environments.keys.keyring import ring
from environments.keys.wrong_keys import WINDOW_SECONDS, WrongKeys

pytestmark = pytest.mark.django_db
RIGHT = "0123456789"


@pytest.fixture(autouse=True)
def three_attempts(settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"lab": RIGHT}
    settings.ORSWEB_KEY_ATTEMPTS = 3


def wait_of(key: str, address: str = "192.0.2.7", forwarded: str = "") -> int:
    """Return how long the sender of a refused key has to wait."""
    with pytest.raises(KeyRefused) as refused:
        ring.check({"HTTP_X_API_KEY": key}, (address, forwarded))
    return refused.value.wait_seconds


def test_too_many_unknown_keys_of_one_address_have_to_wait() -> None:
    assert [wait_of(f"guess-{n}") > 0 for n in range(5)] == [False, False, False, True, True]
    assert wait_of("guess", "192.0.2.8") == 0


def test_correct_keys_of_that_address_go_on_working() -> None:
    for n in range(5):
        wait_of(f"guess-{n}")
    assert ring.check({"HTTP_X_API_KEY": RIGHT}, ("192.0.2.7", "")).label == "lab"


def test_requests_without_a_key_do_not_count() -> None:
    assert [wait_of("") for _ in range(5)] == [0] * 5


def test_behind_a_trusted_proxy_its_clients_are_counted() -> None:
    for n in range(5):
        wait_of(f"guess-{n}", "127.0.0.1", "192.0.2.1")
    assert wait_of("guess", "127.0.0.1", "192.0.2.2") == 0
    assert wait_of("guess", "127.0.0.1", "192.0.2.1") > 0


def test_the_api_answers_429_with_the_time_to_wait(client: Client) -> None:
    for n in range(3):
        assert client.get("/api/episodes", headers={"X-API-Key": f"guess-{n}"}).status_code == 401
    answer = client.get("/api/episodes", headers={"X-API-Key": "guess"})
    assert (answer.status_code, list(answer.json())) == (429, ["detail"])
    assert 0 < int(answer["Retry-After"]) <= WINDOW_SECONDS
    assert client.get("/api/episodes", headers={"X-API-Key": RIGHT}).status_code == 200


def test_an_address_may_try_again_after_a_while() -> None:
    now = [0.0]
    wrong = WrongKeys(lambda: now[0])
    assert [wrong.add("a", 1), wrong.add("a", 1)] == [0, WINDOW_SECONDS]
    now[0] = WINDOW_SECONDS
    assert wrong.add("a", 1) == 0


def test_it_remembers_a_bounded_number_of_addresses() -> None:
    wrong = WrongKeys(max_addresses=10)
    for n in range(100):
        wrong.add(str(n), 1)
    assert len(wrong) == 10
