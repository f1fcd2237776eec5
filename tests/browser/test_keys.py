"""Shortcuts mean the same with Caps Lock, on layouts without Latin letters, and typed with AltGr or Option."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_play import sit_down
from tests.server import LiveServer

ALT, CTRL, SHIFT = 1, 2, 8
"""Modifiers in Chrome's protocol."""
COMPOSED = "(key) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {...key, bubbles: true}))"


@pytest.fixture(scope="module")
def live(played: LiveServer) -> LiveServer:
    return played


def press(page: Page, key: str, code: str, modifiers: int = 0) -> None:
    """Press a key of a layout that Playwright's own keyboard does not have."""
    session = page.context.new_cdp_session(page)
    for kind in ("keyDown", "keyUp"):
        session.send("Input.dispatchKeyEvent", {"type": kind, "key": key, "code": code, "modifiers": modifiers})
    session.detach()


def test_a_letter_is_the_one_on_the_key_whatever_the_layout_and_caps_lock(page: Page) -> None:
    page.goto("/")
    switch = page.locator("[data-theme-switch]")
    layouts = [
        ("T", 0, "light"),
        ("\u0435", 0, "dark"),
        ("\u0415", 0, "auto"),
        ("τ", 0, "light"),
        ("t", SHIFT, "light"),
    ]
    for key, modifiers, theme in [*layouts, ("t", ALT, "light"), ("\u0442", CTRL, "light")]:
        press(page, key, "KeyT", modifiers)
        expect(switch).to_have_attribute("data-theme-switch", theme)
    press(page, "\u043f", "KeyG")
    press(page, "\u0443", "KeyE")
    expect(page).to_have_url(re.compile("/episodes/$"))


def test_the_one_letter_key_without_a_letter_on_the_greek_layout_is_q(page: Page) -> None:
    page.goto("/")
    read = "async (key) => (await import('/static/orsweb/keys.js')).keyOf(new KeyboardEvent('keydown', key))"
    typed = [(";", "KeyQ"), (":", "KeyQ"), (";", "KeyZ"), (";", "Semicolon")]  # KeyZ: Dvorak
    assert [page.evaluate(read, {"key": key, "code": code}) for key, code in typed] == ["q", "q", ";", ";"]


@pytest.mark.parametrize(
    ("key", "code", "modifiers"),
    [("?", "Digit7", SHIFT), ("?", "Minus", ALT), ("?", "Minus", ALT | CTRL), ("؟", "Slash", SHIFT)],
)
def test_the_help_opens_wherever_the_question_mark_is(page: Page, key: str, code: str, modifiers: int) -> None:
    page.goto("/")
    press(page, key, code, modifiers)
    expect(page.locator("#keys")).to_be_visible()


def test_brackets_and_numbers_choose_tools_wherever_they_are(page: Page) -> None:
    sit_down(page, "forms")
    tabs = page.locator("[data-tool-tabs] [role=tab]")
    assert tabs.count() > 2
    german_windows, german_macos = ("]", "Digit9", ALT | CTRL), ("]", "Digit6", ALT)
    for pressed, chosen in (
        (german_windows, 1),
        (german_macos, 2),
        (("\u0445", "BracketLeft"), 1),
        (("3", "Digit3"), 2),
    ):
        page.evaluate("document.activeElement.blur()")
        press(page, *pressed)
        expect(tabs.nth(chosen)).to_have_attribute("aria-selected", "true")


def test_a_key_of_an_input_method_leaves_the_field(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    search = page.locator("[data-search]")
    for composed in ({"key": "Escape", "isComposing": True}, {"key": "Escape", "keyCode": 229}):
        page.evaluate(COMPOSED, composed)
        expect(search).to_be_focused()
    page.keyboard.press("Escape")
    expect(search).not_to_be_focused()
