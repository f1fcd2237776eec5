"""A parameter that a list does not have is refused: without it, "all that match" would mean all."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from environments.models import Task, TaskTag
from tests.environments.curation.tasks import make_tasks, split_of
from tests.rows import each

pytestmark = pytest.mark.django_db

TASKS = "/admin/environments/task/"
ALL = {"scope": "all", "reason": "x", "tags": "x", "ask": "1", "confirm": "1", "inputs": "x||||"}


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="correct horse"))
    return client


@pytest.mark.parametrize("query", ["environmen=1", "zplit=2&q=x", "e=1&kindd=edit"])
def test_every_list_of_the_admin_refuses_them(root: Client, query: str) -> None:
    for model in admin.site._registry:
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        answer = root.get(f"{path}?{query}")
        assert (answer.status_code, "no filter" in answer.content.decode()) == (400, True), path
        assert root.get(path).status_code == 200


LOOSE = ["1_0", "\uff11", " 1 ", "1.0", "+1", "1e0", "0x1"]
"""What Python reads as a number, or nearly."""


@each("text", LOOSE)
def test_no_list_of_the_admin_reads_other_spellings_of_a_number(root: Client, text: str) -> None:
    for model in admin.site._registry:
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for name in ("id__exact", "pk__in", "p"):
            assert root.get(path, {name: text}).status_code == 400, (path, name)
        answer = root.get(f"{path}{quote(text)}/change/")
        assert answer.status_code in (302, 404) and answer.headers.get("Location", "/admin/") == "/admin/", path


@pytest.mark.parametrize("action", ["tag", "quarantine", "copy", "export", "study"])
def test_no_action_on_all_that_match_takes_them(root: Client, action: str) -> None:
    make_tasks(3)
    answer = root.post(f"{TASKS}act/{action}/", {**ALL, "buckett": "hopeless"})
    assert answer.status_code == 400
    assert "no filter of tasks has that name. Did you mean &#x27;bucket&#x27;?" in answer.content.decode()
    assert not TaskTag.objects.exists() and not Task.objects.exclude(state="active").exists()


@pytest.mark.parametrize("address", ["", "export/", "export/?format=jsonl", "act/tag/?scope=all"])
def test_no_address_about_tasks_takes_them(root: Client, address: str) -> None:
    sign = "&" if "?" in address else "?"
    assert root.get(f"{TASKS}{address}{sign}statte=quarantined").status_code == 400


def test_a_study_takes_no_mistyped_condition(root: Client) -> None:
    assert root.get("/play/studies/new/?tasks=split/1&number=0-3").status_code == 400


def test_what_acts_on_many_says_on_how_many(root: Client) -> None:
    split_of(*make_tasks(3))
    page = root.get(f"{TASKS}?state=any").content.decode()
    assert "all matching tasks (3)" in page
    address = root.post(f"{TASKS}act/quarantine/", {"scope": "all", "state": "any"})["Location"]
    assert ">Quarantine: 3 tasks</button>" in root.get(address).content.decode()
    assert ">Download 3 tasks</button>" in root.get(f"{TASKS}export/").content.decode()
