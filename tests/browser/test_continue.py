"""Playing on from a step of a recorded episode, with the keyboard; notes and flags, from replay and
player."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.agents import latest
from tests.browser.axe import load_axe, serious
from tests.browser.test_play import sit_down
from tests.server import LiveServer

pytestmark = pytest.mark.usefixtures("complaints")

LOOKS = [("look", {"text": "left"}), ("look", {"text": "right"}), ("look", {"text": "up"})]
ROLLS = [("look", {"text": "left"}), ("roll", {}), ("look", {"text": "right"}), ("roll", {})]


@pytest.fixture(scope="module")
def live(played: LiveServer) -> LiveServer:
    return played


def recorded(live: LiveServer, calls: list[tuple[str, dict[str, str]]]) -> int:
    """Return the number of an agent's episode of these calls."""
    with httpx.Client(base_url=live.url, headers={"X-Session-ID": "continued"}, timeout=30) as http:
        http.post(
            "/create", json={"env_name": "drifting", "split": "train", "index": 1}
        ).raise_for_status()
        for name, arguments in calls:
            http.post("/drifting/call", json={"name": name, "input": arguments}).raise_for_status()
        http.post("/delete").raise_for_status()
    return int(latest(live).split("/")[2])


def ask(page: Page, episode: int, step: int) -> None:
    """Go from a step of the replay to the page that asks whether to continue."""
    page.goto(f"/episodes/{episode}/#step-{step}")
    expect(page.locator(".step.current")).to_have_id(f"step-{step}")
    page.keyboard.press("c")
    expect(page.get_by_role("button", name="Continue from here")).to_be_focused()


def look(page: Page, text: str) -> None:
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    tab = page.locator(".tool-tab:has(code:text-is('look'))")
    page.keyboard.press(f"Alt+{int(tab.get_attribute('data-tool') or 0) + 1}")
    expect(page.locator("[data-composer] :is(input, textarea):focus")).to_be_visible()
    page.keyboard.type(text)
    page.keyboard.press("Control+Enter")


def test_a_recorded_episode_is_played_on_from_a_step(page: Page, live: LiveServer) -> None:
    parent = recorded(live, LOOKS)
    ask(page, parent, 1)
    load_axe(page)
    assert serious(page) == []
    page.set_viewport_size({"width": 400, "height": 860})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.set_viewport_size({"width": 1280, "height": 860})
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/play/\d+/$"))
    expect(page.locator(".step")).to_have_count(2)
    expect(page.locator("main")).to_contain_text("All results match the recording.")
    look(page, "behind")
    expect(page.locator("#step-2")).to_contain_text("behind")
    child = int(page.url.split("/")[-2])
    page.goto(f"/episodes/{child}/")
    link = page.get_by_role("link", name=f"episode {parent} from step 1")
    # not pressed: the headline of a running episode is replaced
    page.goto(str(link.get_attribute("href")))
    expect(page.locator(".replay-side")).to_contain_text(
        f"Continued in episode {child} from step 1"
    )


def test_a_different_step_is_reported_before_continuing(page: Page, live: LiveServer) -> None:
    ask(page, recorded(live, ROLLS), 3)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Step 1 gave a different result")).to_be_visible()
    recorded_side, now = page.locator("[data-aspect=output]").all()
    assert (
        re.search(r"rolled \d+", recorded_side.inner_text())
        and recorded_side.inner_text() != now.inner_text()
    )
    load_axe(page)
    assert serious(page) == []
    expect(page.get_by_role("button", name="Repeat the other 2 steps anyway")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/play/\d+/$"))
    expect(page.locator(".step")).to_have_count(4)
    expect(page.locator("main")).to_contain_text(
        "2 results differ from the recording, the first at step 1."
    )


def test_a_note_is_at_its_step_can_be_deleted_and_is_added_by_control_and_enter_too(
    page: Page, live: LiveServer
) -> None:
    page.goto(f"/episodes/{recorded(live, LOOKS)}/#step-1")
    expect(page.locator(".step.current")).to_have_id("step-1")
    page.keyboard.press("m")
    expect(page.locator("#note-text")).to_be_focused()
    page.keyboard.type("Why right?")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#step-1 .step-notes")).to_contain_text("Why right?")
    expect(page.locator("#note-text")).to_have_value("")
    page.reload()
    expect(page.locator("#step-1 .step-notes")).to_contain_text("Why right?")
    page.get_by_role("button", name="Delete this note").click()
    expect(page.locator(".step-notes")).to_have_count(0)
    page.keyboard.press("m")
    page.keyboard.type("And why left?")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".step-notes")).to_contain_text("And why left?")


def test_a_flag_from_the_player_reaches_the_curator(page: Page) -> None:
    sit_down(page, "drifting", split="test")
    page.locator("summary", has_text="flag this task as broken").click()
    page.get_by_label("What is wrong with it?").fill("Nothing is to be seen.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".flagging")).to_contain_text("a curator will review it")
    page.goto("/admin/")
    page.get_by_role("link", name="1 flagged as broken").click()
    page.get_by_role("link", name="id test-0").click()
    expect(page.locator(".flags")).to_contain_text("Nothing is to be seen.")
    page.get_by_role("button", name="Resolve the flag").click()
    expect(page.locator("body")).to_contain_text("Resolved 1 flag.")
