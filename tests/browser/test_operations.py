"""The operator's page follows what is played without being loaded again."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.agents import playing
from tests.server import LiveServer


def test_it_follows_sessions(page: Page, live: LiveServer, complaints: list[str]) -> None:
    page.goto("/operations/")
    row = page.locator("[data-environment=echo]")
    before = int(row.locator("[data-live-sessions]").inner_text())
    with playing(live, "operations"):
        expect(row.locator("[data-live-sessions]")).to_have_text(str(before + 1))
    expect(row.locator("[data-live-sessions]")).to_have_text(str(before))
    expect(page.get_by_text("Ready")).to_be_visible()
    expect(page.get_by_text("None: pages count every recorded episode.")).to_be_visible()
