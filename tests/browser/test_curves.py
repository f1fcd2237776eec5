"""The curve in a browser: a point leads to its episodes, a part is looked at closer, it is kept as
a picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.rounds import play_rounds
from tests.browser.waiting import wait_until
from tests.server import LiveServer

FIRST, SECOND = "drawn-first", "drawn-second"


@pytest.fixture(scope="module")
def runs(live: LiveServer) -> dict[str, list[int]]:
    """Return the numbers of the episodes of two runs, by name."""
    return {FIRST: play_rounds(live, FIRST, 6), SECOND: play_rounds(live, SECOND, 2)}


@pytest.fixture
def curve(page: Page, runs: dict[str, list[int]]) -> Page:
    """The page with the first run's curve, a point an episode."""
    page.goto(f"/runs/curves/?run={FIRST}&x=episode")
    assert len(points(page)) == len(runs[FIRST])
    return page


def chart(page: Page, question: str) -> Any:
    """Return what Chart.js says about the line that was drawn last, such as "line.data.length"."""
    return page.evaluate(
        "() => { const line = "
        "Chart.getChart(document.querySelector('[data-chart]')).data.datasets.at(-1);"
        f" return {question}; }}"
    )


def points(page: Page) -> list[float]:
    found: list[float] = chart(page, "line.data.map(({ x }) => x)")
    return found


def across(page: Page | Locator, share: float) -> tuple[float, float]:
    """Return the screen position at that share of the width of the page's only chart, or of this
    one, at half its height.
    """
    canvas = page.locator("[data-chart]") if isinstance(page, Page) else page
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    return box["x"] + share * box["width"], box["y"] + box["height"] / 2


def told(page: Page, *keys: str) -> str:
    """Return the head of the tooltip at which `keys` arrive."""
    for key in ("c", *keys):
        page.keyboard.press(key)
    return page.locator(".chart-tooltip strong").inner_text()


def test_points_tell_their_endings_and_list_their_episodes_by_arrows_and_enter_and_by_a_click(
    curve: Page, runs: dict[str, list[int]]
) -> None:
    assert told(curve, "ArrowRight") == "the 1st ending"
    assert told(curve, "ArrowRight", "ArrowRight") == "the 3rd ending"
    for key in ("ArrowLeft", "Enter"):
        curve.keyboard.press(key)
    expect(curve.locator("[data-chart]")).to_be_focused()
    behind = curve.locator("#behind")
    expect(behind.locator("tr[data-episode]")).to_have_attribute(
        "data-episode", str(runs[FIRST][1])
    )
    curve.set_viewport_size({"width": 1280, "height": 600})
    curve.mouse.click(*across(curve, 0.98))
    expect(behind.locator("tr[data-episode]")).to_have_attribute(
        "data-episode", str(runs[FIRST][-1])
    )
    expect(behind.get_by_role("heading")).to_have_text(f"1 episode at this point of {FIRST}")
    expect(behind.locator("tr[data-episode]")).to_be_in_viewport()
    behind.get_by_role("heading").get_by_role("link").click()
    expect(curve.locator("tr[data-episode]")).to_have_count(1)


def drag(page: Page, canvas: Page | Locator) -> None:
    """Look closer at a part."""
    page.mouse.move(*across(canvas, 0.4))
    page.mouse.down()
    page.mouse.move(*across(canvas, 0.7))
    page.mouse.up()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()


