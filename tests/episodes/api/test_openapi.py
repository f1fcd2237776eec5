"""Tests of the OpenAPI document and of the page that shows it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from jsonschema import Draft202012Validator

from tests.episodes.api.asking import get
from tests.episodes.reported import reported
from tests.episodes.suites.published import make_suite, member
from tests.stored import make_episode, make_run, make_split, make_step, make_task

pytestmark = pytest.mark.django_db
SNAPSHOT = Path(__file__).parents[2] / "snapshots" / "openapi.yaml"


@cache
def snapshot() -> dict[str, Any]:
    """Return the expected document, which takes long to parse. Not for changing."""
    return dict(yaml.safe_load(SNAPSHOT.read_text(encoding="utf-8")))


def test_the_document_equals_its_snapshot() -> None:
    """After an intended change, update the snapshot: python -m tests.episodes.api.snapshot"""
    assert Client().get("/api/schema").content.decode() == SNAPSHOT.read_text(encoding="utf-8")


def test_the_document_can_be_had_as_json_too() -> None:
    content = Client().get("/api/schema?format=json")
    assert content.json() == snapshot()
    assert content.json()["openapi"] == "3.1.0"


@pytest.mark.usefixtures("keys")
def test_the_document_needs_no_key() -> None:
    assert Client().get("/api/schema").status_code == 200


@pytest.mark.parametrize(
    "path", ["environments", "environments/{name}", "environments/{name}/leaderboard",
             "environments/{name}/doctor", "tasks", "tasks/{id}", "runs", "runs/{id}", "rollouts",
             "rollouts/{id}", "rollouts/{id}/messages", "episodes", "episodes/{id}",
             "episodes/{id}/steps", "episodes/{id}/steps/{index}", "curves", "compare", "suites", "suites/{name}"],
)  # fmt: skip
def test_answers_are_as_the_document_says(path: str) -> None:
    task = make_task()
    episode = make_episode(task=task, split=make_split(task), run=make_run(), end_number=1)
    make_step(episode)
    rollout = reported(run=make_run("grpo-4"), episode=episode, is_summarised=True)
    numbers = {
        "rollouts": rollout.pk,
        "episodes": episode.pk,
        "tasks": task.pk,
        "runs": episode.run_id,
    }
    make_suite(member(episode.split))
    filled = path.format(
        name="core" if path.startswith("suites") else "math",
        id=numbers.get(path.partition("/")[0]),
        index=0,
    )
    query = {"compare": "?runs=grpo-3,grpo-4"}.get(path, "")
    document = snapshot()
    answers = document["paths"][f"/api/{path}"]["get"]["responses"]
    schema = {
        **answers["200"]["content"]["application/json"]["schema"],
        "components": document["components"],
    }
    assert not [*Draft202012Validator(schema).iter_errors(get(f"{filled}{query}"))]


def test_the_page_lists_every_address() -> None:
    html = Client().get("/api/").content.decode()
    for path in snapshot()["paths"]:
        assert f"<code>{path}</code>" in html


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    response = Client().get("/api/")
    html = response.content.decode()
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", html)
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', html)
    assert "unsafe" not in response["Content-Security-Policy"]
