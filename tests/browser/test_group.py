"""An environment's snippets are copied, and keys walk through the groups of a training step."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_a_snippet_is_copied_with_one_click(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/environments/guess/")
    figure = page.locator(".client", has_text="TRL")
    figure.get_by_role("button", name="Copy").click()
    expect(figure.get_by_role("button")).not_to_have_text("Copy")
    copied = page.evaluate("navigator.clipboard.readText()")
    compile(copied, "snippet", "exec")
    assert 'env_name="guess"' in copied


def play(page: Page, index: int, number: int) -> int:
    """Return the id of the task that was played in training step 3 of run "walk", with one
    guess."""
    headers = {"X-Session-ID": f"walk-{index}-{number}"}
    opened = {"env_name": "guess", "split": "train", "index": index}
    secrets = {"orsweb_run": "walk", "orsweb_step": "3"}
    page.request.post("/create", headers=headers, data={**opened, "secrets": secrets})
    page.request.post(
        "/guess/call", headers=headers, data={"name": "guess", "input": {"number": number}}
    )
    page.request.post("/delete", headers=headers)
    [newest, *_] = page.request.get("/api/episodes?run=walk").json()["results"]
    return int(newest["task"]["id"])


def test_keys_walk_through_the_groups_of_a_training_step(page: Page) -> None:
    first, second = sorted(play(page, index, 1) for index in (0, 1))
    page.goto(f"/tasks/{first}/")
    page.get_by_role("link", name="step 3").click()
    # loaded with its script, which knows the keys
    page.wait_for_url(f"**/tasks/{first}/group/?run=*&step=3")
    expect(page.get_by_role("heading", name="Attempts, highest return first")).to_be_visible()
    page.keyboard.press("l")
    page.wait_for_url(f"**/tasks/{second}/group/?run=*&step=3")
    page.keyboard.press("h")
    page.wait_for_url(f"**/tasks/{first}/group/?run=*&step=3")