def test_it_is_downloaded_drawn_again_in_dark_mode_zoomed_by_dragging_and_smoothed(
    curve: Page,
) -> None:
    curve.get_by_text("Figure", exact=True).click()
    with curve.expect_download() as waited:
        curve.get_by_role("button", name="Python").click()
    assert waited.value.suggested_filename == "curves.py"
    assert f"{FIRST}'" in Path(waited.value.path()).read_text()
    curve.get_by_text("Figure", exact=True).click()
    light, raw = chart(curve, "line.borderColor"), chart(curve, "line.data.map(({ y }) => y)")
    curve.emulate_media(color_scheme="dark")
    line = "Chart.getChart(document.querySelector('[data-chart]')).data.datasets"
    wait_until(curve, f"{line}.at(-1).borderColor !== given", light)
    assert chart(curve, "line.borderColor") not in (light, None)
    drag(curve, curve)
    expect(curve).to_have_url(re.compile(r"from=\d&to=\d$"))  # it is in the address
    assert 0 < len(points(curve)) < 6
    curve.mouse.dblclick(*across(curve, 0.5))
    expect(curve.get_by_role("button", name="Reset zoom")).to_be_hidden()
    assert len(points(curve)) == 6
    curve.get_by_text("Options", exact=True).last.click()
    curve.get_by_role("combobox", name="Smoothing").select_option("window")
    expect(curve).to_have_url(re.compile(r"window=5$"))
    wait_until(curve, f"{line}.at(-2).borderWidth === 1")
    # stays faintly behind
    assert curve.evaluate(f"() => {line}.at(-2).data.map(({{ y }}) => y)") == raw


def test_several_charts_show_the_values_of_the_same_place_and_are_zoomed_together(
    curve: Page, runs: dict[str, list[int]]
) -> None:
    curve.get_by_role("link", name="Add a chart of the success rate").click()
    expect(curve.locator("[data-chart]")).to_have_count(2)
    second = curve.locator("[data-chart]").nth(1)
    told = second.locator("xpath=following-sibling::div")
    curve.mouse.move(*across(curve.locator("[data-chart]").first, 0.98))
    expect(told.locator("strong")).to_have_text(f"the {len(runs[FIRST])}th ending")
    curve.mouse.move(5, 5)
    expect(told).to_be_hidden()
    drag(curve, second)
    count = "Chart.getChart(one).data.datasets.at(-1).data.length"
    lengths = curve.evaluate(
        f"() => [...document.querySelectorAll('[data-chart]')].map((one) => {count})"
    )
    assert lengths[0] == lengths[1] < 6


def test_what_is_switched_in_place_stays_with_every_other_switch(
    page: Page, runs: dict[str, list[int]]
) -> None:
    page.goto("/runs/curves/?by=model&from=0&to=4")
    page.get_by_role("slider", name="Strength").fill("0.3")
    page.get_by_text("Options", exact=True).last.click()
    page.get_by_role("checkbox", name=re.compile("^Min")).check()
    page.get_by_role("button", name=re.compile("^Highlight")).first.click()
    page.locator("[data-series]").last.click()
    page.get_by_text("Options", exact=True).last.click()
    page.get_by_role("link", name="Log").click()
    expect(page).to_have_url(re.compile(r"log=yes"))
    page.get_by_role("link", name="Add a chart of the success rate").click()
    expect(page.locator("[data-chart]")).to_have_count(2)
    address = page.url
    for part in ("smooth=0.3", "minmax=yes", "highlight=", "hidden=", "from=0&to=4"):
        assert part in address
    assert chart(page, "line.series.points[0].max") >= chart(page, "line.series.points[0].min")
    expect(page.locator("[data-series]").last).to_have_attribute("aria-pressed", "false")
    assert chart(page, "line.hidden") is True
    page.get_by_text("Over: ").click()
    page.get_by_role("link", name="Time", exact=True).click()
    expect(page).to_have_url(re.compile(r"x=time"))
    assert "smooth=0.3" in page.url and "from=" not in page.url
    page.get_by_label("Success above").fill("0.5")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"threshold=0.5"))
    assert "smooth=0.3" in page.url and "hidden=" in page.url


def test_of_many_curves_the_best_stand_out_until_no_highlight_is_wanted(
    page: Page, live: LiveServer
) -> None:
    for number in range(13):
        play_rounds(live, f"drawn-many-{number}", 1)
    page.goto("/runs/curves/?by=run")
    stars = page.locator("[data-highlight][aria-pressed=true]")
    expect(stars).to_have_count(3)
    for count in (2, 1, 0):
        stars.first.click()
        expect(stars).to_have_count(count)
    expect(page).to_have_url(re.compile("highlight=none"))
    page.reload()
    expect(page.locator("[data-highlight]").first).to_be_visible()
    expect(stars).to_have_count(0)


