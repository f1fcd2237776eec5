"""Every page refuses a parameter that it does not have, also beside a form, which may say more than its address."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from orsweb.urls import urlpatterns
from tests.orsweb.pages.test_private import OF_PROGRAMS, address, routes
from tests.private import make_private

pytestmark = pytest.mark.django_db

PAGES = [
    route for route in routes(urlpatterns) if route == OF_PROGRAMS or not route.startswith((OF_PROGRAMS, "events/"))
]
LENIENT = {"play/invite/<str:token>/": 404, "play/invite/back/<str:token>/": 404, "admin/login/": 302}
"""Those that people open from mails and recruiting sites, which add parameters, and one that leads to the login."""


def test_every_page_refuses_them() -> None:
    make_private()
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="correct horse"))
    accepted = {}
    for route in PAGES:
        path = f"/{address(route)}?zzz=1"
        answer = client.get(path)
        answer = client.post(path) if answer.status_code == 405 else answer
        if answer.status_code != 400 or "zzz" not in answer.content.decode():
            accepted[route] = answer.status_code
    assert accepted == LENIENT
