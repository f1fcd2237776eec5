"""The bundled web, chart and maze, played by the unmodified clients, which must get what the
classes return."""

from __future__ import annotations

import asyncio
import html
import json
import re
import subprocess
import urllib.request
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from environments import Environment, ToolOutput
from environments.builtin.chart.chart import Chart, Reading, Window
from environments.builtin.maze.maze import Maze, Move
from environments.builtin.web.web import Answer, Target, Web
from tests.conformance.clients import Client, OpenRewardClient, OrsClient
from tests.conformance.record import recorded
from tests.server import LiveServer


@pytest.fixture(scope="module")
def worlds() -> Iterator[LiveServer]:
    paths = (
        "environments.builtin.web:Web",
        "environments.builtin.chart:Chart",
        "environments.builtin.maze:Maze",
    )
    with LiveServer(*paths) as running:
        yield running


@pytest.fixture(params=[OrsClient, OpenRewardClient])
def client(request: pytest.FixtureRequest, worlds: LiveServer) -> Iterator[Client]:
    with request.param(worlds) as one:
        yield one


class ClientAndInstance:
    """A client's session and an instance of the class with the same task, which get the same calls."""

    def __init__(self, session: Any, instance: Environment) -> None:
        self.session, self.instance, self.returned = session, instance, 0.0
        assert dumped(session.get_prompt()) == dumped(instance.get_prompt())

    def call(
        self, tool: str, answer: ToolOutput | Coroutine[Any, Any, ToolOutput], **arguments: Any
    ) -> bool:
        """Call `tool` on both and compare the results; return whether the episode is over."""
        result = answer if isinstance(answer, ToolOutput) else asyncio.run(answer)
        output = self.session.call_tool(tool, arguments)
        assert dumped(output.blocks) == dumped(result.blocks)
        assert (output.reward, output.finished) == (result.reward, result.finished)
        self.returned += output.reward or 0.0
        return bool(output.finished)


def dumped(blocks: Any) -> list[dict[str, Any]]:
    """Return the type and the text or data of each block of any SDK."""
    return [
        {name: getattr(block, name, None) for name in ("type", "text", "data", "mimeType")}
        for block in blocks
    ]


def test_it_answers_a_question_about_the_web_site(client: Client) -> None:
    environment = client.environment("web")
    task = environment.get_task("train", 0)
    with environment.session(task) as session:
        web = Web(task.task_spec)
        both = ClientAndInstance(session, web)
        assert {tool.name for tool in session.list_tools()} == {
            "answer",
            "back",
            "click",
            "open",
            "read",
            "type",
        }
        both.call("click", web.click(Target(target="Help")), target="Help")
        both.call("click", web.click(Target(target="The workshop")), target="The workshop")
        answer = task.task_spec["answer"]
        assert both.call("answer", web.answer(Answer(text=answer)), text=answer)
    assert both.returned == pytest.approx(1.0)


def test_it_zooms_into_the_chart_and_reads_it(client: Client) -> None:
    environment = client.environment("chart")
    task = environment.get_task("train", 1)
    with environment.session(task) as session:
        chart = Chart(task.task_spec)
        both = ClientAndInstance(session, chart)
        window = {"x": 76, "y": 120, "width": 300, "height": 180}
        both.call("zoom", chart.zoom(Window(**window)), **window)
        value = task.task_spec["answer"]
        assert both.call("submit", chart.submit(Reading(value=value)), value=value)
    assert both.returned == 1.0


def test_it_walks_out_of_the_maze(client: Client) -> None:
    environment = client.environment("maze")
    task = environment.get_task("train", 0)
    with environment.session(task) as session:
        maze = Maze(task.task_spec)
        both = ClientAndInstance(session, maze)
        is_out = False
        while not is_out:
            way: Any = min(
                ways(maze), key=lambda way: maze.distances[maze.grid.walk(maze.now, way)]
            )
            is_out = both.call("move", maze.move(Move(direction=way)), direction=way)
    assert both.returned == pytest.approx(1.0, abs=1e-5)


def ways(maze: Maze) -> list[str]:
    return [
        way for way in ("up", "down", "left", "right") if maze.grid.walk(maze.now, way) != maze.now
    ]


def test_it_records_the_pictures_of_every_step(
    client: Client, worlds: LiveServer, django_db_blocker: DjangoDbBlocker
) -> None:
    environment = client.environment("maze")
    with environment.session(environment.get_task("train", 2)) as session:
        result = session.call_tool("move", {"direction": "up"})
    with recorded(worlds, django_db_blocker) as record:
        [step] = record.steps(session.sid)
        assert step.blocks[1]["data"] == result.blocks[1].data


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_snippets_of_its_page_play_an_episode_that_counts(
    worlds: LiveServer, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first three: ors-sdk, openreward, curl."""
    with urllib.request.urlopen(f"{worlds.url}/environments/chart/") as page:
        snippet = html.unescape(
            re.findall("<pre[^>]+data-copy[^>]*>(.*?)</pre>", page.read().decode(), re.S)[place]
        )
    if snippet.startswith("curl"):
        subprocess.run(["sh", "-c", snippet], check=True, capture_output=True)
    else:
        for name in ("OPENREWARD_SESSION_URL", "OPENREWARD_API_URL"):
            monkeypatch.setenv(name, worlds.url)
        run_here(snippet)
    with urllib.request.urlopen(f"{worlds.url}/api/episodes?environment=chart&limit=1") as answer:
        [newest] = json.loads(answer.read())["results"]
    assert (newest["cause"], newest["is_probe"], newest["steps"]) == ("finished", False, 1)


def run_here(snippet: str) -> None:
    """Run a snippet of an SDK in this process, which has imported it: a tenth of what a new
    interpreter takes."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(snippet, names)
    names["client"].close()
