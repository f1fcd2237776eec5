"""The operator's page: who may see it, and what it says without a running server."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django import Settings

pytestmark = pytest.mark.django_db


@pytest.fixture
def person(client: Client, settings: Settings) -> User:
    """A person who has logged in on a server with keys, and has no permissions."""
    settings.ORSWEB_API_KEYS = {"lab": "0123456789"}
    user = User.objects.create_user("ada", is_staff=True)
    client.force_login(user)
    return user


def test_it_is_for_people_with_the_permission(client: Client, person: User) -> None:
    assert client.get("/operations/").status_code == 403
    person.user_permissions.add(Permission.objects.get(codename="view_operations"))
    assert client.get("/operations/").status_code == 200


def test_the_overview_links_to_it_for_those_who_may_see_it(client: Client, person: User) -> None:
    person.user_permissions.set(
        Permission.objects.filter(codename__in=["view_episode", "view_operations"])
    )
    assert 'href="/operations/"' in client.get("/").content.decode()
    person.user_permissions.remove(Permission.objects.get(codename="view_operations"))
    assert 'href="/operations/"' not in client.get("/").content.decode()


def test_it_says_when_no_environment_is_served(client: Client) -> None:
    assert "does not serve environments" in client.get("/operations/").content.decode()
