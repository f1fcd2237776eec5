"""The form on the page of an environment that makes it private and chooses its members."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from environments.keys.stored_keys import make_key
from environments.models import Environment
from tests.people import client_of, member
from tests.stored import make_environment

pytestmark = pytest.mark.django_db


def ask(client: Client, environment: Environment, action: str, **values: Any) -> HttpResponse:
    url = reverse("admin:environments_environment_do", args=[environment.pk])
    return client.post(url, {"action": action, **values}, follow=True)


def members_of(environment: Environment) -> set[str]:
    return set(environment.members.values_list("username", flat=True))


def test_a_curator_makes_it_private_for_accounts_and_groups() -> None:
    environment, zoe = make_environment(), member("viewer", name="zoe")
    team = Group.objects.create(name="team")
    page = ask(
        client_of("curator"), environment, "private", members=[zoe.pk], groups=[team.pk]
    ).content.decode()
    environment.refresh_from_db()
    assert environment.is_private and members_of(environment) == {"ada", "zoe"}
    assert (
        'title="Seen only by ada, zoe, the group team, operators, and by API keys that name it."'
        in page
    )


def test_who_would_not_see_it_any_more_stays_a_member() -> None:
    environment, curator = make_environment(), client_of("curator")
    ask(curator, environment, "private")
    assert members_of(environment) == {"ada"}
    assert curator.get("/environments/math/").status_code == 200


def test_who_sees_it_anyway_does_not_become_a_member() -> None:
    team = Group.objects.create(name="team")
    for environment, who, groups in (
        (make_environment("a"), client_of("operator", name="op"), []),
        (make_environment("b"), client_of("curator", "team"), [team.pk]),
    ):
        ask(who, environment, "private", groups=groups)
        assert (
            Environment.objects.get(pk=environment.pk).is_private
            and members_of(environment) == set()
        )


def test_made_public_it_keeps_its_members_for_the_next_time() -> None:
    environment, curator = make_environment(), client_of("curator")
    ask(curator, environment, "private")
    ask(curator, environment, "public", members=[User.objects.get(username="ada").pk])
    environment.refresh_from_db()
    assert not environment.is_private and members_of(environment) == {"ada"}
    assert client_of("viewer", name="eve").get("/environments/math/").status_code == 200


def test_people_who_may_not_change_it_get_no_form_and_are_refused() -> None:
    environment, viewer = make_environment(), client_of("viewer")
    assert ask(viewer, environment, "private").status_code == 403
    environment.refresh_from_db()
    assert not environment.is_private


def test_an_account_that_does_not_exist_is_told_and_changes_nothing() -> None:
    environment = make_environment()
    answer = ask(client_of("curator"), environment, "private", members=[999])
    environment.refresh_from_db()
    assert (
        answer.status_code == 400
        and "999" in answer.content.decode()
        and not environment.is_private
    )


def test_for_who_is_no_member_there_is_nothing_to_change() -> None:
    environment = make_environment(is_private=True)
    assert ask(client_of("curator"), environment, "public").status_code == 404
    environment.refresh_from_db()
    assert environment.is_private


def test_people_who_see_all_keys_see_which_of_them_name_it() -> None:
    environment = make_environment(is_private=True)
    for name, environments in (
        ("naming-key", ["Math"]),
        ("other-key", ["maths"]),
        ("open-key", []),
    ):
        make_key(name, scopes=["play"], environments=environments)
    url = reverse("admin:environments_environment_change", args=[environment.pk])
    page = client_of("operator").get(url).content.decode()
    assert "naming-key</a>." in page and "other-key" not in page and "open-key" not in page
    curator = client_of("curator", name="eve")
    environment.members.add(User.objects.get(username="eve"))
    assert "naming-key" not in curator.get(url).content.decode()


@pytest.mark.parametrize(
    "path",
    ["/", "/environments/", "/environments/math/", "/admin/", "/admin/environments/environment/"],
)
def test_its_name_is_marked_for_those_who_see_it(path: str) -> None:
    make_environment(is_private=True)
    make_environment("public")
    page = client_of("operator").get(path).content.decode()
    assert (
        page.count('title="Seen only by operators, and by API keys that name it.">private</span>')
        == 1
    )
