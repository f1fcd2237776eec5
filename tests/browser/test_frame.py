"""The frame and the overview in a browser: what happens appears by itself, keys, light and dark."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.server import LiveServer

CLIENT = """
from ors.client import ORS
client = ORS("{url}")
with client.environment("guess").session(split="test", index=0) as session:
    session.call_tool("guess", {{"number": 1200}})
"""


@contextmanager
def playing(live: LiveServer, client: str = "an agent") -> Iterator[httpx.Client]:
    """Yield the client of a session of `echo` that has its prompt, and end the session with the block."""
    own = {"X-Session-ID": "seen-in-the-browser", "User-Agent": client}
    with httpx.Client(base_url=live.url, headers=own, timeout=30) as agent:
        agent.post("/create", json={"env_name": "echo", "task_spec": {}}).raise_for_status()
        agent.get("/echo/prompt").raise_for_status()
        try:
            yield agent
        finally:
            agent.post("/delete").raise_for_status()


@pytest.mark.usefixtures("complaints")
def test_an_episode_appears_while_it_runs_and_ends_without_a_reload(page: Page, live: LiveServer) -> None:
    page.goto("/")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    with playing(live):
        row = page.locator("tr.running").first
        expect(row).to_contain_text("echo")
        number = row.get_attribute("data-id")
        expect(page.locator("dd.figure").first).to_have_text("1")
    expect(page.locator(f"tr[data-id='{number}'] .ending")).not_to_contain_text("running")


@pytest.mark.usefixtures("complaints")
def test_an_episode_of_the_clients_library_appears_without_a_reload(page: Page, live: LiveServer) -> None:
    page.goto("/")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    subprocess.run([sys.executable, "-c", CLIENT.format(url=live.url)], check=True, timeout=60)
    expect(page.locator("tr[data-id]:not(.running)", has_text="guess").first).to_contain_text("test #0")


WIDTHS = "(place) => { const at = document.querySelector(place); return [at.clientWidth, at.scrollWidth]; }"
"""Script that finds and measures an element at once, because the page may replace it at any time."""


def test_a_long_name_pushes_no_column_out_of_sight_and_nothing_is_wider_than_the_page(
    page: Page, live: LiveServer
) -> None:
    with playing(live, "a-client-with-a-name-that-fills-more-than-a-line-of-a-narrow-table/1.0"):
        page.goto("/")
        expect(page.locator("tr.running")).to_contain_text("echo")
        for width in (720, 780, 900, 1110, 1260, 1280, 1440):
            page.set_viewport_size({"width": width, "height": 860})
            inner, needed = page.evaluate(WIDTHS, ".card:has(.latest)")
            assert 0 < inner == needed, width
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_follows_nothing_while_it_is_hidden(page: Page) -> None:
    page.goto("/")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    hide(page, "hidden")
    expect(page.locator("[data-live-state=paused]")).to_be_visible()
    with page.expect_response(re.compile(r"part=now")) as missed:
        hide(page, "visible")
    assert missed.value.request.headers["x-refetch"]  # what was made for another page will do
    expect(page.locator("[data-live-state=live]")).to_be_visible()


def hide(page: Page, state: str) -> None:
    page.evaluate(
        """(state) => {
            Object.defineProperty(document, "hidden", {configurable: true, get: () => state === "hidden"});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        state,
    )


@pytest.mark.usefixtures("complaints")
def test_the_theme_goes_round_and_the_admin_shares_it_and_the_rail(page: Page) -> None:
    page.goto("/")
    switch = page.locator("[data-theme-switch]")
    expect(switch).to_have_attribute("data-theme-switch", "auto")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_class("light")
    switch.click()
    expect(page.locator("html")).to_have_class("dark")
    page.reload()
    expect(page.locator("html")).to_have_class("dark")
    page.goto("/admin/")
    expect(page.locator("html")).to_have_class(re.compile(r"\bdark\b"))
    expect(page.locator(".rail .brand img")).to_have_attribute("src", re.compile(r"orsweb/icon.*\.svg$"))
    expect(page.locator(".rail [aria-current]")).to_have_text("Admin")
    page.locator(".rail").get_by_role("link", name="Episodes").click()
    expect(page).to_have_url(re.compile("/episodes/$"))


@pytest.mark.usefixtures("complaints")
def test_keys_open_the_help_the_search_and_pages(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    expect(page.locator("#keys")).to_contain_text("Overview")
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page).to_have_url(re.compile("/admin/$"))


@pytest.mark.usefixtures("complaints")
def test_the_link_to_how_to_connect_unfolds_it(page: Page) -> None:
    page.goto("/")
    page.locator(".connect[open]").evaluate_all("folds => folds.forEach((fold) => (fold.open = false))")
    page.get_by_role("link", name="Connect an agent").click()
    expect(page.locator("details.connect")).to_have_attribute("open", "")
    expect(page.get_by_text("from ors.client import ORS")).to_be_visible()


COVERED = """() => {
  const parts = [...document.querySelectorAll(".bar :is(.trail, button, summary, input, .button)")];
  const shown = parts.filter((it) => it.checkVisibility());
  const boxes = shown.map((it) => it.getBoundingClientRect());
  const meet = (a, b) => a.right - 1 > b.left && b.right - 1 > a.left && a.bottom - 1 > b.top && b.bottom - 1 > a.top;
  return shown.filter((_, n) => boxes.some((box, m) => n !== m && meet(boxes[n], box))).map((it) => it.outerHTML);
}"""
"""Returns what is covered by something else in the top bar."""


@pytest.mark.parametrize("path", ["/", "/environments/guess/"])
def test_nothing_in_the_top_bar_covers_anything_at_any_width(page: Page, path: str) -> None:
    page.goto(path)
    for width in (1280, 1060, 1040, 900, 760, 701, 640, 320):
        page.set_viewport_size({"width": width, "height": 860})
        assert page.evaluate(COVERED) == [], width


def test_a_narrow_top_bar_folds_its_controls_into_a_menu(page: Page) -> None:
    page.set_viewport_size({"width": 1040, "height": 860})
    page.goto("/environments/guess/")
    switch = page.locator("[data-theme-switch]")
    expect(switch).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(switch).to_be_visible()
    page.keyboard.press("Escape")
    expect(switch).to_be_hidden()
    page.set_viewport_size({"width": 1280, "height": 860})
    expect(switch).to_be_visible()
    expect(page.get_by_role("button", name="Menu")).to_be_hidden()
