"""Forms of tools in a browser: filled in by keys alone, reshaped, refused at the field, turned into
JSON and back."""

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
    "code": "7",
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
    found = page.locator("[data-tool-form] > div").first
    expect(found.locator("[data-slot='']")).to_be_visible()
    return found


def field(form: Locator, slot: str) -> Locator:
    return form.locator(f"[data-slot='{slot}'] [data-entered]").first


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
    expect(field(form, "/pname")).to_be_focused()
    for text, tabs in (
        ("Ada", 1),
        ("5", 1),
        ("b", 1),
        ("Ghana", 2),
    ):  # a text, a number, a button by its letter, a list
        keys.type(text)
        for _ in range(tabs):
            keys.press("Tab")
    keys.press("Space")
    field(form, "/pcode").focus()
    keys.type("7")
    field(form, "/ptags/i0").focus()
    keys.type("x")
    field(form, "/pshape/b0/pradius").focus()
    keys.type("2.5")
    field(form, "/ptree/pname").focus()
    keys.type("oak")
    keys.press("Enter")
    got = answered(page)
    assert (got["name"], got["amount"], got["colour"], got["country"], got["is_urgent"]) == (
        "Ada",
        5,
        "blue",
        "Ghana",
        True,
    )
    assert (got["code"], got["tags"], got["shape"]["radius"], got["tree"]["name"]) == (
        7,
        ["x"],
        2.5,
        "oak",
    )
    assert "note" not in got
    a_tool_without_parameters_is_a_button(page)
    an_optional_group_is_sent_once_its_select_says_so(page)
    a_lone_field_is_sent_by_enter_and_ready_for_the_next(page)


