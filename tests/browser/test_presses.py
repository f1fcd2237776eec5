"""Tests of repeated presses: while a call is running no other call starts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.test_play import choose, send, sit_down
from tests.server import LiveServer

WAITS = "It will be sent when the connection is back."


@pytest.fixture(scope="module")
def live(played: LiveServer) -> LiveServer:
    return played


def recorded(page: Page, episode: int) -> list[str]:
    """Return the inputs of the calls of `echo`, after one more call, by which time earlier ones are
    recorded."""
    choose(page, "echo")
    page.keyboard.press("Control+a")
    send(page, "the last")
    steps = page.request.get(f"/api/episodes/{episode}/steps").json()["results"]
    return [step["input"]["text"] for step in steps]


def test_a_double_click_and_a_held_enter_call_once(page: Page) -> None:
    episode = sit_down(page, "echo")
    steps = page.locator(".step")
    page.keyboard.type("double")
    page.locator("[data-call]").dblclick()
    expect(steps).to_have_count(1)
    choose(page, "echo")
    page.keyboard.press("Control+a")
    page.keyboard.type("slow")
    page.locator("[data-call]").click()
    expect(steps).to_have_count(2)
    page.mouse.down(click_count=2)  # though the answer comes between the presses
    page.mouse.up(click_count=2)
    expect(page.locator("[data-call-state]")).to_contain_text("Clicked twice")
    for number, place in enumerate(("[data-fields] textarea", "[data-call]"), 3):
        choose(page, "echo")
        page.keyboard.press("Control+a")
        page.keyboard.type("held")
        page.locator(place).focus()
        page.keyboard.down("Enter")
        expect(steps).to_have_count(number)
        for _ in range(3):
            page.keyboard.down("Enter")  # as the system repeats it
        page.keyboard.up("Enter")
    assert recorded(page, episode) == ["double", "slow", "held", "held", "the last"]


def test_a_field_error_frees_the_button(page: Page) -> None:
    episode = sit_down(page, "guess")
    for text in ("much", "5"):
        page.keyboard.press("Control+a")
        page.keyboard.type(text)
        page.keyboard.press("Control+Enter")
        expect(page.locator("[data-call]")).to_have_attribute("aria-disabled", "false")
    expect(page.locator(".step")).to_have_count(1)
    assert len(page.request.get(f"/api/episodes/{episode}/steps").json()["results"]) == 1


class Wire:
    """Between the page and the server. It can be pulled out and put back, and keep what the page
    asks of its form."""

    def __init__(self, page: Page) -> None:
        self.is_in = True
        self.keeps = False
        self.breaks = False
        """Whether the connection breaks at the next request of the page."""
        self._kept: list[str] = []
        page.route_web_socket(re.compile("/ws/play/"), self._join)

    def _join(self, tab: WebSocketRoute) -> None:
        if not self.is_in:
            tab.close(code=1011)
            return
        self._tab, self._server = tab, tab.connect_to_server()
        tab.on_message(lambda text: self._carry(str(text)))

    def _carry(self, text: str) -> None:
        if self.breaks:
            self.breaks = False
            self.pull_out()
        elif self.keeps:
            self._kept.append(text)
        else:
            self._server.send(text)

    def let_go(self) -> None:
        self.keeps = False
        for text in self._kept:
            self._server.send(text)

    def pull_out(self) -> None:
        self.is_in = False
        self._tab.close(code=1011)


@pytest.mark.own_tab
def test_presses_without_an_answer_or_a_connection_are_one_call_and_say_when_it_is_sent(
    page: Page,
) -> None:
    wire = Wire(page)
    episode = sit_down(page, "echo")
    steps, state = page.locator(".step"), page.locator("[data-call-state]")
    page.keyboard.type("hello")
    wire.keeps = True  # however long the server takes to answer
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(state).to_have_text("Wait until the running call is done.")
    wire.let_go()
    expect(steps).to_have_count(1)
    page.keyboard.type("without")
    wire.pull_out()
    expect(page.locator("[data-notice=lost]")).to_be_visible()
    for _ in range(3):
        page.keyboard.press("Enter")
        expect(state).to_have_text(WAITS)
    wire.is_in = True
    expect(steps).to_have_count(2)
    expect(state).to_have_text("")
    page.keyboard.type("breaking")
    wire.breaks = True  # with the press
    page.keyboard.press("Enter")
    expect(state).to_have_text(WAITS)
    wire.is_in = True
    expect(steps).to_have_count(3)
    assert recorded(page, episode) == ["hello", "without", "breaking", "the last"]
