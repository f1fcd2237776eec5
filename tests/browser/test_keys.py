"""Shortcuts mean the same with Caps Lock, on other layouts, and typed with AltGr or Option, and
take no other keys."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_play import sit_down
from tests.server import LiveServer

ALT, CTRL, SHIFT = 1, 2, 8
"""Modifiers in Chrome's protocol."""
ALT_GR = 16
"""Not in the protocol: AltGr on Windows, which is Ctrl and Alt, too."""
DISPATCH = """(key) =>
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {...key, bubbles: true, cancelable: true}))"""
MEANING = """async (keys) => {
  const { keyOf } = await import('/static/orsweb/keys.js');
  const meanings = [];
  document.body.addEventListener('keydown', (event) => meanings.push(keyOf(event)));
  for (const key of keys) document.body.dispatchEvent(new KeyboardEvent('keydown', {...key, bubbles: true}));
  return meanings;
}"""


@pytest.fixture(scope="module")
def live(played: LiveServer) -> LiveServer:
    return played


def press(page: Page, key: str, code: str, modifiers: int = 0, text: str = "") -> None:
    """Press a key of a layout that Playwright's own keyboard does not have. `text`: what it types
    into a field."""
    if modifiers == ALT_GR:
        held = dict.fromkeys(("ctrlKey", "altKey", "modifierAltGraph"), True)
        page.evaluate(DISPATCH, {"key": key, "code": code, **held})
        return
    session = page.context.new_cdp_session(page)
    event = {"key": key, "code": code, "modifiers": modifiers}
    session.send("Input.dispatchKeyEvent", {"type": "keyDown", "text": text, **event})
    session.send("Input.dispatchKeyEvent", {"type": "keyUp", **event})
    session.detach()


def is_left_to_the_browser(page: Page, key: str, code: str, modifiers: int = 0) -> bool:
    """Press a key outside fields, and return whether the page has nothing to do for it."""
    page.evaluate("document.activeElement.blur()")
    page.evaluate(
        "addEventListener('keydown', (event) => (window.isHandled = "
        "event.defaultPrevented), {once: true})"
    )
    press(page, key, code, modifiers)
    return not page.evaluate("isHandled")


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
    page.wait_for_url("**/episodes/")  # and its scripts
    # no next page, preview, or row
    keys = [("]", "BracketRight"), ("Escape", "Escape"), ("x", "KeyX"), ("f", "KeyF")]
    assert [is_left_to_the_browser(page, *key) for key in keys] == [True, True, True, False]


LAYOUTS: list[tuple[str, list[tuple[str, str]], list[str]]] = [
    (
        "Greek",
        [(";", "KeyQ"), (":", "KeyQ"), ("\u03b1", "KeyA"), (";", "KeyQ"), (";", "Semicolon")],
        ["q", "q", "a", "q", ";"],
    ),
    (
        "Hebrew",
        [("/", "KeyQ"), ("'", "KeyW"), ("ש", "KeyA"), ("/", "KeyQ"), (".", "Slash")],
        ["q", "w", "a", "q", "."],
    ),
    (
        "Dvorak",
        [("a", "KeyA"), ("'", "KeyQ"), (",", "KeyW"), (";", "KeyZ"), ("/", "BracketLeft")],
        ["a", "'", ",", ";", "/"],
    ),
    (
        "French",
        [("é", "KeyX"), (",", "KeyM"), ("/", "Period"), ("é", "Digit2")],
        ["é", ",", "/", "2"],
    ),
    (
        "Japanese",
        [("\uff4a", "KeyJ"), ("\uff1f", "Slash"), ("\uff3b", "BracketRight"), ("\uff11", "Digit1")],
        ["j", "?", "[", "1"],
    ),
    ("Spanish", [("º", "Backquote"), ("²", "Backquote")], ["º", "²"]),
]


