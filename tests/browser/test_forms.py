"""Forms of tools in a browser: filled in by keys alone, refused at the field, turned into JSON and
back."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from tests.browser.axe import load_axe, serious
from tests.browser.conftest import MAX_BODY_BYTES
from tests.browser.guests import enter
from tests.browser.test_play import sit_down
from tests.server import LiveServer

HUGE = 123456789012345678901234567890
ORDER = {
    "name": "Ada",
    "amount": HUGE,
    "colour": "blue",
    "country": "Ghana",
    "is_urgent": True,
    "code": 7,
    "tags": ["b"],
}
ORDER |= {
    "shape": {"kind": "box", "width": 1.5, "height": 2},
    "tree": {"name": "oak", "branches": [{"name": "twig"}]},
}
ORDER |= {"labels": {"a.b": 3}, "program": "line 1\nline 2\n"}


@pytest.fixture(scope="module")
def live(played: LiveServer) -> LiveServer:
    return played


@pytest.fixture
def form(page: Page) -> Locator:
    """The form of `order`, in a play that has just started."""
    sit_down(page, "forms")
    form = page.locator("[data-tool-form] > div").first
    expect(form.locator("[data-fields]")).to_be_visible()
    return form


def field(form: Locator, name: str) -> Locator:
    return form.locator(f"[name='v/{name}']").first


def error_of(form: Locator, name: str) -> Locator:
    return form.locator(f"""[data-path='["{name}"]'] > [data-error]""")


def write_json(form: Locator, text: str) -> None:
    form.get_by_role("button", name="JSON").click()
    form.get_by_label("Input as JSON").fill(text)


def answered(page: Page, number: int = 0) -> Any:
    """Return the input that the environment got in step `number`."""
    step = page.locator(f"#step-{number}")
    expect(step).to_be_visible()
    return json.loads(step.locator("[data-side=output] .said-text").first.inner_text())


def test_an_order_is_placed_by_keys_alone_and_other_tools_are_called(
    page: Page, form: Locator, complaints: list[str]
) -> None:
    keys = page.keyboard
    expect(field(form, "name")).to_be_focused()
    for text in ("Ada", "5", "b", "Ghana"):  # a text, a number, a button by its letter, a list
        keys.type(text)
        keys.press("Tab")
    keys.press("ArrowLeft")
    for name, text in (("code", "7"), ("tags", "x"), ("labels", '{"a.b": 3}')):
        field(form, name).focus()
        keys.type(text)
    field(form, "tags").press("Enter")  # a list has an item on each line
    keys.type("y")
    field(form, "shape").fill('{"kind": "circle", "radius": 2.5}')
    field(form, "tree").fill('{"name": "oak"}')
    keys.press("Control+Enter")
    assert answered(page) == {
        "name": "Ada",
        "amount": 5,
        "colour": "blue",
        "country": "Ghana",
        "is_urgent": True,
        "code": 7,
        "tags": ["x", "y"],
        "shape": {"kind": "circle", "radius": 2.5},
        "tree": {"name": "oak"},
        "labels": {"a.b": 3},
        "program": "print(1)\nprint(2)\n",
    }
    a_tool_without_parameters_is_a_button(page)
    a_lone_field_is_sent_by_enter_and_ready_for_the_next(page)


def a_tool_without_parameters_is_a_button(page: Page) -> None:
    page.keyboard.press("Alt+3")
    expect(page.get_by_role("button", name="Call wait")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#step-1")).to_contain_text("nothing")


def a_lone_field_is_sent_by_enter_and_ready_for_the_next(page: Page) -> None:
    page.keyboard.press("Alt+2")
    words = page.locator("[data-tool-form] > div:not([hidden]) [data-fields] textarea")
    expect(words).to_be_focused()
    page.keyboard.insert_text("two")
    page.keyboard.press("Shift+Enter")
    page.keyboard.insert_text("lines")
    page.keyboard.press("Enter")
    assert answered(page, 2) == {"text": "two\nlines"}
    page.keyboard.type("next")  # in the place of what was sent
    expect(words).to_have_value("next")


def test_what_is_wrong_or_missing_is_reported_at_its_field_in_words(
    page: Page, form: Locator, complaints: list[str]
) -> None:
    assert_a_long_form_scrolls_above_its_button(page, form)
    field(form, "name").press("Enter")
    expect(error_of(form, "name")).to_have_text("Required.")
    page.keyboard.type("Ada")
    page.get_by_role("button", name="Call order").click()
    expect(error_of(form, "amount")).to_have_text("Required.")
    expect(field(form, "amount")).to_be_focused()
    expect(field(form, "amount")).to_have_attribute("aria-invalid", "true")
    page.keyboard.type("5")
    expect(error_of(form, "amount")).to_be_hidden()
    write_json(form, '{"name": "Ada",\n "amount": }')
    form.get_by_role("button", name="Form").click()
    expect(form.locator(".error:visible")).to_have_text(
        "This is not JSON: Expecting value at line 2, column 12."
    )
    expect(form.get_by_label("Input as JSON")).to_be_focused()
    wrong = {**ORDER, "amount": 0, "shape": {"kind": "box", "width": 1, "height": "high"}}
    form.get_by_label("Input as JSON").fill(json.dumps(wrong))
    form.get_by_role("button", name="Form").click()
    page.get_by_role("button", name="Call order").click()
    expect(error_of(form, "amount")).to_have_text("0 is too small; the minimum is 1.")
    expect(error_of(form, "shape")).to_have_text('height: Expected number, not "high".')
    expect(page.locator(".step")).to_have_count(0)
    load_axe(page)  # in this state, which has all that a form can have
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious(page, "colours") == []
    page.set_viewport_size({"width": 400, "height": 860})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert form.evaluate("it => it.scrollWidth <= it.clientWidth")


def assert_a_long_form_scrolls_above_its_button(page: Page, form: Locator) -> None:
    """On a phone with an open keyboard."""
    page.set_viewport_size({"width": 390, "height": 470})
    button = page.get_by_role("button", name="Call order").bounding_box()
    composer = page.locator(".composer").bounding_box()
    first = field(form, "name").bounding_box()
    assert button and composer and first
    assert button["y"] + button["height"] <= composer["y"] + composer["height"] <= 470
    assert first["y"] + first["height"] <= button["y"]
    page.set_viewport_size({"width": 1280, "height": 860})


def test_an_input_goes_through_the_form_and_back_to_json_unchanged(
    page: Page, form: Locator, complaints: list[str]
) -> None:
    write_json(form, json.dumps({**ORDER, "code": "7"}))
    form.get_by_role("button", name="Form").click()
    expect(form.locator(".error:visible")).to_contain_text('No field can hold "code".')
    form.get_by_label("Input as JSON").fill(json.dumps(ORDER))
    form.get_by_role("button", name="Form").click()
    expect(field(form, "amount")).to_have_value(str(HUGE))
    form.get_by_role("button", name="JSON").click()
    expect(form.get_by_label("Input as JSON")).to_be_focused()
    assert json.loads(form.get_by_label("Input as JSON").input_value()) == ORDER
    form.get_by_role("button", name="Form").click()
    expect(field(form, "name")).to_be_focused()
    page.keyboard.press("Control+Enter")
    assert answered(page) == {**ORDER, "shape": {"kind": "box", "width": 1.5, "height": 2.0}}


def test_the_agents_view_has_tabs_and_a_text_that_is_empty_or_too_large_is_refused_and_survives_a_reload(
    page: Page, form: Locator
) -> None:
    view = page.locator("[data-agent-view]")  # with a tab for each provider
    view.get_by_role("tab", name="OpenAI").focus()
    page.keyboard.press("ArrowRight")
    expect(view.get_by_role("tab", name="Anthropic")).to_be_focused()
    expect(view.get_by_role("tabpanel", name="Anthropic")).to_contain_text('"input_schema"')
    expect(view.get_by_role("tabpanel", name="OpenAI")).to_be_hidden()
    page.keyboard.press("Alt+2")
    words = page.locator("[data-tool-form] > div:not([hidden]) [data-fields] textarea")
    say = page.get_by_role("button", name="Call say")
    for way in (say.click, lambda: page.keyboard.press("Control+Enter")):
        way()
        expect(page.locator("[data-tool-form] > div:not([hidden]) .error:visible")).to_have_text(
            "Required."
        )
    expect(page.locator(".step")).to_have_count(0)
    page.get_by_role("button", name="Send anyway").click()
    assert answered(page) == {"text": ""}
    words.evaluate(f"it => (it.value = 'x'.repeat({MAX_BODY_BYTES + 1}))")
    say.click()
    expect(page.locator("[data-notice=error]")).to_contain_text("ORSWEB_MAX_BODY_BYTES")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    words.fill("")
    words.press_sequentially("half a sent")
    page.reload()
    expect(words).to_have_value("half a sent")
    expect(words).to_be_focused()
    say.click()
    assert answered(page, 1) == {"text": "half a sent"}


@pytest.mark.own_tab
def test_what_is_typed_before_a_slow_answer_stays(page: Page) -> None:
    """The request for the JSON view reaches the server only after typing."""
    form = page.locator("[data-tool-form] > div").first
    typing = ["Ada"]

    def carry(tab: WebSocketRoute) -> None:
        server = tab.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            if typing and "entry" in json.loads(text):
                field(form, "name").press_sequentially(typing.pop())
            server.send(text)

        tab.on_message(pass_on)

    page.route_web_socket(re.compile("/ws/play/"), carry)
    sit_down(page, "forms")
    form.get_by_role("button", name="JSON").click()
    expect(form.get_by_label("Input as JSON")).to_have_value(re.compile('"name": "Ada"'))


def test_a_guest_opens_what_is_folded_away(page: Page, complaints: list[str]) -> None:
    enter(page, "forms")
    page.keyboard.press("Enter")
    form = page.locator("[data-tool-form] > div").first
    expect(field(form, "note")).to_be_hidden()
    form.get_by_text("More options").click()
    expect(field(form, "note")).to_be_visible()
    expect(form.locator("[data-view]")).to_have_count(0)
    assert not complaints
