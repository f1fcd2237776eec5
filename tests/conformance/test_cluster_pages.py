"""Two servers on one PostgreSQL database, as pages, people and clients of MCP see them: any of them
will do."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import psycopg
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.conformance.agent import Agent, eventually
from tests.conformance.balancer import Balancer
from tests.environments.agents.mcp.playing import playing
from tests.server import LiveServer, free_port

TIMEOUT = 60


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[LiveServer, LiveServer]]:
    first = LiveServer("tests.envs:Echo", env={"ORSWEB_CLUSTER": f"127.0.0.1:{free_port()}"})
    second = LiveServer("tests.envs:Echo", beside=first)
    second.env["ORSWEB_CLUSTER"] = str(second.data_dir / "second.sock")
    with first, second:
        yield first, second


@contextmanager
def stream(server: LiveServer, channel: str) -> Iterator[Iterator[tuple[str, Any]]]:
    """Yield the types and data of the events of an open page."""
    with httpx.stream(
        "GET", f"{server.url}/events/", params={"channel": channel}, timeout=TIMEOUT
    ) as response:
        events = _events(response.iter_lines())
        assert next(events)[0] == "stream-open"
        # the server follows the channel once it has done what comes after that line
        assert httpx.get(f"{server.url}/health", timeout=TIMEOUT).is_success
        yield events


def _events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data:"):
            text = line.removeprefix("data:").strip()
            yield kind, json.loads(text) if text else None


def heard(events: Iterator[tuple[str, Any]], kind: str) -> Any:
    """Return the data of the next event of that type."""
    until, others = time.monotonic() + TIMEOUT, list[str]()
    for one, data in events:  # among them those that keep the connection
        if one == kind:
            return data
        others.append(one)
        assert time.monotonic() < until, f"no {kind!r} among {others}"
    raise AssertionError(f"the stream ended after {others}")


def listed(server: LiveServer) -> str:
    """Return the list of episodes as an open page fetches it again, after the pause if the server
    asks for that."""
    headers = {"HX-Request": "true", "X-Refetch": "1"}
    while True:
        answer = httpx.get(f"{server.url}/episodes/", headers=headers, timeout=TIMEOUT)
        if "X-Refetch-Again" not in answer.headers:
            return answer.text
        time.sleep(float(answer.headers["X-Refetch-Pause"]))


def test_an_open_page_follows_what_another_server_records(
    servers: tuple[LiveServer, LiveServer],
) -> None:
    first, second = servers
    with stream(second, "episodes") as events, Agent(first) as agent:
        before = listed(second)
        agent.open({"id": "live"}, "echo")
        [episode] = heard(events, "started")["ids"]
        assert f"/episodes/{episode}/" in listed(second) and f"/episodes/{episode}/" not in before
        with stream(second, f"episode-{episode}") as steps:
            agent.call("echo", {"text": "hello"})
            assert heard(steps, "steps") == {"ids": [episode], "last": 0}
        agent.close()
        assert heard(events, "ended")["ids"] == [episode]


def test_a_page_catches_up_when_messages_may_have_been_lost(
    servers: tuple[LiveServer, LiveServer],
) -> None:
    first, second = servers
    with (
        stream(second, "episodes") as events,
        Agent(first) as agent,
        psycopg.connect(first.database_url) as database,
    ):
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
        assert heard(events, "catch-up") == {"ids": []}
        agent.open({"id": "later"}, "echo")
        assert heard(events, "started")["counts"]["started"] == 1


# --- trainers -------------------------------------------------------------------------------------


def described(server: LiveServer, **description: Any) -> None:
    response = httpx.put(
        f"{server.url}/api/runs/by-name/trained", json=description, timeout=TIMEOUT
    )
    assert response.is_success, response.text


def test_what_a_trainer_reports_counts_at_whichever_server(
    servers: tuple[LiveServer, LiveServer],
) -> None:
    first, second = servers
    with Agent(first, **{"X-Run": "trained"}) as agent:
        for step in (1, 2, 3):
            described(second, step=step)
            agent.open({"id": f"step {step}"}, "echo").call("echo", {"text": "hello"})
        described(second, state="ended")
        # the other server has heard of the end
        eventually(lambda: agent.post("/ping").status_code == 404)
        found = httpx.get(
            f"{second.url}/api/episodes", params={"run": "trained"}, timeout=TIMEOUT
        ).json()["results"]
        assert [(one["step"], one["status"]) for one in found] == [
            (step, "ended") for step in (3, 2, 1)
        ]


# --- clients of MCP -------------------------------------------------------------------------------


def test_a_client_of_mcp_plays_at_whichever_server(servers: tuple[LiveServer, LiveServer]) -> None:
    async def play(url: str) -> tuple[str, list[str]]:
        async with playing(f"{url}/mcp/echo") as player:
            return player.sid, [
                await player.text("echo", text=text) for text in ("a", "b", "c", "d")
            ]

    with Balancer(*servers) as balancer:
        sid, texts = asyncio.run(play(balancer.url))
    assert texts == ["a", "b", "c", "d"]
    with psycopg.connect(servers[0].database_url) as database:
        rows = database.execute(
            "SELECT steps_count, cause FROM episodes_episode WHERE session_id = %s", [sid]
        )
        assert rows.fetchall() == [(4, "abandoned")]


# --- the admin ------------------------------------------------------------------------------------


def test_an_import_goes_on_at_whichever_server(servers: tuple[LiveServer, LiveServer]) -> None:
    first, second = (httpx.Client(base_url=one.url, timeout=TIMEOUT) for one in servers)
    address = "/admin/environments/task/import/"
    page = first.get(address).text
    form = {
        "environment": re.findall(r'<option value="(\d+)"[^>]*>echo', page)[0],
        "split": "new",
        "type": "train",
    }
    second.get(address)  # each server is another origin here, so each has cookies of its own
    for one in (first, second):
        one.headers["X-CSRFToken"] = one.cookies["csrftoken"]
    sent = first.post(
        address, data=form, files={"file": ("tasks.jsonl", b'{"id": 1}\n{"id": 2}\n')}
    )
    preview = sent.headers["Location"]
    eventually(lambda: "Refused" in second.get(preview).text)
    done = second.post(preview).headers["Location"]
    eventually(lambda: "Open the split" in second.get(done).text)
    assert (
        second.get(done).text.count("Back to the list")
        == first.get(done).text.count("Back to the list")
        == 1
    )


# --- people who play ------------------------------------------------------------------------------


def sent(server: LiveServer, page: str, **form: str) -> str:
    """Send the form of a page as a browser does; return where the server sends the browser."""
    with httpx.Client(base_url=server.url, timeout=TIMEOUT) as browser:
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get("/play/").text)[
            0
        ]
        return str(
            browser.post(page, data={"csrfmiddlewaretoken": token, **form}).headers["Location"]
        )


def begun(server: LiveServer) -> int:
    """Start an episode as a person; return its number."""
    form = {"environment": "echo", "split": "train", "pick": "number", "number": "0"}
    return int(sent(server, "/play/", **form).split("/")[2])


@contextmanager
def tab(server: LiveServer, episode: int) -> Iterator[ClientConnection]:
    address = f"ws://127.0.0.1:{server.port}/ws/play/{episode}/?after=-1"
    with connect(address, origin=Origin(server.url), max_size=None) as socket:
        yield socket


def told(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """Return the next message of that type."""
    while (message := json.loads(socket.recv(timeout=TIMEOUT)))["type"] != kind:
        pass
    return dict(message)


def call(socket: ClientConnection, text: str) -> None:
    socket.send(
        json.dumps({"type": "call", "tool": "echo", "input": {"text": text}, "task_id": text})
    )


@pytest.mark.parametrize("owner", [0, 1])
def test_a_person_plays_at_whichever_server(
    servers: tuple[LiveServer, LiveServer], owner: int
) -> None:
    first, second = servers[owner], servers[1 - owner]
    episode = begun(first)
    with tab(second, episode) as here, tab(first, episode) as there:
        assert (told(here, "state")["status"], told(there, "state")["status"]) == (
            "running",
            "running",
        )
        call(here, "one")
        assert "one" in told(here, "step")["html"] and "one" in told(there, "step")["html"]
        call(there, "two")
        assert (told(here, "step")["index"], told(there, "step")["index"]) == (1, 1)
        here.send(json.dumps({"type": "leave"}))
        assert told(here, "ended")["html"] == told(there, "ended")["html"]


def submitted(browser: httpx.Client, page: str, address: str, **form: str) -> httpx.Response:
    token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(page).text)[0]
    return browser.post(address, data={"csrfmiddlewaretoken": token, **form})


@pytest.mark.parametrize("revoker", [0, 1])
def test_a_link_that_is_revoked_at_one_server_ends_what_is_played_at_another(
    servers: tuple[LiveServer, LiveServer], revoker: int
) -> None:
    with (
        httpx.Client(base_url=servers[revoker].url, timeout=TIMEOUT) as manager,
        httpx.Client(base_url=servers[0].url, timeout=TIMEOUT) as guest,
    ):
        place = re.findall(r'<option value="(\d+)"', manager.get("/play/invites/").text)[0]
        form = {"name": f"of {revoker}", "place": place, "lasts": "1", "unit": "days"}
        made = submitted(manager, "/play/invites/", "/play/invites/", **form).text
        link = re.findall(r"/play/invite/[\w-]+/", made)[0]
        chooser = submitted(guest, link, link, name="Zoe").headers["Location"]
        form = {"environment": "echo", "split": "train", "pick": "number", "number": "0"}
        episode = int(submitted(guest, chooser, "/play/", **form).headers["Location"].split("/")[2])
        revoke = re.findall(r"/play/invites/\d+/revoke/", manager.get("/play/invites/").text)[0]
        assert submitted(manager, "/play/invites/", revoke, confirm="1").status_code == 302
    with psycopg.connect(servers[0].database_url) as database:
        query = "SELECT status, cause, detail FROM episodes_episode WHERE id = %s"
        eventually(
            lambda: (
                database.execute(query, [episode]).fetchone()
                == ("ended", "abandoned", "The link was revoked.")
            )
        )


def test_an_episode_that_is_continued_shows_its_progress_at_whichever_server(
    servers: tuple[LiveServer, LiveServer],
) -> None:
    first, second = servers
    episode = begun(first)
    with tab(first, episode) as socket:
        told(socket, "state")
        call(socket, "again")
        told(socket, "step")
        socket.send(json.dumps({"type": "leave"}))
        told(socket, "ended")
    form = {"step": "0", "once": "a" * 32}
    page = sent(first, f"/play/continue/{episode}/", **form)
    assert "All results match the recording." in httpx.get(second.url + page, timeout=TIMEOUT).text
    assert sent(second, f"/play/continue/{episode}/", **form) == page


def test_a_person_whose_server_dies_learns_the_end_from_another(
    servers: tuple[LiveServer, LiveServer],
) -> None:
    """The last test, because it leaves one server."""
    first, second = servers
    episode = begun(first)
    with tab(second, episode) as socket:
        assert told(socket, "state")["status"] == "running"
        first.kill()
        with pytest.raises(ConnectionClosed):
            told(socket, "ended")
    endings = list[str]()

    def connects_again() -> bool:
        """Do as the page does, which connects until it hears something."""
        with suppress(ConnectionClosed), tab(second, episode) as socket:
            endings.append(told(socket, "ended")["html"])
        return bool(endings)

    eventually(connects_again)
    assert "interrupted" in endings[0]
