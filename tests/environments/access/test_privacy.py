"""From whom a private environment is hidden."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User

from environments.access.privacy import hidden_from
from environments.curation.environment_settings import SetPrivacy
from environments.models import Environment, SecurityEvent

pytestmark = pytest.mark.django_db


@pytest.fixture
def private() -> Environment:
    Environment.objects.create(name="public", class_path="a:B")
    return Environment.objects.create(name="private", class_path="a:B", is_private=True)


def person(name: str, *groups: str) -> User:
    user = User.objects.create_user(name)
    user.groups.set(Group.objects.filter(name__in=groups))
    return user


@pytest.mark.parametrize("group", ["viewer", "player", "curator"])
def test_it_is_hidden_from_people_of_every_group_but_operators(private: Environment, group: str) -> None:
    assert hidden_from(person("a", group)) == {private.pk}
    assert hidden_from(AnonymousUser()) == {private.pk}
    assert hidden_from(person("b", "operator")) == frozenset()


def test_members_and_people_of_its_groups_see_it(private: Environment) -> None:
    team = Group.objects.create(name="team")
    named, of_team = person("a"), person("b", "team")
    private.members.add(named)
    private.member_groups.add(team)
    assert not hidden_from(named) and not hidden_from(of_team)
    assert hidden_from(person("c")) == {private.pk}


def test_making_it_private_sets_its_members_and_is_noted(private: Environment) -> None:
    ann, public = person("ann"), Environment.objects.get(name="public")
    outcome = SetPrivacy(public.pk, True, frozenset({ann.pk})).apply("me")
    assert outcome.sentence == "'public' is private. Members: 1 account and 0 groups."
    assert hidden_from(User.objects.get(username="ann")) == {private.pk}
    noted = SecurityEvent.objects.filter(kind="environment_changed").order_by("pk").values_list("detail", flat=True)
    assert list(noted) == ["users added: ann", "private"]
