"""Who is at the page."""

from __future__ import annotations

from django.contrib.auth.models import Permission, User
from django.test import Client


def person_who_may(*permissions: str, name: str = "ada") -> Client:
    """The client of somebody with these permissions for the pages of environments, such as `view_task`."""
    user = User.objects.create(username=name, is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client
