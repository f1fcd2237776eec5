"""Every page refuses a parameter that it does not have, also beside a form, which may say more than
its address."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from environments.database import background_jobs
from orsweb.urls import urlpatterns
from tests.orsweb.pages.test_private import OF_PROGRAMS, address, routes
from tests.private import make_private
from tests.rows import each

pytestmark = pytest.mark.django_db

PAGES = [
    route
    for route in routes(urlpatterns)
    if route == OF_PROGRAMS or not route.startswith((OF_PROGRAMS, "events/"))
]
LENIENT = {
    "play/invite/<str:token>/": 404,
    "play/invite/back/<str:token>/": 404,
    "admin/login/": 302,
    "rollouts/": 301,
    "rollouts/<path:event_id>/": 301,
    "rollouts/export": 301,
}
"""Those that people open from mails and recruiting sites, which add parameters, one that leads to
the login, and former addresses, which redirect with their query."""


@pytest.fixture
def root() -> Client:
    make_private()
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="correct horse"))
    return client


def test_every_page_refuses_them(root: Client) -> None:
    accepted = {}
    for route in PAGES:
        path = f"/{address(route)}?zzz=1"
        answer = root.get(path)
        answer = root.post(path) if answer.status_code == 405 else answer
        if answer.status_code != 400 or "zzz" not in answer.content.decode():
            accepted[route] = answer.status_code
    assert accepted == LENIENT


@each(
    "path, name",
    [
        ("admin/environments/split/<int:pk>/change/", "compare"),
        ("admin/environments/split/<int:pk>/change/", "review"),
        ("admin/environments/task/export/", "plain"),
        ("admin/environments/task/jobs/JOB/", "state"),
        ("admin/environments/task/import/TOKEN/", "state"),
        ("play/", "blind"),
        ("compare/", "splits"),
    ],
)
def test_flags_have_one_of_two_values(root: Client, path: str, name: str) -> None:
    job = background_jobs.start("Nothing", lambda progress: None, owner="root")
    path = f"/{address(path.replace('JOB', job.id))}"
    answers = [root.get(path, {name: value}) for value in ("zzz", "0", "yes")]
    assert [answer.status_code for answer in answers] == [400] * 3
    assert all(f"{name}=" in answer.content.decode() for answer in answers)
    assert root.get(path, {name: ""}).status_code == root.get(path).status_code
