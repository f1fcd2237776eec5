"""The frame of the admin: small pages with the landmarks of all others, which everybody can use."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import load_axe, switch_scheme, violations
from tests.rows import each

MAX_PAGE_BYTES = 250_000
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PAGES = (
    "",
    "environments/environment/",
    "environments/task/",
    "environments/apikey/",
    "environments/apikey/add/",
    "auth/user/",
    "auth/user/add/",
    "auth/group/1/change/",
    "auth/group/1/history/",
    "auth/group/1/delete/",
)


def bytes_of(page: Page, address: str) -> int:
    """Return how many bytes the server sends for a page and all that it loads."""
    debugger = page.context.new_cdp_session(page)
    lengths: list[float] = []
    debugger.send("Network.enable")
    debugger.send("Network.setCacheDisabled", {"cacheDisabled": True})
    debugger.on("Network.loadingFinished", lambda event: lengths.append(event["encodedDataLength"]))
    page.goto(address, wait_until="load")
    debugger.detach()
    return int(sum(lengths))


@each("path", PAGES)
@pytest.mark.usefixtures("complaints")
def test_a_page_of_the_admin_is_small_and_axe_finds_nothing_in_both_themes(
    page: Page, path: str
) -> None:
    assert 0 < bytes_of(page, f"/admin/{path}") < MAX_PAGE_BYTES
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("navigation", name="Pages", exact=True).count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
    load_axe(page)
    for scheme in SCHEMES:
        switch_scheme(page, scheme)
        rules = [rule for rule in violations(page) if rule["impact"] != "minor"]
        assert [(rule["id"], rule["nodes"][0]["html"]) for rule in rules] == []


def test_the_menu_of_the_admin_leads_to_its_lists_and_icons_have_no_words(page: Page) -> None:
    page.goto("/admin/auth/user/")
    assert "arrow_" not in page.get_by_role("main").inner_text()
    page.get_by_text("Admin pages").click()
    pages = page.get_by_role("navigation", name="Admin pages")
    expect(pages.get_by_role("link", name="Users")).to_have_attribute("aria-current", "true")
    pages.get_by_role("link", name="Groups").click()
    expect(page).to_have_url("/admin/auth/group/")
    page.get_by_role("link", name="Add group").click()
    expect(page.get_by_role("textbox", name="Name")).to_be_visible()
