"""Playing on a phone, also while its keyboard is open: what is needed stays in sight, and nothing
covers it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.guests import enter
from tests.browser.test_play import at_the_form, send, sit_down
from tests.server import LiveServer

DOORS = 3
"""A task of maze with keys, matches and a map, and so with two rows of buttons."""


@pytest.fixture(scope="module")
def live(played: LiveServer) -> LiveServer:
    return played


def play(page: Page) -> None:
    page.get_by_role("button", name="Play", exact=True).click()
    at_the_form(page)


BOXES = """() => {
  const box = (one) => document.querySelector(one).getBoundingClientRect();
  const [composer, scroll, field] = [".composer", "[data-scroll]", ".composer textarea"].map(box);
  const step = box(".step:last-child");
  return {
    below: scroll.bottom <= composer.top + 1 && composer.bottom <= innerHeight,
    seen: Math.min(step.bottom, scroll.bottom) - Math.max(step.top, scroll.top),
    button: box("[data-call]").height,
    field: field.height,
    font: parseFloat(getComputedStyle(document.querySelector(".composer textarea")).fontSize),
    page: document.documentElement.scrollHeight <= innerHeight,
    goal: document.querySelector(".goal") ? box(".goal .prompt-text").height : 20,
  };
}"""
"""What a phone shows: whether the form covers nothing, how much of the newest step is in sight, and
sizes in pixels."""


@pytest.mark.parametrize("is_guest", [True, False])
def test_a_phone_keeps_the_newest_step_and_the_form_in_sight(page: Page, is_guest: bool) -> None:
    """470 px are left when its keyboard is open. Guests also keep their task in sight."""
    if is_guest:
        enter(page, "echo")
        play(page)
    else:
        sit_down(page, "echo")
    for height in (844, 470):
        page.set_viewport_size({"width": 390, "height": height})
        for text in ("first", "second", "third"):
            send(page, text)
            page.wait_for_function(f"() => (({{ below, page }}) => below && page)(({BOXES})())")
            shown = page.evaluate(BOXES)
            assert shown["seen"] >= 44 and shown["goal"] >= 16, shown
            assert shown["button"] >= 44 and shown["field"] >= 44 and shown["font"] >= 16, shown
            more = [one.bounding_box() for one in page.locator(".more-button:visible").all()]
            assert [box["height"] >= 44 for box in more if box] == [True] * (
                is_guest and height > 560
            ), more


def test_a_phone_shows_the_drawing_and_all_buttons_before_and_after_a_move(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    enter(page, "maze")
    page.get_by_text("Choose which task").click()
    page.get_by_label("By number").check()
    page.locator("input[name=number]").fill(str(DOORS))
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_url(re.compile(r"/play/\d+/$"))
    for steps in (0, 1):
        expect(page.locator(".step")).to_have_count(steps)
        expect(page.locator("[data-drawing] img")).to_be_in_viewport(ratio=1)
        for button in page.locator("[data-pad] button").all():
            expect(button).to_be_in_viewport(ratio=1)
        assert (page.locator(".goal .prompt-text").bounding_box() or {"height": 0})["height"] >= 32
        page.get_by_role("button", name="Map", exact=True).click()


def test_a_phone_with_its_keyboard_open_shows_the_picture_of_a_task(page: Page) -> None:
    enter(page, "chart")
    play(page)
    page.set_viewport_size({"width": 390, "height": 470})
    expect(page.locator(".goal .zoom img")).to_be_in_viewport(ratio=1)
    assert (page.locator(".goal .zoom img").bounding_box() or {"height": 0})["height"] >= 100
    expect(page.locator("[data-call]")).to_be_in_viewport(ratio=1)


def test_a_phone_shows_the_button_of_a_long_form_beside_the_text_that_stays_in_view(
    page: Page,
) -> None:
    enter(page, "web")
    play(page)
    page.set_viewport_size({"width": 390, "height": 844})
    for steps in (0, 1):
        expect(page.locator(".step")).to_have_count(steps)
        page.locator(".drawing .mark", has_text="Search the shop").click()
        expect(page.get_by_label("Text", exact=True)).to_be_focused()
        expect(page.locator("[data-call]")).to_be_in_viewport(ratio=1)
        expect(page.locator(".play-head")).to_be_in_viewport(ratio=1)
        hint, text, form = (
            page.locator(one).bounding_box() for one in (".marks-hint", ".drawing > *", ".composer")
        )
        assert hint and text and form and hint["y"] + hint["height"] <= text["y"]
        assert text["y"] + text["height"] <= form["y"]
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
        send(page, "lamp")
