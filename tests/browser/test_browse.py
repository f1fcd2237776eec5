"""The Episodes page in a browser: filters in the address, keys, selection, saved views, rows as
they happen."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.server import LiveServer


def play(live: LiveServer, run: str, *, count: int = 1, step: int = 1) -> None:
    """Play ended episodes of `echo` with one call each, under a run of the test's own."""
    for number in range(count):
        headers = {"X-Session-ID": f"{run}-{number}", "X-Run": run, "X-Step": f"{step}"}
        with httpx.Client(base_url=live.url, headers=headers, timeout=30) as agent:
            agent.post(
                "/create", json={"env_name": "echo", "task_spec": {"of": run}}
            ).raise_for_status()
            agent.post(
                "/echo/call", json={"name": "echo", "input": {"text": f"said in {run}"}}
            ).raise_for_status()
            agent.post("/delete").raise_for_status()


@pytest.fixture(scope="module")
def run(live: LiveServer) -> str:
    """Return the name of a run with three episodes."""
    play(live, "run-of-three", count=3)
    return "run-of-three"


@pytest.fixture
def table(page: Page, run: str) -> Page:
    """The page with the three episodes."""
    page.goto(f"/episodes/?run={run}")
    expect(page.locator("tr[data-episode]")).to_have_count(3)
    return page


def test_a_chosen_filter_is_in_the_address_and_as_a_chip(table: Page) -> None:
    table.locator("#f-ending").select_option("finished")
    expect(table).to_have_url(re.compile(r"\?run=run-[^&]+&ending=finished$"))
    table.get_by_label("Remove filter ending finished").click()
    expect(table).to_have_url(re.compile(r"\?run=run-[^&]+$"))
    expect(table.locator("tr[data-episode]")).to_have_count(3)


def test_keys_move_select_preview_and_open_and_a_selection_lasts_until_it_is_cleared(
    table: Page,
) -> None:
    rows = table.locator("tr[data-episode]")
    for key in ("j", "x", "j", "j", "k", "x"):
        table.keyboard.press(key)
    expect(rows.nth(1)).to_have_class(re.compile(r"\bat\b"))
    first, second, _ = (row.get_attribute("data-episode") for row in rows.all())
    expect(table.locator("[data-selected-count]")).to_have_text("2 selected")
    expect(table.locator("[data-compare-link]")).to_have_attribute(
        "href", f"/compare/?episodes={first},{second}"
    )
    table.get_by_label(f"Select episode {second}").uncheck()
    table.reload()
    exported = table.locator("[data-selected-format=csv]")
    expect(exported).to_have_attribute("href", f"/episodes/export?ids={first}&format=csv")
    table.get_by_role("button", name="Clear").click()
    expect(table.locator("[data-selection]")).to_be_hidden()
    table.locator("body").press("Space")
    expect(table.locator("#preview h2")).to_have_text(f"Episode {first}")
    expect(table.locator("#preview")).to_contain_text("said in run-")
    table.keyboard.press("j")  # the preview follows the cursor
    expect(table.locator("#preview h2")).to_have_text(f"Episode {second}")
    table.keyboard.press("Escape")
    expect(table.locator("#preview")).to_be_hidden()
    table.keyboard.press("Enter")
    expect(table).to_have_url(re.compile(rf"/episodes/{second}/"))


def test_columns_that_are_hidden_stay_hidden_and_a_view_is_saved_and_opened_again(
    table: Page,
) -> None:
    address = table.url
    table.get_by_text("Columns", exact=True).click()
    table.get_by_label("Duration", exact=True).uncheck()
    expect(table.locator("th[data-column=duration]")).to_be_hidden()
    table.reload()
    expect(table.locator("th[data-column=duration]")).to_be_hidden()
    expect(table.locator("th[data-column=steps]")).to_be_visible()
    table.get_by_text("saved views").click()
    table.get_by_label("save this view as").fill("only mine")
    table.get_by_role("button", name="Save").click()
    table.goto("/episodes/")
    table.get_by_text("saved views").click()
    table.get_by_role("link", name="only mine").click()
    expect(table).to_have_url(address)


def test_episodes_appear_as_they_happen(page: Page, live: LiveServer) -> None:
    run = "run-as-it-happens"
    play(live, run)
    page.goto(f"/episodes/?run={run}")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    headers = {"X-Session-ID": f"{run}-live", "X-Run": run}
    with httpx.Client(base_url=live.url, headers=headers, timeout=30) as agent:
        agent.post("/create", json={"env_name": "echo", "task_spec": {}}).raise_for_status()
        agent.get("/echo/prompt").raise_for_status()
        expect(page.locator("tr[data-episode]")).to_have_count(2)
        expect(page.locator("tr[data-episode]").first).to_contain_text("running")
        for number in (1, 2):
            agent.post(
                "/echo/call", json={"name": "echo", "input": {"text": "on"}}
            ).raise_for_status()
            row = page.locator("tr[data-episode]").first
            expect(row.locator("[data-column=return]")).to_have_text(f"+0.{number}0")
            expect(row.locator("[data-column=steps]")).to_have_text(str(number))
            expect(row.locator("[data-column=duration]")).to_have_text("\N{EN DASH}")
        agent.post("/delete").raise_for_status()
    expect(page.locator("tr[data-episode]").first).to_contain_text("abandoned")


def test_all_filters_are_on_the_screen_at_any_width(page: Page) -> None:
    page.set_viewport_size({"width": 400, "height": 860})
    # with a field for the split, which makes two rows of them
    page.goto("/episodes/?environment=echo&ending=finished")
    page.evaluate(
        "for (const button of document.querySelectorAll('[data-show-filters]')) button.click()"
    )
    page.locator(".more-filters > summary").click()
    for width in (400, 760, 1150, 1280, 1440):
        page.set_viewport_size({"width": width, "height": 860})
        expect(page.get_by_label("steps from")).to_be_in_viewport(ratio=1)
        expect(page.get_by_label("steps to")).to_be_in_viewport(ratio=1)
        page.get_by_label("steps from").click(trial=True)  # and nothing lies over it


def test_a_long_name_of_a_run_leaves_its_step_in_sight(page: Page, live: LiveServer) -> None:
    run = "run-of-a-name-that-is-too-long-for-its-column"
    play(live, run, step=79)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"/episodes/?run={run}")
    cell = page.locator("tr[data-episode] .run")
    expect(cell).to_contain_text("step 79")
    places = cell.evaluate(
        "cell => [cell.querySelector('.hint'), cell].map(one => one.getBoundingClientRect().right)"
    )
    assert places[0] <= places[1]
