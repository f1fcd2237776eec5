"""Tests of images that the browser cannot display: every page that shows a step shows a text
instead."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.agents import latest
from tests.browser.test_play import send, sit_down
from tests.envs_pictures import ANSWERS
from tests.server import LiveServer

DAMAGED = "This image can't be displayed"
DOCUMENT = "the type 'image/svg+xml' is not allowed"
WORDS = "the data is no image, but the type is image/jpeg"


@pytest.fixture(scope="module")
def live(played: LiveServer) -> LiveServer:
    return played


@pytest.fixture(scope="module")
def drawn(live: LiveServer) -> tuple[int, int]:
    """Return the numbers of two episodes with a step for each of the images."""
    return draw_all(live), draw_all(live)


def draw_all(live: LiveServer) -> int:
    """Return the number of an episode with a step for each of the images."""
    with httpx.Client(base_url=live.url, headers={"X-Session-ID": "drawn"}, timeout=30) as http:
        http.post(
            "/create", json={"env_name": "pictures", "split": "train", "index": 0}
        ).raise_for_status()
        for name in ANSWERS:
            http.post(
                "/pictures/call", json={"name": "draw", "input": {"text": name}}
            ).raise_for_status()
        http.post("/delete").raise_for_status()
    return int(latest(live).split("/")[2])


def are_told(page: Page) -> None:
    """Expect a message for each image that is none, and the sound image to be the only one
    drawn."""
    for sentence in (DAMAGED, WORDS):
        expect(page.get_by_text(sentence)).to_have_count(1)
    expect(page.get_by_text(DOCUMENT)).to_have_count(1)
    expect(page.locator(".zoom img")).to_have_count(1)
    expect(page.locator(".zoom img")).to_have_js_property("naturalWidth", 1)
    assert page.evaluate("window.hacked") is None


def test_the_replay_says_which_images_cannot_be_displayed(
    page: Page, drawn: tuple[int, int], complaints: list[str]
) -> None:
    page.goto(f"/episodes/{drawn[0]}/")
    are_told(page)


def test_so_does_the_page_of_one_step(
    page: Page, drawn: tuple[int, int], complaints: list[str]
) -> None:
    episode = drawn[0]
    page.goto(f"/episodes/{episode}/steps/1/")
    expect(page.get_by_text(DAMAGED)).to_be_visible()
    page.goto(f"/episodes/{episode}/steps/2/")
    expect(page.get_by_text(WORDS)).to_be_visible()
    page.goto(f"/episodes/{episode}/steps/3/")
    expect(page.get_by_text(DOCUMENT)).to_be_visible()


def test_so_does_the_player(page: Page, complaints: list[str]) -> None:
    sit_down(page, "pictures")
    for name in ANSWERS:
        send(page, name)
    are_told(page)


def test_so_does_a_comparison(page: Page, drawn: tuple[int, int], complaints: list[str]) -> None:
    page.goto(f"/compare/?episodes={drawn[0]},{drawn[1]}")
    page.evaluate(
        "document.querySelectorAll('.compare-side').forEach((side) => (side.open = true))"
    )
    for sentence in (DAMAGED, WORDS, DOCUMENT):
        expect(page.get_by_text(sentence)).to_have_count(2)
