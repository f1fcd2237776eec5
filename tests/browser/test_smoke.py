"""The browser opens the admin."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_it_opens_the_tasks(page: Page) -> None:
    page.goto("/admin/environments/task/")
    expect(page.locator("#content, main").first).to_be_visible()
