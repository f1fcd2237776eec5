"""A server with keys in a browser: a stranger logs in, sees the pages on a phone too, and logs out."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accounts import PASSWORD, with_account
from tests.browser.axe import load_axe, violations
from tests.server import LiveServer

NAME = "somebody-with-a-rather-long-name"


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    """Replace the server of the other files by one that strangers can reach, with one account."""
    with with_account("environments.builtin.guess:Guess", NAME) as running:
        yield running


def log_in(page: Page, password: str = PASSWORD) -> None:
    page.get_by_label("Username").fill(NAME)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.usefixtures("complaints")
def test_a_stranger_logs_in_and_out(page: Page) -> None:
    page.goto("/runs/")
    log_in(page, "wrong")
    expect(page.get_by_role("alert")).to_contain_text("Wrong user name or password.")
    log_in(page)
    expect(page).to_have_url(re.compile("/runs/$"))
    page.locator(".who summary").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/accounts/login/$"))


def test_the_login_page_locks_no_one_out(page: Page) -> None:
    page.set_viewport_size({"width": 400, "height": 860})
    page.goto("/")
    load_axe(page)
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "colours") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_name_in_the_bar_makes_no_page_wider_than_a_phone(page: Page) -> None:
    page.goto("/")
    log_in(page)
    expect(page.locator(".who")).to_be_visible()
    page.set_viewport_size({"width": 400, "height": 860})
    for path in ("/", "/episodes/", "/runs/", "/environments/guess/", "/runs/curves/"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
        for part in page.locator(".bar, .bar .tools, .rail").all():
            assert part.evaluate("it => it.scrollWidth <= it.clientWidth"), path
