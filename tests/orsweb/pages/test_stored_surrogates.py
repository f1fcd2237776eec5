"""Tests of pages that show stored JSON with lone surrogates, which UTF-8 cannot have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from episodes.models import Run
from tests.episodes.ended import end_episode
from tests.episodes.reported import reported
from tests.stored import make_blob, make_run, make_step, make_task

pytestmark = pytest.mark.django_db

ODD = json.dumps({"\ud800": {"a\udfff": "b\ud800\0"}})


@pytest.fixture
def record() -> dict[str, Any]:
    """Return the ids of rows whose JSON has lone surrogates in names and values."""
    run = make_run("odd")
    Run.objects.filter(pk=run.pk).update(config=ODD)
    tools = make_blob(
        json.dumps(
            {"tools": [{"name": "\ud800", "description": "\ud800", "input_schema": {"\ud800": 1}}]}
        )
    )
    task = make_task({"\ud800": "a\ud800"})
    episode = end_episode(run=run, labels=ODD, tools=tools, task=task)
    make_step(
        episode, input=ODD, output=json.dumps({"blocks": [], "metadata": {"\ud800": "\ud800"}})
    )
    info = json.dumps({"\ud800": [1, {"\ud800": "\ud800"}]})
    extra = json.dumps({"metadata": {"\ud800": "\ud800"}})
    message = ("tool_call", ODD, {"name": "echo", "extra": extra})
    joined = {"episode": episode, "joined_by": "session", "is_summarised": True}
    event = json.dumps({"metadata": {"\ud800": "\ud800"}})
    reported(messages=[message], run=run, event=event, info=info, **joined)
    return {
        "run": run.pk,
        "episode": episode.pk,
        "environment": task.environment.name,
        "task": task.pk,
    }


ADDRESSES = (
    *(
        "/",
        "/runs/",
        "/runs/{run}/",
        "/runs/groups/",
        "/runs/curves/",
        "/runs/choices/",
        "/compare/",
    ),
    *("/episodes/", "/episodes/{episode}/", "/episodes/export?format=jsonl"),
    *("/episodes/export?format=csv", "/episodes/export?format=atif", "/tasks/{task}/"),
    *("/environments/", "/environments/{environment}/", "/environments/{environment}/leaderboard/"),
    *(
        "/conversations/",
        "/conversations/r-1/",
        "/api/runs",
        "/api/runs/{run}",
        "/api/tasks/{task}",
    ),
    *("/api/episodes", "/api/episodes/{episode}", "/api/episodes/{episode}/steps", "/api/rollouts"),
    *(
        "/admin/episodes/episode/",
        "/admin/episodes/episode/{episode}/change/",
        "/admin/episodes/run/",
    ),
    *("/admin/environments/task/", "/admin/environments/task/{task}/change/"),
)


def test_pages_with_them_are_answered(admin_client: Client, record: dict[str, Any]) -> None:
    statuses = {address: status_of(admin_client, address.format(**record)) for address in ADDRESSES}
    assert statuses == dict.fromkeys(ADDRESSES, 200)


def status_of(client: Client, address: str) -> int:
    response = client.get(address, follow=True)
    b"".join(response)  # exports are streams
    return response.status_code
