"""The frame and the overview in a browser: what happens appears by itself, keys, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.conformance.clients import OrsClient
from tests.server import LiveServer

LONG_NAME = "a-client-with-a-name-that-fills-more-than-a-line-of-a-narrow-table/1.0"


@contextmanager
def playing(live: LiveServer, client: str) -> Iterator[httpx.Client]:
    """Yield the client of a session of `echo` that has its prompt, and end the session with the
    block."""
    own = {"X-Session-ID": "seen-in-the-browser", "User-Agent": client}
    with httpx.Client(base_url=live.url, headers=own, timeout=30) as agent:
        agent.post("/create", json={"env_name": "echo", "task_spec": {}}).raise_for_status()
        agent.get("/echo/prompt").raise_for_status()
        try:
            yield agent
        finally:
            agent.post("/delete").raise_for_status()


WIDTHS = (
    "(place) => { const at = document.querySelector(place); return [at.clientWidth, "
    "at.scrollWidth]; }"
)
"""Script that finds and measures an element at once, because the page may replace it at any
time."""


FORM = """() => {
  const html = "<form id=once method=post><button data-once>Load</button></form>";
  document.querySelector("main").insertAdjacentHTML("beforeend", html);
  document.querySelector("#once").addEventListener("submit", (event) => event.preventDefault());
}"""


@pytest.mark.usefixtures("complaints")
def test_a_button_that_starts_long_work_is_off_until_the_next_page(page: Page) -> None:
    page.goto("/")
    page.evaluate(FORM)
    button = page.locator("#once button")
    button.click()
    expect(button).to_be_disabled()
    page.evaluate("dispatchEvent(new Event('pageshow'))")
    expect(button).to_be_enabled()


@pytest.mark.usefixtures("complaints")
def test_episodes_appear_while_they_run_and_end_without_a_reload_unless_the_page_is_hidden(
    page: Page, live: LiveServer
) -> None:
    page.goto("/")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    with playing(live, LONG_NAME):
        row = page.locator("tr.running").first
        expect(row).to_contain_text("echo")
        number = row.get_attribute("data-id")
        expect(page.locator("dd.figure").first).to_have_text("1")
        for width in (720, 780, 900, 1110, 1260, 1440, 1280):
            page.set_viewport_size({"width": width, "height": 860})
            # no column is pushed out of sight
            inner, needed = page.evaluate(WIDTHS, ".card:has(.latest)")
            assert 0 < inner == needed, width
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator(f"tr[data-id='{number}'] .ending")).not_to_contain_text("running")
    with ThreadPoolExecutor(1) as thread:  # playwright has this one's event loop
        thread.submit(play_with_the_clients_library, live).result(60)
    expect(page.locator("tr[data-id]:not(.running)", has_text="guess").first).to_contain_text(
        "test #0"
    )
    hide(page, "hidden")
    expect(page.locator("[data-live-state=paused]")).to_be_visible()
    with page.expect_response(re.compile(r"part=now")) as missed:
        hide(page, "visible")
    assert missed.value.request.headers["x-refetch"]  # what was made for another page will do
    expect(page.locator("[data-live-state=live]")).to_be_visible()


def play_with_the_clients_library(live: LiveServer) -> None:
    with (
        OrsClient(live) as client,
        client.environment("guess").session(split="test", index=0) as session,
    ):
        session.call_tool("guess", {"number": 1200})


def hide(page: Page, state: str) -> None:
    page.evaluate(
        """(state) => {
            Object.defineProperty(document, "hidden", {configurable: true, get: () => state === "hidden"});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        state,
    )


@pytest.mark.usefixtures("complaints")
def test_keys_open_the_help_and_pages_and_the_theme_goes_round_and_the_admin_shares_it_and_the_rail(
    page: Page,
) -> None:
    page.goto("/")
    assert_nothing_is_covered(page)
    page.locator(".connect[open]").evaluate_all(
        "folds => folds.forEach((fold) => (fold.open = false))"
    )
    page.get_by_role("link", name="Connect an agent").click()
    expect(page.locator("details.connect")).to_have_attribute("open", "")
    expect(page.get_by_text("from ors.client import ORS")).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    expect(page.locator("#keys")).to_contain_text("Overview")
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    switch = page.locator("[data-theme-switch]")
    expect(switch).to_have_attribute("data-theme-switch", "auto")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_class("light")
    switch.click()
    expect(page.locator("html")).to_have_class("dark")
    page.reload()
    expect(page.locator("html")).to_have_class("dark")
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page).to_have_url(re.compile("/admin/$"))
    expect(page.locator("html")).to_have_class(re.compile(r"\bdark\b"))
    expect(page.locator(".rail .brand img")).to_have_attribute(
        "src", re.compile(r"orsweb/icon.*\.svg$")
    )
    expect(page.locator(".rail > [aria-current]")).to_have_text("Admin")
    page.locator(".rail").get_by_role("link", name="Episodes").click()
    expect(page).to_have_url(re.compile("/episodes/$"))


