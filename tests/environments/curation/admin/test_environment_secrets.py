"""The form on the page of an environment that gives it secrets, which no page shows."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from environments.models import Environment, EnvironmentSecret, SecurityEvent
from environments.operator_secrets import stored
from environments.operator_secrets.stored import stored_secrets
from tests.people import client_of
from tests.stored import make_environment

pytestmark = pytest.mark.django_db

SECRET = "operators-own-token-4711"


def ask(client: Client, environment: Environment, action: str, **values: Any) -> Any:
    url = reverse("admin:environments_environment_do", args=[environment.pk])
    return client.post(url, {"action": action, **values}, follow=True)


def test_an_operator_sets_changes_and_removes_one_and_only_its_name_is_shown() -> None:
    environment, operator = make_environment(), client_of("operator")
    for value in ("the-first-of-two-values", SECRET):
        page = ask(
            operator, environment, "set_secret", name="openai_api_key", value=value
        ).content.decode()
        assert "openai_api_key" in page and value not in page
        assert stored_secrets() == {"math": {"openai_api_key": value}}
    [row] = EnvironmentSecret.objects.all()
    assert SECRET.encode() not in bytes(row.sealed)
    events = SecurityEvent.objects.filter(kind="environment_changed", what="math", who="ada")
    assert "openai_api_key" in events[0].detail and SECRET not in events[0].detail
    page = ask(operator, environment, "remove_secret", name="openai_api_key").content.decode()
    assert "was removed" in page and stored_secrets() == {}


def test_only_those_who_change_keys_may() -> None:
    environment, curator = make_environment(), client_of("curator")
    assert (
        ask(curator, environment, "set_secret", name="openai_api_key", value=SECRET).status_code
        == 403
    )
    page = curator.get(
        reverse("admin:environments_environment_change", args=[environment.pk])
    ).content.decode()
    assert 'id="secrets"' not in page and stored_secrets() == {}


def test_what_cannot_be_given_is_refused_without_its_value() -> None:
    environment, operator = make_environment(), client_of("operator")
    in_file = {"math": {"from_file": SECRET}}
    with override_settings(ORSWEB_ENVIRONMENT_SECRETS=in_file):
        for name, value, why in (
            ("short", "sh0rt-x", "because others can&#x27;t be masked"),
            ("orsweb_run", "a-name-of-a-run", "describes a run"),
            ("from_file", "another-value-of-it", "Change it there"),
            ("empty", "", "This field is required"),
        ):
            answer = ask(operator, environment, "set_secret", name=name, value=value)
            page = answer.content.decode()
            assert answer.status_code == 400 and why in page and (not value or value not in page)
    assert stored_secrets() == {}


def test_after_another_secret_key_it_says_that_it_has_to_be_set_again() -> None:
    environment, operator = make_environment(), client_of("operator")
    ask(operator, environment, "set_secret", name="openai_api_key", value=SECRET)
    with override_settings(SECRET_KEY="another-one"):
        assert stored_secrets() == {"math": {"openai_api_key": None}}
        page = client_of("operator", name="op").get(
            reverse("admin:environments_environment_change", args=[environment.pk])
        )
    assert "be decrypted" in page.content.decode()


def test_without_the_package_the_page_says_so_before_anything_is_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored, "find_spec", lambda name: None)
    page = (
        client_of("operator")
        .get(f"/admin/environments/environment/{make_environment().pk}/change/")
        .content.decode()
    )
    assert "which needs a package" in page and "set_secret" not in page
