"""Back, to a page with filters: its fields say what its address says, whatever was chosen before the page was left."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

PAGES = pytest.mark.parametrize("address", ["/episodes/", "/runs/curves/"])


def choose(page: Page, environment: str) -> None:
    page.locator("main select[name=environment]").select_option(environment)
    expect(page).to_have_url(re.compile(rf"\?environment={environment}$"))


@PAGES
def test_a_choice_that_was_taken_back_does_not_return_with_the_next(page: Page, address: str) -> None:
    page.goto(f"{address}?environment=echo")
    choose(page, "guess")
    page.go_back()
    expect(page).to_have_url(re.compile(r"\?environment=echo$"))
    expect(page.locator("main select[name=environment]")).to_have_value("echo")
    page.locator("main [name=run]").fill("any-run")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?environment=echo&run=any-run$"))


@PAGES
def test_a_page_that_the_browser_kept_whole_is_as_it_was_made(page: Page, address: str) -> None:
    page.goto(f"{address}?environment=echo")
    page.evaluate(
        """() => {
          const form = document.querySelector("main form[aria-label=Filters]");
          form.elements.environment.value = "guess";
          form.elements.run.disabled = true; // as on its way to the next page
          window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
        }"""
    )
    expect(page.locator("main select[name=environment]")).to_have_value("echo")
    expect(page.locator("main [name=run]")).to_be_enabled()
