"""An environment's snippets are copied, and keys walk through the groups of a training step."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_a_snippet_is_copied_with_one_click(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/environments/guess/")
    figure = page.locator(".client", has_text="TRL")
    figure.get_by_role("button", name="copy").click()
    expect(figure.get_by_role("button")).not_to_have_text("copy")
    copied = page.evaluate("navigator.clipboard.readText()")
    compile(copied, "snippet", "exec")
    assert "def guess(self, number: int)" in copied
