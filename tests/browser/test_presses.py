"""Tests of repeated presses: while a call is running no other call starts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.test_play import choose, send, sit_down

WAITS = "It will be sent when the connection is back."


def recorded(page: Page, episode: int) -> list[str]:
    """Return the inputs of the calls of `echo`, after one more call, by which time earlier ones are recorded."""
    choose(page, "echo")
    page.keyboard.press("Control+a")
    send(page, "the last")
    steps = page.request.get(f"/api/episodes/{episode}/steps").json()["results"]
    return [step["input"]["text"] for step in steps]


def test_a_double_click_calls_once(page: Page) -> None:
    episode = sit_down(page, "echo")
    page.keyboard.type("hello")
    page.locator("[data-call]").dblclick()
    expect(page.locator(".step")).to_have_count(1)
    assert recorded(page, episode) == ["hello", "the last"]


def test_a_double_click_calls_once_though_the_answer_comes_between_the_presses(page: Page) -> None:
    episode = sit_down(page, "echo")
    page.keyboard.type("hello")
    page.locator("[data-call]").click()
    expect(page.locator(".step")).to_have_count(1)
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    expect(page.locator("[data-call-state]")).to_contain_text("Clicked twice")
    assert recorded(page, episode) == ["hello", "the last"]


def test_a_held_enter_calls_once(page: Page) -> None:
    episode = sit_down(page, "echo")
    for number, place in enumerate(("[data-composer] textarea", "[data-call]"), 1):
        choose(page, "echo")
        page.keyboard.type("hello")
        page.locator(place).focus()
        page.keyboard.down("Enter")
        expect(page.locator(".step")).to_have_count(number)
        for _ in range(3):
            page.keyboard.down("Enter")  # as the system repeats it
        page.keyboard.up("Enter")
    assert recorded(page, episode) == ["hello", "hello", "the last"]


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
    """Between the page and the server. It can be pulled out and put back, and keep what the page asks of its form."""

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
def test_enter_pressed_twice_calls_once(page: Page) -> None:
    """However long the server takes to answer."""
    wire = Wire(page)
    episode = sit_down(page, "echo")
    page.keyboard.type("hello")
    wire.keeps = True
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator("[data-call-state]")).to_have_text("Wait until the running call is done.")
    wire.let_go()
    expect(page.locator(".step")).to_have_count(1)
    assert recorded(page, episode) == ["hello", "the last"]


@pytest.mark.own_tab
def test_presses_without_a_connection_are_one_call_and_say_when_it_is_sent(page: Page) -> None:
    wire = Wire(page)
    episode = sit_down(page, "echo")
    page.keyboard.type("hello")
    wire.pull_out()
    expect(page.locator("[data-notice=lost]")).to_be_visible()
    for _ in range(3):
        page.keyboard.press("Enter")
        expect(page.locator("[data-call-state]")).to_have_text(WAITS)
    wire.is_in = True
    expect(page.locator(".step")).to_have_count(1)
    expect(page.locator("[data-call-state]")).to_have_text("")
    assert recorded(page, episode) == ["hello", "the last"]


@pytest.mark.own_tab
def test_a_connection_that_breaks_with_a_press_says_when_it_is_sent(page: Page) -> None:
    wire = Wire(page)
    episode = sit_down(page, "echo")
    page.keyboard.type("hello")
    wire.breaks = True
    page.keyboard.press("Enter")
    expect(page.locator("[data-call-state]")).to_have_text(WAITS)
    wire.is_in = True
    expect(page.locator(".step")).to_have_count(1)
    assert recorded(page, episode) == ["hello", "the last"]
