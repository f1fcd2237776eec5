"""The admin pages of API keys: what they show, who may make which key, and revoking one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from environments.keys.stored_keys import hash_key, make_key
from environments.models import ApiKey, Environment, SecurityEvent
from tests.people import client_of

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = "/admin/environments/apikey/"


def form(**values: Any) -> dict[str, Any]:
    return {
        "name": "lab",
        "scopes": ["play", "read"],
        "splits": "train, test",
        "days": "2",
        **values,
    }


def person(*permissions: str, **values: Any) -> Client:
    """Return the client of a member of the staff with these permissions."""
    user = User.objects.create_user("ada", is_staff=True, **values)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def test_it_shows_a_new_key_once_and_stores_its_hash(client: Client) -> None:
    answer = client.post(f"{KEYS}add/", form())
    text = re.findall(r"orsweb_[\w-]{43}", answer.content.decode())[0]
    row = ApiKey.objects.get()
    assert (row.digest, row.splits) == (
        hash_key(text).hex(),
        ["train", "test"],
    ) and row.expires is not None
    assert answer["Cache-Control"].startswith("no-store")
    assert text not in client.get(f"{KEYS}{row.pk}/change/").content.decode()


def test_a_split_that_is_typed_twice_is_stored_once(client: Client) -> None:
    client.post(f"{KEYS}add/", form(splits="train, train ,,test"))
    row = ApiKey.objects.get()
    assert row.splits == ["train", "test"]
    client.post(f"{KEYS}{row.pk}/edit/", changed(splits="test,test"))
    row.refresh_from_db()
    assert row.splits == ["test"]


def test_it_lists_keys_with_what_they_may_do(client: Client) -> None:
    make_key("lab", scopes=["play", "read"], environments=["math"])
    page = client.get(KEYS).content.decode()
    assert "play, read; environments math" in page and "active" in page and "orsweb_" in page


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"name": "taken"}, "There is already a key named &#x27;taken&#x27;"),
        ({"name": "@ada"}, "reserved for people"),
        ({"name": "lab\x1b[31m"}, "has characters that can&#x27;t be seen"),
        ({"name": "lab\u202e"}, "⟦RLO⟧"),
        ({"scopes": []}, "This field is required"),
        ({"days": "-1"}, "greater than or equal to"),
    ],
)
def test_it_refuses_wrong_values_with_a_sentence(
    client: Client, values: dict[str, Any], problem: str
) -> None:
    make_key("taken", scopes=["play"])
    answer = client.post(f"{KEYS}add/", form(**values))
    assert (answer.status_code, ApiKey.objects.count()) == (
        400,
        1,
    ) and problem in answer.content.decode()


def test_a_revoked_key_stays_in_the_list(client: Client) -> None:
    row, _ = make_key("lab", scopes=["play"])
    page = client.post(f"{KEYS}{row.pk}/revoke/", {"confirm": "1"}, follow=True).content.decode()
    assert (
        "Revoked &#x27;lab&#x27;" in page
        and "by operator" in page
        and "revoked" in client.get(KEYS).content.decode()
    )


def test_a_key_is_revoked_after_a_question(client: Client) -> None:
    row, _ = make_key("lab", scopes=["play"])
    address = f"{KEYS}{row.pk}/revoke/"
    assert f'href="{address}"' in client.get(f"{KEYS}{row.pk}/change/").text
    for answer in (
        client.get(address),
        client.post(address),
        client.get(address, {"confirm": "1"}),
    ):
        row.refresh_from_db()
        assert row.revoked is None and (
            answer.status_code == 400 or "Revoke &#x27;lab&#x27;?" in answer.text
        )


def test_without_the_permission_nobody_makes_a_key(settings: Settings) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    assert person("view_apikey").get(f"{KEYS}add/").status_code == 403


def test_who_is_no_superuser_makes_keys_of_their_own_that_do_no_more_than_they(
    settings: Settings,
) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    client = person("add_apikey")
    assert client.post(f"{KEYS}add/", form(scopes=["admin"])).status_code == 400
    assert client.post(f"{KEYS}add/", form(scopes=["curate"])).status_code == 400
    assert (
        client.post(f"{KEYS}add/", form(owner=User.objects.create_superuser("root").pk)).status_code
        == 200
    )
    assert ApiKey.objects.get().owner == User.objects.get(username="ada")


def test_figures_with_the_names_of_all_environments_are_for_who_sees_all_environments(
    settings: Settings,
) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    client = person("add_apikey", "view_operations")
    assert client.post(f"{KEYS}add/", form(scopes=["monitor"])).status_code == 400
    sees_all = Permission.objects.get(codename="view_private_environments")
    User.objects.get(username="ada").user_permissions.add(sees_all)
    assert client.post(f"{KEYS}add/", form(scopes=["monitor"])).status_code == 200


def test_who_may_not_change_keys_sees_and_revokes_no_keys_of_others(settings: Settings) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    row, _ = make_key("of-others", scopes=["play"])
    client = person("add_apikey", "view_apikey")
    page = client.get(KEYS).content.decode()
    assert "of-others" not in page and "others see their own" in page
    assert client.post(f"{KEYS}{row.pk}/revoke/", {"confirm": "1"}).status_code == 404


def test_operators_see_change_and_revoke_keys_of_others(settings: Settings) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    row, _ = make_key("lab", scopes=["play"], owner=User.objects.create_user("bob"))
    client = client_of("operator")
    assert "lab" in client.get(KEYS).content.decode()
    assert (
        client.post(f"{KEYS}{row.pk}/edit/", changed(scopes=["read", "monitor"])).status_code == 302
    )
    assert (
        "Revoked &#x27;lab&#x27;"
        in client.post(f"{KEYS}{row.pk}/revoke/", {"confirm": "1"}, follow=True).content.decode()
    )


def test_a_key_of_others_that_may_do_more_than_the_person_is_revoked_and_not_changed(
    settings: Settings,
) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    row, _ = make_key("lab", scopes=["admin"])
    client = client_of("operator")
    assert "may do more than you" in client.get(f"{KEYS}{row.pk}/change/").content.decode()
    assert client.post(f"{KEYS}{row.pk}/edit/", changed()).status_code == 403
    assert client.post(f"{KEYS}{row.pk}/quotas/", {"calls": "0"}).status_code == 403
    client.post(f"{KEYS}{row.pk}/revoke/", {"confirm": "1"})
    row.refresh_from_db()
    assert (row.revoked_by, row.scopes) == ("ada", ["admin"])


def test_environments_of_a_key_that_are_hidden_from_the_person_are_not_named(
    settings: Settings,
) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    Environment.objects.create(name="quetzal", is_private=True)
    row, _ = make_key("lab", scopes=["play"], environments=["Quetzal", "maths"])
    client_of("operator", name="op").post(
        f"{KEYS}{row.pk}/edit/", changed(environments=["Quetzal", "maths"], run="r")
    )
    client = person("change_apikey")
    pages = [
        client.get(f"{KEYS}{one}").content.decode()
        for one in ("", f"{row.pk}/change/", f"{row.pk}/history/")
    ]
    assert "maths, others" in pages[0] and "maths, others" in pages[1]
    assert not [page for page in pages if "quetzal" in page.lower()]
    refused = client.post(f"{KEYS}{row.pk}/edit/", changed(environments=["maths"]))
    assert refused.status_code == 403 and "quetzal" not in refused.content.decode().lower()


@pytest.mark.parametrize("verb", ["delete", "change"])
def test_a_key_is_neither_changed_nor_deleted(client: Client, verb: str) -> None:
    row, _ = make_key("lab", scopes=["play"])
    assert client.post(f"{KEYS}{row.pk}/{verb}/", {"post": "yes", "name": "new"}).status_code in (
        200,
        403,
    )
    assert ApiKey.objects.get().name == "lab"


def changed(**values: Any) -> dict[str, Any]:
    return {"name": "lab", "scopes": ["play"], "splits": "", "run": "", "expires": "", **values}


def test_what_a_key_may_do_is_changed_on_its_page_and_noted(client: Client) -> None:
    Environment.objects.create(name="maths")
    row, _ = make_key("lab", scopes=["play", "read"])
    values = changed(
        name="lab-2", environments=["maths"], splits="train", expires="2999-01-02T03:04"
    )
    page = client.post(f"{KEYS}{row.pk}/edit/", values, follow=True).content.decode()
    row.refresh_from_db()
    assert (row.name, row.scopes, row.environments, row.splits) == (
        "lab-2",
        ["play"],
        ["maths"],
        ["train"],
    )
    assert (
        "Changed &#x27;lab-2&#x27;" in page
        and f"{row.expires:%Y-%m-%d %H:%M}" == "2999-01-02 03:04"
    )
    entry = SecurityEvent.objects.get(kind="key_changed")
    assert (entry.what, entry.who) == ("key lab", "local operator")
    assert (
        "scopes: play (was play, read); environments: maths (was all); splits: train (was all)"
        in entry.detail
    )


def test_the_page_of_a_key_has_its_values_to_change(client: Client) -> None:
    row, _ = make_key("lab", scopes=["play"], splits=["a", "b"])
    assert 'value="a, b"' in client.get(f"{KEYS}{row.pk}/change/").content.decode()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"name": "new"}, "The key &#x27;lab&#x27; was used already, so it keeps its name."),
        ({"name": "taken"}, "There is already a key named &#x27;taken&#x27;"),
        ({"expires": "2001-01-01T00:00"}, "would have expired already"),
        ({"scopes": []}, "This field is required"),
    ],
)
def test_a_wrong_change_of_a_used_key_is_refused_on_its_page(
    client: Client, values: dict[str, Any], problem: str
) -> None:
    make_key("taken", scopes=["play"])
    row, _ = make_key("lab", scopes=["play"], last_used=timezone.now())
    answer = client.post(f"{KEYS}{row.pk}/edit/", changed(**values))
    row.refresh_from_db()
    assert (answer.status_code, row.name, row.version) == (
        400,
        "lab",
        1,
    ) and problem in answer.content.decode()


def test_a_revoked_key_is_not_changed(client: Client) -> None:
    row, _ = make_key("lab", scopes=["play"], revoked=timezone.now())
    assert client.post(f"{KEYS}{row.pk}/edit/", changed()).status_code == 403


def test_who_is_no_superuser_gives_a_key_of_their_own_no_more_than_they_may_do(
    settings: Settings,
) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    Environment.objects.create(name="secret", is_private=True)
    client = person("add_apikey", "change_apikey")
    row, _ = make_key("lab", scopes=["play", "monitor"], owner=User.objects.get(username="ada"))
    assert client.post(f"{KEYS}{row.pk}/edit/", changed(scopes=["curate"])).status_code == 400
    assert client.post(f"{KEYS}{row.pk}/edit/", changed(environments=["secret"])).status_code == 400
    assert (
        client.post(
            f"{KEYS}{row.pk}/edit/", changed(scopes=["play", "monitor"], run="r")
        ).status_code
        == 302
    )


def test_who_may_only_add_keys_changes_none(settings: Settings) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    client = person("add_apikey")
    row, _ = make_key("lab", scopes=["play"], owner=User.objects.get(username="ada"))
    assert client.post(f"{KEYS}{row.pk}/edit/", changed(scopes=["play", "read"])).status_code == 403


def test_quotas_are_changed_on_the_key_s_page(client: Client) -> None:
    row, _ = make_key("lab", scopes=["play"], quotas={"calls": 2})
    page = client.post(
        f"{KEYS}{row.pk}/quotas/", {"sessions": "5", "calls": ""}, follow=True
    ).content.decode()
    row.refresh_from_db()
    assert (
        row.quotas == {"sessions": 5}
        and "Changed &#x27;lab&#x27;" in page
        and "Live sessions" in page
    )


def test_a_wrong_quota_is_refused_on_the_page(client: Client) -> None:
    row, _ = make_key("lab", scopes=["play"])
    answer = client.post(f"{KEYS}{row.pk}/quotas/", {"sessions": "-1"})
    assert answer.status_code == 400 and "greater than or equal to 0" in answer.content.decode()


def test_who_may_only_add_keys_does_not_raise_the_quotas_of_their_own(settings: Settings) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    client = person("add_apikey")
    row, _ = make_key(
        "own", scopes=["play"], owner=User.objects.get(username="ada"), quotas={"calls": 2}
    )
    assert client.post(f"{KEYS}{row.pk}/quotas/", {"calls": "0"}).status_code == 403
    assert "Change quotas" not in client.get(f"{KEYS}{row.pk}/change/").content.decode()