def a_tool_without_parameters_is_a_button(page: Page) -> None:
    page.keyboard.press("Alt+3")
    expect(page.get_by_role("button", name="Call wait")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#step-1")).to_contain_text("nothing")


def an_optional_group_is_sent_once_its_select_says_so(page: Page) -> None:
    page.keyboard.press("Alt+4")
    found = page.locator("[data-tool-form] > div:visible")
    found.get_by_label("corner: send or leave out").select_option(label="send")
    expect(found.get_by_label("x")).to_be_visible()
    found.get_by_label("x").fill("3")
    page.keyboard.press("Enter")
    assert answered(page, 2) == {"corner": {"x": 3}}


def a_lone_field_is_sent_by_enter_and_ready_for_the_next(page: Page) -> None:
    page.keyboard.press("Alt+2")
    words = page.locator("[data-tool-form] > div:not([hidden]) textarea")
    expect(words).to_be_focused()
    page.keyboard.insert_text("two")
    page.keyboard.press("Shift+Enter")
    page.keyboard.insert_text("lines")
    page.keyboard.press("Enter")
    assert answered(page, 3) == {"text": "two\nlines"}
    page.keyboard.type("next")  # in the place of what was sent
    expect(words).to_have_value("next")


def test_what_is_wrong_or_missing_is_reported_at_its_field_in_words(
    page: Page, form: Locator, complaints: list[str]
) -> None:
    assert_a_long_form_scrolls_above_its_button(page, form)
    field(form, "/pname").press("Enter")
    expect(form.locator("[data-slot='/pname'] > .error")).to_have_text("Required.")
    page.keyboard.type("Ada")
    page.get_by_role("button", name="Call order").click()
    expect(form.locator("[data-slot='/pamount'] > .error")).to_have_text("Required.")
    expect(field(form, "/pamount")).to_be_focused()
    expect(field(form, "/pamount")).to_have_attribute("aria-invalid", "true")
    page.keyboard.type("5")
    expect(form.locator("[data-slot='/pamount'] > .error")).to_be_hidden()
    write_json(form, '{"name": "Ada",\n "amount": }')
    form.get_by_role("button", name="Form").click()
    expect(form.locator(".error:visible")).to_have_text(
        "This is not JSON: line 2, column 12: expecting value."
    )
    expect(form.get_by_label("Input as JSON")).to_be_focused()
    wrong = {**ORDER, "amount": 0, "shape": {"kind": "box", "width": 1, "height": "high"}}
    form.get_by_label("Input as JSON").fill(json.dumps(wrong))
    form.get_by_role("button", name="Form").click()
    page.get_by_role("button", name="Call order").click()
    expect(form.locator("[data-slot='/pamount'] > .error")).to_have_text(
        "0 is too small; the minimum is 1."
    )
    expect(form.locator("[data-slot='/pshape/b1/pheight'] > .error")).to_contain_text(
        "Expected number"
    )
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
    first = field(form, "/pname").bounding_box()
    assert button and composer and first
    assert button["y"] + button["height"] <= composer["y"] + composer["height"] <= 470
    assert first["y"] + first["height"] <= button["y"]
    page.set_viewport_size({"width": 1280, "height": 860})


def test_fields_come_and_go_and_a_value_goes_through_the_form_and_back_to_json_unchanged(
    page: Page, form: Locator, complaints: list[str]
) -> None:
    presence = form.get_by_label("note: send or leave out")  # typing includes what was left out
    expect(presence).to_have_value("absent")
    field(form, "/pnote").fill("x")
    expect(presence).to_have_value("given")
    field(form, "/pnote").fill("")
    expect(presence).to_have_value("absent")
    items_come_go_and_move_and_the_focus_goes_along(page, form)
    kind = form.get_by_label("shape: type")  # another shape brings its own fields
    kind.focus()
    kind.select_option("Box")
    expect(field(form, "/pshape/b1/pwidth")).to_be_visible()
    expect(form.get_by_label("shape: type")).to_be_focused()
    expect(form.get_by_text("It has four corners.")).to_be_visible()
    write_json(form, json.dumps(ORDER))
    form.get_by_role("button", name="Form").click()
    expect(field(form, "/pamount")).to_have_value(str(HUGE))
    form.get_by_role("button", name="JSON").click()
    assert json.loads(form.get_by_label("Input as JSON").input_value()) == ORDER
    form.get_by_role("button", name="Form").click()
    expect(field(form, "/pname")).to_be_focused()
    page.keyboard.press("Control+Enter")
    assert answered(page) == {**ORDER, "shape": {"kind": "box", "width": 1.5, "height": 2.0}}


def items_come_go_and_move_and_the_focus_goes_along(page: Page, form: Locator) -> None:
    field(form, "/ptags/i0").fill("one")
    form.get_by_role("button", name="Add an item to tags").press("Enter")
    expect(field(form, "/ptags/i1")).to_be_focused()
    page.keyboard.type("two")
    page.keyboard.press("Alt+ArrowUp")
    expect(field(form, "/ptags/i0")).to_be_focused()
    expect(field(form, "/ptags/i0")).to_have_value("two")
    form.get_by_role("button", name="Remove item 2 of tags").press("Enter")
    expect(field(form, "/ptags/i1")).to_have_count(0)
    expect(field(form, "/ptags/i0")).to_be_focused()


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
    words = page.locator("[data-tool-form] > div:not([hidden]) textarea")
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
    expect(page.locator("[data-call-state]")).to_contain_text("ORSWEB_MAX_BODY_BYTES")
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
    """Requests for more fields reach the server only after typing: into a field, a list, a map and
    types of unions."""
    form = page.locator("[data-tool-form] > div").first
    typing: list[tuple[str, str]] = []

    def carry(tab: WebSocketRoute) -> None:
        server = tab.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            if typing and json.loads(text).get("do") in {"add", "choose"}:
                page.evaluate("document.activeElement.blur()")
                name, value = typing.pop()
                form.locator(f"[name='{name}']").press_sequentially(value)
            server.send(text)

        tab.on_message(pass_on)

    page.route_web_socket(re.compile("/ws/play/"), carry)
    sit_down(page, "forms")
    form.get_by_role("button", name="Add a member to labels").click()
    expect(form.locator("[name='k/plabels/e0']")).to_be_visible()
    add_tag = form.get_by_role("button", name="Add an item to tags")
    add_branch = form.get_by_role("button", name="Add an item to branches").last
    choose_box = form.get_by_label("shape: type")
    typed = [
        ("v/pname", "Ada", add_tag.click),
        ("v/ptags/i0", "first", add_tag.click),
        ("v/pshape/b0/pradius", "2.5", add_tag.click),
        ("k/plabels/e0", "weight", add_branch.click),
        ("v/plabels/e0", "12", add_branch.click),
        ("v/pcode", "7", lambda: choose_box.select_option("Box")),
    ]
    slots = form.locator("[data-slot]")
    for name, value, ask in typed:
        typing.append((name, value))
        before = slots.count()
        ask()
        expect(slots).not_to_have_count(before)
        expect(form.locator(f"[name='{name}']")).to_be_focused()
        expect(form.locator(f"[name='{name}']")).to_have_value(value)


def test_a_guest_adds_an_item_to_what_is_folded_away(page: Page, complaints: list[str]) -> None:
    enter(page, "forms")
    page.keyboard.press("Enter")
    tree = page.locator("[data-slot='/ptree']")
    tree.get_by_text("More options").click()
    tree.get_by_role("button", name="Add an item to branches").click()
    added = tree.locator("[data-item] [data-entered]").first
    expect(added).to_be_visible()
    expect(added).to_be_focused()
    expect(page.locator("[data-tool-form] details[open]")).to_have_count(1)
    assert not complaints
