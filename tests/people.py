"""Accounts of people in the groups that exist from the start."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, User
from django.test import Client


def member(*groups: str, name: str = "ada", **fields: Any) -> User:
    """Return a new account in these groups, such as `viewer`."""
    user = User.objects.create_user(name, **{"password": "correct horse"} | fields)
    user.groups.set(Group.objects.filter(name__in=groups))
    return user


def client_of(*groups: str, name: str = "ada") -> Client:
    """Return a client logged in as a new person in these groups."""
    client = Client()
    client.force_login(member(*groups, name=name))
    return client
