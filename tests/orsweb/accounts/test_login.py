"""Logging in, changing the password and logging out when keys are set: who may, the errors, and the
page afterwards."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from environments.access.local_operator import OPERATOR
from tests.people import member
from tests.rows import each

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("keys")]

LOGIN = "/accounts/login/"
PASSWORD = "correct horse"


@pytest.fixture
def keys(settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"lab": "0123456789"}


@pytest.fixture
def ada() -> User:
    """An account of a viewer."""
    return member("viewer", password=PASSWORD)


def log_in(
    client: Client, name: str = "ada", password: str = PASSWORD, **also: str
) -> tuple[int, str]:
    """Log in; return the status, and the redirect or the page."""
    response = client.post(LOGIN, {"username": name, "password": password, **also})
    return response.status_code, response.headers.get("Location") or response.content.decode()


def test_the_login_page_and_its_files_are_open_and_lead_nowhere_else(client: Client) -> None:
    page = client.get(f"{LOGIN}?next=/runs/").content.decode()
    assert (
        'name="next" value="/runs/"' in page
        and 'class="rail"' not in page
        and "data-search" not in page
    )
    assert client.get("/static/orsweb/tokens.css").status_code == 200


@pytest.mark.usefixtures("ada")
def test_a_viewer_sees_the_pages(client: Client) -> None:
    assert log_in(client) == (302, "/")
    for path in (
        "/",
        "/environments/",
        "/episodes/",
        "/runs/",
        "/compare/",
        "/api/",
        "/api/episodes",
    ):
        assert client.get(path).status_code == 200


@pytest.mark.usefixtures("ada")
def test_the_admin_is_for_curators_operators_and_staff(client: Client) -> None:
    log_in(client)
    refused = client.get("/admin/")
    assert (
        refused.status_code == 403 and "curator or operator is needed" in refused.content.decode()
    )
    assert 'href="/admin/"' not in client.get("/").content.decode()
    User.objects.update(is_staff=True)
    assert client.get("/admin/").status_code == 200
    assert 'href="/admin/"' in client.get("/").content.decode()


@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize(
    ("name", "password"), [("ada", "wrong"), ("Ada", PASSWORD), ("eve", PASSWORD), (OPERATOR, "!")]
)
def test_what_is_wrong_is_said_and_not_which_half(client: Client, name: str, password: str) -> None:
    User.objects.create(username=OPERATOR, is_staff=True, is_superuser=True, password="!")
    status, page = log_in(client, name, password)
    assert status == 200 and "Wrong user name or password." in page
    assert client.get("/").status_code == 302


def test_an_account_that_is_not_active_is_reported_the_same(client: Client, ada: User) -> None:
    ada.is_active = False
    ada.save()
    assert "Wrong user name or password." in log_in(client)[1]


@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize(
    "path", ["/runs/?return=max", "/episodes/?environment=math&since=7d", "/admin/"]
)
def test_it_leads_to_the_page_that_was_asked_for(client: Client, path: str) -> None:
    assert client.get(path)["Location"] == f"{LOGIN}?next={quote(path)}"
    assert log_in(client, next=path) == (302, path)


@pytest.mark.usefixtures("ada")
@each(
    "elsewhere",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"],
)
def test_it_leads_to_no_other_site(client: Client, elsewhere: str) -> None:
    assert log_in(client, next=elsewhere) == (302, "/")


@pytest.mark.usefixtures("ada")
def test_who_is_logged_in_already_is_led_on(client: Client) -> None:
    log_in(client)
    assert client.get(f"{LOGIN}?next=/runs/")["Location"] == "/runs/"


@pytest.mark.usefixtures("ada")
def test_logging_out_is_a_form_in_every_page(client: Client) -> None:
    log_in(client)
    assert 'action="/accounts/logout/"' in client.get("/runs/").content.decode()
    assert client.get("/accounts/logout/").status_code == 405
    assert client.post("/accounts/logout/")["Location"] == LOGIN
    assert client.get("/").status_code == 302


def test_a_form_that_a_stranger_sends_leads_to_the_overview_afterwards(client: Client) -> None:
    assert client.post("/episodes/views/", {"name": "x"})["Location"] == f"{LOGIN}?next=/"


def test_the_admins_own_login_leads_here(client: Client) -> None:
    assert (
        client.get("/admin/login/?next=/admin/auth/user/")["Location"]
        == f"{LOGIN}?next=/admin/auth/user/"
    )
    assert client.get("/admin/login/")["Location"] == f"{LOGIN}?next=/admin/"


def test_part_of_a_page_is_not_replaced_by_a_login_page(client: Client) -> None:
    response = client.get("/?part=now", headers={"HX-Request": "true"})
    assert (response.status_code, response["HX-Refresh"], response.content) == (401, "true", b"")


def test_a_login_from_another_site_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    assert log_in(client)[0] == 403


CHANGE = "/accounts/password/"


@pytest.mark.usefixtures("ada")
def test_every_account_can_change_its_password(client: Client) -> None:
    log_in(client)
    assert f'href="{CHANGE}"' in client.get("/").content.decode()
    new = "staple battery"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert "Password changed" in client.post(CHANGE, form, follow=True).content.decode()
    assert client.get("/").status_code == 200
    assert log_in(Client())[0] == 200
    assert log_in(Client(), password=new)[0] == 302


@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("wrong", "staple battery", "old password was"), (PASSWORD, "1234", "too short")],
)
def test_a_password_that_is_not_changed_is_explained(
    client: Client, old: str, new: str, words: str
) -> None:
    log_in(client)
    form = {"old_password": old, "new_password1": new, "new_password2": new}
    assert words in client.post(CHANGE, form).content.decode()
    assert log_in(Client())[0] == 302


def test_a_password_is_changed_by_who_is_logged_in(client: Client) -> None:
    assert client.get(CHANGE)["Location"] == f"{LOGIN}?next={CHANGE}"


def test_the_local_operator_has_no_password_to_change(client: Client, settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {}
    refused = client.get(CHANGE)
    assert (
        refused.status_code == 403
        and f"{OPERATOR} logs in without a password." in refused.content.decode()
    )


@pytest.mark.usefixtures("ada")
def test_the_database_does_not_hold_what_continues_a_login(client: Client) -> None:
    log_in(client)
    cookie, row = client.cookies["sessionid"].value, Session.objects.get()
    assert cookie not in (row.session_key, row.session_data)
    thief = Client()
    thief.cookies["sessionid"] = row.session_key
    assert thief.get("/accounts/password/").status_code == 302
    assert client.get("/accounts/password/").status_code == 200
    client.post("/accounts/logout/")
    assert not Session.objects.exists()


@pytest.mark.usefixtures("ada")
def test_a_login_ends_when_its_time_is_over(client: Client) -> None:
    log_in(client)
    Session.objects.update(expire_date=timezone.now() + timedelta(seconds=60))
    assert client.get("/accounts/password/").status_code == 200
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert client.get("/accounts/password/").status_code == 302
