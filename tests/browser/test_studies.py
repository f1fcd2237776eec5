"""A study in browsers: set up from its page alone, played by guests who are all in it at once, and
read as CSV.

With HOSTILE=long, as `make hostile` sets it, there are twenty.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import load_axe, serious
from tests.browser.waiting import WAIT_MS
from tests.server import LiveServer

GUESTS = 20 if os.environ.get("HOSTILE") == "long" else 2
TASKS = 2


@pytest.fixture
def guests(browser: Browser, live: LiveServer) -> Iterator[list[Page]]:
    """Yield the pages of as many browsers."""
    contexts = [
        browser.new_context(base_url=live.url, reduced_motion="reduce") for _ in range(GUESTS)
    ]
    for context in contexts:
        context.set_default_timeout(WAIT_MS)
    yield [context.new_page() for context in contexts]
    for context in contexts:
        context.close()


def set_up(page: Page, name: str) -> str:
    """Make a study of the first tasks of `math` by the links and fields of its pages; return its
    link."""
    page.goto("/play/")
    page.get_by_role("link", name="Studies").click()
    page.get_by_role("link", name="New study").click()
    page.get_by_label("Name", exact=True).fill(name)
    split = page.locator("option", has_text="math / train")
    page.get_by_label("Task source").select_option(split.get_attribute("value"))
    page.get_by_text("Only some of the split").click()
    page.get_by_label("Numbers").fill(f"0-{TASKS - 1}")
    page.get_by_label("Instructions").fill("Work out **one number**.")
    page.get_by_label("Consent").fill("I am an adult.")
    page.get_by_label("Completion code").fill("C0DE")
    page.get_by_role("button", name="Create study").click()
    page.get_by_role("button", name="Create link").click()
    return page.locator(".made pre").inner_text()


def enter(guest: Page, link: str, name: str) -> None:
    guest.goto(link)
    guest.get_by_label("Your name").fill(name)
    guest.keyboard.press("Enter")
    guest.wait_for_url("**/play/study/")


def start(guest: Page) -> None:
    """Agree and press what starts the first task."""
    guest.get_by_label("I have read this and agree to take part").check()
    guest.get_by_role("button", name="Start the first task").click()


def play(guest: Page, number: int) -> None:
    """Answer a task, and go on."""
    expect(guest.get_by_text(f"Task {number} of {TASKS}")).to_be_visible()
    expect(guest.locator("[data-composer] :focus")).to_be_visible()
    guest.keyboard.type("1")
    guest.keyboard.press("Enter")
    guest.locator(".outcome [data-next]").click()


def test_guests_finish_at_once_and_the_file_is_what_they_played(
    page: Page, guests: list[Page]
) -> None:
    link = set_up(page, "crowd")
    load_axe(page)
    assert serious(page) == []
    for number, guest in enumerate(guests):
        enter(guest, link, f"P{number:02d}")
    for guest in guests:
        start(guest)
    guests[0].context.set_offline(True)
    expect(guests[0].locator("[data-notice=lost]")).to_contain_text(
        "Your task is kept for a while."
    )
    guests[0].context.set_offline(False)
    for number in range(1, TASKS + 1):
        for guest in guests:
            play(guest, number)
    for guest in guests:
        expect(guest.get_by_text("Your completion code:")).to_be_visible()
        expect(guest.locator(".study-code")).to_have_text("C0DE")
    lines = list(
        csv.DictReader(io.StringIO(page.request.get("/play/studies/crowd/results.csv").text()))
    )
    assert len(lines) == GUESTS * TASKS and {line["counts"] for line in lines} == {"yes"}
    recorded = page.request.get(f"/api/episodes?study=crowd&limit={len(lines)}").json()["results"]
    assert {(line["episode"], float(line["return"])) for line in lines} == {
        (str(one["id"]), one["returns"]["sum"]) for one in recorded
    }
    page.goto("/play/studies/crowd/")
    expect(page.get_by_role("row").filter(has_text="P01")).to_contain_text(f"{TASKS} of {TASKS}")
    page.get_by_role("button", name="Exclude P01").click()
    expect(page.get_by_role("dialog", name="Exclude P01?")).to_have_css("text-align", "start")


def test_a_second_tab_says_how_the_clock_stands(page: Page, guests: list[Page]) -> None:
    guest = guests[0]
    enter(guest, set_up(page, "tabs"), "P01")
    start(guest)
    expect(guest.locator("[data-composer] :focus")).to_be_visible()
    second = guest.context.new_page()
    second.goto("/play/study/")
    expect(second.locator("[data-waiting]")).to_contain_text(
        "open on another page, so the clock runs"
    )
    guest.get_by_role("link", name="Pause").click()
    for tab in (guest, second):
        expect(tab.locator("[data-waiting]")).to_contain_text("The clock is paused")
    guest.get_by_role("link", name="Continue").click()
    expect(second.locator("[data-waiting]")).to_contain_text(
        "open on another page, so the clock runs"
    )
    page.goto("/play/studies/tabs/")
    page.get_by_role("button", name="Close study").click()
    page.get_by_role("button", name="Close for good").click()
    expect(guest.locator("[data-outcome]")).to_contain_text("The study is closed")
