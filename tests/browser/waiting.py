"""Waiting for values in the scripts of a page, under a policy that forbids evaluating strings."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

WAIT_MS = 30_000
"""Continuous integration has two slow cores; a test that passes never waits that long."""


def wait_until(page: Page, condition: str, given: Any = None) -> None:
    """Wait until `condition` holds, JavaScript that may use `given`.

    Playwright's own wait_for_function compiles its condition at every look, and the policy allows
    only the first.
    """
    page.evaluate(
        f"""([given, wait]) => new Promise((resolve, reject) => {{
            const last = performance.now() + wait;
            const look = () => {{
                if ({condition}) resolve();
                else if (performance.now() > last) reject(new Error("never came to hold"));
                else setTimeout(look, 20);
            }};
            look();
        }})""",
        [given, WAIT_MS],
    )