def test_punctuation_on_a_letters_key_is_the_letter_unless_the_layout_is_latin(page: Page) -> None:
    for name, keys, meanings in LAYOUTS:
        page.goto("/")
        assert (
            name,
            page.evaluate(MEANING, [{"key": key, "code": code} for key, code in keys]),
        ) == (name, meanings)


def test_ctrl_and_alt_without_alt_gr_are_for_the_browser(page: Page) -> None:
    page.goto("/")
    held = {"ctrlKey": True, "altKey": True}
    bracket, at = {"key": "[", "code": "BracketLeft"}, {"key": "@", "code": "KeyQ", "altKey": True}
    keys = [
        {**bracket, **held},
        {**bracket, **held, "modifierAltGraph": True},
        {**bracket, "altKey": True},
        at,
    ]
    assert page.evaluate(MEANING, keys) == ["", "[", "[", "@"]


@pytest.mark.parametrize(
    ("key", "code", "modifiers"),
    [
        ("?", "Digit7", SHIFT),
        ("?", "Minus", ALT),
        ("?", "Minus", ALT_GR),
        ("\uff1f", "Slash", SHIFT),
        ("؟", "Slash", SHIFT),
    ],
)
def test_the_help_opens_wherever_the_question_mark_is(
    page: Page, key: str, code: str, modifiers: int
) -> None:
    page.goto("/")
    press(page, key, code, modifiers)
    expect(page.locator("#keys")).to_be_visible()


def test_brackets_and_numbers_choose_tools_wherever_they_are_and_no_other_character_does(
    page: Page,
) -> None:
    sit_down(page, "forms")
    chosen = page.locator("[data-tool-tabs] [aria-selected=true]")
    german_windows, german_macos = ("]", "Digit9", ALT_GR), ("]", "Digit6", ALT)
    french, lithuanian, dvorak, dvorak_help = (
        ("é", "Digit2"),
        ("/", "Digit3"),
        ("/", "BracketLeft"),
        ("?", "BracketLeft", SHIFT),
    )
    for pressed, tool in (
        (german_windows, 1),
        (german_macos, 2),
        (("\u0445", "BracketLeft"), 1),
        (("3", "Digit3"), 2),
        (french, 1),
        (lithuanian, 1),
        (dvorak, 1),
        (dvorak_help, 1),
        (("3", "Digit3"), 1),  # behind the help
    ):
        page.evaluate("document.activeElement.blur()")
        press(page, *pressed)
        expect(chosen).to_have_attribute("data-tool", str(tool))
        expect(page.locator("[data-search]:focus")).to_have_count(
            int(pressed in (lithuanian, dvorak))
        )
    expect(page.locator("#keys")).to_be_visible()


def test_option_types_into_the_fields_of_a_mac_and_chooses_tools_outside(page: Page) -> None:
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setUserAgentOverride", {"userAgent": "Safari", "platform": "MacIntel"})
    sit_down(page, "forms")
    chosen = page.locator("[data-tool-tabs] [aria-selected=true]")
    page.keyboard.press("Escape")
    page.keyboard.press("2")  # whose field has the focus then
    # the last on Spanish and Italian
    for key, code in (("“", "BracketLeft"), ("¡", "Digit1"), ("[", "BracketLeft")):
        press(page, key, code, ALT, key)
        expect(chosen).to_have_attribute("data-tool", "1")
    expect(page.locator("[data-tool-form] textarea:focus")).to_have_value("“¡[")
    page.keyboard.press("Escape")
    press(page, "¡", "Digit1", ALT)
    expect(chosen).to_have_attribute("data-tool", "0")
    session.detach()


def test_a_key_of_an_input_method_leaves_the_field(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    search = page.locator("[data-search]")
    for composed in ({"key": "Escape", "isComposing": True}, {"key": "Escape", "keyCode": 229}):
        page.evaluate(DISPATCH, composed)
        expect(search).to_be_focused()
    page.keyboard.press("Escape")
    expect(search).not_to_be_focused()
