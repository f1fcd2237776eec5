"""The replay in a browser: keys, following, search, windows of steps, hostile texts, dark; and the
comparison."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.agents import latest, playing
from tests.browser.axe import load_axe, serious, thin_out
from tests.server import LiveServer

pytestmark = pytest.mark.usefixtures("complaints")

HOSTILE = (
    "</pre><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> \u202egnp.exe "
    "\x1b[31mred"
)


@pytest.fixture(scope="module")
def played(live: LiveServer) -> str:
    """Return the address of an episode of 100 steps with rewards: step 50 was refused, step 70 is
    about a needle."""
    with playing(live) as agent:
        for n in range(99):
            agent.call("nothing" if n == 50 else "echo", "the needle" if n == 70 else f"said {n}")
        agent.call("finish")
    return latest(live)


@pytest.fixture
def current(page: Page) -> Callable[[int], None]:
    """Return a function that asserts which step the page is at, in transcript and rail, and on the
    screen."""

    def check(index: int) -> None:
        expect(page.locator(".step.current")).to_have_id(f"step-{index}")
        expect(page.locator(".step.current")).to_be_in_viewport()
        expect(page.locator(".rail-row[aria-current]")).to_have_attribute("href", f"#step-{index}")

    return check


def test_keys_move_through_steps_search_and_open_pages(
    page: Page, played: str, current: Callable[[int], None]
) -> None:
    page.goto(played)
    for key, index in [
        ("j", 1),
        ("j", 2),
        ("k", 1),
        ("e", 50),
        ("Shift+G", 99),
        ("p", 98),
        ("Shift+E", 50),
        ("n", 51),
        ("g", 0),
    ]:
        page.keyboard.press(key)
        current(index)
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    page.keyboard.press("Enter")
    current(70)
    expect(page.locator("[data-find-count]")).to_have_text("1 of 1 step")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_contain_text("Episodes")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("/episodes/$"))


def test_a_key_that_leads_nowhere_says_why(page: Page, live: LiveServer) -> None:
    addresses = []
    for _ in range(2):
        with playing(live, goal="be alone") as agent:
            agent.call("echo")
        addresses.append(latest(live))
    page.goto(addresses[1])
    said = page.locator("[data-neighbours-end]")
    for key, words in (
        ("]", "This is the newest episode of the task."),
        ("}", "This episode is not in a run."),
    ):
        page.keyboard.press(key)
        expect(said).to_have_text(words)
    page.keyboard.press("[")
    page.wait_for_url(f"**{addresses[0]}")  # and its scripts
    page.keyboard.press("[")
    expect(said).to_have_text("This is the first episode of the task.")


def test_every_step_has_an_address_and_the_chart_and_the_facts_follow_the_cursor(
    page: Page, played: str, current: Callable[[int], None]
) -> None:
    page.goto(f"{played}#step-60")
    current(60)
    page.goto(f"{played}?step=30")
    current(30)
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(r"/\d+/#step-31$"))
    expect(page.locator("[data-chart-at]")).to_have_text("Step 31: +3.20")
    expect(page.locator("[data-step-number]")).to_have_text("31 · echo")


def test_the_browser_scrolls_a_step_to_below_the_bar(page: Page, played: str) -> None:
    page.goto(f"{played}#step-1")
    expect(page.locator("[data-time-sum]")).not_to_be_empty()  # it makes the bar higher
    page.wait_for_function(IS_BELOW_THE_BAR, arg="#step-1")


IS_BELOW_THE_BAR = """(id) => {
  const step = document.querySelector(id);
  step.scrollIntoView();
  const bar = document.querySelector(".toolbar").getBoundingClientRect();
  return Math.abs(step.getBoundingClientRect().top - bar.bottom - 4) < 2;
}"""
"""Whether a step that the browser scrolls to is right below the bar, as one of the address."""


def test_a_click_on_the_time_axis_goes_to_the_step_of_that_time(
    page: Page, played: str, current: Callable[[int], None]
) -> None:
    page.goto(played)
    expect(page.locator("[data-time-at]")).to_contain_text("Step 0 · echo took")
    calls = page.locator("[data-waterfall]")
    box = calls.bounding_box()
    assert box
    calls.click(position={"x": box["width"] - 1, "y": 5})
    current(99)
    expect(page.locator("[data-time-at]")).to_contain_text("after step 98")
    calls.click(position={"x": 0, "y": 5})
    current(0)


HOURS_APART = {"start": [0, 3_600_000, 7_200_000], "wait": [0, 0, 0], "duration": [1000] * 3}


@pytest.mark.own_tab
def test_it_plays_in_recorded_time_as_fast_as_one_likes(page: Page, played: str) -> None:
    def answer(route: Route) -> None:
        rail = route.fetch().json()
        short = {name: rail[name][:3] for name in ("tool", "state", "reward")}
        route.fulfill(json={**rail, **short, **HOURS_APART, "total": 3})

    page.clock.install()
    page.route(re.compile(r"/rail\.json"), answer)
    page.goto(played)
    expect(page.locator("[data-time-sum]")).to_have_text(
        "2:00:01 from first to last call, 3.0 s in calls"
    )
    play, step = page.locator("[data-play]"), page.locator(".step.current")
    page.keyboard.press("Space")
    expect(play).to_have_attribute("aria-pressed", "true")
    page.clock.run_for(3_599_000)
    expect(step).to_have_id("step-0")
    page.clock.run_for(2_000)
    expect(step).to_have_id("step-1")
    for _ in range(5):
        page.keyboard.press(">")
    expect(page.locator("[data-speed] option:checked")).to_have_text("32\u00d7")
    page.clock.run_for(3_600_000 // 32 + 1000)
    expect(step).to_have_id("step-2")
    expect(play).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Space")  # again, from the beginning
    expect(step).to_have_id("step-0")
    page.keyboard.press("Space")
    page.clock.run_for(3_600_000)
    expect(step).to_have_id("step-0")


def test_what_can_be_done_at_a_step_is_in_one_menu(page: Page, played: str) -> None:
    page.goto(played)
    menu = page.locator("#step-1 .step-menu")
    expect(menu.get_by_role("link")).to_have_count(0)
    menu.locator("summary").click()
    assert menu.get_by_role("link").all_inner_texts() == [
        "Add note",
        "Continue from here",
        "This step only",
        "Raw JSON",
        "Redact text…",
    ]
    menu.get_by_role("link", name="Add note").click()
    expect(page.locator("#note-text")).to_be_focused()
    expect(menu.get_by_role("link")).to_have_count(0)


def test_a_text_is_read_as_another_kind_kinds_stay_folded_and_scrolling_fetches_further_steps(
    page: Page, played: str
) -> None:
    page.goto(played)
    shown = page.locator("#step-0 div[data-side=output]")
    shown.hover()
    shown.locator("select").select_option("markdown")
    expect(shown.locator(".prose")).to_have_text(re.compile("said 0"))
    expect(shown.locator("select")).to_have_value("markdown")
    page.keyboard.press("Escape")
    page.locator("body").press("f")
    page.get_by_label("inputs").check()
    expect(page.locator("#step-0 [data-side=input]").first).to_be_hidden()
    page.reload()
    expect(page.locator("#step-0 [data-side=output]").first).to_be_visible()
    expect(page.locator("#step-0 [data-side=input]").first).to_be_hidden()
    expect(page.locator("#step-79")).to_have_count(0)
    page.mouse.move(600, 500)
    page.locator(".window").nth(3).evaluate("window => window.scrollIntoView()")
    expect(page.locator("#step-79")).to_have_count(1)
    expect(page.locator(".step.current")).not_to_have_id("step-0")


def test_hostile_texts_are_shown_and_never_run(page: Page, live: LiveServer) -> None:
    with playing(live) as agent:
        agent.call("echo", HOSTILE)
        agent.call("echo", "x" * 50_000)
    page.goto(latest(live))
    expect(page.locator("#step-0")).to_contain_text("<script>window.hacked = 1</script>")
    expect(page.locator("#step-0")).to_contain_text("⟦RLO⟧gnp.exe")
    page.locator("#step-1").get_by_text("show all").first.click()
    expect(page.locator("#step-1 .said-block.open").first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def brightness(element: Locator, name: str = "background-color") -> float:
    """Return the mean of red, green and blue as they are drawn, 0 to 255."""
    colour = element.evaluate(
        "(element, name) => getComputedStyle(element).getPropertyValue(name)", name
    )
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 3


def test_it_is_dark_where_the_system_is_cut_off_nowhere_on_a_phone_and_read_by_those_who_do_not_see_it(
    page: Page, played: str
) -> None:
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 400, "height": 860})
    page.goto(played)
    assert (
        brightness(page.locator("body"))
        < 60
        < 180
        < brightness(page.locator(".tool-name").first, "color")
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    # the form of a note waits until it is asked for
    expect(page.locator("#note-text")).to_be_hidden()
    page.keyboard.press("m")
    expect(page.locator("#note-text")).to_be_focused()
    expect(page.locator("#note-step option:checked")).to_have_text("step 0")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 860})
    expect(page.locator(".rail-row").first).to_be_visible()
    thin_out(page)
    load_axe(page)
    assert serious(page) == []


# --- two episodes side by side --------------------------------------------------------------------


def test_both_sides_move_together_and_the_parting_is_a_key_away(
    page: Page, live: LiveServer
) -> None:
    addresses = []
    for said in (["one", "two", "three"], ["one", "deux"]):
        with playing(live) as agent:
            for text in said:
                agent.call("echo", text)
        addresses.append(latest(live).strip("/").rpartition("/")[2])
    page.goto(f"/compare/?episodes={','.join(addresses)}")
    expect(page.locator(".compare-row")).to_have_count(3)
    page.keyboard.press("n")
    expect(page.locator(".compare-row.current")).to_have_attribute("data-verdict", "call")
    page.keyboard.press("j")
    expect(page.locator(".compare-row.current")).to_have_attribute("data-verdict", "left")
    page.keyboard.press("v")
    expect(page.locator(".compare-row.current")).to_have_id("row-1")
    expect(page.locator("#divergence")).to_be_in_viewport()


def test_steps_that_the_page_had_no_room_for_are_loaded_when_the_reader_comes_to_them(
    page: Page, live: LiveServer
) -> None:
    with playing(live) as agent:
        for number in range(4):
            agent.call(
                "echo",
                "def f(x):\n    return {'a': [x + 1, x - 2], 'b': (x, not x)}\n" * 60
                + f"# end of {number}",
            )
    page.goto(latest(live))
    expect(page.locator("#step-3")).to_contain_text("Show this step")
    page.keyboard.press("Shift+G")
    expect(page.locator("#step-3 [data-side=output]").first).to_be_visible()
    expect(page.locator("[data-later]")).to_have_count(0)
    expect(page.locator(".step")).to_have_count(4)


@pytest.mark.parametrize(("width", "step"), [(320, 0), (1100, 1)])
def test_on_a_narrow_screen_the_transcript_is_above_the_side_column(
    page: Page, played: str, width: int, step: int
) -> None:
    page.set_viewport_size({"width": width, "height": 860})
    page.goto(f"{played}?step={step}")
    expect(page.locator(f"#step-{step}")).to_be_in_viewport()
    top, side = page.locator(".transcript").bounding_box(), page.locator("#about").bounding_box()
    assert top and side and top["y"] < side["y"]
    page.get_by_role("link", name="About this episode").click()
    expect(page.locator("#about")).to_be_in_viewport()
    # it becomes higher a bit later
    page.locator(".window").last.evaluate("(it) => (it.style.paddingBottom = '20px')")
    page.evaluate("new Promise((go) => requestAnimationFrame(() => setTimeout(go)))")
    expect(page.locator("#about")).to_be_in_viewport()


STARTS = """(text) => {
  const range = document.createRange(), found = [], box = text.getBoundingClientRect();
  for (const walk = document.createTreeWalker(text, NodeFilter.SHOW_TEXT); walk.nextNode(); ) {
    range.selectNodeContents(walk.currentNode);
    found.push(...[...range.getClientRects()].filter((line) => line.width > 9));
  }
  return found.map((line) => line.left - box.left < box.right - line.right ? "left" : "right");
}"""
"""Returns the side at which each line of a text starts."""
COVERED = """(block) => {
  const text = document.createRange();
  text.selectNodeContents(block.querySelector(".said-text"));
  const menu = block.querySelector(".read-as").getBoundingClientRect();
  const meets = (line) => line.right > menu.left && line.bottom > menu.top && line.top < menu.bottom;
  return [...text.getClientRects()].some(meets);
}"""
"""Returns whether the menu of a block covers some of its text."""


def test_each_line_of_a_text_has_its_own_direction_and_the_menu_of_a_block_covers_none(
    page: Page, live: LiveServer
) -> None:
    arabic = "\u0634\u0643\u0631\u0627 \u062c\u0632\u064a\u0644\u0627"
    with playing(live) as agent:
        agent.call("echo", f"first in English\n{arabic}\nlast")
        agent.call("echo", f"first in English\n\n{arabic}\n\n* last\n\n```\ncode\n```")
        agent.call(
            "echo", f"first in English\n{arabic}\nlast in English\n\n* an item\n\n```\ncode\n```"
        )
        agent.call("echo", "a word " * 200)
    page.goto(latest(live))
    for text in (
        "#step-0 [data-side=output] .code",
        *(f"#step-{n} [data-side=output] .prose" for n in (1, 2)),
    ):
        assert page.locator(text).evaluate(STARTS)[:3] == ["left", "right", "left"], text
    block = page.locator("#step-3 .said-block:has(.read-as)").last
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 860})
        block.hover()
        assert not block.evaluate(COVERED), width
