"""The replay in a browser when steps cannot be loaded, and how its list of steps marks failed
calls."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.agents import latest, playing
from tests.server import LiveServer

STEPS = re.compile(r"/steps/\?")


@pytest.fixture(scope="module")
def played(live: LiveServer) -> str:
    """Return the address of an episode of 50 steps, of which step 1 named no tool and step 2 gave a
    wrong input."""
    with playing(live) as agent:
        for n in range(50):
            agent.call("nothing" if n == 1 else "echo", n if n == 2 else f"said {n}")
    return latest(live)


def test_the_list_of_steps_tells_failures_apart_and_steps_that_cannot_be_loaded_can_be_asked_for_again(
    page: Page, played: str
) -> None:
    page.route(STEPS, lambda route: route.fulfill(status=500))
    page.goto(f"{played}?step=0")
    expect(page.locator(".rail-row .failing")).to_have_text(["no tool", "input"])
    expect(page.locator(".rail-row").nth(1)).to_have_attribute(
        "title", "nothing, refused: not_found"
    )
    page.keyboard.press("Shift+G")
    notice = page.locator(".window [data-failed]").last
    expect(notice).to_contain_text("could not be loaded")
    page.unroute(STEPS)
    notice.get_by_role("button", name="Try again").click()
    expect(page.locator("#step-49")).to_be_visible()


def test_a_replay_that_was_deleted_meanwhile_says_so(page: Page, played: str) -> None:
    page.route(STEPS, lambda route: route.fulfill(status=404))
    page.goto(f"{played}?step=0")
    page.keyboard.press("Shift+G")
    expect(page.locator(".window [data-failed]").last).to_contain_text("This episode was deleted")
    expect(page.get_by_role("alert")).to_have_count(1)
