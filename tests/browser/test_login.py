"""A server with keys in a browser: a stranger logs in, sees the pages on a phone too, plays, and
logs out.

A player whom the server lets in no more is told why and led on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import programs
from tests.browser.axe import load_axe, violations
from tests.browser.test_keys import SHIFT, is_left_to_the_browser
from tests.browser.waiting import wait_until
from tests.server import LiveServer

NAME, PASSWORD = "somebody-with-a-rather-long-name", "correct horse"
SOCKETS = """
    window.sockets = [];
    window.WebSocket = class extends WebSocket { constructor(...given) { super(...given); sockets.push(this); } };
"""


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    """Replace the server of the other files by one that strangers can reach, with one account: a
    superuser."""
    with LiveServer("tests.envs:Echo", env={"ORSWEB_API_KEYS": "lab:0123456789"}) as running:
        account = {"DJANGO_SUPERUSER_USERNAME": NAME, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        programs.run(
            "createsuperuser",
            "--noinput",
            "--email",
            "a@b.example",
            env=running.env | account,
            check=True,
        )
        yield running


def log_in(page: Page, password: str = PASSWORD) -> None:
    page.get_by_label("Username").fill(NAME)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.own_tab
def test_a_stranger_logs_in_plays_and_logs_out_and_a_player_whose_login_expires_is_led_to_another(
    page: Page, browser: Browser, live: LiveServer, complaints: list[str]
) -> None:
    page.add_init_script(SOCKETS)
    page.set_viewport_size({"width": 400, "height": 860})
    page.goto("/runs/")
    load_axe(page)
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "colours") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    log_in(page, "wrong")
    expect(page.get_by_role("alert")).to_contain_text("Wrong user name or password.")
    log_in(page)
    expect(page).to_have_url(re.compile("/runs/$"))
    assert_it_fits_a_phone(page)
    page.goto("/environments/echo/")
    assert_it_fits_a_phone(page)
    assert not complaints
    page.set_viewport_size({"width": 1280, "height": 860})
    page.goto("/play/?environment=echo&split=train")
    begin(page)
    is_told_when_the_login_expires(page)
    complaints.clear()  # of the refused sockets
    an_invite_that_is_over_is_reported(page, browser, live)
    page.locator(".who summary").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/accounts/login/")  # and its scripts
    # it has no search, help or menu
    keys = [("/", "Slash"), ("?", "Slash", SHIFT), ("g", "KeyG"), ("t", "KeyT")]
    assert [is_left_to_the_browser(page, *key) for key in keys] == [True, True, True, False]


def assert_it_fits_a_phone(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    for part in page.locator(".bar, .bar .tools, .rail").all():  # with the name of the account
        assert part.evaluate("it => it.scrollWidth <= it.clientWidth"), page.url


def begin(page: Page) -> None:
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_url(re.compile(r"/play/\d+/$"))
    expect(page.locator("[data-live-state=live]")).to_be_visible()


def break_off(page: Page) -> None:
    page.evaluate("sockets.at(-1).close()")


def is_told_when_the_login_expires(page: Page) -> None:
    """A player whom the server lets in no more sees why, and is led on."""
    address = page.url
    break_off(page)  # a socket that only broke comes back
    wait_until(page, "sockets.length > 1 && sockets.at(-1).readyState === WebSocket.OPEN")
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    expect(page.locator("[data-notice]")).to_have_count(0)
    page.context.clear_cookies()
    break_off(page)
    notice = page.locator("[data-notice=shut-out]")
    expect(notice).to_contain_text("Your login has expired.")
    expect(page.locator("[data-live-state]")).to_be_hidden()
    assert page.evaluate("sockets.length") == 3
    notice.get_by_role("link", name="Log in again").click()
    log_in(page)
    page.wait_for_url(address)
    expect(page.locator("[data-live-state=live]")).to_be_visible()


def an_invite_that_is_over_is_reported(page: Page, browser: Browser, live: LiveServer) -> None:
    """A guest who plays sees that the play has ended, and afterwards that nothing more can be
    opened."""
    page.goto("/play/invites/")
    page.get_by_label("Name").fill("pilot")
    page.keyboard.press("Enter")
    link = page.locator(".made pre").inner_text()
    guest = browser.new_context(base_url=live.url).new_page()
    accept(guest, link)
    row = page.get_by_role("row").filter(has_text="pilot")
    row.get_by_role("button", name="Revoke").click()
    row.get_by_role("button", name="Revoke for good").click()
    expect(row.locator("[data-state=revoked]")).to_be_visible()
    expect(guest.locator("[data-outcome]")).to_contain_text("Your link has ended")
    expect(guest.locator("[data-outcome]")).to_contain_text(
        "The link was revoked. Your steps are kept."
    )
    break_off(guest)
    guest.reload()
    expect(guest.locator("main")).to_contain_text("Your invite has ended.")
    guest.context.close()


def accept(guest: Page, link: str) -> None:
    """Come in by the link of an invite and play."""
    guest.add_init_script(SOCKETS)
    guest.goto(link)
    guest.get_by_label("Your name").fill("Zoë")
    guest.keyboard.press("Enter")
    guest.wait_for_url("**/play/?environment=echo")
    begin(guest)
