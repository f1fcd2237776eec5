"""Tests of a connection that falls silent during a play, and of an offline browser: the page
notices and recovers."""

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
def live(played: LiveServer) -> Iterator[MutingProxy]:
    """The network before the server."""
    with muting_proxy(played.port) as network:
        yield network


@pytest.fixture
def sockets(page: Page) -> list[WebSocket]:
    """Return the sockets that the page has opened."""
    found: list[WebSocket] = []
    page.on("websocket", lambda socket: found.append(socket))
    return found


def play(page: Page) -> None:
    """Play `echo` with one step done, with a clock that can be put forward."""
    page.clock.install()
    sit_down(page, "echo")
    send(page, "first")


def submit(page: Page, text: str) -> None:
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def let_a_beat_pass(page: Page, socket: WebSocket) -> None:
    """Put the clock forward until the page asks, and wait for the answer: a beat without one closes
    the socket."""
    with socket.expect_event("framereceived", lambda text: '"here"' in str(text)):
        page.clock.run_for(BETWEEN_BEATS_MS)


def recorded(page: Page) -> int:
    """Return the number of recorded steps, read over a connection of its own."""
    [server, episode] = page.url.rstrip("/").split("/play/")
    return len(httpx.get(f"{server}/api/episodes/{episode}/steps").json()["results"])


def test_an_offline_browser_says_so_at_once_and_a_mute_connection_is_replaced_and_its_call_asked_again(
    page: Page, live: MutingProxy
) -> None:
    play(page)
    page.context.set_offline(True)
    expect(page.locator("[data-notice=lost]")).to_be_visible()
    submit(page, "second")
    expect(page.locator("[data-call-state]")).to_contain_text("when the connection is back")
    page.context.set_offline(False)
    expect(page.locator(".step").nth(1)).to_contain_text("second")
    expect(page.locator("[data-notice=lost]")).to_have_count(0)
    assert recorded(page) == 2
    live.go_mute()
    submit(page, "third")
    expect(page.locator("[data-composer][data-busy]")).to_be_visible()
    page.clock.run_for(UNTIL_NOTICED_MS)
    expect(page.locator(".step").nth(2)).to_contain_text("third")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    send(page, "fourth")
    assert recorded(page) == 4


def test_a_connection_on_which_nothing_happens_is_kept_and_people_who_scroll_or_move_the_pointer_are_there(
    page: Page, sockets: list[WebSocket]
) -> None:
    play(page)
    for _ in range(3):
        let_a_beat_pass(page, sockets[0])
    for _ in range(4):
        send(page, "a line")
    assert len(sockets) == 1
    page.set_viewport_size({"width": 1280, "height": 400})
    page.mouse.move(300, 200)
    for act in (lambda: page.mouse.move(310, 210), lambda: page.mouse.wheel(0, -300)):
        for _ in range(2):  # the server is told every 20 s
            let_a_beat_pass(page, sockets[0])
        with sockets[0].expect_event(
            "framesent", lambda text: json.loads(text) == {"type": "alive"}
        ):
            act()
