"""Environments whose packages conflict, or are absent in the server, are served by interpreters of
their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from tests import interpreters
from tests.conformance.clients import OrsClient
from tests.conformance.record import recorded
from tests.server import LiveServer

MODULE = '''
import sys

import rules
from environments import Environment, TextBlock, ToolOutput, tool

print("imported")


class Apart(Environment):
    """Plays by other rules."""

    reward_range = (-1.0, 1.0)
    hidden_fields = ("answer",)

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": index, "answer": rules.VERSION} for index in range(3)]

    def get_prompt(self):
        return [TextBlock(text=f"Task {self.task_spec['id']}.")]

    @tool
    def version(self) -> ToolOutput:
        """Return the version of the rules."""
        has_django = "django" in sys.modules or __import__("importlib.util").util.find_spec("django") is not None
        return ToolOutput(blocks=[TextBlock(text=f"{rules.VERSION}, {has_django}")], reward=1.0, finished=True)


class Procedural(Apart):
    isolation = "session"

    @classmethod
    def list_tasks(cls, split):
        raise NotImplementedError

    @classmethod
    def num_tasks(cls, split):
        return 10**12

    @classmethod
    def get_task(cls, split, index):
        return {"id": index}
'''

NAMED = """
from environments import Environment, TextBlock, ToolOutput, tool

class Named(Environment):
    python = "old/bin/python"

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        import rules
        return [{"rules": rules.VERSION}]

    def get_prompt(self):
        return [TextBlock(text=self.task_spec["rules"])]

    @tool
    def wait(self) -> ToolOutput:
        return ToolOutput(blocks=[])
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two virtual environments, `old` and `new`, whose packages `rules` differ,
    and a module."""
    directory = tmp_path_factory.mktemp("apart")
    for name in ("old", "new"):
        interpreters.make(directory / name)
        packages = interpreters.packages_of(directory / name)
        (packages / "rules.py").write_text(f"VERSION = {name!r}\n")
        (packages / "orsweb.pth").write_text(f"{interpreters.ROOT}\n")
    (directory / "apart.py").write_text(MODULE)
    (directory / "named.py").write_text(NAMED)
    (directory / "apart.md").write_text("# Apart\n\nWritten for people.\n")
    return directory


@pytest.fixture(scope="module")
def live(directory: Path) -> Iterator[LiveServer]:
    old, new = (f"{directory}/{name}/bin/python" for name in ("old", "new"))
    served = (
        f"old=apart:Apart@{old}",
        f"new=apart:Apart@{new}",
        f"apart:Procedural@{new}",
        "named:Named",
    )
    with LiveServer(*served, cwd=directory) as server:
        yield server


@pytest.mark.parametrize("name", ["old", "new"])
def test_each_is_played_with_its_own_packages(
    live: LiveServer, name: str, django_db_blocker: DjangoDbBlocker
) -> None:
    with OrsClient(live) as client:
        environment = client.environment(name)
        assert [tool.name for tool in environment.list_tools()] == ["version"]
        assert [task.task_spec["id"] for task in environment.list_tasks("train")] == [0, 1, 2]
        with environment.session(split="train", index=1) as session:
            assert session.get_prompt()[0].text == "Task 1."
            assert session.call_tool("version", {}).blocks[0].text == f"{name}, False"
    with recorded(live, django_db_blocker) as record:
        episode = record.episode(session.sid)
        assert (
            episode.cause,
            episode.environment.declared_low,
            episode.environment.class_path,
        ) == (
            "finished",
            -1.0,
            "apart:Apart",
        )


def test_a_class_names_its_interpreter(live: LiveServer) -> None:
    with (
        OrsClient(live) as client,
        client.environment("named").session(split="train", index=0) as session,
    ):
        assert session.get_prompt()[0].text == "old"


def test_its_page_shows_what_the_author_wrote(live: LiveServer) -> None:
    assert "Written for people." in httpx.get(f"{live.url}/environments/new/").text


def test_a_procedural_class_makes_its_tasks_there(live: LiveServer) -> None:
    with (
        OrsClient(live) as client,
        client.environment("procedural").session(split="train", index=-1) as session,
    ):
        assert session.get_prompt()[0].text == f"Task {10**12 - 1}."
    body = {"split": "train", "start": 5, "stop": 7}
    assert httpx.post(f"{live.url}/procedural/task_range", json=body).json()["tasks"] == [
        {"id": 5},
        {"id": 6},
    ]
    answer = httpx.post(f"{live.url}/procedural/task", json={"split": "train", "index": 10**12})
    assert (answer.status_code, "Invalid index" in answer.text) == (400, True)
