"""Tests of who may see pages, with and without keys."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from environments.access.local_operator import OPERATOR
from tests.rows import each
from tests.stored import make_episode

pytestmark = pytest.mark.django_db

PAGES = [
    "/",
    "/?span=24h",
    "/admin/",
    "/admin/episodes/episode/",
    "/admin/auth/user/add/",
]


@pytest.fixture
def keys(settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"lab": "0123456789"}


@each("path", PAGES)
def test_without_keys_every_visitor_is_the_operator(client: Client, path: str) -> None:
    assert client.get(path).status_code == 200


def test_the_operator_has_no_password(client: Client) -> None:
    client.get("/")
    operator = User.objects.get(username=OPERATOR)
    assert operator.is_superuser and not operator.has_usable_password()


def test_the_operators_visit_leaves_no_session(client: Client) -> None:
    assert "sessionid" not in client.get("/admin/").cookies


def test_a_user_named_operator_is_not_raised(client: Client) -> None:
    User.objects.create_user("operator", password="correct horse")
    client.get("/")
    assert not User.objects.get(username="operator").is_superuser


@pytest.mark.usefixtures("keys")
@each("path", [*PAGES, "/no-such-page", "/admin/no-such-page"])
def test_with_keys_strangers_are_sent_to_the_login(client: Client, path: str) -> None:
    response = client.get(path)
    assert (
        response.status_code == 302
        and response["Location"] == f"/accounts/login/?next={quote(path)}"
    )


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("name", ["prompt.json", "steps/0.json"])
def test_with_keys_strangers_read_no_record(client: Client, name: str) -> None:
    response = client.get(f"/admin/episodes/episode/{make_episode().pk}/{name}")
    assert response.status_code == 302 and response["Location"].startswith("/accounts/login/?next=")


@pytest.mark.usefixtures("keys")
def test_with_keys_staff_without_permission_read_no_record(client: Client) -> None:
    client.force_login(User.objects.create_user("bob", is_staff=True))
    episode = make_episode()
    for path in ("", f"{episode.pk}/change/", f"{episode.pk}/prompt.json"):
        assert client.get(f"/admin/episodes/episode/{path}").status_code in (403, 404)


def test_logins_can_be_made_in_the_admin(client: Client) -> None:
    form = {
        "username": "ada",
        "password1": "correct horse",
        "password2": "correct horse",
        "usable_password": "true",
    }
    assert client.post("/admin/auth/user/add/", form).status_code == 302
    assert User.objects.get(username="ada").check_password("correct horse")


@each("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "169.254.0.1"])
@each("path", ["/", "/admin/", "/static/orsweb/nothing"])
def test_a_rebound_name_is_refused(client: Client, host: str, path: str) -> None:
    assert client.get(path, headers={"host": host}).status_code == 400


def test_a_foreign_page_cannot_act_as_the_operator() -> None:
    client = Client(enforce_csrf_checks=True)
    token = client.get("/admin/auth/user/add/").cookies["csrftoken"].value
    form = {
        "username": "eve",
        "password1": "correct horse",
        "password2": "correct horse",
        "csrfmiddlewaretoken": token,
    }
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:3000"},
        {"origin": "null"},
    ):
        assert client.post("/admin/auth/user/add/", form, headers=headers).status_code == 403
    assert not User.objects.filter(username="eve").exists()


def test_pages_cannot_be_framed(client: Client) -> None:
    assert client.get("/")["X-Frame-Options"] == "DENY"


def test_it_asks_a_visitor_from_elsewhere_to_log_in_even_without_keys(client: Client) -> None:
    response = client.get("/", REMOTE_ADDR="192.0.2.7")
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/login/")
