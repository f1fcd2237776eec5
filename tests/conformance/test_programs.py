"""The bundled environments that run programs, played by the real ors client on a server of their
own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ors.client._types import Task
from pytest_django import DjangoDbBlocker

from tests.conformance.clients import OrsClient
from tests.conformance.record import recorded
from tests.sandboxed import needs_bubblewrap
from tests.server import LiveServer

CLASSES = ["environments.builtin.code:Code", "environments.builtin.shell:Shell"]
TASK = {
    "question": "Return twice n.",
    "function": "double",
    "signature": "double(n: int) -> int",
    "test_cases": [
        {"args": [1], "expected": 2, "is_public": True},
        *({"args": [n], "expected": 2 * n} for n in range(4)),
    ],
}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(*CLASSES) as running:
        yield running


@pytest.fixture(scope="module")
def ors(server: LiveServer) -> Iterator[OrsClient]:
    with OrsClient(server) as client:
        yield client


def text_of(output: Any) -> str:
    return str(output.blocks[0].text)


@needs_bubblewrap
def test_a_client_writes_a_function_and_is_paid_by_the_share(
    ors: OrsClient, server: LiveServer, django_db_blocker: DjangoDbBlocker
) -> None:
    code = ors.environment("code")
    assert len(code.list_tasks("test")) == 100
    with code.session(Task("code", TASK)) as session:
        assert "double(1) -> 2" in session.get_prompt()[0].text
        assert [tool.name for tool in session.list_tools()] == ["run", "submit"]
        ran = session.call_tool("run", {"code": "def double(n): return n + n"})
        assert text_of(ran).endswith("right: double(1) -> 2")
        end = session.call_tool("submit", {"code": "def double(n): return n * n"})
    assert (end.reward, end.finished) == (0.5, True)
    with recorded(server, django_db_blocker) as record:
        assert record.episode(session.sid).cause == "finished"


@needs_bubblewrap
def test_a_client_does_a_chore(ors: OrsClient) -> None:
    with ors.environment("shell").session(split="test", index=0) as session:
        assert "You are in the directory /work" in session.get_prompt()[0].text
        assert re.search(
            r"Sub-goals reached: 0 of \d+", text_of(session.call_tool("bash", {"command": "ls -R"}))
        )
        assert text_of(session.call_tool("submit", {})).startswith("Not done.")


def test_without_bubblewrap_they_are_listed_and_refuse_sessions(tmp_path: Path) -> None:
    with LiveServer(*CLASSES, env={"PATH": str(tmp_path)}) as server, OrsClient(server) as client:
        assert httpx.get(f"{server.url}/list_environments").json() == ["code", "shell"]
        assert "apt-get install bubblewrap" in httpx.get(server.url).text
        environment = client.environment("code")
        with pytest.raises(
            RuntimeError,
            match=r"'code' is unavailable\. It needs a sandbox, and bubblewrap is "
            r"missing",
        ):
            environment.session(environment.list_tasks("test")[0]).__enter__()
