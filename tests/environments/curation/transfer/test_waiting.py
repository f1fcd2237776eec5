"""Agents do not wait for imports: no transaction of an import holds SQLite's write lock for 250
ms."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from environments.models.task_hash import content_hash
from tests import programs
from tests.conformance.agent import Agent
from tests.environments.curation.transfer.files import Shelf
from tests.environments.curation.transfer.holds import measured_holds
from tests.server import LiveServer
from tests.stored import make_environment

pytestmark = pytest.mark.django_db(transaction=True)

MAX_SECONDS = 0.25
"""Of this thread, so that other processes do not count."""
FILLING = "How many apples are left when some have been eaten?"


def specs(count: int, answer: int = 0) -> list[dict[str, Any]]:
    return [{"question": f"{n}: {FILLING}", "answer": answer} for n in range(count)]


def changed(count: int) -> list[dict[str, Any]]:
    """Return other content for each of the specs, with other labels."""
    labels = {"_tags": ["hard"], "_state": "quarantined", "_reason": "wrong"}
    olds = [content_hash(json.dumps(spec)) for spec in specs(count)]
    return [
        {**spec, "_hash": old, **labels}
        for spec, old in zip(specs(count, answer=1), olds, strict=True)
    ]


def relabelled(count: int) -> list[dict[str, Any]]:
    return [{**spec, "_tags": ["easy"], "_state": "active"} for spec in specs(count, answer=1)]


if connection.vendor == "sqlite":

    def test_no_transaction_of_an_import_holds_the_write_lock_for_long(shelf: Shelf) -> None:
        shelf.environment = make_environment("shop")
        with measured_holds() as holds:
            for rows in (specs(6000), changed(1500), relabelled(1499)):
                shelf.apply(shelf.lines(*rows, name=f"{len(rows)}.jsonl"))
        assert len(holds) > 50
        assert max(holds) < MAX_SECONDS  # 0.02 were seen


def test_agents_play_on_while_a_file_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, specs(6000))))
    command = [
        "import_tasks",
        str(file),
        "--environment",
        "echo",
        "--split",
        "more",
        "--type",
        "train",
        "--yes",
    ]
    with LiveServer("tests.envs:Echo") as server, Agent(server).open(spec={"id": 1}) as agent:
        process = programs.start(*command, env=server.env, out=sys.__stdout__)
        steps = []
        while process.poll() is None:
            start = time.monotonic()
            assert agent.call("echo", {"text": "hi"}).text == "hi"
            steps.append(time.monotonic() - start)
        assert process.returncode == 0
        assert max(steps) < sum(steps) / 2  # no call waited for the whole import
        assert agent.post("/echo/num_tasks", {"split": "more"}).json() == {"num_tasks": 6000}