COVERED = """() => {
  const parts = [...document.querySelectorAll(".bar :is(.trail, button, summary, input, .button)")];
  const shown = parts.filter((it) => it.checkVisibility());
  const boxes = shown.map((it) => it.getBoundingClientRect());
  const meet = (a, b) => a.right - 1 > b.left && b.right - 1 > a.left && a.bottom - 1 > b.top && b.bottom - 1 > a.top;
  return shown.filter((_, n) => boxes.some((box, m) => n !== m && meet(boxes[n], box))).map((it) => it.outerHTML);
}"""
"""Returns what is covered by something else in the top bar."""


def assert_nothing_is_covered(page: Page) -> None:
    for width in (320, 640, 701, 760, 900, 1040, 1060, 1280):
        page.set_viewport_size({"width": width, "height": 860})
        assert page.evaluate(COVERED) == [], width


def test_nothing_in_the_top_bar_covers_anything_and_a_narrow_one_folds_its_controls_into_a_menu(
    page: Page,
) -> None:
    page.goto("/environments/guess/")
    assert_nothing_is_covered(page)
    page.set_viewport_size({"width": 1040, "height": 860})
    switch = page.locator("[data-theme-switch]")
    expect(switch).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(switch).to_be_visible()
    page.keyboard.press("Escape")
    expect(switch).to_be_hidden()
    page.set_viewport_size({"width": 1280, "height": 860})
    expect(switch).to_be_visible()
    expect(page.get_by_role("button", name="Menu")).to_be_hidden()


def test_the_palette_opens_a_page_by_its_name(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Go to or do").click()
    expect(page.locator("#palette")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Go to a run")
    expect(field).to_be_focused()
    field.fill("switch th")
    field.press("Enter")
    expect(page.locator("#palette")).to_be_hidden()
    expect(page.locator("html")).to_have_class("light")
    page.keyboard.press("Control+k")
    field.fill("nowhere")
    expect(page.locator("#palette [role=status]")).to_have_text("Nothing has that name.")
    expect(page.get_by_role("option", selected=True)).to_have_text(
        "Search transcripts for “nowhere”search"
    )
    field.fill("data load")
    expect(page.get_by_role("option", selected=True)).to_have_text("Load demo dataaction")
    field.fill("environm")
    expect(page.get_by_role("option", selected=True)).to_contain_text("Environments")
    field.press("Enter")
    expect(page).to_have_url(re.compile("/environments/$"))


def test_the_palette_begins_with_what_was_opened_lately(page: Page) -> None:
    page.goto("/operations/demo/")
    page.goto("/environments/")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option", selected=True)).to_have_text("Demo datarecent")


def test_without_an_answer_the_palette_lists_pages_and_says_so(page: Page) -> None:
    page.goto("/environments/")
    page.route(re.compile("palette.json"), lambda route: route.abort())
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to a run").fill("epis")
    expect(page.locator("#palette [role=status]")).to_contain_text("did not answer")
    expect(page.get_by_role("option", selected=True)).to_have_text("Episodespage")


def test_on_a_phone_the_bar_or_its_button_leads_to_every_page(page: Page) -> None:
    page.goto("/runs/groups/")
    rail = page.locator(".rail")
    every = rail.locator("> a:not(.brand)").all_inner_texts()
    page.set_viewport_size({"width": 390, "height": 860})
    in_bar = [name for name in every if rail.get_by_role("link", name=name).is_visible()]
    rail.get_by_role("button", name="More").click()
    behind = page.locator("#more-pages a").all_inner_texts()
    assert sorted(in_bar + behind) == sorted(every) and len(in_bar) == 4
    expect(page.locator("#more-pages [aria-current]")).to_have_text("Groups")
    page.locator("#more-pages").get_by_role("link", name="API").click()
    expect(page).to_have_url(re.compile("/api/$"))
