"""Every page of the dashboard: nothing that keeps people out, light or dark, and nothing wider than a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
import httpx
import pytest
from playwright.sync_api import Page

from tests.browser.rounds import play_rounds
from tests.server import LiveServer

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
PAGES = (
    *("/", "/environments/", "/environments/guess/", "/environments/guess/leaderboard/", "/episodes/"),
    *("/episodes/{first}/", "/runs/", "/runs/{run}/", "/runs/curves/?by=run", "/compare/"),
    *("/compare/?episodes={first},{second}", "/compare/?runs={run},{other}", "/tasks/{task}/"),
    *("/tasks/{task}/group/?run={run}&step=4", "/api/", "/episodes/{first}/steps/0/"),
    *("/episodes/?environment=guess&run=looked-at&ending=attempt&since=7d&error=no", "/episodes/999999/", "/?span=2h"),
)


@pytest.fixture(scope="module")
def places(live: LiveServer) -> dict[str, int]:
    """Numbers that the addresses of PAGES name."""
    first, second = play_rounds(live, "looked-at", 2, step=4)
    play_rounds(live, "looked-at-too", step=4)
    with httpx.Client(base_url=live.url, timeout=30) as reader:
        episode = reader.get(f"/api/episodes/{first}").json()
        runs = {run["name"]: run["id"] for run in reader.get("/api/runs").json()["results"]}
    run, other = runs["looked-at"], runs["looked-at-too"]
    return {"first": first, "second": second, "run": run, "other": other, "task": episode["task"]["id"]}


def serious(page: Page) -> list[Any]:
    found = page.evaluate("axe.run()")["violations"]
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_serious(page: Page, places: dict[str, int], path: str) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto(path.format(**places))
    page.evaluate(AXE.read_text(encoding="utf-8"))  # as the debugger does, which no policy stops
    assert serious(page) == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert serious(page) == []


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_wider_than_a_phone(page: Page, places: dict[str, int], path: str) -> None:
    page.set_viewport_size({"width": 400, "height": 860})
    page.goto(path.format(**places))
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    for part in page.locator(".bar, .bar .tools, .rail").all():
        assert part.evaluate("it => it.scrollWidth <= it.clientWidth")
    for label in page.locator(".rail a:visible span").all():
        assert label.evaluate("it => it.scrollWidth <= it.parentElement.clientWidth")


def test_lists_do_not_tell_what_agents_must_not_see(page: Page, places: dict[str, int]) -> None:
    for path, lines in (
        ("/episodes/?run=looked-at", "td.task"),
        ("/environments/guess/", "td.task-cell"),
        ("/tasks/{task}/", "h1"),
    ):
        page.goto(path.format(**places))
        line = page.locator(lines).first.inner_text()
        assert "low " in line and "target" not in line
