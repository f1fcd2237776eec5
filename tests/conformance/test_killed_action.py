"""A bulk action whose server is killed (SIGKILL): all of it is done, or nothing."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from django.db.models import QuerySet
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from environments.models import CurationAction, Split, Task, TaskRevision
from tests.conformance.agent import eventually
from tests.conformance.envs import MANY
from tests.conformance.record import ALIAS, recorded
from tests.server import LiveServer

TASKS = "/admin/environments/task/"


@pytest.fixture(scope="module")
def server(django_db_blocker: DjangoDbBlocker) -> Iterator[LiveServer]:
    with LiveServer("tests.conformance.envs:Many") as server, recorded(server, django_db_blocker):
        yield server


def killed_when(
    server: LiveServer, is_far: Callable[[CurationAction], bool], action: str, **values: str
) -> None:
    """Start an action on all tasks, and kill the server when the action, which it has recorded, is
    so far."""
    with httpx.Client(base_url=server.url, follow_redirects=True, timeout=60) as pages:
        asked = pages.get(f"{TASKS}act/{action}/", params={"scope": "all", "ask": "1", **values})
        form = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', asked.text))
        pages.post(f"{TASKS}act/{action}/", data={**form, **values, "confirm": "1"})
    until, pid = time.monotonic() + 60, server.pid
    # it is looked at while it stands still, and goes on for a few milliseconds at a time
    while True:
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: _state_of(pid) == "T")
        row = CurationAction.objects.using(ALIAS).first()
        if row is not None and is_far(row):
            break
        assert time.monotonic() < until
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.002)
    server.kill()


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _revisions() -> QuerySet[TaskRevision]:
    return TaskRevision.objects.using(ALIAS)


def served(server: LiveServer) -> int:
    return len(
        httpx.post(f"{server.url}/many/tasks", json={"split": "train"}, timeout=60).json()["tasks"]
    )


def test_a_killed_action_is_taken_back_if_agents_saw_nothing_of_it(server: LiveServer) -> None:
    killed_when(
        server,
        lambda row: row.stage == "staging" and _revisions().exists(),
        "quarantine",
        reason="wrong",
    )
    later = timezone.now() - timedelta(minutes=2)
    CurationAction.objects.using(ALIAS).update(created=later)
    Split.objects.using(ALIAS).update(changing_until=later)
    server.start()
    assert served(server) == MANY
    assert not _revisions().exists() and not CurationAction.objects.using(ALIAS).exists()
    assert not Task.objects.using(ALIAS).filter(state="quarantined").exists()


def test_a_killed_action_is_finished_if_agents_saw_it(server: LiveServer) -> None:
    killed_when(server, lambda row: row.stage == "applying", "quarantine", reason="wrong")
    server.start()
    assert served(server) == 0
    assert Task.objects.using(ALIAS).filter(state="quarantined").count() == MANY
    action = CurationAction.objects.using(ALIAS).get()
    page = httpx.get(
        f"{server.url}/admin/environments/curationaction/{action.pk}/change/", follow_redirects=True
    )
    assert (
        action.stage == "done"
        and "The server stopped meanwhile." in page.text
        and "Undo" in page.text
    )
