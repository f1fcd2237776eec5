"""A player whom the server lets in no more, in a browser: the page says why, leads on, and stops asking."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.accounts import PASSWORD, with_account
from tests.browser.waiting import wait_until
from tests.server import LiveServer

pytestmark = pytest.mark.own_tab

NAME = "ada"
SOCKETS = """
    window.sockets = [];
    window.WebSocket = class extends WebSocket { constructor(...given) { super(...given); sockets.push(this); } };
"""


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    """A server that strangers can reach, with one account."""
    with with_account("tests.envs:Echo", NAME) as running:
        yield running


@pytest.fixture
def player(page: Page) -> Page:
    """Log in and play `echo`."""
    page.add_init_script(SOCKETS)
    page.goto("/play/?environment=echo&split=train")
    log_in(page)
    begin(page)
    return page


def log_in(page: Page) -> None:
    page.get_by_label("Username").fill(NAME)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def begin(page: Page) -> None:
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_url(re.compile(r"/play/\d+/$"))
    expect(page.locator("[data-live-state=live]")).to_be_visible()


def break_off(page: Page) -> None:
    page.evaluate("sockets.at(-1).close()")


def test_a_socket_that_only_broke_comes_back_but_a_login_that_expired_is_reported_and_leads_to_another(
    player: Page,
) -> None:
    address = player.url
    break_off(player)
    wait_until(player, "sockets.length > 1 && sockets.at(-1).readyState === WebSocket.OPEN")
    expect(player.locator("[data-live-state=live]")).to_be_visible()
    expect(player.locator("[data-notice]")).to_have_count(0)
    player.context.clear_cookies()
    break_off(player)
    notice = player.locator("[data-notice=shut-out]")
    expect(notice).to_contain_text("Your login has expired.")
    expect(player.locator("[data-live-state]")).to_be_hidden()
    assert player.evaluate("sockets.length") == 3
    notice.get_by_role("link", name="Log in again").click()
    log_in(player)
    player.wait_for_url(address)
    expect(player.locator("[data-live-state=live]")).to_be_visible()


def test_an_invite_that_is_over_is_reported(page: Page, browser: Browser, live: LiveServer) -> None:
    """A guest who plays sees that the play has ended, and afterwards that nothing more can be opened."""
    page.goto("/play/invites/")
    log_in(page)
    page.get_by_label("Name").fill("pilot")
    page.keyboard.press("Enter")
    link = page.locator(".made pre").inner_text()
    guests = [browser.new_context(base_url=live.url).new_page() for _ in range(2)]
    for guest in guests:
        accept(guest, link)
    row = page.get_by_role("row").filter(has_text="pilot")
    row.get_by_role("button", name="Revoke").click()
    expect(row.locator("[data-state=revoked]")).to_be_visible()
    for guest in guests:
        expect(guest.locator("[data-outcome]")).to_contain_text("Your link has ended")
        expect(guest.locator("[data-outcome]")).to_contain_text("The link was revoked. Your steps are kept.")
    break_off(guests[1])
    guests[1].reload()
    expect(guests[1].locator("main")).to_contain_text("Your invite has ended.")
    for guest in guests:
        guest.context.close()


def accept(guest: Page, link: str) -> None:
    """Come in by the link of an invite and play."""
    guest.add_init_script(SOCKETS)
    guest.goto(link)
    guest.keyboard.type("Zoë")
    guest.keyboard.press("Enter")
    guest.wait_for_url("**/play/?environment=echo")
    begin(guest)
