"""Limits for the event streams, downloads and sockets of a key, a person and an address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from environments.conf import network_of
from tests.conformance.agent import eventually
from tests.environments.agents.mcp.playing import Raw, refusal
from tests.rows import each
from tests.server import LiveServer

KEYS = {name: f"{name}-key-0123" for name in ("one", "two")}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    keys = ",".join(f"{name}:{text}" for name, text in KEYS.items())
    limits = {"ORSWEB_MAX_STREAMS_PER_KEY": "3", "ORSWEB_MAX_STREAMS_PER_ADDRESS": "4"}
    with LiveServer("tests.envs:Echo", env={"ORSWEB_API_KEYS": keys, **limits}) as running:
        yield running


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Follower:
    """A client with a key and an address of its own, which follows an episode that it plays."""

    def __init__(self, server: LiveServer, key: str, address: str) -> None:
        self.headers = {"X-API-Key": KEYS[key], "X-Forwarded-For": address}
        self.client = httpx.Client(base_url=server.url, headers=self.headers, timeout=30)
        self.mcp = Raw(f"{server.url}/mcp/echo", self.headers).opened()
        self.episode = self.client.get("/api/episodes").json()["results"][0]["id"]

    def follow(self, opened: ExitStack) -> httpx.Response:
        """Open a stream, which stays open if it is not refused."""
        return opened.enter_context(
            self.client.stream("GET", f"/api/episodes/{self.episode}/events")
        )


def sentence_of(answer: httpx.Response) -> str:
    assert answer.status_code == 429 and int(answer.headers["Retry-After"]) > 0
    answer.read()
    return str(answer.json()["detail"])


def test_a_key_has_so_many_streams_at_all_doors_together(
    server: LiveServer, opened: ExitStack
) -> None:
    one, two = (Follower(server, key, "203.0.113.1") for key in KEYS)
    for _ in range(2):
        assert one.follow(opened).status_code == 200
    with one.mcp.get() as third:
        assert third.status_code == 200
        assert sentence_of(one.follow(opened)) == (
            "The API key 'one': no more event streams, sockets and downloads may be open, as "
            "ORSWEB_MAX_STREAMS_PER_KEY is 3 and a download counts as 50; close some of them."
        )
        with one.mcp.get() as fourth:
            fourth.read()
            assert (
                refusal(fourth)[0] == 429
                and "no more event streams, sockets and downloads may be open" in refusal(fourth)[1]
            )
        assert two.follow(opened).status_code == 200
    eventually(lambda: one.follow(opened).status_code == 200)


def test_an_address_has_so_many_streams_of_all_keys_together(
    server: LiveServer, opened: ExitStack
) -> None:
    one, two = (Follower(server, key, "203.0.113.2") for key in KEYS)
    for _ in range(2):
        assert (one.follow(opened).status_code, two.follow(opened).status_code) == (200, 200)
    assert sentence_of(two.follow(opened)).startswith(
        "The address 203.0.113.2: no more event streams"
    )
    assert "ORSWEB_MAX_STREAMS_PER_ADDRESS is 4" in sentence_of(two.follow(opened))
    assert Follower(server, "two", "203.0.113.3").follow(opened).status_code == 200


def test_an_address_of_ipv6_counts_by_its_network(server: LiveServer, opened: ExitStack) -> None:
    followers = [
        Follower(server, key, f"2001:db8::{number}")
        for number, key in enumerate([*KEYS, *KEYS, *KEYS], 1)
    ]
    statuses = [follower.follow(opened).status_code for follower in followers]
    assert statuses == [200, 200, 200, 200, 429, 429]


@each(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::/64"),
        ("fe80::7%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("a:proxy", "a:proxy"),
        ("", ""),
    ],
)
def test_an_address_counts_alone_or_by_its_network(address: str, network: str) -> None:
    assert network_of(address) == network


def test_a_person_has_so_many_live_pages_and_sockets_together(opened: ExitStack) -> None:
    with LiveServer("tests.envs:Echo", env={"ORSWEB_MAX_STREAMS_PER_KEY": "2"}) as server:
        browser = opened.enter_context(httpx.Client(base_url=server.url, timeout=30))
        [token] = set(
            re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get("/play/").text)
        )
        form = {"environment": "echo", "split": "train", "pick": "number", "number": "0"}
        answer = browser.post("/play/", data={"csrfmiddlewaretoken": token, **form})
        address = f"ws://127.0.0.1:{server.port}/ws{answer.headers['Location']}?after=-1"
        with connect(address, origin=server.url):  # type: ignore[arg-type]
            opened.enter_context(browser.stream("GET", "/events/?channel=episodes"))
            refused = opened.enter_context(browser.stream("GET", "/events/?channel=episodes"))
            assert (
                refused.status_code == 429
                and "no more event streams, sockets and downloads may be open"
                in refused.read().decode()
            )
            with pytest.raises(InvalidStatus) as socket:
                connect(address, origin=server.url)  # type: ignore[arg-type]
            response = socket.value.response
            assert (
                response.status_code == 429
                and b"no more event streams, sockets and downloads may be open" in response.body
            )
        eventually(lambda: opens(address, server.url))


def opens(address: str, origin: str) -> bool:
    try:
        with connect(address, origin=origin):  # type: ignore[arg-type]
            return True
    except InvalidStatus:
        return False
