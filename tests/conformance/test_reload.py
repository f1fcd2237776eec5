"""`manage.py reload`: new code takes over from the old one, and no client is refused or loses its
session.

One of the hosted classes never lists its tasks.
"""

from __future__ import annotations

import html
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests import programs
from tests.conformance.agent import Agent, eventually
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.conformance.reloading import reload, visited, write
from tests.server import LiveServer

REFUSED = "The server goes on as it was, because the new code cannot be served."
LIMIT = {"ORSWEB_RELOAD_LIMIT": "5"}
CLASSES = ("changing_env:Broken", "changing_env:Changing", "changing_env:Dropping")
FAILING = "print('listing'); raise RuntimeError('no\\ndisk')"
HANGING = (
    "open('pid', 'w').write(str(os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '600'))); time.sleep(600)"
)


class Reloaded(NamedTuple):
    """A server that was reloaded twice while sessions were open: by SIGHUP, and by a command during that reload."""

    server: LiveServer
    before: tuple[int, int]
    """Process ids of the supervisor and of the first server."""
    told: tuple[int, str]
    """Status of the command, and what it printed."""
    problems: list[str]
    """What clients saw that opened connections all the time."""
    played: list[list[str]]
    """For the session of each SDK, the sums before and after, and the version of the code afterwards."""
    dropped: Agent
    """An agent whose session could not go on."""


@pytest.fixture(scope="module")
def reloaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloaded]:
    here = tmp_path_factory.mktemp("reload")
    write(here, "one")
    with (
        LiveServer(*CLASSES, cwd=here, env={"ORSWEB_RELOAD_WAIT": "0.3", **LIMIT}) as server,
        OrsClient(server) as ors,
        OpenRewardClient(server) as openreward,
        visited(server) as problems,
    ):
        before = server.process.pid, server.pid
        dropped = Agent(server).open({"id": 1}, "dropping")
        dropped.call("add", {"number": 1})
        sessions = [
            one.environment("changing").session(split="train", index=0) for one in (ors, openreward)
        ]
        played = [
            [session.__enter__().call_tool("add", {"number": 1}).blocks[0].text]
            for session in sessions
        ]
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: server.log.count("the new code is checked") == 1)
        write(here, "two")
        told = reload(server)
        for session, seen in zip(sessions, played, strict=True):
            seen.append(session.call_tool("add", {"number": 2}).blocks[0].text)
            seen.append(session.call_tool("version", {}).blocks[0].text)
            session.__exit__(None, None, None)
        yield Reloaded(server, before, told, problems, played, dropped)


def test_sessions_go_on_with_the_new_code(reloaded: Reloaded) -> None:
    assert reloaded.played == [["1", "3", "two"]] * 2


def test_nobody_is_refused(reloaded: Reloaded) -> None:
    assert not reloaded.problems


def test_the_server_is_another_under_the_same_supervisor(reloaded: Reloaded) -> None:
    assert reloaded.server.process.pid == reloaded.before[0]
    assert reloaded.server.pid not in reloaded.before and reloaded.server.is_healthy()


def test_other_sessions_end_after_a_while(reloaded: Reloaded) -> None:
    assert (
        "The server was stopped before the episode had ended" in reloaded.dropped.post("/ping").text
    )


def test_a_reload_that_is_asked_for_during_another_comes_after_it(reloaded: Reloaded) -> None:
    assert reloaded.told[0] == 0 and reloaded.told[1].startswith(
        "The server goes on with the new code.\n"
    )
    assert reloaded.server.log.count("the new code is checked") == 2
    eventually(lambda: reloaded.server.log.count("orsweb is ready") == 3)


def test_a_class_that_was_unavailable_is_named_and_refuses_no_reload(reloaded: Reloaded) -> None:
    server, problem = reloaded.server, "cannot be served: RuntimeError: no list in two"
    place = _place(server, 'raise RuntimeError("no list in two")')
    reason = f"list_tasks('train') of changing_env:Broken {problem} ({place}). Correct that."
    assert reloaded.told[1].splitlines()[1:] == [f"broken is unavailable: {reason}"]
    # loads the pages
    assert reason in html.unescape(httpx.get(f"{server.url}/environments/broken/", timeout=60).text)


def test_it_goes_on_as_it_was_if_the_new_code_is_broken(reloaded: Reloaded) -> None:
    server, old = reloaded.server, reloaded.server.pid
    (server.cwd / "changing_env.py").write_text("this is no Python")
    status, text = reload(server)
    assert status == 1
    assert text.startswith(f"CommandError: {REFUSED} ")
    assert "SyntaxError" in text or "changing_env" in text
    assert server.pid == old and server.is_healthy()


def test_it_goes_on_as_it_was_if_the_new_code_lists_no_tasks(reloaded: Reloaded) -> None:
    _check_refusal(reloaded.server, FAILING, "cannot be served: RuntimeError: no disk")


def test_it_goes_on_as_it_was_if_the_new_code_hangs_and_ends_what_that_has_started(
    reloaded: Reloaded,
) -> None:
    _check_refusal(reloaded.server, HANGING, "did not end within 5 s, ORSWEB_RELOAD_LIMIT")
    child = Path(f"/proc/{(reloaded.server.cwd / 'pid').read_text()}/cmdline")
    eventually(lambda: not (child.exists() and child.read_bytes()))  # a zombie has none


def _check_refusal(server: LiveServer, first: str, problem: str) -> None:
    """Check that a class whose list begins with `first` is refused with `problem`, by the command
    and on the page."""
    old = server.pid
    write(server.cwd, "three", first=first)
    sentence = (
        f"changing: list_tasks('train') of changing_env:Changing {problem} "
        f"({_place(server, first)})."
    )
    assert reload(server) == (1, f"CommandError: {REFUSED} {sentence}\n")
    assert server.pid == old and server.is_healthy()
    page = httpx.get(f"{server.url}/operations/", timeout=60).text  # loads the pages
    assert (
        "The last reload was refused, so the old code goes on." in page
        and html.escape(sentence) in page
    )


def _place(server: LiveServer, statement: str) -> str:
    lines = (server.cwd / "changing_env.py").read_text().splitlines()
    return f"{server.cwd}/changing_env.py, line {lines.index(f'        {statement}') + 1}"


def test_a_reload_needs_a_server(reloaded: Reloaded) -> None:
    server = reloaded.server
    assert server.stop() == 0
    assert reload(server) == (
        1,
        "CommandError: No server of this database runs on this machine. Start it with `serve`.\n",
    )


def test_without_a_server_a_check_refuses_a_class_that_was_unavailable(reloaded: Reloaded) -> None:
    server = reloaded.server
    assert server.process.poll() is not None  # stopped above
    write(server.cwd, "four")
    done = programs.run("serve", *CLASSES, "--check", cwd=server.cwd, env=server.env)
    assert (
        done.returncode == 1 and "broken: list_tasks('train') of changing_env:Broken" in done.stderr
    )