def test_a_tooltip_tells_the_highest_value_first_and_the_nearest_bold_beside_the_pointer(
    page: Page, runs: dict[str, list[int]]
) -> None:
    page.goto("/runs/curves/?by=run")
    page.evaluate(TOLD)
    told = page.locator(".chart-tooltip").first
    row = told.locator("li")
    expect(row.locator("span")).to_have_text(["high", "middle", "low"])
    expect(row.locator("b")).to_have_text(["3.5B", "2B", "\N{MINUS SIGN}1"])
    expect(told.locator(".nearest span")).to_have_text("middle")
    box, pointer = told.bounding_box(), page.evaluate("window.pointer")
    assert box and (box["x"] > pointer["x"] or box["x"] + box["width"] < pointer["x"])


TOLD = """async () => {
  const frame = document.createElement("div");
  frame.className = "curve-chart";
  const canvas = frame.appendChild(document.createElement("canvas"));
  document.querySelector("main").prepend(frame);
  const { drawChart } = await import("/static/orsweb/chart.js");
  const values = { low: [-1, -1], high: [3.5e9, 3.5e9], middle: [2e9, 2e9] };
  const series = Object.entries(values).map(([key, ys]) => ({
    ...{ key, label: key, colour: 0, dash: [] },
    points: ys.map((y, x) => ({ x, xTo: x, y, low: null, high: null, n: 1 })),
  }));
  drawChart(canvas, { x: "step", unit: "return", log: false, band: "", extremes: "", maxBands: 2, series });
  Chart.getChart(canvas).update("none");
  const { left, top } = canvas.getBoundingClientRect();
  const { x, y } = Chart.getChart(canvas).getDatasetMeta(2).data[1];
  window.pointer = { x: left + x, y: top + y };
  const at = { clientX: left + x, clientY: top + y + 1, bubbles: true };
  canvas.dispatchEvent(new PointerEvent("pointermove", at));
}"""
"""Draws three curves and points at the end of the second."""


def test_neighbouring_points_have_no_ending_in_common(page: Page, live: LiveServer) -> None:
    play_rounds(live, "drawn-long", 26)  # more than a curve has points at least
    page.goto("/runs/curves/?run=drawn-long&x=episode")
    assert told(page, "ArrowRight") == "2 endings, the 1st to 2nd"
    assert told(page, "ArrowRight") == "2 endings, the 3rd to 4th"


def test_runs_are_chosen_in_a_menu_stay_in_the_address_and_are_hidden_by_the_legend(
    page: Page, runs: dict[str, list[int]]
) -> None:
    page.goto("/runs/curves/?by=run&x=time")
    page.get_by_text("Compare runs", exact=True).click()
    page.get_by_label("Search runs by name or model").fill("drawn-")
    for name in (FIRST, SECOND):
        expect(
            page.get_by_role("list", name="Chosen runs").get_by_text(name, exact=True)
        ).to_be_visible()
    page.get_by_role("checkbox", name=SECOND).uncheck()
    page.get_by_role("link", name="Show selected").click()
    expect(page).to_have_url(re.compile(r"x=time&runs=\d[\d,]*$"))
    legend = page.get_by_role("button", name=FIRST, exact=True)
    expect(legend).to_be_visible()
    expect(page.get_by_role("button", name=SECOND, exact=True)).to_have_count(0)
    hidden = (
        "Chart.getChart(document.querySelector('[data-chart]')).data.datasets.filter((line) => "
        "line.hidden).length"
    )
    assert page.evaluate(hidden) == 0
    legend.click()
    expect(legend).to_have_attribute("aria-pressed", "false")
    assert page.evaluate(hidden) > 0
    page.keyboard.press("Enter")
    assert page.evaluate(hidden) == 0


