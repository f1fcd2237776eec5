"""A bulk action whose server is killed (SIGKILL): all of it is done, or nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from environments.models import CurationAction, Split, Task, TaskRevision
from tests.conformance.envs import MANY
from tests.conformance.record import ALIAS, recorded
from tests.server import LiveServer

TASKS = "/admin/environments/task/"


@pytest.fixture(scope="module")
def server(django_db_blocker: DjangoDbBlocker) -> Iterator[LiveServer]:
    with LiveServer("tests.conformance.envs:Many") as server, recorded(server, django_db_blocker):
        yield server


def killed_when(server: LiveServer, action: str, share: float, **values: str) -> str:
    """Start an action on all tasks, kill the server when it has done this share of it, and return its stage then."""
    with httpx.Client(base_url=server.url, follow_redirects=True, timeout=60) as pages:
        asked = pages.get(f"{TASKS}act/{action}/", params={"scope": "all", "ask": "1", **values})
        form = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', asked.text))
        started = pages.post(f"{TASKS}act/{action}/", data={**form, **values, "confirm": "1"})
        page = str(started.url)

        def is_far() -> bool:
            job = pages.get(f"{page}&state").json()
            return bool(job["done"] >= share * (job["total"] or 1) > 0)

        until = time.monotonic() + 60
        while not is_far():  # without a rest, in which the action might end
            assert time.monotonic() < until
        server.kill()
    return CurationAction.objects.using(ALIAS).latest("pk").stage


def served(server: LiveServer) -> int:
    return len(httpx.post(f"{server.url}/many/tasks", json={"split": "train"}, timeout=60).json()["tasks"])


def test_a_killed_action_is_taken_back_if_agents_saw_nothing_of_it(server: LiveServer) -> None:
    assert killed_when(server, "quarantine", 0.1, reason="wrong") == "staging"
    later = timezone.now() - timedelta(minutes=2)
    CurationAction.objects.using(ALIAS).update(created=later)
    Split.objects.using(ALIAS).update(changing_until=later)
    server.start()
    assert served(server) == MANY
    assert not TaskRevision.objects.using(ALIAS).exists() and not CurationAction.objects.using(ALIAS).exists()
    assert not Task.objects.using(ALIAS).filter(state="quarantined").exists()


def test_a_killed_action_is_finished_if_agents_saw_it(server: LiveServer) -> None:
    assert killed_when(server, "quarantine", 0.6, reason="wrong") == "applying"
    server.start()
    assert served(server) == 0
    assert Task.objects.using(ALIAS).filter(state="quarantined").count() == MANY
    action = CurationAction.objects.using(ALIAS).get()
    page = httpx.get(f"{server.url}/admin/environments/curationaction/{action.pk}/change/", follow_redirects=True)
    assert action.stage == "done" and "The server stopped meanwhile." in page.text and "Undo" in page.text
