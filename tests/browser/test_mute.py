"""Tests of a connection that falls silent during a play, and of an offline browser: the page notices and recovers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, WebSocket, expect

from tests.browser.test_play import send, sit_down
from tests.conformance.proxy import MutingProxy, muting_proxy
from tests.server import LiveServer

pytestmark = pytest.mark.own_tab

BETWEEN_BEATS_MS = 10_500
"""The server is asked whether it is there when nothing was heard for 10 s."""
UNTIL_NOTICED_MS = 22_000
"""Time until the page notices, which waits 10 s for a response."""


@pytest.fixture(scope="module")
def live() -> Iterator[MutingProxy]:
    """The network before a server that hosts `echo`."""
    with LiveServer("tests.envs:Echo") as server, muting_proxy(server.port) as network:
        yield network


@pytest.fixture
def sockets(page: Page) -> list[WebSocket]:
    """Return the sockets that the page has opened."""
    found: list[WebSocket] = []
    page.on("websocket", lambda socket: found.append(socket))
    return found


@pytest.fixture
def player(page: Page, sockets: list[WebSocket]) -> Page:
    """Play `echo` with one step done, with a clock that can be put forward."""
    page.clock.install()
    sit_down(page, "echo")
    send(page, "first")
    return page


def submit(page: Page, text: str) -> None:
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def let_a_beat_pass(page: Page, socket: WebSocket) -> None:
    """Put the clock forward until the page asks, and wait for the answer: a beat without one closes the socket."""
    with socket.expect_event("framereceived", lambda text: '"here"' in str(text)):
        page.clock.run_for(BETWEEN_BEATS_MS)


def recorded(page: Page) -> int:
    """Return the number of recorded steps, read over a connection of its own."""
    [server, episode] = page.url.rstrip("/").split("/play/")
    return len(httpx.get(f"{server}/api/episodes/{episode}/steps").json()["results"])


def test_a_mute_connection_is_replaced_and_its_call_asked_again(player: Page, live: MutingProxy) -> None:
    live.go_mute()
    submit(player, "second")
    expect(player.locator("[data-composer][data-busy]")).to_be_visible()
    player.clock.run_for(UNTIL_NOTICED_MS)
    expect(player.locator(".step").nth(1)).to_contain_text("second")
    expect(player.locator("[data-live-state=live]")).to_be_visible()
    send(player, "third")
    assert recorded(player) == 3


def test_a_connection_on_which_nothing_happens_is_kept(player: Page, sockets: list[WebSocket]) -> None:
    for _ in range(3):
        let_a_beat_pass(player, sockets[0])
    send(player, "second")
    assert len(sockets) == 1


def test_a_browser_that_is_offline_says_so_at_once_and_goes_on_when_it_is_back(player: Page) -> None:
    player.context.set_offline(True)
    expect(player.locator("[data-notice=lost]")).to_be_visible()
    submit(player, "second")
    expect(player.locator("[data-call-state]")).to_contain_text("when the connection is back")
    player.context.set_offline(False)
    expect(player.locator(".step").nth(1)).to_contain_text("second")
    expect(player.locator("[data-notice=lost]")).to_have_count(0)
    assert recorded(player) == 2


def test_people_who_scroll_or_move_the_pointer_are_there(page: Page, sockets: list[WebSocket]) -> None:
    page.clock.install()
    sit_down(page, "echo")
    for _ in range(5):
        send(page, "a line")
    page.set_viewport_size({"width": 1280, "height": 400})
    page.mouse.move(300, 200)
    for act in (lambda: page.mouse.move(310, 210), lambda: page.mouse.wheel(0, -300)):
        for _ in range(2):  # the server is told every 20 s
            let_a_beat_pass(page, sockets[0])
        with sockets[0].expect_event("framesent", lambda text: json.loads(text) == {"type": "alive"}):
            act()