def end_a_round(page: Page, live: LiveServer, step: int, run: str = "drawn-live") -> None:
    """Play a round while the page looks, and let the time pass after which it fetches again."""
    expect(page.locator("[data-live-state]")).to_have_text("live")
    page.evaluate(
        "() => document.addEventListener('orsweb:live', ({ detail }) => (window.heard = "
        "detail.type))"
    )
    play_rounds(live, run, 1, step=step)
    wait_until(page, "window.heard === 'ended'")
    page.clock.fast_forward(10_000)


@pytest.mark.own_tab
def test_chart_tables_and_the_list_of_runs_follow_live(page: Page, live: LiveServer) -> None:
    play_rounds(live, "drawn-live", 2)
    page.clock.install()
    page.goto("/runs/curves/?run=drawn-live&x=episode")
    page.get_by_role("button", name="drawn-live").click()
    end_a_round(page, live, 101)
    expect(page.get_by_role("link", name="3", exact=True).first).to_be_visible()
    wait_until(
        page,
        "Chart.getChart(document.querySelector('[data-chart]')).data.datasets.at(-1).data.length === 3",
    )
    expect(page.get_by_role("button", name="drawn-live")).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("button", name="drawn-live")).to_be_focused()
    page.goto("/runs/")
    row = page.get_by_role("row").filter(has_text="drawn-live")
    row.get_by_role("link", name="drawn-live").focus()
    page.keyboard.press("x")
    before = int(row.locator("td a.number").inner_text())
    end_a_round(page, live, 103)
    expect(row.locator("td a.number")).to_have_text(str(before + 1))
    expect(row.get_by_role("checkbox")).to_be_checked()
    expect(row.get_by_role("link", name="drawn-live")).to_be_focused()


@pytest.mark.own_tab
def test_a_focused_star_keeps_its_focus_when_the_tables_are_fetched_again(
    page: Page, live: LiveServer, runs: dict[str, list[int]]
) -> None:
    play_rounds(live, "drawn-star", 1)
    page.clock.install()
    page.goto(f"/runs/curves/?runs=drawn-star,{FIRST}")
    star = page.get_by_role("button", name="Highlight drawn-star")
    star.focus()
    end_a_round(page, live, 101, "drawn-star")
    row = page.get_by_role("row").filter(has_text="drawn-star")
    expect(row.get_by_role("link", name="2", exact=True).first).to_be_visible()
    expect(star).to_be_focused()


def test_a_chart_that_is_empty_appears_with_its_first_episode(page: Page, live: LiveServer) -> None:
    play_rounds(live, "drawn-late", 1)
    page.goto("/runs/curves/?run=drawn-late&step=7")
    expect(page.locator("[data-live-state]")).to_have_text("live")
    expect(page.locator("[data-chart]")).to_have_count(0)
    play_rounds(live, "drawn-late", 1, step=7)
    expect(page.locator("[data-chart]")).to_have_count(1)


def test_keys_choose_runs_to_compare_and_the_choice_lasts_until_it_is_cleared(
    page: Page, runs: dict[str, list[int]]
) -> None:
    page.goto("/runs/")
    bar, rows = page.locator("[data-selection]"), page.locator("tr[data-run]")
    for key in ("j", "x"):
        page.keyboard.press(key)
    expect(bar).to_contain_text("Compare takes 2 to 12 runs")
    for key in ("j", "x"):
        page.keyboard.press(key)
    expect(bar).to_contain_text("2 selected")
    expect(bar).not_to_contain_text("Compare takes")
    expect(bar).to_be_in_viewport()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/\d+/$"))
    page.goto("/runs/")
    older, newer = sorted(int(rows.nth(place).get_attribute("data-run") or 0) for place in (0, 1))
    assert [rows.nth(place).get_by_role("checkbox").is_checked() for place in (0, 1)] == [True] * 2
    page.keyboard.press("v")
    expect(page).to_have_url(re.compile(rf"/runs/curves/\?runs={older},{newer}$"))
    page.goto("/runs/")
    page.keyboard.press("c")
    expect(page).to_have_url(re.compile(rf"/compare/\?runs={older},{newer}$"))
    page.goto("/runs/")
    page.keyboard.press("u")
    expect(bar).to_be_hidden()
