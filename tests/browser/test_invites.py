"""Invites in a browser, with the keyboard alone: a link is made, opened, and taken back while its
guest plays."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import load_axe, serious
from tests.server import LiveServer


@pytest.fixture(scope="module")
def live(played: LiveServer) -> LiveServer:
    return played


def is_sound(page: Page) -> bool:
    load_axe(page)
    return serious(page) == []


def test_a_guest_comes_in_by_the_link_and_plays_and_the_author_revokes_it_in_the_list(
    page: Page,
) -> None:
    page.goto("/play/invites/")
    page.get_by_label("Environment or split").select_option(label="echo: every split")
    page.get_by_label("Name").fill("by keyboard")
    page.keyboard.press("Enter")
    link = page.locator(".made pre").inner_text()  # which is shown only now
    assert is_sound(page)
    page.goto(link)
    expect(page.get_by_label("Your name")).to_be_focused()
    assert is_sound(page)
    page.set_viewport_size({"width": 390, "height": 844})
    heights = [
        one.bounding_box()
        for one in page.locator("main :is(input:not([type=hidden]), button)").all()
    ]
    assert [box["height"] >= 44 for box in heights if box] == [True] * 2
    page.set_viewport_size({"width": 1280, "height": 860})
    page.keyboard.type("Zoë")
    page.keyboard.press("Enter")
    page.wait_for_url("**/play/?environment=echo")
    expect(page.locator(".rail a")).to_have_count(0)
    assert page.locator(".choice").all_inner_texts()[0].startswith("echo") and is_sound(page)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/play/\d+/$"))
    expect(page.locator(".who summary")).to_have_text("Zoë, guest")
    page.context.clear_cookies()
    page.goto("/play/invites/")
    row = page.get_by_role("row").filter(has_text="by keyboard")
    expect(row).to_contain_text("Zoë")
    row.get_by_role("button", name="Revoke by keyboard").press("Enter")
    page.keyboard.press("t")  # shortcuts do nothing behind the question
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_hidden()
    expect(page.locator("[data-theme-switch]")).to_have_attribute("data-theme-switch", "auto")
    row.get_by_role("button", name="Keep it").press("Enter")
    row.get_by_role("button", name="Revoke by keyboard").press("Enter")
    row.get_by_role("button", name="Revoke for good").press("Enter")
    expect(
        page.get_by_role("row").filter(has_text="by keyboard").locator("[data-state=revoked]")
    ).to_be_visible()
