"""Make the pictures of README.md and docs/ anew: python -m tests.browser.screenshots [NAME …]

Plays the record of `manage.py demo --size research` into a temporary directory, which takes some
minutes, serves it, and pictures its pages. Without names, it makes all pictures.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import django
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import ALONE, CHROMIUM, QUIET
from tests.server import ROOT, free_port

PICTURES = ROOT / "docs/images"
MAX_BYTES = 150_000
WIDTH = 1280
SETTINGS = ("ORSWEB_", "ORS_", "DATABASE_URL")
"""How the names of variables begin that set something; the pictures show the defaults."""
MAX_WAIT_MS = 120_000
BOTH = "repair-grpo-v1,repair-grpo-v2"
MAZE = 12
"""A task of maze whose exit is six cells away."""


def player(page: Page) -> None:
    page.goto(f"/play/?environment=maze&split=train&pick=number&number={MAZE}")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    for count, key in enumerate(("ArrowUp", "ArrowUp"), 1):
        page.keyboard.press(key)
        expect(page.locator(".step")).to_have_count(count)


def overview(page: Page) -> None:
    page.goto("/")


def curves(page: Page) -> None:
    page.goto(f"/runs/curves/?runs={BOTH}&x=step&y=return,success&smooth=0.6")


def run(page: Page) -> None:
    [number] = _numbers(page, "/api/runs?name=repair-grpo-v2")
    page.goto(f"/runs/{number}/")


def comparison(page: Page) -> None:
    page.goto(f"/compare/?runs={BOTH}")


def replay(page: Page) -> None:
    number, *_ = _numbers(page, "/api/episodes?run=repair-grpo-v1&success=yes&steps_from=4")
    page.goto(f"/episodes/{number}/")


def tasks(page: Page) -> None:
    page.goto("/admin/environments/task/")
    for number in (1, 2):
        page.get_by_role("checkbox").nth(number).check()


SCENES: dict[Callable[[Page], None], int] = {
    player: 860,
    overview: 724,
    curves: 652,
    run: 770,
    comparison: 1146,
    replay: 900,
    tasks: 640,
}
"""What a picture of that name shows, and its height. The overview shows who plays meanwhile."""


def main() -> None:
    scenes = {scene.__name__: scene for scene in SCENES}
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(scenes))
    names = parser.parse_args().names or list(scenes)
    if unknown := [name for name in names if name not in scenes]:
        parser.error(f"unknown picture {unknown[0]!r}; use any of {', '.join(scenes)}")
    with research_server() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[ALONE, *QUIET])
        expect.set_options(timeout=MAX_WAIT_MS)
        for name in names:
            page = browser.new_page(
                base_url=url,
                color_scheme="light",
                reduced_motion="reduce",
                viewport={"width": WIDTH, "height": SCENES[scenes[name]]},
            )
            page.set_default_timeout(MAX_WAIT_MS)
            scenes[name](page)
            page.wait_for_load_state("networkidle")
            write(name, page.screenshot())
        browser.close()


@contextmanager
def research_server() -> Iterator[str]:
    """Yield the address of a server of the record, when it has counted all episodes."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orsweb.settings")
    django.setup()
    from episodes.figures.summary_cover import STILL_COUNTED
    from orsweb.demo.script_runner import research_environments

    url = f"http://127.0.0.1:{(port := free_port())}"
    with tempfile.TemporaryDirectory(prefix="orsweb-screenshots-") as directory:
        own = {name: text for name, text in os.environ.items() if not name.startswith(SETTINGS)}
        program = partial(subprocess.Popen, cwd=ROOT, env={**own, "ORSWEB_DATA_DIR": directory})
        manage = [sys.executable, "manage.py"]
        if status := program([*manage, "demo", "--size", "research"]).wait():
            sys.exit(status)
        server = program([*manage, "serve", "--port", str(port), *research_environments()])
        try:
            while not (overview := text_of(url)) or STILL_COUNTED in overview:
                if server.poll() is not None:
                    sys.exit("The server did not start.")
                time.sleep(1)
            yield url
        finally:
            server.terminate()
            server.wait()


def text_of(url: str) -> str:
    """Return a page; nothing until the server answers with it."""
    try:
        with urllib.request.urlopen(url) as response:
            return str(response.read(), "utf-8")
    except OSError:
        return ""


def write(name: str, png: bytes) -> None:
    """Write a picture, losslessly."""
    path = PICTURES / f"{name}.webp"
    Image.open(io.BytesIO(png)).convert("RGB").save(path, lossless=True, quality=100, method=6)
    size = path.stat().st_size
    print(f"{path.relative_to(Path.cwd())}: {size:,} bytes")
    assert size < MAX_BYTES, f"{path} has to be smaller than {MAX_BYTES:,} bytes"


def _numbers(page: Page, address: str) -> list[int]:
    return [row["id"] for row in page.request.get(address).json()["results"]]


if __name__ == "__main__":
    main()
