"""From whom a private environment is hidden."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User

from environments.access.privacy import viewer_of
from environments.curation.environment_settings import SetPrivacy
from environments.models import UNRESTRICTED, Environment, SecurityEvent

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
def test_it_is_hidden_from_people_of_every_group_but_operators(
    private: Environment, group: str
) -> None:
    assert viewer_of(person("a", group)).hidden_environments == {private.pk}
    assert viewer_of(AnonymousUser()).hidden_environments == {private.pk}
    assert viewer_of(person("b", "operator")) == UNRESTRICTED


def test_members_and_people_of_its_groups_see_it(private: Environment) -> None:
    team = Group.objects.create(name="team")
    named, of_team = person("a"), person("b", "team")
    private.members.add(named)
    private.member_groups.add(team)
    assert not viewer_of(named).hidden_environments and not viewer_of(of_team).hidden_environments
    assert viewer_of(person("c")).hidden_environments == {private.pk}


def test_making_it_private_sets_its_members_and_is_noted(private: Environment) -> None:
    ann, public = person("ann"), Environment.objects.get(name="public")
    outcome = SetPrivacy(public.pk, True, frozenset({ann.pk})).apply("me")
    assert outcome.sentence == "'public' is private. Members: 1 account and 0 groups."
    assert viewer_of(User.objects.get(username="ann")).hidden_environments == {private.pk}
    noted = (
        SecurityEvent.objects.filter(kind="environment_changed")
        .order_by("pk")
        .values_list("detail", flat=True)
    )
    assert list(noted) == ["users added: ann", "private"]
