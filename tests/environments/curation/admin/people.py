"""Clients of people with certain permissions."""

from __future__ import annotations

from django.contrib.auth.models import Permission, User
from django.test import Client


def person_who_may(*permissions: str, name: str = "ada") -> Client:
    """Return a client logged in as a person with these permissions of the app environments, such as
    `view_task`."""
    user = User.objects.create(username=name, is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client
