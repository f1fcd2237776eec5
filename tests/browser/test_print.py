"""Pages on paper: no controls, and nothing that is cut or wider than the paper."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.rounds import play_rounds
from tests.rows import each
from tests.server import LiveServer

RUN = "printed_with_a_name_that_is_longer_than_names_of_runs_usually_are"
PAPER: ViewportSize = {"width": 980, "height": 740}
"""A letter on its side, without margins."""
CONTROLS = """[...document.querySelectorAll("button, input, select, textarea, nav:not(.trail), [role=button]")]
  .filter((it) => it.checkVisibility() && !it.matches(".legend, .zoom")).map((it) => it.outerHTML.slice(0, 160))"""
"""Controls that are seen; the name of a curve is a button too."""
CUT = """[...document.querySelectorAll("body *")]
  .filter((it) => it.checkVisibility() && !it.closest("svg, .visually-hidden"))
  .filter((it) => it.getBoundingClientRect().right > innerWidth + 1
    || (getComputedStyle(it).overflowX !== "visible" && it.scrollWidth > it.clientWidth))
  .map((it) => it.outerHTML.slice(0, 160))"""
"""What is wider than the paper, or cut within it."""


@pytest.fixture(scope="module")
def first(live: LiveServer) -> int:
    """Return the number of an episode of a run."""
    return play_rounds(live, RUN, 2, step=1, model=RUN)[0]


@each(
    "path",
    [
        "/",
        "/environments/guess/",
        "/environments/guess/leaderboard/?split=train",
        "/environments/guess/doctor/",
        "/episodes/",
        "/episodes/{first}/",
        "/runs/",
        "/runs/curves/?by=run&y=return,success",
    ],
)
def test_paper_has_no_controls_and_holds_everything(page: Page, first: int, path: str) -> None:
    page.goto(path.format(first=first))
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)
    assert page.evaluate(CONTROLS) == []
    assert page.evaluate(CUT) == []


@each("path", ["/environments/guess/", "/api/"])
def test_text_that_can_be_copied_is_printed_without_its_button(page: Page, path: str) -> None:
    page.goto(path)
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)
    assert page.locator("[data-copy]").count() > 0
    expect(page.locator("[data-copy]").first).to_be_visible()
    assert page.evaluate(CONTROLS) == []


def test_scores_of_a_leaderboard_are_printed_with_their_intervals(page: Page, first: int) -> None:
    page.goto("/environments/guess/leaderboard/?split=train")
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)
    expect(page.locator(".board .whisker").first).to_be_visible()


def test_a_replay_is_printed_without_room_between_its_steps(page: Page, first: int) -> None:
    page.goto(f"/episodes/{first}/")
    expect(page.locator("article.step").first).to_be_visible()
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)
    step, end = page.evaluate(HEIGHTS)
    assert step < 160 and end < 40
    assert (
        page.locator(".step-facts").first.evaluate("it => getComputedStyle(it).display") == "flex"
    )


HEIGHTS = """[".step", ".end-mark"]
  .map((name) => document.querySelector(name).getBoundingClientRect().height)"""
"""Heights in pixels of a step and of the mark of the end."""


def test_the_page_of_a_run_is_printed_with_its_configuration_and_charts(
    page: Page, first: int
) -> None:
    page.goto(f"/runs/?text={RUN}")
    page.get_by_role("link", name=RUN, exact=True).first.click()
    chart = page.locator(".curve-chart").first
    chart.wait_for()
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)
    assert page.evaluate(CONTROLS) == []
    assert page.evaluate(CUT) == []
    displays = "its => its.map((it) => getComputedStyle(it).display)"
    grids = page.locator(".curve, .curve-charts").evaluate_all(displays)
    assert grids == ["block", "block"]  # Chromium lays tables over rows of a grid that it divides
    box, canvas = chart.bounding_box(), chart.locator("canvas").bounding_box()
    assert box and canvas and canvas["height"] <= box["height"]


@each(
    ("path", "parts"),
    [
        ("/episodes/{first}/", ".step"),
        ("/environments/guess/doctor/", ".findings > *"),
        ("/environments/guess/", ".client"),
    ],
)
def test_what_belongs_together_stays_on_one_sheet(
    page: Page, first: int, path: str, parts: str
) -> None:
    page.goto(path.format(first=first))
    page.emulate_media(media="print")
    part = page.locator(parts).first
    expect(part).to_have_css("break-inside", "avoid")
    # rows of a grid break in spite of that
    expect(part.locator("..")).to_have_css("display", "block")
