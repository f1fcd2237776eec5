"""Back, to a page with filters: its fields say what its address says, whatever was chosen before
the page was left."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

PAGES = pytest.mark.parametrize("address", ["/episodes/", "/runs/curves/"])

CHANGED_AND_KEPT = """() => {
  const form = document.querySelector("main form[aria-label=Filters]");
  form.elements.environment.value = "guess";
  form.elements.run.disabled = true; // as on its way to the next page
  window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
}"""
"""Changes a form and shows the page again, as a browser does that kept it whole."""


def choose(page: Page, environment: str) -> None:
    page.locator("main select[name=environment]").select_option(environment)
    expect(page).to_have_url(re.compile(rf"\?environment={environment}$"))


@PAGES
def test_fields_say_what_the_address_says_after_going_back(page: Page, address: str) -> None:
    """A choice that was taken back does not return with the next. A page that the browser kept
    whole is as it was."""
    page.goto(f"{address}?environment=echo")
    page.evaluate(CHANGED_AND_KEPT)
    expect(page.locator("main select[name=environment]")).to_have_value("echo")
    expect(page.locator("main [name=run]")).to_be_enabled()
    choose(page, "guess")
    page.go_back()
    expect(page).to_have_url(re.compile(r"\?environment=echo$"))
    expect(page.locator("main select[name=environment]")).to_have_value("echo")
    page.locator("main [name=run]").fill("any-run")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?environment=echo&run=any-run$"))
